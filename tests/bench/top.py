#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: alone timeout=3600
"""What `softhca top` costs that looks once a second at 8 busy processes of 64 queue pairs: the
share of a core that it takes itself, and what the processes send with it and without. The aim is
2 % of a core at most, and rates that differ by no more than those of two runs without it."""
import os
import re
import subprocess
import sys
import tempfile
import time
from statistics import median

import meters as m
import pairs

RUNS = 6
PAIRS = 4
QPS = 64
MESSAGES = 1 << 22  # of each pair: some seconds
AIM = 2  # per cent
TOP = [pairs.RUN[0], "top", "-b", "-d", "1"]
LINE = re.compile(r"^ *\d+ burst +(\d+) ", re.MULTILINE)


class Watch:
    """with Watch() as w: softhca top runs; then .share: of a core, per cent; .looks"""

    def __enter__(self):
        self.begun = time.monotonic()
        self.out = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(TOP, stdin=subprocess.DEVNULL, stdout=self.out)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - self.begun
        self.share = (used.ru_utime + used.ru_stime) / took * 100
        with self.out:
            self.out.seek(0)
            said = self.out.read()
        whole = [look for look in said.split("PID")
                 if sum(int(n) >= QPS for n in LINE.findall(look)) == 2 * PAIRS]
        self.looks = len(whole)


def rate():
    """Millions of messages a second of all pairs together, on both cores"""
    both = ",".join(map(str, pairs.cores()))
    argv = [*pairs.RUN, str(pairs.PROGRAMS / "burst"), str(QPS), str(MESSAGES)]
    ports = [str(pairs.port()) for _ in range(PAIRS)]
    servers = clients = []
    try:
        servers = [pairs.start([*argv, at], both) for at in ports]
        for at, server in zip(ports, servers):
            pairs.wait_listen(int(at), server)
        clients = [pairs.start([*argv, at, "127.0.0.1"], both) for at in ports]
        return sum(m.find(rf"^({m.NUMBER}) ", pairs.finish(c, argv))[0] for c in clients)
    finally:
        for process in (*servers, *clients):
            pairs.end(process)


def watched():
    with Watch() as watch:
        found = rate()
    if not watch.looks:
        raise pairs.Failed(f"softhca top has never shown {2 * PAIRS} processes of {QPS} QPs")
    return found, watch


def spread(values):
    return f"{median(values):.3f} M/s ({min(values):.3f} to {max(values):.3f})"


def main():
    alone, beside, watches = [], [], []
    try:
        for run in range(RUNS):
            if run % 2 == 0:
                alone.append(rate())
            found, watch = watched()
            beside.append(found)
            watches.append(watch)
            if run % 2 == 1:
                alone.append(rate())
    except pairs.Failed as err:
        print(f"FAILED: {err}")
        return 1
    ratios = [b / a * 100 for a, b in zip(alone, beside)]
    share = median(w.share for w in watches)
    print(f"# medians of {RUNS} runs in turn, {2 * PAIRS} processes of {QPS} queue pairs, SENDs of "
          f"64 B; {sum(w.looks for w in watches)} looks at all of them")
    print(f"softhca top takes {share:.2f} % of a core ({min(w.share for w in watches):.2f} to "
          f"{max(w.share for w in watches):.2f}); the aim is {AIM} % at most: "
          f"{'reached' if share <= AIM else 'missed'}")
    print(f"without it {spread(alone)}, with it {spread(beside)}; of two runs in turn "
          f"{median(ratios):.1f} % ({min(ratios):.1f} to {max(ratios):.1f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
