#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=120
"""Another host floods a listener with forged messages of connection management (forger.c), while
its program works, and while it is stopped. Its descriptors and its memory stay as they are, its
connections go on, and others that are asked for get in."""
import os
import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "wire"))

from net import hosts  # noqa: E402

from client import cases, pair  # noqa: E402

FORGER = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/attacks/forger")
VICTIM, OTHER, PORT = "10.9.0.1", "10.9.0.2", "7650"
FEW, MANY = 5000, 100000
VISITS, READS = 5, 200
PATIENCE = 30 * pair.PATIENCE
SENDERS = 16  # sockets that are made as queue pairs need them, and are kept
MEASURED = os.environ["SOFTHCA_SANITIZER"] == "none"  # else what is freed is kept for a while
GROWTH = 4096  # KiB that the heap's holes and the tables' sizes may take


class Case:
    """Two hosts and the victim."""

    def __enter__(self):
        self.pair, self.left = hosts.Pair(), []
        self.one, self.other = self.pair.__enter__()
        self.victim = self.start(self.one, "listen", VICTIM, PORT)
        assert self.victim.stdout.readline() == "listening\n"
        return self

    def __exit__(self, *_):
        for process in self.left:
            process.kill()
            process.wait()
            process.stdout.close()
        self.pair.__exit__()

    def start(self, host, *argv):
        env = {**os.environ, **pair.preload()}
        env.pop("LD_LIBRARY_PATH", None)
        self.left.append(subprocess.Popen([*host.enter, *pair.ALONE, FORGER, *argv], env=env,
                                          text=True, stdout=subprocess.PIPE))
        return self.left[-1]

    def visit(self):
        return self.start(self.other, "visit", VICTIM, PORT, str(VISITS), str(READS))

    def visited(self, visitor):
        """And the victim has nothing of it any more."""
        done(visitor, "visited")
        for _ in range(VISITS):
            assert self.victim.stdout.readline() == "parted\n"

    def flood(self, count):
        return self.start(self.other, "forge", OTHER, VICTIM, PORT, str(count))

    def has(self):
        """Descriptors, and KiB of memory."""
        proc = Path(f"/proc/{self.victim.pid}")
        status = (proc / "status").read_text()
        return len(list((proc / "fd").iterdir())), int(status.split("VmRSS:")[1].split()[0])


def done(process, said):
    assert process.wait(PATIENCE) == 0, f"{process.args[-6:]} ended with {process.returncode}"
    assert process.stdout.read() == f"{said}\n"


def flooded(stopped):
    with Case() as case:
        done(case.flood(FEW), "forged")
        case.visited(case.visit())
        before = case.has()
        visitor = None if stopped else case.visit()
        if stopped:
            case.victim.send_signal(signal.SIGSTOP)
        done(case.flood(MANY), "forged")
        if stopped:
            case.victim.send_signal(signal.SIGCONT)
        if visitor:
            case.visited(visitor)
        case.visited(case.visit())
        after = case.has()
        print(f"# descriptors, KiB: {before}, {after}")
        assert after[0] <= before[0] + SENDERS, f"descriptors: {before[0]}, then {after[0]}"
        if MEASURED:
            assert after[1] <= before[1] + GROWTH, f"KiB: {before[1]}, then {after[1]}"
        assert case.victim.poll() is None


def run(stopped):
    try:
        flooded(stopped)
    except (AssertionError, subprocess.TimeoutExpired) as why:
        return pair.Result(str(why))
    return pair.Result("")


if __name__ == "__main__":
    sys.exit(cases.run([("its program works", lambda: run(False)),
                        ("its program is stopped", lambda: run(True))]))
