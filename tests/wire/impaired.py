#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=600
"""RC through a network that loses, doubles, reorders and damages packets: unmodified programs and
large messages. The seed is printed; SOFTHCA_SEED sets it.

The last ACK may be lost with nobody left to repeat it: ibv_*_pingpong end without telling each
other that they do, so they run where nothing is lost; perftest shakes hands by TCP.
ibv_srq_pingpong goes on sending on sixteen QPs until enough is complete, and leaves: the other side
has its enough only where all of them are equally fast, so it runs where nothing is overtaken."""
import os
import random
import sys
from pathlib import Path

from net import hosts

from client import cases, pair, programs

RELAY = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/relay"
SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
ITERATIONS = "1000" if programs.FULL else "60"
PERCENT = {"loss": ["0.1", "1", "5"], "dup": ["1", "5"], "reorder": ["1", "5"],
           "corrupt": ["1", "5"]}
ALL = ["loss=2", "dup=2", "reorder=2", "corrupt=2"]


def programs_of(address, fault):
    gid = hosts.GID[address]
    if not any(f.startswith(("loss", "corrupt")) for f in fault):
        yield (["ibv_rc_pingpong", "-g", gid, "-c", "-n", ITERATIONS, "-s", "20000"],
               programs.pingpong_done)
        if not any(f.startswith("reorder") for f in fault):
            yield (["ibv_srq_pingpong", "-g", gid, "-c", "-n", ITERATIONS], programs.pingpong_done)
    for name, argv, check in programs.perftest():
        if name in ("ib_send_bw RC plain", "ib_write_bw RC plain", "ib_read_bw RC plain",
                    "ib_atomic_bw RC plain"):
            yield [*argv, "-x", gid, "-n", ITERATIONS], check


def plan():
    """Each impairment with each program once; IP version and MTU by the dice."""
    dice = random.Random(SEED)
    faults = [[f"{name}={p}"] for name, ps in PERCENT.items() for p in ps] + [ALL]
    for fault in faults:
        address = dice.choice(["v4", "v6"])
        argv, check = dice.choice(list(programs_of(address, fault)))
        yield fault, [*argv, "-m", dice.choice(["256", "1024", "4096"])], check, address
    for argv, check in programs_of("v4", ALL):
        yield ALL, [*argv, "-m", "1024"], check, "v4"
    size = "8388608" if programs.FULL else "1048576"
    check = next(c for name, _, c in programs.perftest() if name == "ib_write_bw RC plain")
    for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        yield (["loss=5"], [tool, "-F", "-x", hosts.GID["v4"], "-m", "256", "-s", size, "-n", "5"],
               check, "v4")


def run(number, fault, argv, check):
    relayed = hosts.Relayed(RELAY, [*fault, f"seed={SEED + number}"], 4300)
    with relayed as (one, other):
        result = pair.run(argv, check, server=pair.Side(around=one.enter, inside=pair.ALONE),
                          client=pair.Side(around=other.enter, inside=pair.ALONE),
                          limit=300 if programs.FULL else 90, address="10.9.0.1")
    print(f"# {relayed.report}", flush=True)
    return result


def main():
    print(f"# SOFTHCA_SEED={SEED}")
    return cases.run([
        (f"{' '.join(fault)}: {' '.join(argv)} {address}",
         lambda number=number, fault=fault, argv=argv, check=check: run(number, fault, argv, check))
        for number, (fault, argv, check, address) in enumerate(plan())])


if __name__ == "__main__":
    sys.exit(main())
