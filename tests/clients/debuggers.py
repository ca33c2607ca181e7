#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: timeout=300
"""Unmodified programs under valgrind, gdb and strace, whose tools watch memory, signals and calls
that softhca uses in ways of its own. A tool that is not installed is left out of a short run."""
import os
import shutil
import sys

from client import cases, pair, programs

TOOLS = {
    "valgrind": ["valgrind", "-q", "--error-exitcode=9"],
    "gdb": ["gdb", "-q", "-batch", "-ex", "run", "-ex", "quit $_exitcode", "--args"],
    "strace": ["strace", "-f", "-o", "/dev/null"],
}
PROGRAM = ["ibv_rc_pingpong", "-g", "3", "-c", "-n", "200"]


UNKNOWN = "unhandled amd64-linux syscall"  # valgrind says so five lines long at each call


def moved(_name, output):
    if output.count(UNKNOWN) > 1:
        return f"goes on with a call that valgrind does not know: {output.count(UNKNOWN)} times"
    return "" if "200 iters in" in output else "shows no time"


def under(tool):
    side = pair.Side(inside=[*pair.RUN, *TOOLS[tool]])
    return pair.run(PROGRAM, moved, side, side)


def main():
    if os.environ.get("SOFTHCA_SANITIZER", "none") != "none":
        print("SKIP: a sanitizer's runtime and these tools want the same place")
        return 77
    tools = [name for name in TOOLS if programs.FULL or shutil.which(name)]
    if not tools:
        print("SKIP: none of valgrind, gdb and strace is installed")
        return 77
    return cases.run([(name, lambda t=name: under(t)) for name in tools])


if __name__ == "__main__":
    sys.exit(main())
