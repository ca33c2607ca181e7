#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=300
"""Unmodified programs of rdma_cm between two hosts, over IPv4 and IPv6."""
import sys

from net import hosts

from client import cases, cm, pair


ADDRESSES = {"10.9.0.1": "10.9.0.2", "fd09::1": "fd09::2"}  # the server's, the client's


def between(argvs, address):
    with hosts.Pair(4300) as (one, other):
        return cm.run(argvs, address, server=pair.Side(one.enter), client=pair.Side(other.enter),
                      own=ADDRESSES[address])


if __name__ == "__main__":
    sys.exit(cases.run([(f"{name}, {address}",
                         lambda argvs=argvs, address=address: between(argvs, address))
                        for name, argvs in cm.PROGRAMS for address in ADDRESSES
                        if cm.speaks(name, address)]))
