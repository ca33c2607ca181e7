#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=240
"""Many pairs of programs that poll, on two cores, on one, on a part of one, and beside others that
compute: no connection ends, each carries at least the 16 messages that its sender begins with, and
every byte is right. What they carry together is printed beside what one pair does in the same place
(bench/crowd.py has all the points); the rules behind it are tested in unit/engine_vain and
unit/engine_passing."""
import sys

from net import crowds

from client import cases, pair, programs

SECONDS = 4 if programs.FULL else 2
ONE_CORE = ["taskset", "-c", "0"]
BUSY = 50
CONNECTIONS = 1000 if programs.FULL else 20
AT_ONCE = 20  # connections
# Of 128 instrumented processes on two cores not each runs within two seconds, which is all the time
# that a connection has.
PAIRS = [16, 64] if pair.PATIENCE == 1 else [16]


def result(crowd):
    return pair.Result(crowd.why, "", crowd.why)


def many(what, counts, around=()):
    with crowds.cable() as both:
        alone = crowds.run(both, 1, SECONDS, around)
        if alone.why:
            return result(alone)
        for count in counts:
            crowd = crowds.run(both, count, SECONDS, around)
            print(f"# {crowds.line(what, crowd, alone.rate)}", flush=True)
            if crowd.why:
                return result(crowd)
    return pair.Result("")


def part_of_a_core():
    with crowds.quota(0.5) as around:
        if around is None:
            return pair.Result("", skipped="no cgroup with a quota can be made here")
        return many("half a core", [4], around)


def beside_others():
    """Connections that come and go while others compute."""
    ended, gap = [], 0
    with crowds.cable() as both, crowds.busy(BUSY):
        for _ in range(CONNECTIONS // AT_ONCE):
            crowd = crowds.run(both, AT_ONCE, 1)
            ended += [crowd.why] if crowd.why else []
            gap = max(gap, crowd.gap)
    print(f"# {CONNECTIONS} connections beside {BUSY} processes that compute: worst gap "
          f"{gap:.2f} s", flush=True)
    return pair.Result("; ".join(ended))


if __name__ == "__main__":
    sys.exit(cases.run([
        ("many pairs on two cores", lambda: many("two cores", PAIRS)),
        ("four pairs on one core", lambda: many("one core", [4], ONE_CORE)),
        ("four pairs on half a core", part_of_a_core),
        ("connections beside a load of 50", beside_others)]))
