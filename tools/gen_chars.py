#!/usr/bin/env python3
"""Writes src/text/template_chars_tables.c: what Python's str methods know of each character.

The source is the Unicode data inside the Python that runs this (3.11: Unicode 14.0). Run from the
root of the repository: python3 tools/gen_chars.py > src/text/template_chars_tables.c
"""
import sys
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def is_ignorable(c):
    """Case_Ignorable, told by where lower() puts a final sigma."""
    return ("A" + chr(c) + "\u03a3").lower()[-1] == "\u03c2" and \
        (chr(c) + "\u03a3").lower()[-1] == "\u03c3"


def beyond(test, categories):
    """What test holds for beyond the categories that unicode_category() knows it by."""
    return lambda s: test(s) and unicodedata.category(s) not in categories


CLASSES = {
    "digit": beyond(str.isdigit, ("Nd",)),
    "numeric": beyond(str.isnumeric, ("Nd", "Nl", "No")),
    "upper": beyond(str.isupper, ("Lu",)),
    "lower": beyond(str.islower, ("Ll",)),
    "ignorable": lambda s: is_ignorable(ord(s)),
}
# lower() is unicode_to_lower(); title() is upper() but for these.
MAPPINGS = {
    "upper": (str.upper, lambda s: s.upper() != s),
    "title": (str.title, lambda s: s.title() != s.upper()),
}


def ranges(test):
    """Runs of code points beyond ASCII for which test holds."""
    found = []
    for c in POINTS:
        if c < 128 or not test(chr(c)):
            continue
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def runs(mapping, is_wanted):
    """Single-character mappings as (from, to, step, delta)."""
    found = []
    for c in POINTS:
        text = mapping(chr(c))
        if c < 128 or len(text) != 1 or not is_wanted(chr(c)):
            continue
        delta = ord(text) - c
        last = found[-1] if found else None
        if last and last[3] == delta and (c - last[1] == last[2] or
                                          (last[0] == last[1] and c - last[1] in (1, 2))):
            last[2] = c - last[1]
            last[1] = c
        else:
            found.append([c, c, 1, delta])
    return found


def specials(mapping, is_wanted):
    return [(c, [ord(x) for x in mapping(chr(c))]) for c in POINTS
            if len(mapping(chr(c))) > 1 and is_wanted(chr(c))]


def rows(items):
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            yield line
            line = "   "
        line += " " + item + ","
    yield line


def table(kind, name, items):
    print(f"\nconst struct {kind} {name}[] = {{")
    print("\n".join(rows(items)))
    print("};")
    print(f"const size_t {name}_count = sizeof {name} / sizeof {name}[0];")


def main():
    print(f"/* Made by tools/gen_chars.py from the Unicode {unicodedata.unidata_version} data of "
          f"Python {sys.version_info[0]}.{sys.version_info[1]}:\n"
          " * character classes and case mappings beyond ASCII that unicode.h has not, sorted. */")
    print('#include "text/template_chars_tables.h"\n\n/* clang-format off */')
    for name, test in CLASSES.items():
        table("chars_range", f"chars_{name}_ranges",
              (f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(test)))
    for name, (mapping, is_wanted) in MAPPINGS.items():
        table("chars_run", f"chars_{name}_runs",
              (f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}" for a, b, s, d in runs(mapping, is_wanted)))
        table("chars_special", f"chars_{name}_specials",
              (f"{{0x{c:x}, {{{', '.join(f'0x{x:x}' for x in to)}}}}}"
               for c, to in specials(mapping, is_wanted)))


main()
