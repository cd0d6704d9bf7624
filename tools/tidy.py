#!/usr/bin/env python3
"""Checks the source against the rules of the house. Standard library only.

    tools/tidy.py [ROOT]

Layers and include order, sizes of files and functions, banned calls, files that nobody builds, options missing from the
manual, tests without names, tables that promise too much. One line for each finding; the last line is
`N passed, N failed`, where a rule with no finding counts as passed. Exit 1 if any rule failed.
"""
import re
import sys
from pathlib import Path

LAYERS = ["base", "io tensor text", "weights backend", "model", "engine", "plan", "job", "serve hub", "cli"]
RANK = {name: rank for rank, group in enumerate(LAYERS) for name in group.split()}
FILE_LINES, FUNCTION_LINES, PARAMETERS, COLUMNS = 600, 70, 6, 100
BANNED = "strcpy strcat sprintf vsprintf gets atoi atol atof system strtok tmpnam mktemp alloca rand srand".split()
CLI_ONLY = "exit _exit getenv secure_getenv".split()
LIBM_FLOAT = "expf exp2f tanhf sinf cosf logf powf".split()    # differ between versions: base/num.h has ours
DOUBLES = "exp log sin cos tanh".split()


class Findings:
    def __init__(self):
        self.rules = {}

    def rule(self, name):
        return self.rules.setdefault(name, [])

    def close(self):
        for name, found in self.rules.items():
            for line in found:
                print(f"tidy: {name}: {line}")
        failed = sum(1 for found in self.rules.values() if found)
        print(f"{len(self.rules) - failed} passed, {failed} failed")
        return 1 if failed else 0


def without_comments(text):
    """The text with comments and string contents blanked, line for line."""
    def blank(match):
        piece = match[0]
        if piece.startswith(("/*", "//")):
            return re.sub(r"[^\n]", " ", piece)
        return piece[0] + re.sub(r"[^\n]", " ", piece[1:-1]) + piece[-1]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def target_is_table(name):
    """Rows of a table in a file of their own stand where the table is."""
    return name.endswith(".inc")


def includes(findings, path, layer, text):
    found, order = findings.rule("include order"), findings.rule("includes grouped")
    seen_system = False
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'#include\s+(["<])([^">]+)[">]', line)
        if not match:
            continue
        if match[1] == "<":
            seen_system = True
            continue
        target = match[2].split("/")[0]
        if target not in RANK:
            found.append(f"{path}:{number}: {match[2]} is in no layer")
        elif RANK[target] > RANK[layer] or (RANK[target] == RANK[layer] and target != layer):
            found.append(f"{path}:{number}: {layer} may not include {match[2]}")
        if seen_system and not target_is_table(match[2]) and path.suffix == ".c" and not path.name.endswith("_test.c"):
            order.append(f"{path}:{number}: {match[2]} stands after a system header")


def functions(code):
    """(name, first line, lines, parameters) of each function definition that starts in column 0."""
    lines = code.split("\n")
    start = None
    for number, line in enumerate(lines):
        if re.match(r"[A-Za-z_]", line) and not line.startswith(("typedef", "struct {", "enum", "#")):
            if start is None or lines[number - 1].rstrip().endswith((";", "}")) or not lines[number - 1].strip():
                start = number
        if line.rstrip().endswith("{") and start is not None and "(" in "".join(lines[start:number + 1]):
            head = " ".join(lines[start:number + 1])
            end = number
            while end < len(lines) and not lines[end].startswith("}"):
                end += 1
            match = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)\)?", "", head))
            if match and "=" not in head.split("(")[0]:
                inside = head[head.index(match[1]) + len(match[1]):]
                inside = inside[inside.index("(") + 1:inside.rindex(")")]
                depth, count = 0, 1 if inside.strip() not in ("", "void") else 0
                for char in inside:
                    depth += char in "([" and 1 or (char in ")]" and -1 or 0)
                    count += char == "," and depth == 0
                yield match[1], start + 1, end - start + 1, count
            start = None
        elif line.startswith("}"):
            start = None


