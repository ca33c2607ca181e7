# SPDX-License-Identifier: MIT
"""Runs a program in two processes, each on a core of its own: the server, and when it listens the
client, whose output counts."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
from client.cm import is_there  # noqa: E402

RUN = [str(Path(os.environ["SOFTHCA_PREFIX"]) / "bin/softhca"), "run", "--"]
PROGRAMS = Path(os.environ["SOFTHCA_BUILD"]) / "tests/bench"
UCX = {"UCX_TLS": "posix,cma,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
LIMIT = 120

_next_port = 21000


class Failed(Exception):
    """A program did not do its work; the text is what it said."""


def cores():
    """The two cores that measurements run on."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise Failed("two cores are needed, and this process may use one")
    return allowed[0], allowed[1]


def port():
    global _next_port
    _next_port += 1
    return _next_port


def ours(server, client):
    """Both sides over softhca, each through its own `softhca run`."""
    return pair([*RUN, *server], [*RUN, *client])


def pair(server, client, env=None, at=None):
    """Runs both to their ends; returns what the client printed. @at: the server's port, when it is
    not the argument behind -p."""
    first, second = cores()
    at = at or int(server[server.index("-p") + 1])
    waiting = start(server, first, env)
    try:
        wait_listen(at, waiting)
        return finish(start(client, second, env), client)
    finally:
        end(waiting)


def start(argv, core, env=None):
    return subprocess.Popen(["taskset", "-c", str(core), *argv], env={**os.environ, **(env or {})},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, process_group=0)


def finish(process, argv):
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(argv)}: not done after {LIMIT} s") from None
    finally:
        end(process)
    if process.returncode:
        raise Failed(f"{' '.join(argv)}: exit code {process.returncode}: {output[-300:]}")
    return output


def end(process):
    """A server that is just ending gets its moment; then its group is killed."""
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_listen(at, server, pid="self"):
    """@pid: a process in the server's network namespace."""
    deadline = time.monotonic() + 20
    while not is_there(at, pid):
        if server.poll() is not None:
            raise Failed(f"the server ended: {server.stdout.read()[-300:]}")
        if time.monotonic() > deadline:
            raise Failed("the server does not listen after 20 s")
        time.sleep(0.002)


def alone(argv, env=None):
    """A program that needs no second one, or starts and pins it itself."""
    process = subprocess.Popen(argv, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               process_group=0)
    return finish(process, argv)


class Busy:
    """with Busy(): one more process computes all the time, on whichever of the two cores is free"""

    def __enter__(self):
        first, second = cores()
        self.process = subprocess.Popen(
            ["taskset", "-c", f"{first},{second}", "sh", "-c", "while :; do :; done"],
            process_group=0)

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
