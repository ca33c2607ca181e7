#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Plants the known bugs of this folder one by one, several trees side by side: of the tests that a
patch names one must fail. README.md tells the form of a patch.

usage: run.py [--jobs N] [NAME...]"""
import argparse
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests"))

from runner import discover  # noqa: E402

from mutants.tree import Broken, Stopped, Tree  # noqa: E402

PATIENCE = 10  # a bug may make its tests so many times as long as they take without it,
LEAST = 30  # and they always get so many seconds


@dataclass
class Patch:
    """@tests: what the first line names, for tests/run.py."""
    path: Path
    tests: tuple

    @property
    def name(self):
        return self.path.stem


class Sound:
    """What the tests do without a bug: each is run once, by the tree that needs it first."""

    def __init__(self):
        self.lock = threading.Lock()
        self.locks = {}
        self.known = {}

    def seconds(self, tree, test):
        """How long @test takes; None if it fails, which proves nothing of a bug."""
        with self.lock:
            lock = self.locks.setdefault(test, threading.Lock())
        with lock:
            if test not in self.known:
                self.known[test] = self._run(tree, test)
            return self.known[test]

    @staticmethod
    def _run(tree, test):
        try:
            tree.build([test])
            begun = time.monotonic()
            failure = tree.run([test], None)
        except Broken as err:
            failure = f"{test}: {err}"
        if failure:
            told(f"without a bug: {failure}")
            return None
        return time.monotonic() - begun


class Table:
    """The rows, printed as they end, and their counts."""

    def __init__(self, total):
        self.total = total
        self.lock = threading.Lock()
        self.counts = Counter()

    def row(self, patch, count, verdict):
        with self.lock:
            self.counts[count] += 1
            print(f"{sum(self.counts.values()):3} of {self.total}  {patch.name:32} {verdict}",
                  flush=True)

    def close(self):
        """The counts; returns the exit code."""
        for count, number in sorted(self.counts.items()):
            print(f"{number:4} {count}")
        done = sum(self.counts.values())
        passed = self.counts["noticed"] + self.counts["noticed by a time-out"]
        print(f"{passed} passed, {done - passed} failed, {self.total - done} skipped", flush=True)
        return 0 if passed == self.total else 1


def told(text):
    print(f"# {text}", flush=True)


def chosen(names):
    """The patches of these names, or all."""
    folder = TOP / "tests/mutants"
    paths = [folder / f"{Path(name).stem}.patch" for name in names] or sorted(
        folder.glob("*.patch"))
    for path in paths:
        if not path.is_file():
            sys.exit(f"no such patch: {path}")
    return [Patch(path, named(path)) for path in paths]


def named(path):
    head = path.read_text().partition("\n")[0]
    return tuple(head.removeprefix("# test:").split()) if head.startswith("# test:") else ()


def order(patch):
    """The kinds that need no device come first, as in tests/run.py; then by the tests' names."""
    kind = patch.tests[0].partition("/")[0] if patch.tests else ""
    rank = discover.FIRST.index(kind) if kind in discover.FIRST else len(discover.FIRST)
    return rank, patch.tests


def one(tree, patch, sound):
    """Plants the bug, runs the tests; returns what to count, and the verdict of the row."""
    if not patch.tests:
        return "without a test", "no '# test:' line"
    try:
        with tree.planted(patch.path.name):
            tree.build(patch.tests)
            failure = tree.run(patch.tests, max(LEAST, PATIENCE * sound))
    except Broken as err:
        return str(err).partition(":")[0], str(err)
    if not failure:
        return "not noticed", f"NOT NOTICED by {' '.join(patch.tests)}"
    if "not done after" in failure:
        return "noticed by a time-out", f"noticed by a time-out: {failure}"
    return "noticed", f"noticed by {failure}"


def group(tree, patches, sound, table):
    """Patches that name the same tests: those are run without a bug first."""
    tests = patches[0].tests
    took = [sound.seconds(tree, test) for test in tests]
    for patch in patches:
        if None in took:
            table.row(patch, "named tests fail without a bug", "its tests fail without a bug")
        else:
            table.row(patch, *timed(one, tree, patch, sum(took)))
    tree.forget(tests)


def timed(work, *args):
    begun = time.monotonic()
    count, verdict = work(*args)
    return count, f"{verdict} ({time.monotonic() - begun:.0f} s)"


def worker(tree, groups, sound, table, failed):
    """Configures its tree and takes groups until none is left."""
    try:
        tree.configure()
        while True:
            group(tree, groups.get_nowait(), sound, table)
    except queue.Empty:
        pass
    except Stopped:
        pass
    except BaseException as err:  # of any kind: the run must not go on with a tree less
        failed.append(err)
        Tree.stop()


def side_by_side(trees, groups, sound, table):
    waiting, failed = queue.SimpleQueue(), []
    for members in groups:
        waiting.put(members)
    threads = [threading.Thread(target=worker, args=(tree, waiting, sound, table, failed))
               for tree in trees[:len(groups)]]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        Tree.stop()
        for thread in threads:
            thread.join()
        raise
    if failed:
        raise failed[0]


def interrupt(_signal, _frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="trees side by side")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    patches = sorted(chosen(args.names), key=order)
    groups = [list(members) for _, members in groupby(patches, key=lambda patch: patch.tests)]
    table, sound = Table(len(patches)), Sound()
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    with tempfile.TemporaryDirectory(prefix="softhca-mutants-") as folder:
        os.chmod(folder, 0o755)
        trees = [Tree(TOP, Path(folder) / str(number), args.jobs) for number in range(args.jobs)]
        try:
            for tree in trees:
                tree.copy()
            trees[0].configure()
            alone = [members for members in groups if trees[0].alone(members[0].tests)]
            side_by_side(trees, [m for m in groups if m not in alone], sound, table)
            side_by_side(trees[:1], alone, sound, table)
        except KeyboardInterrupt:
            told("interrupted")
        except discover.NothingFound as err:
            sys.exit(f"tests/mutants: {err}")
    return table.close()


if __name__ == "__main__":
    sys.exit(main())
