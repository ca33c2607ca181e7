#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=600
"""Unmodified programs on two hosts joined by a cable: every service, IPv4 and IPv6, path MTUs from
256 to 4096."""
import re
import sys

from net import hosts

from client import cases, pair, programs

JUMBO = 4300
ITERATIONS = "1000" if programs.FULL else "100"
MTUS = ["256", "512", "1024", "2048", "4096"]
PERFTEST = ["ib_send_bw RC -a", "ib_write_bw RC -a", "ib_read_bw RC -a", "ib_atomic_bw RC plain",
            "ib_send_lat RC -e", "ib_write_lat RC plain", "ib_read_lat RC plain",
            "ib_atomic_lat RC plain", "ib_send_bw UC plain", "ib_send_bw UD plain",
            "ib_write_bw UC plain", "ib_write_bw RC -q 64", "ib_send_bw RC -e",
            "ib_write_bw RC -l"]


def iterations(name):
    """Nobody waits for the receiver of UC and UD: all of it must have room in a socket."""
    if re.search("UC|UD", name):
        return "40"
    return "64" if re.search("-[ql]", name) else "10" if "-a" in name else ITERATIONS


def size(name):
    return ["-s", "1024"] if re.search("bw UC|bw UD", name) else []


def wanted():
    """(name, argv, check, address): every program once per IP version, the MTUs in turn."""
    number = 0
    for address in ("v4", "v6"):
        for name, argv, check in programs.pingpongs():
            if not name.endswith("plain") and "xsrq" not in name:  # XRC is of one host
                yield name, [*argv, "-g", hosts.GID[address], "-n", ITERATIONS], check, address
        for name, argv, check in programs.perftest():
            if name in PERFTEST:
                number += 1
                mtu = MTUS[-1] if "-a" in name else MTUS[number % len(MTUS)]
                mtu = [] if "UD" in name else ["-m", mtu]
                yield (name, [*argv, *size(name), *mtu, "-x", hosts.GID[address], "-n",
                              iterations(name)], check, address)
    for name in ("ibv_rc_pingpong", "ibv_ud_pingpong"):
        argv = [name, "-g", hosts.GID["link-local"], "-n", ITERATIONS, "-s", "1024"]
        yield name, argv, programs.pingpong_done, "link-local"


def main():
    with hosts.Pair(JUMBO) as (one, other):
        server = pair.Side(around=one.enter, inside=pair.ALONE)
        client = pair.Side(around=other.enter, inside=pair.ALONE)
        return cases.run([
            (f"{name} {address} {' '.join(argv[argv.index('-m'):][:2]) if '-m' in argv else ''}",
             lambda argv=argv, check=check: pair.run(argv, check, server=server, client=client,
                                                     address="10.9.0.1"))
            for name, argv, check, address in wanted()])


if __name__ == "__main__":
    sys.exit(main())
