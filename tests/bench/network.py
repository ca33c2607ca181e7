#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=1800
"""How fast between two hosts: network namespaces joined by a veth with an MTU of 4300, one core for
each host, programs without any capability, default socket buffers. Beside it what sockets can do on
the same veth. A target that is missed is said, it is not a failure."""
import json
import os
import sys
from pathlib import Path

import connections
import meters as m
import pairs
import small
from table import RUNS, Figure, show

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "wire"))
from net import hosts  # noqa: E402

MTU = 4300
SERVER = "10.9.0.1"
SIZES = {"64K": 65536, "1M": 1 << 20}
BYTES_A_RUN = 2 << 30
LOSSY_BYTES = 1 << 28
SENDERS = 4
PLAIN = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
RELAY = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/relay"
OURS = [*PLAIN, "env", f"LD_LIBRARY_PATH={os.environ['SOFTHCA_LIB']}"]


def across(ends, server, client, at):
    """Runs both; what the client printed. @at: where the server listens by TCP."""
    one, other = ends
    first, second = pairs.cores()
    waiting = pairs.start([*one.enter, *server], first)
    try:
        pairs.wait_listen(at, waiting, one.pid)
        return pairs.finish(pairs.start([*other.enter, *client], second), client)
    finally:
        pairs.end(waiting)


def perftest(ends, command, at=None):
    at = at or pairs.port()
    argv = [*OURS, *command.split(), "-F", "-x", hosts.GID["v4"], "-p", str(at)]
    return m.row(across(ends, argv, [*argv, SERVER], at))


def write_bw(ends, size, count):
    """Gb/s"""
    return perftest(ends, f"ib_write_bw -m 4096 -s {size} -n {count} --report_gbits")[3]


def latency(ends, tool):
    """The typical one, us."""
    return perftest(ends, f"{tool} -s 8 -n 20000")[4]


def qperf(ends):
    """One way by UDP, us."""
    at = pairs.port()
    server = ["timeout", "30", "qperf", "-lp", str(at)]
    client = ["sh", "-c", f"qperf -lp {at} {SERVER} -t 2 -uu udp_lat; "
              f"qperf -lp {at} {SERVER} quit"]
    return m.qperf_us(across(ends, server, client, at))


def iperf(ends, *options):
    """Gb/s that arrive."""
    at = pairs.port()
    output = across(ends, ["iperf3", "-s", "-1", "-p", str(at)],
                    ["iperf3", "-c", SERVER, "-p", str(at), "-t", "2", "-J", *options], at)
    end = json.loads(output)["end"]
    total = end.get("sum_received") or end["sum"]
    return total["bits_per_second"] / 1e9 * (1 - total.get("lost_percent", 0) / 100)


def stream(ends):
    """stream.c, Gb/s."""
    program, at = str(pairs.PROGRAMS / "stream"), str(pairs.port())
    first, second = pairs.cores()
    one, other = ends
    waiting = pairs.start([*one.enter, *PLAIN, program, SERVER, at], first)
    try:
        argv = [*other.enter, *PLAIN, program, "10.9.0.2", at, SERVER, "2"]
        return m.find(r"^([\d.]+) ", pairs.finish(pairs.start(argv, second), argv))[0]
    finally:
        pairs.end(waiting)


def relayed(*faults):
    """Gb/s through the relay."""
    with hosts.Relayed(RELAY, faults, MTU) as ends:
        return write_bw(ends, 65536, LOSSY_BYTES // 65536)


def unfairness(ends):
    """By how much the one of several senders that differs most is off their mean, in percent."""
    one, other = ends
    first, second = pairs.cores()
    ports = [pairs.port() for _ in range(SENDERS)]
    argv = [*OURS, *"ib_write_bw -F -m 4096 -s 65536 -D 4 --report_gbits -x".split(),
            hosts.GID["v4"]]
    servers = []
    try:
        for at in ports:
            servers.append(pairs.start([*one.enter, *argv, "-p", str(at)], first))
            pairs.wait_listen(at, servers[-1], one.pid)
        clients = [pairs.start([*other.enter, *argv, "-p", str(at), SERVER], second)
                   for at in ports]
        rates = [m.row(pairs.finish(client, argv))[3] for client in clients]
    finally:
        for server in servers:
            pairs.end(server)
    mean = sum(rates) / SENDERS
    return max(abs(rate - mean) for rate in rates) * 100 / mean


def figures(ends):
    for name, size in SIZES.items():
        def run(size=size):
            return write_bw(ends, size, BYTES_A_RUN // size)
        yield Figure(f"net/write_bw/{name}", run, "Gb/s", 0.8, lambda: stream(ends),
                     "trains, CRC, one copy", True)
        yield Figure(f"net/write_bw/{name}/tcp", run, "Gb/s", 0.7, lambda: iperf(ends),
                     "iperf3 TCP", True)
        yield Figure(f"net/write_bw/{name}/udp", run, "Gb/s", 1,
                     lambda: iperf(ends, "-u", "-b", "0", "-l", "4096"), "iperf3 UDP", True)
    for tool, factor in (("ib_send_lat", 0.36), ("ib_write_lat", 0.9)):
        yield Figure(f"net/{tool}", lambda tool=tool: latency(ends, tool), "us", factor,
                     lambda: qperf(ends), "qperf udp_lat")
    yield Figure("net/ib_read_lat", lambda: latency(ends, "ib_read_lat"), "us", 2.6,
                 lambda: latency(ends, "ib_send_lat"), "ib_send_lat, half of a round trip")
    yield from small.between(lambda command: perftest(ends, command))
    yield Figure("net/loss", lambda: relayed("loss=1"), "Gb/s", 0.5, relayed, "without loss",
                 True)
    yield from connections.between(lambda *argv: across(ends, *argv), OURS, SERVER)
    yield Figure("net/share", lambda: unfairness(ends), "%", 20)


def main():
    with hosts.Pair(MTU) as ends:
        reached, wanted, broken = show(
            figures(ends), lambda: f"between hosts: medians of {RUNS} runs, cores {pairs.cores()}")
    if wanted:
        print(f"{reached} of {wanted} targets reached, {broken} programs failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