def sizes(findings, path, text, code):
    rows = text.count("\n")
    if rows > FILE_LINES and not path.name.endswith("_tables.c"):
        findings.rule("file sizes").append(f"{path}: {rows} lines, at most {FILE_LINES}")
    for name, line, lines, parameters in functions(code):
        if lines > FUNCTION_LINES:
            findings.rule("function sizes").append(f"{path}:{line}: {name} has {lines} lines, at most {FUNCTION_LINES}")
        if parameters > PARAMETERS:
            findings.rule("parameters").append(f"{path}:{line}: {name} has {parameters} parameters, at most {PARAMETERS}")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS and not path.name.endswith("_tables.c"):
            findings.rule("columns").append(f"{path}:{number}: {len(line)} columns")
        if "\t" in line or line != line.rstrip():
            findings.rule("white space").append(f"{path}:{number}: a tab or white space at the end")
        if re.search(r"\bTODO\b|\bFIXME\b|\bXXX\b", line):
            findings.rule("open ends").append(f"{path}:{number}: {line.strip()[:60]}")


def calls(findings, path, layer, code):
    is_test = path.name.endswith(("_test.c", "_fuzz.c", "_bench.c", "_for_test.h"))
    for number, line in enumerate(code.split("\n"), 1):
        for name in re.findall(r"\b(\w+)\s*\(", line):
            if name in BANNED:
                findings.rule("banned calls").append(f"{path}:{number}: {name}")
            if name in CLI_ONLY and layer != "cli" and not is_test:
                findings.rule("cli only").append(f"{path}:{number}: {name}")
            if name in LIBM_FLOAT and not is_test:
                findings.rule("libm").append(f"{path}:{number}: {name}: base/num.h has ours")
            if name in DOUBLES and layer in ("backend", "engine", "tensor") and not is_test:
                findings.rule("libm").append(f"{path}:{number}: {name}: base/num.h has ours")
        if re.match(r"\s*typedef\s+struct", line):
            findings.rule("no typedef for structs").append(f"{path}:{number}")
        if re.match(r"#\s*if(n?def)?\b", line) and path.suffix == ".c" and not is_test:
            if not re.search(r"__x86_64__|__aarch64__|__clang__|__SANITIZE|defined\(__", line):
                findings.rule("#ifdef in tables alone").append(f"{path}:{number}: {line.strip()}")


def whole(findings, root):
    makefile = (root / "Makefile").read_text()
    layers = re.search(r"^LAYERS := (.*)$", makefile, re.M)[1].split()
    for path in sorted((root / "src").rglob("*.c")):
        parts = path.relative_to(root / "src").parts
        if parts[0] not in layers or len(parts) > 3:
            findings.rule("files that nobody builds").append(str(path.relative_to(root)))
    for path in sorted((root / "src").rglob("*.h")):
        if not any(f'"{path.relative_to(root / "src")}"' in other.read_text() for other in (root / "src").rglob("*.[chi]*")):
            findings.rule("headers that nobody includes").append(str(path.relative_to(root)))
    options = root / "src/cli/options.c"
    table = "".join(p.read_text() for p in sorted((root / "src/cli").glob("option*.c")))
    manual = "".join(p.read_text() for p in sorted((root / "docs").glob("*.md")))
    names = re.findall(r'\{\s*(?:\.name\s*=\s*)?"([a-z][a-z-]+)",', table) if options.exists() else []
    findings.rule("options in the manual").extend(f"--{n} is not in docs/" for n in names if f"--{n}" not in manual)
    tests = sorted((root / "src").rglob("*_test.c"))
    for path in tests:
        for name in re.findall(r"cmocka_unit_test(?:_\w+)?\((\w+)", path.read_text()):
            if name.count("_") < 2 or re.search(r"test_?\d|^test", name):
                findings.rule("test names are sentences").append(f"{path.relative_to(root)}: {name}")
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and path.suffix in (".c", ".h", ".py", ".md", ".sh", ".inc") and relative.parts[0] not in ("build", ".git", ".demo"):
            for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
                if re.search(r"/work/(main|shared)|/root/|/home/\w+/", line):
                    findings.rule("no paths of a machine").append(f"{relative}:{number}")


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    findings = Findings()
    for name in ("include order", "includes grouped", "file sizes", "function sizes", "parameters", "columns", "white space", "open ends",
                 "banned calls", "cli only", "libm", "no typedef for structs", "#ifdef in tables alone", "files that nobody builds",
                 "headers that nobody includes", "options in the manual", "test names are sentences", "no paths of a machine"):
        findings.rule(name)
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".c", ".h", ".inc"):
            continue
        layer, text = path.relative_to(root / "src").parts[0], path.read_text()
        shown, code = path.relative_to(root), without_comments(text)
        if layer not in RANK:
            findings.rule("include order").append(f"{shown}: {layer} is no layer")
            continue
        includes(findings, shown, layer, text)
        sizes(findings, shown, text, code)
        calls(findings, shown, layer, code)
    return findings.close()


if __name__ == "__main__":
    sys.exit(main())
