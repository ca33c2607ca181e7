# SPDX-License-Identifier: MIT
"""Reads what a test printed: lines 'ok N - name', 'not ok N - name', '# SKIP reason', '1..N'."""
import re
from dataclasses import dataclass

LINE = re.compile(r"^(not )?ok\b *(\d+)? *(?:- *)?(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\b")
SKIP = re.compile(r"# *SKIP\b:? *(.*)$", re.IGNORECASE)
PROGRESS = re.compile(r"^# (\d+ of \d+, .*)$", re.MULTILINE)
SKIP_ALL = re.compile(r"^SKIP: *(.*)$", re.MULTILINE)


@dataclass
class Case:
    """One result: 'pass', 'fail' or 'skip'; @why is a failure's or a skip's reason."""
    name: str
    verdict: str
    why: str = ""


def verdicts(text, code):
    """The cases of a program that printed @text on stdout and ended with @code; a program without
    case lines is one case with an empty name."""
    cases, planned = _read(text)
    if code == 77 and not cases:
        why = SKIP_ALL.search(text)
        return [Case("", "skip", why.group(1) if why else text.strip().rpartition("\n")[2])]
    if planned is not None and planned != len(cases):
        cases.append(Case("", "fail", f"{planned} cases planned, {len(cases)} reported, "
                                      f"{_ended(code)}"))
    if code != 0 and not any(case.verdict == "fail" for case in cases):
        cases.append(Case("", "fail", _ended(code)))
    return cases or [Case("", "pass")]


def failed(text):
    """Has a case of a test failed that has printed @text so far?"""
    return any(case.verdict == "fail" for case in _read(text)[0])


def _read(text):
    cases, planned = [], None
    for line in text.splitlines():
        plan = PLAN.match(line)
        if plan:
            planned = (planned or 0) + int(plan.group(1))
            continue
        match = LINE.match(line)
        if not match:
            continue
        name = match.group(3)
        skip = SKIP.search(name)
        if skip:
            cases.append(Case(name[:skip.start()].strip() or skip.group(1), "skip",
                              skip.group(1)))
        else:
            cases.append(Case(name.strip(), "fail" if match.group(1) else "pass"))
    return cases, planned


def _ended(code):
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
