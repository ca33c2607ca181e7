# SPDX-License-Identifier: MIT
"""Runs named cases and prints one line for each."""
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
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
    score = Score(len(cases))
    for name, function in cases:
        score.add(name, function())
    return score.code()


def run_beside(batches, workers):
    """@batches: context managers with the cases, .runs as many, which run one after the
    other; @workers of the batches side by side. Globs are the caller's to look at."""
    score = Score(sum(len(batch.runs) for batch in batches))

    def work(batch):
        with batch as cases:
            for name, function in cases:
                score.add(name, function())

    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(work, batch) for batch in batches]:
            future.result()
    return score.code()


class Score:
    """Prints the line of each case when it is done, and now and then how far it is."""
    EVERY = 20  # seconds

    def __init__(self, planned):
        self.lock = threading.Lock()
        self.planned, self.done, self.failed = planned, 0, 0
        self.begun = self.said = time.monotonic()
        print(f"1..{planned}", flush=True)

    def add(self, name, result):
        with self.lock:
            self.done += 1
            self.failed += bool(result.why)
            end = f": {result.why}" if result.why else ""
            print(f"{'not ok' if result.why else 'ok'} {self.done} - {name}{end}", flush=True)
            if result.why:
                tell(name, result)
            self._progress()

    def _progress(self):
        now = time.monotonic()
        if now < self.said + self.EVERY:
            return
        self.said = now
        left = (now - self.begun) / self.done * (self.planned - self.done)
        print(f"# {self.done} of {self.planned}, {left / 60:.0f} min left", flush=True)

    def code(self):
        return 1 if self.failed or not self.done else 0


def tell(name, result):
    for side in ("server", "client"):
        for line in getattr(result, side).splitlines()[-12:]:
            print(f"# {name}: {side}: {line}", flush=True)


def pairs(programs, variant="", **sides):
    """Cases that run each of @programs, (name, argv, check), as a pair."""
    return [(f"{variant}{': ' if variant else ''}{name}",
             lambda argv=argv, check=check: pair.run(argv, check, **sides))
            for name, argv, check in programs]
