#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the test kinds: one line for each test, and the counts as the last line.

tests/README.md tells how a test is added, what it gets and what its traits mean.
"""
import argparse
import signal
import sys
from pathlib import Path

from runner import discover, pool, report, stage

SLOWER = {"none": 1, "asan": 4, "tsan": 12}
LONGER = {"short": 1, "full": 10}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=Path, help="build folder")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument("--length", choices=LONGER, default="short")
    parser.add_argument("--sanitizer", choices=SLOWER, default="none", help="how it was built")
    parser.add_argument("--machine", default="", help="what it was built for, if not for this one")
    parser.add_argument("--under", default="", metavar="COMMAND",
                        help="what runs the programs of another machine")
    parser.add_argument("--without", action="append", default=[], metavar="KIND")
    parser.add_argument("--at-most", type=int, metavar="SECONDS", help="no test gets more")
    parser.add_argument("--fail-fast", action="store_true",
                        help="stop at the first failure, be it a case's")
    parser.add_argument("--list", action="store_true", help="list the tests and their traits")
    parser.add_argument("select", nargs="*", metavar="KIND[/NAME[:CASE]]")
    return parser.parse_args()


def on_term(_signal, _frame):
    """Once: a second one would end the clean-up that the first began."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    args = arguments()
    source = Path(__file__).resolve().parent.parent
    try:
        tests = discover.find(source, args.build.resolve(), args.select, args.without)
    except discover.NothingFound as err:
        print(f"run.py: {err}", file=sys.stderr)
        return 2
    if args.list:
        for test in tests:
            print(test.id, *sorted(test.traits), f"timeout={test.timeout}")
        return 0
    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, on_term)
    result = report.Report(source / "tests/expected-skips", args.machine or args.sanitizer,
                           bool(args.under) or args.sanitizer == "tsan",
                           args.build.resolve() / "failures")
    settings = pool.Settings(jobs=args.jobs, length=args.length, sanitizer=args.sanitizer,
                             fail_fast=args.fail_fast, under=args.under.split(),
                             at_most=args.at_most,
                             patience=SLOWER[args.sanitizer] * LONGER[args.length])
    libraries = any("device" in test.traits for test in tests)
    with stage.Stage(source, args.build.resolve(), libraries) as ready:
        try:
            pool.run(tests, ready, settings, result)
        except KeyboardInterrupt:
            result.interrupted()
    return result.close()


if __name__ == "__main__":
    sys.exit(main())
