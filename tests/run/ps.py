#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""softhca ps and top: are a user's programs there, with what each QP waits for and does?"""
# traits: both timeout=180
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import cases

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
PROGRAM = os.environ["SOFTHCA_BUILD"] + "/tests/verbs/verbs_shown"
NO_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Waiting:
    """verbs_shown, whose QPs wait: .near, .far are their numbers, .pid the near one's process."""

    def __init__(self, what, **env):
        self.process = subprocess.Popen(
            [TOOL, "run", PROGRAM, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
            env={**os.environ, "SOFTHCA_VIEW": "0", "SOFTHCA_DEVICES": "mlx5_0=lo",
                 "ASAN_OPTIONS": NO_LEAKS, **env})
        self.pid = self.process.pid

    def __enter__(self):
        self.near, self.far = self.process.stdout.readline().split()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def tool(*words, status=0):
    done = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done
    return done.stdout if status == 0 else done.stderr


def answered(*words):
    """The same, once every process has had a core in time."""
    while "does not answer" in (out := tool(*words)):
        pass
    return out


def line_of(qpn, out):
    found = [line for line in out.splitlines() if line.split()[:1] == [qpn]]
    assert len(found) == 1, out
    return found[0]


def idle():
    with Waiting("idle") as w:
        out = answered("ps")
        assert f"{w.pid} verbs_shown: 1 QP\n" in out, out
        far = re.search(rf"QP {w.far} of (\d+) ", line_of(w.near, out))
        assert far and far[1] != str(w.pid), out
        assert f"\n{far[1]} verbs_shown: 1 QP\n" in "\n" + out, out
        assert re.search(r"RC +RTS .* 0 +0  - \(no receive is posted\)$", line_of(w.near, out)), out
        assert re.search(r" 0 +3  -$", line_of(w.far, out)), out
        assert re.search(rf"QP {w.near} of {w.pid} ", line_of(w.far, out)), out


def receiver_not_ready():
    with Waiting("rnr") as w:
        near = far = ""
        while not ("RNR" in near and "since" in near and "a message waits since" in far):
            out = answered("ps")  # asks one process after the other
            near, far = line_of(w.near, out), line_of(w.far, out)
            assert re.search(r"RNR|an answer of|room on the way|\(at work\)$", near), out
            assert re.search(r"a message waits|\(no receive is posted\)$|\(at work\)$", far), out
        assert re.search(rf" 1 +0  a receive at its peer: RNR from QP {w.far} since \d+ m?s$",
                         near), out
        assert re.search(r"the queue is empty, and a message waits since \d+ m?s$", far), out


def more_numbers_than_one_slot_has():
    with Waiting("many") as w:
        assert f"QP {w.near} of {w.pid} " in line_of(w.near, answered("ps"))


def error():
    with Waiting("failed") as w:
        line = line_of(w.near, answered("ps"))
        assert re.search(r"RC +ERR .*RESET: .*rkey", line), line


def stopped():
    with Waiting("idle") as w:
        os.kill(w.pid, signal.SIGSTOP)
        try:
            while f"{w.pid} verbs_shown: it does not answer: is it stopped?" not in tool("ps"):
                pass
        finally:
            os.kill(w.pid, signal.SIGCONT)
        assert f"{w.pid} verbs_shown: 1 QP" in answered("ps")


def is_still(pid):
    """SIGSTOP stops a thread when that runs next."""
    tasks = Path(f"/proc/{pid}/task")
    return all(stat.read_text().rpartition(")")[2].split()[0] == "T"
               for stat in tasks.glob("*/stat"))


def many_stopped():
    """All of them have the same second: one after the other, twelve would have twelve and more."""
    with ExitStack() as stack:
        all_of = [stack.enter_context(Waiting("idle")) for _ in range(6)]
        try:
            for w in all_of:
                os.killpg(w.pid, signal.SIGSTOP)
            for w in all_of:
                os.waitpid(w.pid, os.WUNTRACED)
                far = Path(f"/proc/{w.pid}/task/{w.pid}/children").read_text().split()
                while not all(map(is_still, [w.pid, *far])):
                    pass
            begin = time.monotonic()
            out = tool("ps")
            took = time.monotonic() - begin
        finally:
            for w in all_of:
                os.killpg(w.pid, signal.SIGCONT)
        processes = 2 * len(all_of)  # near and far
        assert out.count("verbs_shown: it does not answer") == processes, out
        assert took < processes - 1, took


def top():
    with Waiting("idle") as w:
        out = answered("top", "-b", "-n", 2, "-d", 0.01)
        assert out.count(" PID PROGRAM ") == 2, out
        assert len(re.findall(rf"^ *{w.pid} verbs_shown +1 ", out, re.M)) == 2, out
        line = line_of(w.near, answered("top", "-b", "-n", 1, "-d", 0.01, w.pid))
        assert re.search(r"RC +RTS +0 +0\.0 +0 +0  QP ", line), line
    for words in (("-n", "0"), ("-n", "x"), ("-d", "0"), ("x",), ("1", "2"), ("-z",)):
        tool("top", *words, status=125)
    assert "no program on softhca" in tool("top", "-n", 1, os.getpid(), status=1)


def end_of_the_process():
    with Waiting("idle") as w:
        watching = subprocess.Popen([TOOL, "top", "-b", "-d", "0.01", str(w.pid)], text=True,
                                    stdout=subprocess.PIPE)
        assert watching.stdout.readline()
    try:
        watching.communicate(timeout=60)
    finally:
        watching.kill()
    assert watching.returncode == 0, watching


def nobody_reads():
    """Where SIGPIPE is ignored, or the disk is full, a write fails and no more."""
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([TOOL, "top", "-b", "-d", "0.01"], stdout=full, timeout=60, text=True,
                              stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and "standard output: No space left" in done.stderr, done


def rates():
    """Between processes of one host, where no packet is counted, and of a queue pair at which a
    thread is at work all the time."""
    command = [TOOL, "run", "ib_read_bw", "-d", "mlx5_0", "-D", "600", "-s", "65536"]
    env = {**os.environ, "SOFTHCA_VIEW": "0", "SOFTHCA_DEVICES": "mlx5_0=lo",
           "LD_PRELOAD": os.environ["SOFTHCA_PRELOAD"], "ASAN_OPTIONS": NO_LEAKS}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as server:
        listening = f":{18515:04X} "
        while listening not in open("/proc/net/tcp6").read() + open("/proc/net/tcp").read():
            assert server.poll() is None
            os.sched_yield()
        with subprocess.Popen([*command, "127.0.0.1"], env=env,
                              stdout=subprocess.DEVNULL) as client:
            try:
                while not moves(client):
                    pass
            finally:
                client.kill()
                server.kill()


def moves(client):
    assert client.poll() is None
    out = tool("top", "-b", "-n", 1, "-d", 0.1)
    found = re.search(rf"^ *{client.pid} ib_read_bw +1 +(\d+) +([\d.]+) ", out, re.M)
    if not found or not int(found[1]):
        return False
    assert abs(float(found[2]) - int(found[1]) * 65536 / 1e6) < 0.1, out
    return True


def nobody():
    assert tool("ps") == ""
    assert "takes no argument" in tool("ps", "x", status=125)


if __name__ == "__main__":
    sys.exit(cases.run((nobody, idle, receiver_not_ready, more_numbers_than_one_slot_has,
                        error, stopped, many_stopped, top, end_of_the_process, nobody_reads,
                        rates)))
