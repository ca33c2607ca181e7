#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=120
"""A process between two hosts that is stopped for a while, by a debugger or ^Z, ends no connection:
a try may take four times the timeout towards a peer that reports losses, here 8 x 268 ms."""
import signal
import sys
import tempfile
import time

from net import hosts
from net.lives import Process

from client import cases, pair

PORT = "18700"
TIMEOUT = "14"  # 67 ms: as long as all tries of it together no peer may be stopped
STOPPED = 1.5  # seconds, of 2.1 after which the tries have run out
TIMES = 3


def run(of_client):
    terms = ["-p", PORT, "-o", TIMEOUT]
    with hosts.Pair(4300) as (one, other), tempfile.TemporaryDirectory() as folder:
        both = [Process(one, folder, "server", [], terms),
                Process(other, folder, "client", [], [*terms, "10.9.0.1"])]
        both[1].begin(1)
        for _ in range(TIMES):
            both[of_client].popen.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED)  # what is tried
            both[of_client].popen.send_signal(signal.SIGCONT)
            time.sleep(STOPPED / 3)  # in which it works on, and gives the tries back
        ends = [process.end() for process in reversed(both)]
    whys = [why for why, _, _ in ends if why]
    if not whys and not (ends[0][1] and ends[0][2] == 0 and ends[1][2] == 0):
        whys.append(f"client and server did {ends[0][1]} and {ends[1][1]} rounds, and lost "
                    f"{ends[0][2]} and {ends[1][2]} peers")
    return pair.Result("; ".join(whys), "")


def main():
    return cases.run([("the server is stopped", lambda: run(False)),
                      ("the client is stopped", lambda: run(True))])


if __name__ == "__main__":
    sys.exit(main())
