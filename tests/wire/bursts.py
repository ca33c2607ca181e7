#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=120
"""Many connections at once to a host that does not answer: so many requests leave as its socket has
room for, and no more before the first one is repeated."""
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from net import hosts

from client import cases, pair

ROCE, MAD_AT, REQ = 4791, 20, b"\0\x10"
FLIGHT = 64


def listen():
    """Prints how many requests have come before one comes again."""
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind(("10.9.0.1", ROCE))
    print("ready", flush=True)
    seen = set()
    while True:
        mad = heard.recv(4096)[MAD_AT:]
        if len(mad) < 256 or mad[16:18] != REQ:
            continue
        comm_id = mad[24:28]
        if comm_id in seen:
            break
        seen.add(comm_id)
    print(len(seen))


def burst():
    with hosts.Pair() as (one, other), tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([*one.enter, sys.executable, __file__, "listen"],
                              stdout=subprocess.PIPE, text=True) as listener:
            listener.stdout.readline()
            client = pair.Process(pair.Side(other.enter), "cmtime -s 10.9.0.1 -c 200".split(),
                                  Path(folder) / "client")
            came = listener.stdout.readline().strip()
            client.end()
            return pair.Result("" if came == str(FLIGHT) else f"{came} requests came at once",
                               client=client.output())


if __name__ == "__main__":
    if sys.argv[1:] == ["listen"]:
        listen()
    else:
        sys.exit(cases.run([("two hundred connections", burst)]))
