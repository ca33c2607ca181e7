# SPDX-License-Identifier: MIT
"""Runs named cases and prints one line for each."""
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

from . import pair, pairwise, programs


def asked():
    """Cases may be picked by glob: on the command line, or through the test runner."""
    return sys.argv[1:] or os.environ.get("SOFTHCA_CASES", "").split()


def chosen(name):
    wanted = asked()
    return not wanted or any(fnmatchcase(name.replace(" ", "_"), w.replace(" ", "_"))
                             for w in wanted)


def whole():
    """Whether all that there is shall be run: in a soak, and where cases are picked by name."""
    return programs.FULL or bool(asked())


def run_sample(table, number, what):
    """run() of @table, a sample of @number cases in which @what meets."""
    if len(table) < number:
        print(f"# SOFTHCA_SEED={pairwise.SEED}: {len(table)} of {number} cases, in which {what}")
    return run(table)


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
            end = f" # SKIP {result.skipped}" if result.skipped else ""
            end = f": {result.why}" if result.why else end
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


def crossed(variants):
    """The sample of programs in each of @variants, {name: (server, client)}, and how many cases
    there are in all. Short: so many that each variant meets each way of moving data, messages of
    every size and the wait for an event; as root others than as a user."""
    every = [(name, program) for name in variants for program in programs.sample()]
    features = [{"variant": name, "moves": _moves(program[0]), "sizes": "-a" in program[0],
                 "waits": program[0].endswith("-e"), "program": program[0]}
                for name, program in every]
    seed = f"{pairwise.SEED} {os.geteuid() == 0}"
    taken = range(len(every)) if whole() else pairwise.cover(features, ["program"], seed)
    table = []
    for name, program in (every[i] for i in taken):
        server, client = variants[name]
        table += pairs([program], name, server=server, client=client)
    return table, len(every)


def _moves(name):
    """How a program moves its data."""
    if name.startswith("ibv_"):
        return "ping-pong"
    return "messages" if "send" in name else "remote memory"
