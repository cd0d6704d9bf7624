#!/usr/bin/env python3
"""Writes src/text/unicode_tables.c, the character data of the text layer.

  python3 -m venv VENV && VENV/bin/pip install unicodedataplus==16.0.0
  VENV/bin/python tools/gen_unicode.py src/text/unicode_tables.c

Source: the Unicode Character Database 16.0.0 as PyPI's unicodedataplus carries it (general categories, scripts,
decompositions, combining classes, ages). The versions below are those that the Hugging Face tokenizers library was
measured to have: general categories of 16; normalisation of 9; the marks that StripAccents removes, of 9; punctuation
of 8; digits and lower case of 17, which adds a few characters to 16 (listed here from the Unicode 15 to 17 data).
"""
import sys
import unicodedataplus as ucd

assert ucd.unidata_version == "16.0.0", ucd.unidata_version
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = "Arabic Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana Katakana Latin Thai".split()
NUMERIC_SINCE_16 = [(0x11DE0, 0x11DE9), (0x16FF4, 0x16FF6)]
# Lower case that Unicode 15 to 17 added: (first, last, difference).
LOWER_SINCE_14 = [(0x1C89, 0x1C89, 1), (0xA7CB, 0xA7CB, 0x264 - 0xA7CB), (0xA7CC, 0xA7CC, 1), (0xA7CE, 0xA7CE, 1),
                  (0xA7D2, 0xA7D2, 1), (0xA7D4, 0xA7D4, 1), (0xA7DA, 0xA7DA, 1), (0xA7DC, 0xA7DC, 0x19B - 0xA7DC),
                  (0x10D50, 0x10D65, 0x20), (0x16EA0, 0x16EB8, 0x1B)]
NORMAL_AGE, PUNCTUATION_AGE = 9.0, 8.0
# Characters whose category changed after the version concerned.
OLD_MARKS, NOT_OLD_MARKS, OLD_PUNCTUATION = {0x1CF2, 0x1CF3}, {0x111C9}, {0x166D, 0x111C9}


def age(c):
    text = ucd.age(chr(c))
    return float(text) if text.replace(".", "").isdigit() else 99.0


def ranges(members):
    out = []
    for c in sorted(members):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(out, kind, name, items, per_item=str):
    """A const array and its length, the numbers packed to 100 columns."""
    out.append(f"\nconst {kind} {name}[] = {{")
    line = "   "
    for text in (per_item(i) for i in items):
        if len(line) + len(text) + 2 > 100:
            out.append(line)
            line = "   "
        line += f" {text},"
    out += [line, "};", f"const size_t {name}_count = {len(items)};"]


def decompositions():
    """{code point: (canonical, compatible)} in full, code points that Unicode 9 had alone."""
    single = {}
    for c in SCALARS:
        text = ucd.decomposition(chr(c))
        if text and age(c) <= NORMAL_AGE and not 0xAC00 <= c <= 0xD7A3:
            tag = text.startswith("<")
            single[c] = (tag, [int(part, 16) for part in text.split()[1 if tag else 0:]])

    def expand(c, compatible):
        tag, parts = single.get(c, (False, None))
        if parts is None or (tag and not compatible):
            return [c]
        return [d for part in parts for d in expand(part, compatible)]

    return single, {c: (expand(c, False), expand(c, True)) for c in single}


def main():
    out = ["/* Made by tools/gen_unicode.py from Unicode 16.0.0; not edited by hand. unicode.h says what the tables hold. */",
           '#include "text/unicode.h"', "", "// clang-format off"]
    pair = lambda r: f"{{0x{r[0]:x},0x{r[1]:x}}}"

    runs, last = [], None
    for c in range(0x110000):
        category = "Cs" if 0xD800 <= c < 0xE000 else ucd.category(chr(c))
        if category != last:
            runs.append(c << 5 | CATEGORIES.index(category))
        last = category
    table(out, "uint32_t", "unicode_category_runs", runs, "0x{:x}".format)
    table(out, "struct unicode_range", "unicode_numeric_since_16", NUMERIC_SINCE_16, pair)

    marks = {c for c in SCALARS if ucd.category(chr(c))[0] == "M" and age(c) <= NORMAL_AGE}
    table(out, "struct unicode_range", "unicode_marks_9", ranges((marks | OLD_MARKS) - NOT_OLD_MARKS), pair)
    punctuation = {c for c in SCALARS if ucd.category(chr(c))[0] == "P" and age(c) <= PUNCTUATION_AGE}
    table(out, "struct unicode_range", "unicode_punctuation_8", ranges(punctuation | OLD_PUNCTUATION), pair)

    scripts = [(name, r) for name in SCRIPTS for r in ranges(c for c in SCALARS if ucd.script(chr(c)) == name)]
    table(out, "struct unicode_script", "unicode_scripts", scripts, lambda s: f'{{"{s[0]}",{pair(s[1])}}}')

    lower = {c: ord(chr(c).lower()) for c in SCALARS if len(chr(c).lower()) == 1 and chr(c).lower() != chr(c)}
    for first, final, difference in LOWER_SINCE_14:
        lower.update({c: c + difference for c in range(first, final + 1)})
    shifts = []     # [first, last, step, difference]
    for c in sorted(lower):
        difference = lower[c] - c
        if shifts and shifts[-1][3] == difference:
            first, final, step, _ = shifts[-1]
            if c - final in (1, 2) and (first == final or c - final == step):
                shifts[-1][1:3] = [c, c - final]
                continue
        shifts.append([c, c, 1, difference])
    table(out, "struct unicode_shift", "unicode_lower", shifts, lambda s: f"{{0x{s[0]:x},0x{s[1]:x},{s[2]},{s[3]}}}")

    classes = {c: ucd.combining(chr(c)) for c in SCALARS if age(c) <= NORMAL_AGE and ucd.combining(chr(c))}
    spans = []
    for c in sorted(classes):
        if spans and spans[-1][1] == c - 1 and spans[-1][2] == classes[c]:
            spans[-1][1] = c
        else:
            spans.append([c, c, classes[c]])
    table(out, "struct unicode_combining", "unicode_combining", spans, lambda s: f"{{0x{s[0]:x},0x{s[1]:x},{s[2]}}}")

    single, full = decompositions()
    pool, where = [], {}

    def place(parts):
        key = tuple(parts)
        if key not in where:
            where[key] = len(pool)
            pool.extend(parts)
        return f"{where[key]},{len(parts)}"

    canonical = [(c, place(n)) for c, (n, _) in sorted(full.items()) if n != [c]]
    compatible = [(c, place(k)) for c, (n, k) in sorted(full.items()) if k != n]
    item = lambda d: f"{{0x{d[0]:x},{d[1]}}}"
    table(out, "struct unicode_parts", "unicode_canonical", canonical, item)
    table(out, "struct unicode_parts", "unicode_compatible", compatible, item)
    table(out, "uint32_t", "unicode_parts_pool", pool, "0x{:x}".format)

    pairs = []
    for c, (tag, parts) in single.items():
        # Composition exclusions show as characters that NFC takes apart.
        if not tag and len(parts) == 2 and ucd.normalize("NFC", chr(c)) == chr(c):
            pairs.append((parts[0], parts[1], c))
    table(out, "struct unicode_pair", "unicode_pairs", sorted(pairs), lambda p: f"{{0x{p[0]:x},0x{p[1]:x},0x{p[2]:x}}}")

    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
