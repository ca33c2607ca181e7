#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The manual page has each variable that a program or the tool reads, each vendor_err and each
subcommand; and softhca explain each errno that a call is refused with."""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
PAGE = TOP / "docs/man/softhca.1"
MEANINGS = TOP / "tools/meaning.c"


def sources():
    return [path.read_text() for folder in ("src", "tools")
            for path in sorted((TOP / folder).rglob("*.[ch]"))]


def variables():
    """SOFTHCA_ variables that the sources name as strings"""
    return {name for text in sources()
            for name in re.findall(r'"(SOFTHCA_[A-Z0-9_]*[A-Z0-9])"', text)}


def vendor_errs():
    """The values of vendor_err"""
    return set(re.findall(r"VENDOR_\w+ = (0x[0-9a-f]{2})", (TOP / "src/prm/cqe.h").read_text()))


def subcommands():
    """The subcommands of the tool"""
    return set(re.findall(r'\{ "([a-z]+)", cmd_', (TOP / "tools/softhca.c").read_text()))


def errnos():
    """The errnos that calls are refused with"""
    return {name for text in sources()
            for name in re.findall(r"\b(?:refuse|\w+_errno)\((E[A-Z0-9]+)\b", text)}


def lacks(what, page):
    text, names = page.read_text().replace("\\-", "-"), what()
    missing = sorted(name for name in names if not re.search(rf"\b{name}\b", text))
    return missing if names else ["nothing was found to look for"]


def main():
    failed, rows = 0, [(variables, PAGE), (vendor_errs, PAGE), (subcommands, PAGE),
                       (errnos, MEANINGS)]
    print(f"1..{len(rows)}")
    for number, (what, page) in enumerate(rows, 1):
        missing = lacks(what, page)
        failed += bool(missing)
        print(f"{'not ok' if missing else 'ok'} {number} - {what.__doc__}")
        print("".join(f"# {page.name} lacks {name}\n" for name in missing), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
