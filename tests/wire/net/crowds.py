# SPDX-License-Identifier: MIT
"""Many pairs of processes between two hosts (crowd.c)."""
import contextlib
import itertools
import os
import re
import subprocess
import time
from collections import namedtuple
from pathlib import Path

from . import hosts

from client import pair

PROGRAM = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/crowd"
MTU = 4300  # a message of 4 KiB is one packet
PERIOD_US = 100000
PATIENCE = 60 * pair.PATIENCE
LINE = re.compile(r"pairs (\d+) messages a second (\d+) gap ([\d.]+) first ([\d.]+) failed (\d+) "
                  r"repeated (-?[\d.]+)")

Crowd = namedtuple("Crowd", "pairs rate gap first failed repeated why")
_ports = itertools.count(22000)


@contextlib.contextmanager
def quota(part):
    """A prefix of command lines that have @part of a core together; None: no cgroup can be made."""
    for root, name, value in (
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", f"{int(PERIOD_US * part)}"),
            ("/sys/fs/cgroup", "cpu.max", f"{int(PERIOD_US * part)} {PERIOD_US}")):
        group = Path(root) / f"softhca-crowd-{os.getpid()}"
        try:
            group.mkdir()
            (group / name).write_text(value)
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        finally:
            remove(group)
        return
    yield None


def remove(group):
    """Once the last process has left it, which takes the kernel a moment."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.01)


@contextlib.contextmanager
def busy(count):
    """@count processes compute all the time."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def start(argv, env):
    return subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, process_group=0)


def run(ends, count, seconds, around=()):
    """@count pairs that send for @seconds, all of them behind @around."""
    port = str(next(_ports))
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"]}
    one, other = ([*host.enter, *around, str(PROGRAM), str(count), port] for host in ends)
    server = start(one, env)
    said = server.stdout.readline()  # "listening"
    client = start([*other, "10.9.0.1", str(seconds)], env)
    try:
        said, _ = client.communicate(timeout=PATIENCE + seconds)
        told, _ = server.communicate(timeout=PATIENCE)
        said += told
    except subprocess.TimeoutExpired:
        said += "not done in time"
    finally:
        for process in (server, client):
            end(process)
    return read(count, said, client.returncode or server.returncode)


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def read(count, said, code):
    found = LINE.search(said)
    if not found:
        return Crowd(count, 0, 0, 0, count, 0, f"exit code {code}: {said[-400:]}")
    _, rate, gap, first, failed, repeated = map(float, found.groups())
    why = f"{failed:.0f} of {count} connections ended: {said[:400]}" if failed else ""
    if code and not why:
        why = f"exit code {code}: {said[-400:]}"
    return Crowd(count, rate, gap, first, int(failed), repeated, why)


def cable():
    return hosts.Pair(MTU)


def line(what, crowd, alone):
    return (f"{what:<24} {crowd.pairs:>3} pairs {crowd.rate:>9.0f}/s, {crowd.rate / alone:.2f} of "
            f"one pair; worst gap {crowd.gap:.2f} s, failed {crowd.failed}, sent again "
            f"{100 * crowd.repeated:.1f} %")
