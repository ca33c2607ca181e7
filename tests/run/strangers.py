#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Another user, or a process that the tool looks at, cannot keep the tool waiting."""
# traits: root timeout=240
import os
import re
import subprocess
import sys
import time

import cases

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
USER, STRANGER = 1, 2
PROGRAM = os.environ["SOFTHCA_BUILD"] + "/tests/verbs/verbs_shown"
PATIENCE = 60
ENVIRONMENT = {**os.environ, "SOFTHCA_DEVICES": "mlx5_0=lo",
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
TURN = 10  # s that a run waits for another of its user

# Has the name by which the runs of a user take turns, and lets nobody in: it does not listen, or
# its queue is full.
HOLDER = """
import socket, sys
name = "\\0softhca.run.%s.%s" % (sys.argv[1], sys.argv[1])
held, guest = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
held.bind(name)
if sys.argv[2] == "full":
    held.listen(0)
    guest.connect(name)
print("ready", flush=True)
sys.stdin.read()
"""

# Has a FIFO open that is called as a page of softhca is, on a file system that nobody else sees.
PRETENDER = """
import os, subprocess, sys
folder, page = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
path = f"{folder}/memfd:{page}"
os.mkfifo(path)
fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
os.unlink(path)
subprocess.run(["umount", "-l", folder], check=True)
print(os.getpid(), os.readlink(f"/proc/self/fd/{fd}"), flush=True)
sys.stdin.read()
"""

# Lists a slot of its own as one of another user's.
FORGER = """
import socket, sys
layout, user = sys.argv[1:]
names = [f"\\0softhca.{layout}.{who}.slot.1000" for who in ("all", user)]
held = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for name in names]
for name, end in zip(names, held):
    end.bind(name)
    end.listen(8)
print("ready", flush=True)
sys.stdin.read()
"""


class Running:
    """A program of Python that says a line, .line, and lives until the end."""

    def __init__(self, text, *words, before=(), **how):
        self.process = subprocess.Popen(
            [*before, "/usr/bin/python3", "-c", text, *map(str, words)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how)

    def __enter__(self):
        self.line = self.process.stdout.readline().strip()
        assert self.line
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE)


def run_beside(how):
    with Running(HOLDER, USER, how, user=STRANGER, group=STRANGER, extra_groups=[]):
        begin = time.monotonic()
        done = subprocess.run([TOOL, "run", "--", "echo", "ran"], capture_output=True, text=True,
                              timeout=PATIENCE, check=False, user=USER, group=USER, extra_groups=[],
                              env=ENVIRONMENT)
        assert done.returncode == 0 and done.stdout == "ran\n", done
        assert time.monotonic() - begin < TURN


def name_of_a_full_queue():
    run_beside("full")


def name_without_a_listener():
    run_beside("mute")


def layout():
    """The number in the names of this build, as a program of it has them."""
    with subprocess.Popen([TOOL, "run", PROGRAM, "idle"], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdout.readline()
        found = re.search(r"@softhca\.(\d+)\.all\.slot\.", open("/proc/net/unix").read())
        process.stdin.close()
    return found[1]


def forged_process():
    with Running(FORGER, layout(), USER, user=STRANGER, group=STRANGER, extra_groups=[]):
        done = subprocess.run([TOOL, "ps"], capture_output=True, text=True, timeout=PATIENCE,
                              check=False, user=USER, group=USER, extra_groups=[])
        assert done.returncode == 0 and not done.stdout, done


def look_at_pretender(page, *words):
    folder = os.path.join(os.environ["TMPDIR"], page)
    os.mkdir(folder)
    with Running(PRETENDER, folder, page, before=["unshare", "-m"]) as process:
        pid, name = process.line.split(" ", 1)
        assert name == f"/memfd:{page} (deleted)", name
        done = subprocess.run([TOOL, words[0], pid, *words[1:]], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        assert done.returncode == 1 and f"process {pid}: " in done.stderr, done


def fifo_for_counters():
    look_at_pretender("softhca-network.1", "counters")


def fifo_for_faults():
    look_at_pretender("softhca-fault", "fault", "loss=1%")


def main():
    try:
        subprocess.run(["true"], user=STRANGER, group=STRANGER, extra_groups=[], check=True)
    except OSError as err:
        print(f"SKIP: no second user here: {err}")
        return 77
    return cases.run((name_of_a_full_queue, name_without_a_listener, fifo_for_counters,
                      fifo_for_faults, forged_process))


if __name__ == "__main__":
    sys.exit(main())
