#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=300
"""Unmodified programs of rdma_cm between two hosts, over IPv4 and IPv6."""
import sys

from net import hosts

from client import cases, cm, pair


ADDRESSES = {"10.9.0.1": "10.9.0.2", "fd09::1": "fd09::2"}  # the server's, the client's


RPING = ("rping -s -C 20 -v -a {a} -p {p}", "rping -c -C 20 -v -a {a} -I {o} -p {p}")


def by_source(address):
    """Each host has the routes of its interface in a table that a rule asks for the source."""
    net = "fd09::/64" if ":" in address else "10.9.0.0/24"
    family = "-6" if ":" in address else "-4"
    with hosts.Pair(4300) as (one, other):
        for host, own in ((one, address), (other, ADDRESSES[address])):
            host.ip(family, "route", "del", net, "dev", "eth0")
            host.ip(family, "route", "add", net, "dev", "eth0", "table", "100")
            host.ip(family, "rule", "add", "from", own, "table", "100")
        return cm.run(RPING, address, server=pair.Side(one.enter), client=pair.Side(other.enter),
                      own=ADDRESSES[address])


def by_interface(dev):
    """A host has the same link-local address at two cables, which lead to two others."""
    env = {"SOFTHCA_DEVICES": "mlx5_0=eth0,mlx5_1=eth1"}
    with hosts.Pair(1500) as (one, other):
        third = hosts.Host()
        try:
            hosts.cable(one, third, ("eth1", "eth0"), 1500)
            third.settle("eth0")
            for host, own, at in ((one, 1, "eth0"), (one, 1, "eth1"), (other, 2, "eth0"),
                                  (third, 2, "eth0")):
                host.ip("addr", "add", f"fe80::{own}/64", "dev", at, "nodad")
            client = other if dev == "eth0" else third
            return cm.run(("rping -s -C 5 -v -a :: -p {p}", "rping -c -C 5 -v -a {a} -p {p}"),
                          "fe80::1%eth0", server=pair.Side(one.enter, env=env),
                          client=pair.Side(client.enter))
        finally:
            third.end()


def between(argvs, address):
    with hosts.Pair(4300) as (one, other):
        return cm.run(argvs, address, server=pair.Side(one.enter), client=pair.Side(other.enter),
                      own=ADDRESSES[address])


if __name__ == "__main__":
    sys.exit(cases.run([(f"{name}, {address}",
                         lambda argvs=argvs, address=address: between(argvs, address))
                        for name, argvs in cm.PROGRAMS for address in ADDRESSES
                        if cm.speaks(name, address)] +
                       [(f"rping, routes by source, {address}",
                         lambda address=address: by_source(address)) for address in ADDRESSES] +
                       [(f"rping, link-local, {dev}", lambda dev=dev: by_interface(dev))
                        for dev in ("eth0", "eth1")]))
