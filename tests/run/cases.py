# SPDX-License-Identifier: MIT
"""Cases of a script, reported as TAP."""
import subprocess


def run(cases):
    """Calls each, named by its function; the exit code."""
    failed = 0
    print(f"1..{len(cases)}")
    for number, case in enumerate(cases, 1):
        try:
            case()
            print(f"ok {number} - {case.__name__}", flush=True)
        except (AssertionError, subprocess.SubprocessError) as err:
            failed += 1
            print(f"not ok {number} - {case.__name__}\n# {type(err).__name__}: {err!r}", flush=True)
    return 1 if failed else 0
