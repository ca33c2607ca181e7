#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=600
"""UC and UD over the relay, counted by a program of ours (counting.c): what arrives is whole and
right, by UC nothing twice, and as much as the rates let through. The same where the library itself
loses and damages (SOFTHCA_FAULT, softhca fault). The seed is printed; SOFTHCA_SEED sets it."""
import os
import random
import sys
from pathlib import Path

from net import hosts

from client import cases, pair, programs

BUILD = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire"
SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
MESSAGES = str(programs.part(20000, 1000))
SERVICES = ["uc", "write", "ud"]
MTUS = ["256", "512", "1024", "2048", "4096"]
FAULTS = [[], ["loss=1"], ["loss=5"], ["dup=5"], ["reorder=5"], ["corrupt=5"],
          ["loss=2", "dup=2", "reorder=2", "corrupt=2"]]

OWN = [("uc", "loss=5"), ("write", "corrupt=5"), ("ud", "dup=5"), ("uc", "reorder=5"),
       ("ud", "loss=5"), ("uc", "dup=5")]
TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"


def plan():
    """Each service under each fault; addresses and MTUs in turn, from a place that the dice say."""
    number = random.Random(SEED).randrange(1000)
    for fault in FAULTS:
        for service in SERVICES:
            number += 1
            yield fault, service, ["v4", "v6"][number % 2], MTUS[number % len(MTUS)]


def done(_side, output):
    return "" if "done: " in output else "is not done"


def argv_of(service, address, mtu, seed, fault):
    return [str(BUILD / "counting"), service, "-g", hosts.GID[address], "-m", mtu, "-n", MESSAGES,
            "-s", str(seed), *(word for f in fault for word in ("-f", f))]


def told(result):
    for line in result.server.splitlines():
        print(f"# {line}", flush=True)
    return result


def relayed(number, fault, service, address, mtu):
    seed = SEED + number
    argv = argv_of(service, address, mtu, seed, fault)
    with hosts.Relayed(BUILD / "relay", [*fault, f"seed={seed}"], 4300) as (one, other):
        return told(pair.run(argv, done, server=pair.Side(one.enter, pair.ALONE),
                             client=pair.Side(other.enter, pair.ALONE), address="10.9.0.1"))


def own(number, service, fault):
    """The client's library is the bad network."""
    seed, address = SEED + number, ["v4", "v6"][number % 2]
    env = {"SOFTHCA_FAULT": f"{fault}%,seed={seed}"}
    with hosts.Pair(4300) as (one, other):
        return told(pair.run(argv_of(service, address, "1024", seed, [fault]), done,
                             server=pair.Side(one.enter, pair.ALONE),
                             client=pair.Side(other.enter, pair.ALONE, env), address="10.9.0.1"))


def rule(address):
    """Five PSNs of one QP, lost by `softhca fault` while the program runs; by UD five messages."""
    fault = [f"loss={500 / int(MESSAGES)}"]
    argv = [*argv_of("ud", address, "1024", SEED, fault), "-l", TOOL]
    with hosts.Pair(4300) as (one, other):
        result = told(pair.run(argv, done, server=pair.Side(one.enter, pair.ALONE),
                               client=pair.Side(other.enter, pair.ALONE, {"SOFTHCA_FAULT": ""}),
                               address="10.9.0.1"))
    if not result.why and "lost: 5," not in result.server:
        result.why = "not five are lost"
    return result


def main():
    print(f"# SOFTHCA_SEED={SEED}")
    runs = [(f"{service} {address} -m {mtu}: {' '.join(fault) or 'nothing'}",
             lambda number=number, args=(fault, service, address, mtu): relayed(number, *args))
            for number, (fault, service, address, mtu) in enumerate(plan())]
    runs += [(f"{service}: SOFTHCA_FAULT={fault}%",
              lambda number=number, args=(service, fault): own(number, *args))
             for number, (service, fault) in enumerate(OWN)]
    runs += [(f"ud {address}: five PSNs of one QP", lambda address=address: rule(address))
             for address in ("v4", "v6")]
    return cases.run(runs)


if __name__ == "__main__":
    sys.exit(main())
