# SPDX-License-Identifier: MIT
"""Runs tests two at a time, and those that want to be alone after all others."""
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import groupby

from . import launch, process, tap

STILL_RUNNING = 30


@dataclass
class Settings:
    """@patience multiplies every time-out, @at_most (None: nothing) bounds it; @under runs the
    compiled programs, where they are of another machine."""
    jobs: int
    length: str
    sanitizer: str
    fail_fast: bool
    patience: int
    at_most: int
    under: list


class Run:
    """One test as one identity."""
    lock = threading.Lock()
    live = {}
    stopping = False

    def __init__(self, test, identity, number):
        self.test = test
        self.identity = identity
        self.number = number
        self.begun = None
        self.output = None

    @property
    def title(self):
        return self.test.id if self.identity == "self" else f"{self.test.id} as {self.identity}"

    def __call__(self, stage, settings, impossible):
        if Run.stopping:
            return None
        self.begun = time.monotonic()
        try:
            if impossible:
                raise launch.Forbidden(impossible)
            cases, log = self._execute(stage, settings)
        except launch.Forbidden as err:
            cases, log = [tap.Case("", "skip", str(err))], ""
        return self, cases, time.monotonic() - self.begun, log

    def _timeout(self, settings):
        seconds = self.test.timeout * settings.patience
        return seconds if settings.at_most is None else min(seconds, settings.at_most)

    def _execute(self, stage, settings):
        program = stage.path_of(self.test)
        argv = launch.command(self.test, program, self.identity, settings)
        home = stage.temporary(str(self.number), launch.uid_of(self.identity))
        self.output = home.with_suffix(".out")
        env = launch.environment(self.test, stage, home, settings)
        code, out, err, complaint = process.run(argv, env, home,
                                                self._timeout(settings), self._started,
                                                tap.failed if settings.fail_fast else None)
        with Run.lock:
            Run.live.pop(self, None)
        cases = tap.verdicts(out, code)
        if complaint:
            cases = [c for c in cases if c.name] + [tap.Case("", "fail", complaint)]
        return cases, "\n".join(part.rstrip() for part in (out, err) if part.strip())

    def progress(self):
        """What it has said of that last: a line '# 412 of 1800, 3 min left'."""
        told = tap.PROGRESS.findall(self.output.read_text(errors="replace"))
        return f": {told[-1]}" if told else ""

    def _started(self, session):
        with Run.lock:
            Run.live[self] = session


def run(tests, stage, settings, report):
    """Runs them all; after KeyboardInterrupt no process of theirs is left."""
    runs = [Run(test, identity, 0) for test in tests for identity in launch.runs_as(test)]
    for number, one in enumerate(runs):
        one.number = number
    try:
        for alone, group in groupby(runs, lambda r: "alone" in r.test.traits):
            _run_group(list(group), 1 if alone else settings.jobs, stage, settings, report)
    finally:
        _stop()


def _run_group(runs, jobs, stage, settings, report):
    with ThreadPoolExecutor(jobs) as workers:
        pending = {workers.submit(one, stage, settings, report.impossible(one.test))
                   for one in runs}
        try:
            while pending:
                done, pending = wait(pending, STILL_RUNNING, FIRST_COMPLETED)
                _tell(done, report, settings)
                if not done:
                    _tell_running(report)
        except BaseException:
            _stop()
            raise


def _tell(done, report, settings):
    for future in done:
        result = future.result()
        if result is None:
            continue
        report.test(*result)
        if settings.fail_fast and report.failed:
            Run.stopping = True


def _tell_running(report):
    now = time.monotonic()
    with Run.lock:
        names = [f"{one.title} ({now - one.begun:.0f} s{one.progress()})" for one in Run.live]
    report.note("still running: " + ", ".join(names))


def _stop():
    Run.stopping = True
    with Run.lock:
        sessions = list(Run.live.values())
    for session in sessions:
        process.kill(session)
