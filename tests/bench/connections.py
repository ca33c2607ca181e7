# SPDX-License-Identifier: MIT
"""Connections of rdma_cm beside those of TCP, and rsockets beside the verbs that they use."""
import re

import meters as m
import pairs
from table import Figure

COUNT = 1000
LATE = 2  # us that a message of an rsocket may take longer than a write


def connects(run, how, count):
    """connects.c: its figure, us. @run: starts a server and a client, with the port."""
    def once():
        at = pairs.port()
        argv = [str(pairs.PROGRAMS / "connects"), how, str(count), str(at)]
        return m.find(rf"^({m.NUMBER}) us", run(argv, argv, at))[0]
    return once


def cmtime(run):
    """us for a whole connection: the sum of what each step takes, on the average of COUNT."""
    def once():
        at = pairs.port()
        argv = ["cmtime", "-c", str(COUNT), "-p", str(at)]
        output = run([*argv, "-b"], [*argv, "-s"], at)
        steps = re.findall(rf"^[a-z ]+: +{m.NUMBER} +{m.NUMBER} +{m.NUMBER} +({m.NUMBER})$",
                           output, re.MULTILINE)
        if len(steps) < 6:
            raise pairs.Failed(f"cmtime: no figures: {output[-300:]}")
        return sum(map(float, steps))
    return once


def rstream(column, *options):
    """A column of rstream's row: -2 is Gb/s, -1 us a message."""
    def once():
        at = pairs.port()
        argv = [*pairs.RUN, "rstream", "-p", str(at), *options]
        rows = [line.split() for line in
                pairs.pair([*argv, "-b", "127.0.0.1"], [*argv, "-s", "127.0.0.1"], at=at)
                .splitlines()]
        return float(rows[-1][column])
    return once


def idle():
    """Bytes of memory of one id."""
    argv = [*pairs.RUN, str(pairs.PROGRAMS / "connects"), "idle", "10000", "1"]
    return m.find(rf"^({m.NUMBER}) bytes", pairs.alone(argv))[0]


def here(prefix):
    def run(server, client, at):
        server = [*server, "127.0.0.1"] if server[-1] == "-b" else server
        return pairs.pair([*prefix, *server], [*prefix, *client, "127.0.0.1"], at=at)
    return run


def one_host():
    tcp = connects(here([]), "tcp", COUNT)
    whole = cmtime(here(pairs.RUN))
    write = m.latency("ib_write_lat -F -s 64 -n 100000")
    late = rstream(-1, "-S", "64", "-C", "1", "-I", "20000")
    yield Figure("cm/time", whole, "us", 4, tcp, "TCP connect, accept, a byte each way")
    yield Figure("cm/rate", lambda: 1e6 / whole(), "1/s", 5000, more=True)
    yield Figure("cm/connect", connects(here(pairs.RUN), "cm", COUNT), "us", 150)
    yield Figure("cm/idle", idle, "bytes", 4096)
    yield Figure("cm/rstream_bw", rstream(-2, "-S", "65536", "-C", "1000", "-I", "40"), "Gb/s",
                 0.9, lambda: m.bandwidth("ib_write_bw -F -s 65536 -n 40000")() * 8,
                 "ib_write_bw", True)
    yield Figure("cm/rstream_lat", late, "us", 1, lambda: write() + LATE,
                 f"ib_write_lat + {LATE} us:")


def between(across, ours, address):
    """@across: runs a server and a client on two hosts; @ours: what our libraries need."""
    def run(prefix):
        def both(server, client, at):
            server = [*server, address] if server[-1] == "-b" else server
            return across([*prefix, *server], [*prefix, *client, address], at)
        return both

    yield Figure("cm/between/time", cmtime(run(ours)), "us", 6,
                 connects(run([]), "tcp", COUNT), "TCP connect, accept, a byte each way")
    yield Figure("cm/between/connect", connects(run(ours), "cm", COUNT), "us", 150)
