#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=600
"""Random work between two hosts, every byte checked by a program of ours: over a cable, and over
the relay with impairments. The seed is printed; SOFTHCA_SEED sets it."""
import os
import random
import sys
from pathlib import Path

from net import hosts

from client import cases, pair, programs

BUILD = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire"
SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
ROUNDS = programs.part(64, 4)
HUGE = "8388608"
LARGEST = HUGE if programs.FULL else "1048576"
TIMEOUT = "17"  # a process may have no core for seconds; what is lost is repeated sooner
HARD = ["loss=5"]  # with huge messages
ALL = ["loss=1", "dup=1", "reorder=1", "corrupt=1"]
PLAN = [([], "v4", "256"), ([], "v6", "4096"), ([], "link-local", "1024"),
        (["reorder=2"], "v4", "1024"), (["dup=2"], "v6", "1024"), (["loss=1"], "v6", "2048"),
        (["corrupt=1"], "v4", "4096"), (ALL, "v4", "1024"), (ALL, "v6", "512"), (HARD, "v6", "256")]


def done(_side, output):
    return "" if "done: " in output and "; 0 peers gone" in output else "is not done"


def run(number, fault, address, mtu):
    argv = [str(BUILD / "pattern"), "-g", hosts.GID[address], "-m", mtu, "-n", str(ROUNDS), "-z",
            HUGE if fault == HARD else LARGEST, "-s", str(SEED + number), "-o", TIMEOUT]
    joined = (hosts.Relayed(BUILD / "relay", [*fault, f"seed={SEED + number}"], 4300) if fault
              else hosts.Pair(4300))
    with joined as (one, other):
        result = pair.run(argv, done, server=pair.Side(around=one.enter, inside=pair.ALONE),
                          client=pair.Side(around=other.enter, inside=pair.ALONE),
                          limit=500 if programs.FULL else 120, address="10.9.0.1")
    if fault:
        print(f"# {joined.report}", flush=True)
    return result


def main():
    print(f"# SOFTHCA_SEED={SEED}")
    return cases.run([
        (f"{' '.join(fault) or 'a cable'}: {address} -m {mtu}",
         lambda number=number, fault=fault, address=address, mtu=mtu: run(number, fault, address,
                                                                          mtu))
        for number, (fault, address, mtu) in enumerate(PLAN)])


if __name__ == "__main__":
    sys.exit(main())
