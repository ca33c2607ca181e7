#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=200
"""How connections of rdma_cm fail and end between hosts (ends.c): what a program is told, and that
it is told at all, long before Linux's timers have run out."""
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from net import hosts

from client import cases, pair

ENDS = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/ends")
PATIENCE = 40 * pair.PATIENCE  # of 74 s that Linux repeats a message
PORT = "7600"
# Seconds in which a death is seen, and what a busy machine may add.
NEAR, FAR, BUSY = 0.1, 6, 3 * pair.PATIENCE
STOPPED = 9
LONG_ENOUGH = "20000"  # ms to resolve an address that is there
ONE = {"IPv4": "10.9.0.1", "IPv6": "fd09::1"}
NOBODY = {"IPv4": "10.9.0.77", "IPv6": "fd09::77"}
OUTSIDE = {"IPv4": "192.0.2.1", "IPv6": "2001:db8::1"}
CONNECTED = ["RDMA_CM_EVENT_ADDR_RESOLVED 0", "RDMA_CM_EVENT_ROUTE_RESOLVED 0",
             "RDMA_CM_EVENT_CONNECT_RESPONSE 0"]


class End:
    """One process, whose lines are read as they come."""

    def __init__(self, host, *argv):
        env = {**os.environ, **pair.preload()}
        env.pop("LD_LIBRARY_PATH", None)
        self.popen = subprocess.Popen([*host.enter, *pair.ALONE, ENDS, *argv], env=env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.popen.stdout:
            self.lines.put(line.strip())
        self.lines.put("(end)")

    def says(self, *wanted):
        """Whether the next lines are these; AssertionError otherwise."""
        for line in wanted:
            try:
                got = self.lines.get(timeout=PATIENCE)
            except queue.Empty:
                got = "nothing"
            assert got == line, f"{line!r} is expected, it says {got!r}"

    def hears_of(self, what, death, limit):
        """The line @what comes in time behind the call of @death."""
        begun = time.monotonic()
        death()
        self.says(what)
        took = time.monotonic() - begun
        assert took < limit + BUSY, f"{what} after {took:.3f} s"

    def says_nothing(self, seconds):
        try:
            raise AssertionError(f"it says {self.lines.get(timeout=seconds)}")
        except queue.Empty:
            pass

    def leave(self):
        self.popen.stdin.close()

    def kill(self):
        self.popen.kill()

    def end(self):
        self.popen.kill()
        self.popen.wait()
        self.reader.join()
        self.popen.stdout.close()


class Stage:
    """Two hosts, and the processes on them."""

    def __init__(self):
        self.pair, self.ends = hosts.Pair(), []

    def __enter__(self):
        self.one, self.other = self.pair.__enter__()
        return self

    def __exit__(self, *_):
        for end in self.ends:
            end.end()
        self.pair.__exit__()

    def start(self, host, *argv):
        self.ends.append(End(host, *argv))
        return self.ends[-1]

    def connected(self, address, port=PORT, *more):
        server = self.start(self.one, "listen", address, port)
        server.says("listening 0")
        client = self.start(self.other, "connect", address, port, LONG_ENOUGH, *more)
        client.says(*CONNECTED)
        server.says("RDMA_CM_EVENT_CONNECT_REQUEST 0", "RDMA_CM_EVENT_ESTABLISHED 0")
        return server, client


def no_route(stage, ip):
    stage.start(stage.other, "connect", OUTSIDE[ip], PORT, LONG_ENOUGH).says(
        "rdma_resolve_addr 101")


def no_neighbour(stage, ip):
    """The kernel asks for three seconds: a program's time is its own."""
    for ms in ("0", "300", "4000") if cases.whole() else ("0", "300"):
        stage.start(stage.other, "connect", NOBODY[ip], PORT, ms).says(
            "RDMA_CM_EVENT_ADDR_ERROR -110")


def new_neighbour(stage, ip):
    stage.other.ip("neigh", "del", ONE[ip], "dev", "eth0")
    stage.connected(ONE[ip])


def no_process(stage, ip):
    stage.start(stage.other, "connect", ONE[ip], PORT, LONG_ENOUGH).says(
        *CONNECTED[:2], "RDMA_CM_EVENT_REJECTED 8")
    stage.start(stage.other, "connect", ONE[ip], PORT, LONG_ENOUGH, "udp").says(
        *CONNECTED[:2], "RDMA_CM_EVENT_UNREACHABLE 1")


def no_listener(stage, ip):
    stage.start(stage.one, "listen", ONE[ip], "7601").says("listening 0")
    no_process(stage, ip)


def no_listener_at_link_local(stage, _):
    """The answers leave by the interface by which the question came."""
    for host, own in ((stage.one, 1), (stage.other, 2)):
        host.ip("addr", "add", f"fe80::{own}/64", "dev", "eth0", "nodad")
    stage.start(stage.one, "listen", "fe80::1%eth0", "7601").says("listening 0")
    stage.start(stage.other, "connect", "fe80::1%eth0", PORT, LONG_ENOUGH).says(
        *CONNECTED[:2], "RDMA_CM_EVENT_REJECTED 8")
    stage.start(stage.other, "connect", "fe80::1%eth0", PORT, LONG_ENOUGH, "udp").says(
        *CONNECTED[:2], "RDMA_CM_EVENT_UNREACHABLE 1")


def host_dies(stage, ip):
    """Behind rdma_resolve_addr(): nobody has the link address any more."""
    number = ONE[ip].split(".")[-1].split(":")[-1]
    stage.one.ip("addr", "del", f"10.9.0.{number}/24", "dev", "eth0")
    stage.one.ip("addr", "del", f"fd09::{number}/64", "dev", "eth0")
    stage.other.ip("neigh", "del", ONE[ip], "dev", "eth0")
    stage.other.ip("neigh", "add", ONE[ip], "lladdr", "02:00:00:00:00:99", "dev", "eth0",
                   "nud", "stale")
    stage.start(stage.other, "connect", ONE[ip], PORT, LONG_ENOUGH).says(
        *CONNECTED[:2], "RDMA_CM_EVENT_UNREACHABLE -113")


def leaves(stage, ip):
    """By exit(), with a connection that it has not ended."""
    for way in (0, 1):
        ends = stage.connected(ONE[ip], str(7610 + way))
        ends[way].leave()
        ends[not way].says("RDMA_CM_EVENT_DISCONNECTED 0")


def leaves_late(stage, ip):
    """What the program does at exit() comes first."""
    server, client = stage.connected(ONE[ip], PORT, "late")
    client.leave()
    client.says("rdma_notify 106")
    server.says("RDMA_CM_EVENT_DISCONNECTED 0")


def ways_of(ip):
    """Who goes, the server or the client."""
    return (0, 1) if cases.whole() else (ip == "IPv4",)


def killed(stage, ip):
    for way in ways_of(ip):
        ends = stage.connected(ONE[ip], str(7610 + way))
        ends[not way].hears_of("RDMA_CM_EVENT_DISCONNECTED 0", ends[way].kill, FAR)


def killed_beside_another(stage, ip):
    """The other process of its host answers for it."""
    for host, address in ((stage.one, ONE[ip]), (stage.other, "127.0.0.1")):
        stage.start(host, "listen", address, "7601").says("listening 0")
    killed(stage, ip)


def killed_on_its_host(stage, ip):
    """In each state: the other end hears of it at once."""
    for number, (way, listen, connect) in enumerate(
            ((0, ["asked"], []), (0, [], ["answered"]), (1, [], ["answered"]), (0, [], []),
             (1, [], []))):
        port = str(7620 + number)
        server = stage.start(stage.one, "listen", ONE[ip], port, *listen)
        server.says("listening 0")
        client = stage.start(stage.one, "connect", ONE[ip], port, LONG_ENOUGH, *connect)
        client.says(*CONNECTED[:2 if listen else 3])
        server.says("RDMA_CM_EVENT_CONNECT_REQUEST 0")
        if not listen and not connect:
            server.says("RDMA_CM_EVENT_ESTABLISHED 0")
        ends, opened = (server, client), not listen and not connect
        ends[not way].hears_of(f"RDMA_CM_EVENT_{'DISCONNECTED 0' if opened else 'REJECTED 28'}",
                               ends[way].kill, NEAR)


def stopped(stage, ip):
    """It is not dead."""
    server, client = stage.connected(ONE[ip])
    server.popen.send_signal(signal.SIGSTOP)
    client.says_nothing(STOPPED)
    server.popen.send_signal(signal.SIGCONT)
    server.hears_of("RDMA_CM_EVENT_DISCONNECTED 0", client.kill, FAR)


def run(case, ip):
    try:
        with Stage() as stage:
            case(stage, ip)
    except AssertionError as why:
        return pair.Result(str(why))
    return pair.Result("")


CASES = (no_route, no_neighbour, new_neighbour, no_process, no_listener, host_dies, leaves,
         leaves_late, killed, killed_beside_another, killed_on_its_host, stopped)

LONG = ((host_dies, "IPv6"), *((stopped, ip) for ip in ONE))

if __name__ == "__main__":
    sys.exit(cases.run([(f"{case.__name__}, {ip}", lambda case=case, ip=ip: run(case, ip))
                        for case in CASES for ip in ONE
                        if cases.whole() or (case, ip) not in LONG] +
                       [("no_listener, link-local", lambda: run(no_listener_at_link_local, ""))]))
