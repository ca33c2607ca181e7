#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""softhca fault: do the faults of a running program change, and its alone?"""
# traits: timeout=120
import os
import subprocess
import sys
import time

import cases

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
PINGPONG = [TOOL, "run", "--", "ibv_rc_pingpong", "-g", "3", "-s", "64", "-n", "100000000"]
PATIENCE = 60
NO_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # the program's are not ours


def start(env, *words):
    return subprocess.Popen([*PINGPONG, *words], env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def fault(*words):
    return subprocess.run([TOOL, "fault", *map(str, words)], capture_output=True, text=True,
                          check=False)


def until_changed(process, spec):
    """It has its page as soon as it connects."""
    end = time.monotonic() + PATIENCE
    while True:
        done = fault(process.pid, spec)
        if done.returncode == 0:
            return
        assert "no faults to change" in done.stderr, done
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < end, "it never connected"
        os.sched_yield()


def pair(faults):
    """A server, which listens, and its client."""
    env = {**os.environ, **faults, "LD_PRELOAD": os.environ["SOFTHCA_PRELOAD"],
           "ASAN_OPTIONS": NO_LEAKS}
    server = start(env)
    listening = f":{18515:04X} "
    while listening not in open("/proc/net/tcp6").read() + open("/proc/net/tcp").read():
        assert server.poll() is None, server.stdout.read()
        os.sched_yield()
    return server, start(env, "127.0.0.1")


def ends(processes):
    for process in processes:
        process.kill()
        process.wait()


def changed():
    server, client = pair({"SOFTHCA_FAULT": ""})
    try:
        until_changed(client, "qp=0x3,loss=100%")  # nobody's
        assert fault(client.pid, "loss=101%").returncode == 125
        assert client.poll() is None
        assert fault(client.pid, "loss=100%").returncode == 0
        out = client.stdout.read()
        assert client.wait(PATIENCE) == 1 and "retry counter exceeded" in out, out
    finally:
        ends([server, client])


def refused():
    server, client = pair({})
    try:
        done = fault(client.pid, "loss=1%")
        assert done.returncode == 1 and "SOFTHCA_FAULT" in done.stderr, done
    finally:
        ends([server, client])
    done = fault(client.pid, "loss=1%")
    assert done.returncode == 1 and "No such process" in done.stderr, done
    for words in ((), (1,), ("x", "loss=1%"), (0, "loss=1%"), (1, "loss=1%", "more")):
        assert fault(*words).returncode == 125, words


if __name__ == "__main__":
    sys.exit(cases.run((changed, refused)))
