#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=160
"""Random work between two hosts over a way that loses, doubles, reorders and damages packets: at
full length for an hour, or its part of that. Every byte is checked, no work request fails, and
neither side's memory nor its descriptors grow once all has been used. SOFTHCA_SEED sets the dice of
the way."""
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from net import hosts
from net.lives import Process

from client import cases, pair, programs

RELAY = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/relay"
SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
FAULTS = ["loss=1", "dup=1", "reorder=1", "corrupt=1"]
SECONDS = programs.part(3600, 12)
LOOKS = 20
PORTS = [str(18700 + number) for number in range(4)]
CONNECTIONS = 4
TIMEOUT = "17"  # 0.5 s, 32 of which without any answer end a connection; what is lost goes sooner
# A sanitizer keeps what is freed.
GROWTH_KIB = 4096 if os.environ["SOFTHCA_SANITIZER"] == "none" else 1 << 30


def picture(process):
    """KiB of memory and descriptors."""
    proc = Path(f"/proc/{process.popen.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]), len(list((proc / "fd").iterdir()))


def watch(processes):
    """What both sides take, LOOKS times; [] once one of them has ended."""
    seen = []
    for look in range(LOOKS):
        time.sleep(SECONDS / LOOKS)  # the work takes its time, nothing is waited for
        if any(process.popen.poll() is not None for process in processes):
            return []
        seen.append([picture(process) for process in processes])
        print(f"# {look + 1} of {LOOKS}, KiB and descriptors: {seen[-1]}", flush=True)
    return seen


def grown(seen):
    """What has grown since the first half of the looks, or ''."""
    half = len(seen) // 2
    for side in range(2):
        for number, (what, room) in enumerate((("memory", GROWTH_KIB), ("descriptors", 0))):
            before = max(look[side][number] for look in seen[:half])
            after = max(look[side][number] for look in seen[half:])
            if after > before + room:
                return f"{what} of side {side} have grown from {before} to {after}"
    return ""


def run():
    with hosts.Relayed(RELAY, [*FAULTS, f"seed={SEED}"], 4300) as (one, other), \
            tempfile.TemporaryDirectory() as folder:
        listens = [word for port in PORTS[:1] for word in ("-p", port)]
        options = ["-m", "1024", "-o", TIMEOUT]
        server = Process(one, folder, "server", [], [*options, *listens])
        client = Process(other, folder, "client", [],
                         [*options, *listens * CONNECTIONS, "10.9.0.1"])
        for process in (server, client):  # all that they need is there
            process.begin(CONNECTIONS)
        seen = watch([server, client])
        ends = [process.end() for process in (client, server)]
    whys = [why for why, _, _ in ends if why]
    gone = sum(gone for _, _, gone in ends)
    print(f"# {ends[0][1]} rounds, {len(whys)} sides failed, {gone} connections lost", flush=True)
    if gone:
        whys.append(f"{gone} connections were lost")
    if not whys and (not seen or grown(seen)):
        whys.append(grown(seen) if seen else "a side has ended too soon")
    return pair.Result("; ".join(whys))


if __name__ == "__main__":
    print(f"# SOFTHCA_SEED={SEED}")
    sys.exit(cases.run([(f"{' '.join(FAULTS)} for {SECONDS} s", run)]))
