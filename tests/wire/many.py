#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=200
"""Sixteen processes: eight on one address, two of them in mount and PID namespaces of their own,
each connected to all eight on the other side. Random ones are killed and started again; what the
others send each other arrives whole, and no connection between them breaks. SOFTHCA_SEED sets the
dice."""
import os
import random
import sys
import tempfile
import time

from net import hosts
from net.lives import Process

from client import cases, pair, programs

SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
SIDE = 8
APART = ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc"]
SECONDS = programs.part(300, 30)
PORTS = [str(18600 + number) for number in range(SIDE)]


def start(one, other, folder):
    servers = [Process(one, folder, f"server{number}", APART if number < 2 else [], ["-p", port])
               for number, port in enumerate(PORTS)]
    every_port = [word for port in PORTS for word in ("-p", port)]
    clients = [Process(other, folder, f"client{number}", [], [*every_port, "10.9.0.1"])
               for number in range(SIDE)]
    return servers, clients


def kill_some(dice, servers, clients):
    """How many of each side died."""
    kills = {"server": 0, "client": 0}
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        time.sleep(dice.uniform(0.2, 2.5))  # the tempo of the test, not a wait for something
        victim = dice.choice(servers + clients)
        if victim.popen.poll() is not None:
            break
        victim.kill()
        kills[victim.name[:6]] += 1
        victim.start()
    return kills


def killed():
    dice = random.Random(SEED)
    with hosts.Pair() as (one, other), tempfile.TemporaryDirectory() as folder:
        servers, clients = start(one, other, folder)
        kills = kill_some(dice, servers, clients)
        for process in servers + clients:  # the last one that was killed may hardly have started
            process.begin(1)
        ends = [process.end() for process in clients + servers]
    whys = [why for why, _, _ in ends if why]
    rounds = sum(rounds for _, rounds, _ in ends)
    print(f"# killed {kills}; {rounds} rounds of the last lives", flush=True)
    for (why, rounds, gone), process in zip(ends, clients + servers):
        most = kills["client" if process.name.startswith("server") else "server"]
        if not why and (gone > most or not rounds):
            whys.append(f"{process.name}: {rounds} rounds, {gone} peers gone of {most} killed")
    return pair.Result("; ".join(whys[:2]), "\n".join(whys))


def main():
    print(f"# SOFTHCA_SEED={SEED}")
    return cases.run([("random ones of sixteen are killed", killed)])


if __name__ == "__main__":
    sys.exit(main())
