#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=240
"""Many processes of one host have ports of one address, and one of them reads the socket that all
messages from networks come to: each gets its own. The reader may be killed in mid-connect. A
wildcard and an address exclude each other, whoever comes first."""
import concurrent.futures
import contextlib
import random
import tempfile
import time
from pathlib import Path

from net import hosts

from client import cases, pair

ADDRESS, WILD, FIRST, MANY, KILLS = "10.9.0.1", "0.0.0.0", 21000, 16, 5
SECONDS = 60 * pair.PATIENCE
TAKEN = "rdma_bind_addr: Cannot assign requested address"  # EADDRNOTAVAIL, as the kernel says
SIZE = ["-S", "1000"]  # of both ends: a server reads as much as its client says into its own


def wait(condition):
    """Whether it holds in time."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Rping:
    """One end, in @host."""

    def __init__(self, host, folder, argv, pings=0):
        self.pings = pings  # that its end has to print; it ends with 0 without any, too
        path = Path(tempfile.mkdtemp(dir=folder)) / "said"
        self.process = pair.Process(pair.Side(host.enter), argv, path)
        self.popen = self.process.popen

    def done(self):
        """Why it did not end well, or ''. A client that has pinged may end with 255: its thread may
        ask its channel once more when that is destroyed."""
        if not wait(lambda: self.popen.poll() is not None):
            return "not done"
        code = self.popen.returncode
        pings = self.process.output().count("ping data: rdma-ping-")
        if pings != self.pings:
            return f"{pings} pings of {self.pings}, ended with {code}"
        return "" if not code or (code == 255 and pings) else f"ended with {code}"


def serving(host, folder, port, address=ADDRESS):
    server = Rping(host, folder, ["rping", "-s", "-P", *SIZE, "-a", address, "-p", str(port)])

    def known():
        names = Path(f"/proc/{host.pid}/net/unix").read_text()
        return f".{port}." in names or server.popen.poll() is not None

    wait(known)
    return server


def asking(host, folder, port, count):
    return Rping(host, folder, ["rping", "-c", "-C", str(count), "-V", "-v", *SIZE,
                                "-a", ADDRESS, "-p", str(port)], count)


class Bench:
    """Two hosts and a folder; all processes end with it."""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.one, self.other = self.stack.enter_context(hosts.Pair())
        return self

    def __exit__(self, *_):
        self.stack.close()

    def serve(self, port, address=ADDRESS):
        server = serving(self.one, self.folder, port, address)
        self.stack.callback(server.process.end)
        return server

    def ask(self, port, count):
        client = asking(self.other, self.folder, port, count)
        self.stack.callback(client.process.end)
        return client


def sixteen():
    with Bench() as bench, concurrent.futures.ThreadPoolExecutor(MANY) as threads:
        servers = list(threads.map(lambda n: bench.serve(FIRST + n), range(MANY)))
        clients = [bench.ask(FIRST + n, 20) for n in range(MANY)]
        for client, server in zip(clients, servers):
            why = client.done()
            if why:
                return pair.Result(why, server.process.output(), client.process.output())
    return pair.Result("")


def killed_reader():
    """The first process has the socket; clients of others connect meanwhile. One client each: rping
    mixes up requests that come at once."""
    with Bench() as bench:
        for _ in range(KILLS):
            reader = bench.serve(FIRST)
            servers = [bench.serve(FIRST + 1 + n) for n in range(4)]
            clients = [bench.ask(FIRST + 1 + n, 5) for n in range(4)]
            time.sleep(random.random() / 5)  # the moment
            reader.process.end()
            for client, server in zip(clients, servers):
                why = client.done()
                if why:
                    return pair.Result(why, server.process.output(), client.process.output())
            for server in servers:
                server.process.end()
    return pair.Result("")


def excluded(first, second):
    """@second is refused while @first is there, and gets the port at once when it was killed."""
    with Bench() as bench:
        holder = bench.serve(FIRST, first)
        late = bench.serve(FIRST, second)
        if not late.done() or TAKEN not in late.process.output():
            return pair.Result("the second is not refused", late.process.output())
        holder.process.end()
        server = bench.serve(FIRST, second)
        client = bench.ask(FIRST, 5)
        return pair.Result(client.done(), server.process.output(), client.process.output())


if __name__ == "__main__":
    raise SystemExit(cases.run([
        ("sixteen servers of one address", sixteen),
        ("the reader is killed in mid-connect", killed_reader),
        ("an address behind a wildcard", lambda: excluded(WILD, ADDRESS)),
        ("a wildcard behind an address", lambda: excluded(ADDRESS, WILD))]))
