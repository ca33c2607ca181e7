# SPDX-License-Identifier: MIT
"""One test as a session of processes: run it, and let nothing of it outlive it."""
import os
import signal
import subprocess
import time
from pathlib import Path

GRACE = 30.0  # s: a busy machine takes its time to end what was killed
LOOK = 1.0


def run(argv, env, folder, timeout, started, enough=None):
    """Returns (code, stdout, stderr, complaint). @started is called with the session's id; once
    @enough(stdout) is true, the rest of the test is not waited for."""
    out, err = folder.with_suffix(".out"), folder.with_suffix(".err")
    with open(out, "wb") as out_file, open(err, "wb") as err_file:
        with subprocess.Popen(argv, env=env, cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=out_file, stderr=err_file,
                              start_new_session=True) as process:
            started(process.pid)
            complaint = _wait(process, timeout, out, enough)
            if not complaint:
                complaint = _end_rest(process.pid)
            else:
                kill(process.pid)
            code = process.wait()
    return code, _text(out), _text(err), complaint


def _wait(process, timeout, out, enough):
    """'' when it has ended, else why it is to be killed."""
    deadline = time.monotonic() + timeout
    while True:
        left = max(0, deadline - time.monotonic())
        try:
            process.wait(min(left, LOOK) if enough else left)
            return ""
        except subprocess.TimeoutExpired:
            if enough and enough(_text(out)):
                return "the rest was not waited for"
            if time.monotonic() >= deadline:
                return f"not done after {timeout} s, killed: " + describe(process.pid)


def members(session):
    """The living processes of a session: pid -> command line."""
    found = {}
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, sid = _text(proc / "stat").rpartition(")")[2].split()[:4]
            if int(sid) == session and state not in "ZX":
                line = _text(proc / "cmdline").replace("\0", " ")
                found[int(proc.name)] = f"{line.strip()[:120]} [{state}]"
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def describe(session):
    return "; ".join(members(session).values()) or "no process of it is alive"


def kill(session):
    """Ends every process of a session, also those that fork meanwhile."""
    deadline = time.monotonic() + GRACE
    while pids := members(session):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)


def _end_rest(session):
    """What a test started must end with it; a process that is just dying gets its moment."""
    deadline = time.monotonic() + GRACE
    while members(session):
        if time.monotonic() > deadline:
            complaint = "left processes behind: " + describe(session)
            kill(session)
            return complaint
        time.sleep(0.02)
    return ""


def _text(path):
    return path.read_bytes().decode(errors="replace")
