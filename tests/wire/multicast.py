#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=300
"""Multicast: every QP of a group gets every datagram once, from its own process, from others of its
user and of another user on its host, and from another host; none of another interface's; who leaves
gets no more."""
import os
import subprocess
import sys
from pathlib import Path

from net import hosts

from client import cases, pair, programs

CASTER = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/caster")
GROUPS = {"v4": ("239.1.2.3", "igmp", "030201EF"),
          "v6": ("ff05::1:2:3", "igmp6", "ff050000000000000000000100020003")}
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
EACH = 12


class Member:
    """A caster that answers line by line."""

    def __init__(self, host, address, number, around=(), more=None):
        env = {**os.environ, **pair.preload(), **(more or {})}
        env.pop("LD_LIBRARY_PATH", None)
        self.popen = subprocess.Popen(
            [*host.enter, *around, *pair.ALONE, CASTER, hosts.GID[address], GROUPS[address][0],
             str(number)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        self.heard = [self.popen.stdout.readline().strip()]

    def do(self, order):
        self.popen.stdin.write(order + "\n")
        self.popen.stdin.flush()
        self.heard.append(self.popen.stdout.readline().strip())
        return self.heard[-1]

    def end(self):
        self.popen.stdin.close()
        self.heard += self.popen.stdout.read().splitlines()
        return self.popen.wait()


def is_member(host, address):
    _, file, group = GROUPS[address]
    return group in Path(f"/proc/{host.pid}/net/{file}").read_text()


def judge(members, totals, joined):
    for number, (member, total) in enumerate(zip(members, totals)):
        want = f"got {total[0]} {total[1]} twice 0 bad 0"
        if member.heard[-1] != want:
            return f"member {number} has '{member.heard[-1]}', not '{want}'"
    return "" if all(joined) else "a host has not joined the group"


def exactly_once(address):
    """Two processes of root and one of another user on the first host, two of root on the other."""
    with hosts.Pair() as (one, other):
        members = [Member(one, address, 0), Member(one, address, 1),
                   Member(one, address, 2, NOBODY), Member(other, address, 3),
                   Member(other, address, 4)]
        joined = [is_member(host, address) for host in (one, other)]
        for member in members:
            member.do(f"send {EACH}")
        for member in members:
            member.do(f"want {EACH * len(members)} {EACH * len(members)}")
        for leaver in (members[1], members[4]):
            leaver.do("leave")
        members[0].do(f"send {EACH}")
        members[3].do(f"send {EACH}")
        before, after = EACH * len(members), EACH * (len(members) + 2)
        totals = [(after, before if m in (members[1], members[4]) else after) for m in members]
        for member, (first, second) in zip(members, totals):
            member.do(f"want {first} {second}")
        for member in members:
            member.do("count")
        why = judge(members, totals, joined)
        codes = [member.end() for member in members]
        left = [is_member(host, address) for host in (one, other)]
    if not why and (any(codes) or any(left)):
        why = f"exit codes {codes}, still a member: {left}"
    return pair.Result(why, "\n".join(f"{n}: {m.heard}" for n, m in enumerate(members)))


def two_devices(address, second):
    """The first device follows eth0, the second one @second: a port hears its own link."""
    with hosts.Pair() as (one, other):
        hosts.cable(one, other, ("eth1", "eth1"), 1500)
        members = [Member(host, address, number,
                          more={"SOFTHCA_DEVICES": f"mlx5_0=eth0,mlx5_1={second}"})
                   for number, host in enumerate((one, one, other))]
        total = EACH * len(members)
        totals = (total, total if second == "eth0" else 0)
        for member in members:
            member.do(f"send {EACH}")
        for member in members:
            member.do(f"want {totals[0]} {totals[1]}")
            member.do("count")
        why = judge(members, [totals] * len(members), [True])
        codes = [member.end() for member in members]
    if not why and any(codes):
        why = f"exit codes {codes}"
    return pair.Result(why, "\n".join(f"{n}: {m.heard}" for n, m in enumerate(members)))


def perftest():
    """Between two hosts: (name, argv, check). Perftest's own group, ff01::, leaves no host."""
    groups = {"v4": "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3",
              "v6": "255:14:0:0:0:0:0:0:0:0:0:0:0:0:0:9"}
    for name, argv, check in programs.perftest():
        if name not in ("ib_send_bw UD -g", "ib_send_lat UD -g"):
            continue
        for address, group in groups.items():
            yield (f"{name} {address}",
                   [*argv, "-x", hosts.GID[address], "-M", group, "-n", "40", "-s", "1024"], check)


def main():
    with hosts.Pair() as (one, other):
        sides = {"server": pair.Side(around=one.enter, inside=pair.ALONE),
                 "client": pair.Side(around=other.enter, inside=pair.ALONE)}
        return cases.run(
            [(f"each QP gets each datagram once, {address}",
              lambda address=address: exactly_once(address)) for address in GROUPS] +
            [(f"on two devices of {how}, {address}",
              lambda address=address, second=second: two_devices(address, second))
             for how, second in (("one interface", "eth0"), ("two interfaces", "eth1"))
             for address in GROUPS] +
            [(name, lambda argv=argv, check=check: pair.run(argv, check, address="10.9.0.1",
                                                            **sides))
             for name, argv, check in perftest()])


if __name__ == "__main__":
    sys.exit(main())
