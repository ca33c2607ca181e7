#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What is installed is built as distributions build what reads foreign bytes: full RELRO, bound at
the start, no stack that can be executed, protected stacks, checked copies where there are any, the
tool at any address, and marked for CET where the system's own start files are."""
import os
import re
import subprocess
import sys
from pathlib import Path

BUILD = Path(os.environ.get("SOFTHCA_BUILD", "build-test"))
# Each file, and whether it has copies that _FORTIFY_SOURCE can check: libmlx5 has none, and
# tools/redirect/meson.build says why the view library is built without.
FILES = {"lib/libibverbs.so.1": True, "lib/libmlx5.so.1": False, "lib/librdmacm.so.1": True,
         "lib/libsofthca-view.so": False, "tools/softhca": True}
CET = "IBT, SHSTK"


def readelf(path):
    return subprocess.run(["readelf", "-hldnW", "--dyn-syms", path], check=True,
                          capture_output=True, text=True, env={**os.environ, "LANG": "C"}).stdout


def start_files_have_cet():
    crti = subprocess.run(["gcc", "-print-file-name=crti.o"], check=True, capture_output=True,
                          text=True).stdout.strip()
    return CET in readelf(crti)


def lacks(path, copies):
    """What the file lacks. @copies: it has copies that are to be checked."""
    told = readelf(path)
    if "GNU_RELRO" not in told:
        yield "no RELRO"
    if not re.search(r"FLAGS_1\).*\bNOW\b", told):
        yield "functions are bound at their first call"
    if not re.search(r"GNU_STACK\s.*\sRW\s", told):
        yield "its stack can be executed, or nothing says that it cannot"
    if "DYN" not in told:
        yield "not position independent"
    if "__stack_chk_fail" not in told:
        yield "no protected stack"
    if copies and not re.search(r"__(memcpy|snprintf|vsnprintf|read|fgets|vfprintf)_chk", told):
        yield "no checked copy"
    if start_files_have_cet() and CET not in told:
        yield "not marked for CET"


def main():
    print(f"1..{len(FILES)}")
    failed = False
    for number, (name, copies) in enumerate(FILES.items(), 1):
        found = list(lacks(BUILD / name, copies))
        print(f"{'not ok' if found else 'ok'} {number} - {Path(name).name}")
        for line in found:
            print(f"# {name}: {line}")
        failed |= bool(found)
    return failed


if __name__ == "__main__":
    sys.exit(main())
