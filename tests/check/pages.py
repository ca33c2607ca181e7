#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the repository says of itself can be followed: a page that is named exists, docs/README.md
lists every page, links between pages lead somewhere, and so do names of source files in them. No
comment cites a numbered list or a page that is not here."""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gate import files  # noqa: E402

DESIGN = TOP / "docs/design"
PAGE = re.compile(r"docs/design/([a-z0-9-]+\.md)")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
BESIDE = re.compile(r"(?<![\w/.-])([a-z0-9-]+\.md)\b")
FOLDERS = {p.name for p in (TOP / "src").iterdir() if p.is_dir()}
ELSEWHERE = re.compile(r"\bM[1-9][0-9]?\b|\bDESIGN\b|\bMECHANISMS\b")
SOURCE = re.compile(r"`(?:src/)?([a-z0-9]+)/([A-Za-z0-9_.]+)`")
OTHERS = re.compile(r"`((?:tests|tools|scripts|docs)/[\w./*-]+)`")


def text(path):
    return (TOP / path).read_text(errors="replace")


def named(paths):
    """Pages that something names and that do not exist"""
    for path in paths:
        for page in PAGE.findall(text(path)):
            if not (DESIGN / page).is_file():
                yield f"{path}: docs/design/{page} is not there"
        if path.parts[:2] == ("docs", "design"):
            for page in BESIDE.findall(text(path)):
                if not (DESIGN / page).is_file():
                    yield f"{path}: {page} is not there"


def listed(_paths):
    """Pages that docs/README.md does not list"""
    known = set(re.findall(r"\(design/([a-z0-9-]+\.md)\)", text("docs/README.md")))
    for page in sorted(p.name for p in DESIGN.glob("*.md")):
        if page not in known:
            yield f"docs/design/{page}: docs/README.md does not list it"


def links(paths):
    """Links to files that do not exist"""
    for path in paths:
        if path.suffix == ".md":
            for link in LINK.findall(text(path)):
                if not (TOP / path.parent / link).exists():
                    yield f"{path}: {link} is not there"


def sources(paths):
    """`folder/file` in a page, of a source file or a test that does not exist"""
    for path in paths:
        if path.suffix != ".md" or path.parts[0] not in ("docs", "ARCHITECTURE.md"):
            continue
        for folder, name in SOURCE.findall(text(path)):
            file = TOP / "src" / folder / name
            if folder in FOLDERS and not any(
                    Path(f"{file}{suffix}").is_file() for suffix in ("", ".c", ".h")):
                yield f"{path}: src/{folder}/{name} is not there"
        for name in OTHERS.findall(text(path)):
            if not any(list(TOP.glob(name.rstrip("/") + end)) for end in ("", ".c", ".py", ".sh")):
                yield f"{path}: {name} is not there"


def elsewhere(paths):
    """Citations that only their author can follow"""
    for path in paths:
        if path.suffix not in (".c", ".h", ".S", ".md", ".patch"):
            continue
        for number, line in enumerate(text(path).splitlines(), 1):
            if ELSEWHERE.search(line):
                yield f"{path}:{number}: cites {ELSEWHERE.search(line).group(0)}"


def main():
    paths = files.tracked(TOP)
    gates = {"pages that are named exist": named, "every page is listed": listed,
             "links lead somewhere": links, "source files that pages name exist": sources,
             "nothing is cited that is not here": elsewhere}
    bad = 0
    print(f"1..{len(gates)}")
    for number, (name, find) in enumerate(gates.items(), 1):
        found = list(find(paths))
        bad += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {name}")
        for line in found:
            print(f"# {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
