#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What is installed is built as distributions build what reads foreign bytes: full RELRO, bound at
the start, no stack that can be executed, protected stacks, checked copies, the tool at any address,
and marked for CET where the system's own start files are."""
import os
import re
import subprocess
import sys
from pathlib import Path

BUILD = Path(os.environ.get("SOFTHCA_BUILD", "build-test"))
LIBRARIES = ["libibverbs.so.1", "libmlx5.so.1", "librdmacm.so.1"]
CET = "IBT, SHSTK"


def readelf(path):
    return subprocess.run(["readelf", "-hldnW", "--dyn-syms", path], check=True,
                          capture_output=True, text=True, env={**os.environ, "LANG": "C"}).stdout


def start_files_have_cet():
    crti = subprocess.run(["gcc", "-print-file-name=crti.o"], check=True, capture_output=True,
                          text=True).stdout.strip()
    return CET in readelf(crti)


def lacks(path, copies=False):
    """What the file lacks. @copies: it has buffers and copies, which are to be checked."""
    told = readelf(path)
    if "GNU_RELRO" not in told:
        yield "no RELRO"
    if not re.search(r"FLAGS_1\).*\bNOW\b", told):
        yield "functions are bound at their first call"
    if not re.search(r"GNU_STACK\s.*\sRW\s", told):
        yield "its stack can be executed, or nothing says that it cannot"
    if "DYN" not in told:
        yield "not position independent"
    if copies and "__stack_chk_fail" not in told:
        yield "no protected stack"
    if copies and not re.search(r"__(memcpy|snprintf|vsnprintf|read|fgets|vfprintf)_chk", told):
        yield "no checked copy"
    if start_files_have_cet() and CET not in told:
        yield "not marked for CET"


def main():
    files = [(BUILD / "lib" / name, name == LIBRARIES[0]) for name in LIBRARIES]
    files.append((BUILD / "tools/softhca", True))
    print(f"1..{len(files)}")
    failed = False
    for number, (path, copies) in enumerate(files, 1):
        found = list(lacks(path, copies))
        print(f"{'not ok' if found else 'ok'} {number} - {path.name}")
        for line in found:
            print(f"# {path.name}: {line}")
        failed |= bool(found)
    return failed


if __name__ == "__main__":
    sys.exit(main())
