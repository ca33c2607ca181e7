# SPDX-License-Identifier: MIT
"""Prints results and decides whether the run passed."""
import os
import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

TAIL = 40
SLOWEST = 20
SEED = "SOFTHCA_SEED="
PASSED = re.compile(r"ok \d")
TOLD_ALWAYS = {"bench"}


class Report:
    """Counts cases. As root on Debian 12 a skip that expected-skips does not list is a failure.
    @where: of its lines those; @limited: what they list cannot pass there (an emulator, or
    ThreadSanitizer): a test is not run, a case that fails is a skip. @kept: the folder that
    gets the whole of what a failed test said."""

    def __init__(self, expected_skips, where, limited=False, kept=None):
        self.kept = kept
        if kept:
            shutil.rmtree(kept, ignore_errors=True)  # of the run before
        self.passed = self.failed = self.skipped = 0
        self.strict = os.geteuid() == 0 and _debian_12()
        self.beyond = _read_skips(expected_skips, {where}) if limited else {}
        self.expected = _read_skips(expected_skips, {where, "any"})
        self.failures = []
        self.took = []

    def note(self, text):
        print(f"     {text}", flush=True)

    def test(self, run, cases, seconds, log):
        """One finished program: a line for it, one for each case that did not pass."""
        self.took.append((seconds, run.title))
        cases = [self._judge(run, case) for case in cases]
        counts = {v: sum(case.verdict == v for case in cases) for v in ("pass", "fail", "skip")}
        self.passed += counts["pass"]
        self.failed += counts["fail"]
        self.skipped += counts["skip"]
        word = "FAIL" if counts["fail"] else "PASS" if counts["pass"] else "SKIP"
        detail = "" if len(cases) == 1 and not cases[0].name else f"{_told(counts)}, "
        print(f"{word} {run.title} ({detail}{seconds:.1f} s)", flush=True)
        for case in cases:
            if case.verdict != "pass":
                self._explain(run, case)
        if counts["fail"]:
            first = next(case for case in cases if case.verdict == "fail")
            said = ": ".join(part for part in (first.name, first.why) if part)
            self.failures.append(f"{run.title}: {counts['fail']} failed, first: {said}")
            self._tell_end(run.title, log)
        elif run.test.kind in TOLD_ALWAYS:
            self._tell(log.splitlines())

    def _tell_end(self, title, log):
        every = log.splitlines()
        lines = [line for line in every if not PASSED.match(line)]
        self._tell([line for line in lines[:-TAIL] if SEED in line] + lines[-TAIL:])
        if len(every) > TAIL and self.kept:
            self.kept.mkdir(exist_ok=True)
            whole = self.kept / (re.sub(r"[^\w.-]+", "-", title) + ".log")
            whole.write_text(log)
            self.note(f"without the passed cases, the last {TAIL} lines; all {len(every)}: {whole}")

    def _tell(self, lines):
        for line in lines:
            self.note(f"| {line}")

    def impossible(self, test):
        """Why it cannot be run there at all, or None."""
        return self.beyond.get(test.id)

    def _judge(self, run, case):
        if case.verdict == "fail" and _listed(self.beyond, run, case):
            case.verdict, case.why = "skip", _listed(self.beyond, run, case)
        if case.verdict == "skip" and self.strict and not _listed(self.expected, run, case):
            case.verdict = "fail"
            case.why = f"skipped, and tests/expected-skips does not list it: {case.why}"
        return case

    def _explain(self, run, case):
        name = f"{run.title}: {case.name}" if case.name else run.title
        self.note(f"{case.verdict} {name}{': ' + case.why if case.why else ''}")

    def interrupted(self):
        self.failed += 1
        self.failures.append("interrupted")

    def close(self):
        """The summary; returns the exit code."""
        self._tell_slowest()
        if self.failures:
            print("\nWhat failed:")
            for line in self.failures:
                print(f"  {line}")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed or not self.passed else 0

    def _tell_slowest(self):
        """Where the time went; tests that ran side by side are each counted in full."""
        total = sum(seconds for seconds, _ in self.took)
        if len(self.took) <= SLOWEST:
            return
        print(f"\nThe {SLOWEST} slowest of {len(self.took)} tests, in seconds, and their share of "
              f"{total:.0f} s:")
        for seconds, title in sorted(self.took, reverse=True)[:SLOWEST]:
            print(f"  {seconds:6.1f} {seconds / total:6.1%}  {title}")


def _listed(patterns, run, case):
    full = f"{run.test.id}:{case.name}" if case.name else run.test.id
    return next((why for pattern, why in patterns.items() if fnmatchcase(full, pattern)), "")


def _told(counts):
    words = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    return ", ".join(f"{n} {words[v]}" for v, n in counts.items() if n)


def _debian_12():
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except FileNotFoundError:
        return False
    return "ID=debian" in lines and 'VERSION_ID="12"' in lines


def _read_skips(path, places):
    """Lines 'WHERE PATTERN REASON...' of these places as {pattern: reason}; WHERE is any, none,
    asan, tsan or a machine."""
    patterns = {}
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        where, pattern, *reason = line.split(maxsplit=2)
        if not reason:
            raise SystemExit(f"{path}: '{line}' gives no reason")
        if where in places:
            patterns[pattern] = reason[0]
    return patterns
