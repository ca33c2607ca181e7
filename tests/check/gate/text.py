# SPDX-License-Identifier: MIT
"""Gates that need no parser."""
import re
from statistics import median

WIDTH, FILE_LENGTH, README_LENGTH, TAB = 100, 800, 40, 8
CROWD = 45
FORBIDDEN = {"common", "misc", "helper", "helpers", "util", "utils", "verbs"}
WITHOUT_SPDX = {".md", ".txt", ".patch", ".in", ".gitignore", ".clang-format", ".clang-tidy",
                "expected-skips"}
NOTE = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
STATEMENT = re.compile(r"^(?:[\w\s*&.>\[\]-]+=[^=].*|[\w.>-]+\(.*\)|return\b.*|goto \w+|break|"
                       r"(?:struct |unsigned |const )*\w+ \*?\w+);$")
CONTROL = re.compile(r"^(?:\} *else|if|for|while|switch) *[({].*[{;]$")


def file_names(paths):
    for path in paths:
        if path.suffix in (".c", ".h", ".py", ".sh") and path.stem in FORBIDDEN:
            yield f"{path}: no file is called '{path.stem}'"


def spdx(top, paths):
    for path in paths:
        if path.suffix in WITHOUT_SPDX or path.name in WITHOUT_SPDX:
            continue
        text = (top / path).read_text(errors="replace")
        if text and "SPDX-License-Identifier: MIT" not in "\n".join(text.splitlines()[:3]):
            yield f"{path}: no SPDX-License-Identifier line at its top"


def width(top, paths):
    for path in paths:
        if path.suffix in (".txt", ".patch", ".md", ".map"):
            continue
        for number, line in enumerate((top / path).read_text(errors="replace").splitlines(), 1):
            columns = len(line.expandtabs(TAB))
            if columns > WIDTH:
                yield f"{path}:{number}: {columns} columns, limit {WIDTH}"


def length(sources):
    for source in sources:
        lines = source.text.count("\n")
        if lines > FILE_LENGTH and not source.waived_file("file-length"):
            yield f"{source.path}: {lines} lines, limit {FILE_LENGTH}"


def crowds(paths):
    """Folders of src/ in which a reader loses his way; x.c and x.h are one name."""
    names = {}
    for path in paths:
        if path.parts[0] == "src" and path.suffix in (".c", ".h", ".S"):
            names.setdefault(path.parent, set()).add(path.stem)
    for folder, found in sorted(names.items()):
        if len(found) > CROWD:
            yield f"{folder}: {len(found)} names of files, limit {CROWD}"


def sizes(sources):
    """Rows of a table: a folder of src/ or tools/, its files, their median and longest in lines."""
    lengths = {}
    for source in sources:
        if source.path.parts[0] in ("src", "tools"):
            lengths.setdefault(source.path.parent, []).append(source.text.count("\n"))
    for folder, found in [*sorted(lengths.items()), ("all", sum(lengths.values(), []))]:
        yield f"| {folder} | {len(found)} | {median(found):.0f} | {max(found)} |"


def readmes(top, paths):
    """Each folder of src/, at any depth, each of tests/ and the larger ones beside them says what
    lives there."""
    folders = {p.parts[:2] for p in paths if p.parts[0] == "tests" and len(p.parts) > 2}
    folders |= {p.parts[:n] for p in paths if p.parts[0] == "src" for n in range(2, len(p.parts))}
    folders |= {p.parts[:1] for p in paths if p.parts[0] in ("tests", "tools", "scripts", "docs")}
    for folder in sorted(folders):
        readme = top.joinpath(*folder, "README.md")
        if not readme.is_file():
            yield f"{'/'.join(folder)}: has no README.md"
        elif folder[0] == "src" and readme.read_text().count("\n") > README_LENGTH:
            yield f"{'/'.join(folder)}/README.md: longer than {README_LENGTH} lines"


def leftovers(top, paths, sources):
    for path in paths:
        if path.suffix in (".txt", ".patch"):
            continue
        for number, line in enumerate((top / path).read_text(errors="replace").splitlines(), 1):
            if NOTE.search(line):
                yield f"{path}:{number}: {NOTE.search(line).group(0)}"
    for source in sources:
        yield from _disabled(source)


def _disabled(source):
    for match in re.finditer(r"^\s*#\s*if\s+0\b", source.text, re.MULTILINE):
        yield f"{source.path}:{source.text.count(chr(10), 0, match.end()) + 1}: #if 0"
    for comment in source.comments:
        if "\n" in comment.text:
            continue
        text = comment.text.strip("/* \t")
        if STATEMENT.match(text) or CONTROL.match(text):
            yield f"{source.path}:{comment.first}: code in a comment: {text}"
