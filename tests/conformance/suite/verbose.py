# SPDX-License-Identifier: MIT
"""Runs the suite and reads what unittest -v printed."""
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field

PYTHON = "/usr/bin/python3"
BEGIN = re.compile(r"^(test_\w+) \((tests\.[\w.]+)\)", re.MULTILINE)
RESULT = re.compile(r"(?:\.\.\. |^)(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$",
                    re.MULTILINE)
TOLD = re.compile(r"^(?:ERROR|FAIL): (test_\w+) \((tests\.[\w.]+)\)", re.MULTILINE)
RULE = "=" * 70
VIEWED = ["test_rdmacm", "test_mlx5_rdmacm"]
SLOWER = {"none": 1, "asan": 3, "tsan": 6}


@dataclass
class Outcome:
    """results: id -> 'ok', 'FAIL', ...; told: (id, traceback); ended_by: '' or why the run broke
    off; last: the id it broke off in, or None"""
    results: dict = field(default_factory=dict)
    told: list = field(default_factory=list)
    ended_by: str = ""
    last: str | None = None


def patience():
    return SLOWER[os.environ.get("SOFTHCA_SANITIZER", "none")]


def list_ids(suite, env):
    """All ids that the loader knows, in its order; empty when it fails."""
    listing = subprocess.run([PYTHON, str(suite), "--list-tests"], env=env, text=True,
                             capture_output=True, timeout=60 * patience(), check=False)
    return [line for line in listing.stdout.splitlines() if re.fullmatch(r"tests(\.\w+){3}", line)]


def run(suite, ids, env, limit):
    """One process of the suite over @ids, at most @limit seconds."""
    argv = [*_viewed(ids), PYTHON, str(suite), "--dev", "mlx5_0", "-v", *ids]
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace",
                          process_group=0) as process:
        try:
            text, ended_by = process.communicate(timeout=limit)[1], ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, ended_by = process.communicate()[1], f"hung, killed after {limit} s"
    if process.returncode < 0 and not ended_by:
        ended_by = f"killed by signal {-process.returncode}"
    return parse(text, ended_by)


def _viewed(ids):
    """Both rdmacm modules look for the device's network interface in /sys: the tool shows it."""
    tool = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
    return [tool, "run", "--"] if ids[0].split(".")[1] in VIEWED else []


def parse(text, ended_by=""):
    """The outcome that @text, the suite's stderr, tells."""
    head, *tracebacks = text.split(RULE)
    outcome = Outcome(ended_by=ended_by)
    begins = list(BEGIN.finditer(head))
    for match, following in zip(begins, [*begins[1:], None]):
        test_id = _id(match)
        found = RESULT.search(head, match.end(), following.start() if following else len(head))
        if found:
            outcome.results[test_id] = found.group(1)
        elif following:
            outcome.results[test_id] = "its result cannot be read"
        else:
            outcome.last = test_id
    for block in tracebacks:
        match = TOLD.search(block)
        if match:
            outcome.told.append((_id(match), block.strip()))
    if outcome.last and not ended_by:
        outcome.ended_by = "the suite ended in the middle of it"
    return outcome


def _id(match):
    """Since Python 3.11 the dotted name ends with the method's."""
    method, dotted = match.groups()
    return dotted if dotted.endswith("." + method) else f"{dotted}.{method}"
