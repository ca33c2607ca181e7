# SPDX-License-Identifier: MIT
"""Runs named cases and prints one line for each."""
import os
import sys
from fnmatch import fnmatchcase

from . import pair


def chosen(name):
    """Cases may be picked by glob: on the command line, or through the test runner."""
    wanted = sys.argv[1:] or os.environ.get("SOFTHCA_CASES", "").split()
    return not wanted or any(fnmatchcase(name.replace(" ", "_"), w.replace(" ", "_"))
                             for w in wanted)


def run(cases):
    """@cases: (name, function that returns a pair.Result). The exit code."""
    cases = [case for case in cases if chosen(case[0])]
    print(f"1..{len(cases)}", flush=True)
    failed = 0
    for number, (name, function) in enumerate(cases, 1):
        result = function()
        failed += bool(result.why)
        end = f": {result.why}" if result.why else ""
        print(f"{'not ok' if result.why else 'ok'} {number} - {name}{end}", flush=True)
        if result.why:
            tell(name, result)
    return 1 if failed or not cases else 0


def tell(name, result):
    for side in ("server", "client"):
        for line in getattr(result, side).splitlines()[-12:]:
            print(f"# {name}: {side}: {line}", flush=True)


def pairs(programs, variant="", **sides):
    """Cases that run each of @programs, (name, argv, check), as a pair."""
    return [(f"{variant}{': ' if variant else ''}{name}",
             lambda argv=argv, check=check: pair.run(argv, check, **sides))
            for name, argv, check in programs]
