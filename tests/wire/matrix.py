#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=900
"""Debian's programs between two hosts: over a cable those of all services, over the relay those of
RC and XRC.

Short: every program over the cable, IPv4 and IPv6 and the MTUs in turn, and a sample of 60 runs
over the relay in which most pairs of verb, service, option, size, IP version, MTU and impairment
meet. Full: the whole product of program (with each of its options), IP version, MTU and
impairment, the cable being one of these; only the message size is chosen for each run, by the
seed. About 9250 runs, of which several wait side by side.

SOFTHCA_SEED sets the seed, which is printed; SOFTHCA_PART=2/6 takes the second of six parts.

Not run (net/plan.py, may_run()):
- ib_send_lat -e over the relay: it has room for one message and takes the answer to it for its
  completion, which is so only where nothing is lost or overtaken.
- UC -a: nobody waits for a receiver of UC, and 8 MiB have no room in a socket.
- -a over the relay: sizes are the seed's there, and 8 MiB at 5 % loss are three runs by themselves.
- UC and UD over the relay: counting.py."""
import os
import random
import sys
from pathlib import Path

from net import hosts, plan

from client import cases, pair, pairwise, programs

RELAY = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/relay"
JUMBO = 4300
BATCH = 24  # runs on one pair of hosts, one after the other
BESIDE = 2 * os.cpu_count() if programs.FULL else 2
LIMIT = 300 if programs.FULL else 90


class Batch:
    """Runs under one impairment: with its hosts, then run by run."""

    def __init__(self, number, runs):
        self.runs = runs
        fault = runs[0].fault
        self.over = (hosts.Relayed(RELAY, [*fault.split(), f"seed={pairwise.SEED + number}"], JUMBO)
                     if fault else hosts.Pair(JUMBO))

    def __enter__(self):
        one, other = self.over.__enter__()
        sides = {"server": pair.Side(around=one.enter, inside=pair.ALONE),
                 "client": pair.Side(around=other.enter, inside=pair.ALONE)}
        return [(run.name, lambda run=run: pair.run(run.argv, run.check, **sides, limit=LIMIT,
                                                    address="10.9.0.1"))
                for run in self.runs]

    def __exit__(self, *_):
        self.over.__exit__()
        if hasattr(self.over, "report"):
            print(f"# {self.over.report}", flush=True)


def part(runs):
    """This one's of all of them; which are alike must not be all in one part."""
    order = list(runs)
    random.Random(pairwise.SEED).shuffle(order)
    return order[programs.PART - 1::programs.PARTS]


def batches(runs):
    wanted = [run for run in part(runs) if cases.chosen(run.name)]
    for fault in dict.fromkeys(run.fault for run in wanted):
        alike = [run for run in wanted if run.fault == fault]
        yield from (alike[at:at + BATCH] for at in range(0, len(alike), BATCH))


def main():
    runs, told = plan.runs(pairwise.SEED, programs.FULL)
    print(f"# SOFTHCA_SEED={pairwise.SEED} SOFTHCA_PART={programs.PART}/{programs.PARTS}: {told}")
    return cases.run_beside([Batch(*numbered) for numbered in enumerate(batches(runs))], BESIDE)


if __name__ == "__main__":
    sys.exit(main())
