#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=200
"""Interfaces and addresses that go while connections work: what comes back in time costs nothing,
and what does not ends in an error. Every byte is checked."""
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from net import hosts
from net.lives import PATIENCE, Process

from client import cases, pair

PORT = "18700"
SOME = 300  # packets


def received(host):
    """UDP datagrams of one host so far, of both IP versions."""
    v4 = [line.split() for line in Path(f"/proc/{host.pid}/net/snmp").read_text().splitlines()
          if line.startswith("Udp:")]
    v6 = dict(line.split() for line in
              Path(f"/proc/{host.pid}/net/snmp6").read_text().splitlines())
    return int(v4[1][v4[0].index("InDatagrams")]) + int(v6["Udp6InDatagrams"])


def flows(host):
    """Whether some more packets arrive."""
    before, deadline = received(host), time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if received(host) >= before + SOME:
            return True
        time.sleep(0.005)
    return False


def through(gid, address, change):
    """@change(one, other) while a server and a client work."""
    with hosts.Pair() as (one, other), tempfile.TemporaryDirectory() as folder:
        server = Process(one, folder, "server", [], ["-p", PORT, "-g", hosts.GID[gid]])
        client = Process(other, folder, "client", [], ["-p", PORT, "-g", hosts.GID[gid], address])
        steps = {"before": flows(one)}
        change(one, other)
        steps["after"] = flows(one) and flows(other)
        ends = [client.end(), server.end()]
    why = "; ".join(why for why, _, _ in ends if why)
    if not all(steps.values()):
        why = f"no packets: {steps}; {why}"
    elif not why and any(gone for _, _, gone in ends):
        why = "a connection was lost"
    return pair.Result(why)


def pingpong(one, other, folder):
    """The two processes of one that does not end by itself."""
    programs = []
    for number, (host, more) in enumerate(((one, []), (other, ["10.9.0.1"]))):
        env = {**os.environ, **pair.preload()}
        env.pop("LD_LIBRARY_PATH", None)
        with open(Path(folder) / str(number), "wb") as out:
            programs.append(subprocess.Popen(
                [*host.enter, *pair.ALONE, "ibv_rc_pingpong", "-g", hosts.GID["v4"], "-n",
                 "100000000", *more], env=env, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT))
        deadline = time.monotonic() + PATIENCE
        while not number and not pair.listening(18515, one.pid) and time.monotonic() < deadline:
            time.sleep(0.005)
    return programs


def pause(seconds=1.0):
    """How long something is gone; nothing is waited for."""
    time.sleep(seconds)


def cable_out(_one, other):
    other.ip("link", "set", "eth0", "down")
    pause()
    other.ip("link", "set", "eth0", "up")


def both_ends_down(one, other):
    for host in (one, other):
        host.ip("link", "set", "eth0", "down")
    pause()
    for host in (one, other):
        host.ip("link", "set", "eth0", "up")


def address_moves_away_and_back(_one, other):
    other.ip("addr", "del", "10.9.0.2/24", "dev", "eth0")
    pause()
    other.ip("addr", "add", "10.9.0.2/24", "dev", "eth0")


def ipv6_down(_one, other):
    """The kernel takes the IPv6 addresses of an interface that goes down."""
    other.ip("link", "set", "eth0", "down")
    pause()
    other.ip("link", "set", "eth0", "up")
    other.ip("addr", "add", "fd09::2/64", "dev", "eth0", "nodad")


def another_way(one, other):
    """A second cable; the route to the other's address moves there, and the first one is cut."""
    hosts.cable(one, other, ("eth1", "eth1"), 1500)
    for host, own, far in ((one, "10.9.0.1", "10.9.0.2"), (other, "10.9.0.2", "10.9.0.1")):
        host.ip("route", "replace", f"{far}/32", "dev", "eth1", "src", own)
    one.ip("link", "set", "eth0", "down")
    one.ip("route", "replace", "10.9.0.2/32", "dev", "eth1", "src", "10.9.0.1")


def for_ever():
    """Nobody waits for a cable that stays out longer than the retries; who has sent is told."""
    with hosts.Pair() as (one, other), tempfile.TemporaryDirectory() as folder:
        programs = pingpong(one, other, folder)
        why = "" if flows(one) else "no packets"
        other.ip("link", "set", "eth0", "down")
        deadline = time.monotonic() + PATIENCE
        while not why and all(program.poll() is None for program in programs):
            if time.monotonic() > deadline:
                why = "nobody has noticed"
            time.sleep(0.005)
        for program in programs:
            program.kill()
            program.wait()
        text = (Path(folder) / "0").read_text() + (Path(folder) / "1").read_text()
    if not why and "retry counter exceeded" not in text:
        why = "it ended otherwise"
    return pair.Result(why, text)


def main():
    return cases.run([
        ("a cable is out for a moment", lambda: through("v4", "10.9.0.1", cable_out)),
        ("both interfaces go down and up", lambda: through("v4", "10.9.0.1", both_ends_down)),
        ("IPv6 goes down and up", lambda: through("v6", "fd09::1", ipv6_down)),
        ("an address goes and comes",
         lambda: through("v4", "10.9.0.1", address_moves_away_and_back)),
        ("packets take another way", lambda: through("v4", "10.9.0.1", another_way)),
        ("a cable stays out", for_ever)])


if __name__ == "__main__":
    sys.exit(main())
