# SPDX-License-Identifier: MIT
"""Two processes of one unmodified program of rdma_cm: the server, and when it listens the client.

A server is known to listen by the name of its port (docs/design/connections.md), which is there
from rdma_bind_addr() on: a client that is faster than the server's rdma_listen() behind it is
refused, and started again."""
import subprocess
import tempfile
import time
from pathlib import Path

from client import pair

STREAM = "-p {p} -S 30000 -C 50"
# (name, (the server's arguments, the client's)); {a}: the server's address, {p}: the port,
# {f}: a folder
PROGRAMS = [
    ("rping", ("rping -s -C 20 -v -a {a} -p {p}", "rping -c -C 20 -v -a {a} -p {p}")),
    ("rping, big", ("rping -s -C 5 -S 65000 -V -a {a} -p {p}",
                    "rping -c -C 5 -S 65000 -V -a {a} -p {p}")),
    ("ucmatose", ("ucmatose -c 20 -C 5 -b {a} -p {p}", "ucmatose -c 20 -C 5 -s {a} -p {p}")),
    ("ucmatose -P ib", ("ucmatose -P ib -C 5 -b {a} -p {p}", "ucmatose -P ib -C 5 -s {a} -p {p}")),
    ("ucmatose, migrated", ("ucmatose -m -C 5 -b {a} -p {p}", "ucmatose -m -C 5 -s {a} -p {p}")),
    ("udaddy", ("udaddy -c 8 -b {a}", "udaddy -c 8 -s {a}")),
    ("rdma_client", ("rdma_server -s {a} -p {p}", "rdma_client -s {a} -p {p}")),
    ("rdma_xclient RC", ("rdma_xserver -c r -p {p}", "rdma_xclient -c r -s {a} -p {p}")),
    ("rdma_xclient XRC", ("rdma_xserver -c x -p {p}", "rdma_xclient -c x -s {a} -p {p}")),
    ("rstream, latency", ("rstream -b {a} " + STREAM, "rstream -s {a} " + STREAM)),
    ("rstream, verified", ("rstream -b {a} -T v " + STREAM, "rstream -T v -s {a} " + STREAM)),
    ("rstream, blocking", ("rstream -b {a} -T b " + STREAM, "rstream -T b -s {a} " + STREAM)),
    ("rstream, asynchronous", ("rstream -b {a} -T a " + STREAM, "rstream -T a -s {a} " + STREAM)),
    ("rstream, nonblocking", ("rstream -b {a} -T n " + STREAM, "rstream -T n -s {a} " + STREAM)),
    ("rstream, resolved", ("rstream -b {a} -T r " + STREAM, "rstream -T r -s {a} " + STREAM)),
    ("riostream, verified", ("riostream -b {a} -T v " + STREAM, "riostream -T v -s {a} " + STREAM)),
    ("rcopy", ("rcopy -p {p}", "rcopy /proc/self/exe {a}:{f}/copy -p {p}")),
]


def _has_controller():
    """Newer ones of cmtime are another program: several peers, led by a controller."""
    usage = subprocess.run(["cmtime", "-h"], capture_output=True, text=True, check=False).stderr
    return "controller_address" in usage


if not _has_controller():
    PROGRAMS.append(("cmtime", ("cmtime -c 50 -b {a} -p {p}", "cmtime -c 50 -s {a} -p {p}")))
OWN_PORT = {"udaddy": 7174}  # its -p is the port space
ENDLESS = {"cmtime", "rcopy"}  # their servers serve the next client
# What clients say when nobody listens yet; some end with 0 all the same.
REFUSED = ("rdma_connect: Connection refused", "rconnect: Connection refused",
           "RDMA_CM_EVENT_REJECTED, error 8",
           "RDMA_CM_EVENT_REJECTED, error: 8", "RDMA_CM_EVENT_UNREACHABLE, error: 1")
PATIENCE = 60  # seconds, on an idle machine

_next_port = 21500


def speaks(name, address):
    """rdma_xserver and rcopy listen on what getaddrinfo() of no name gives: IPv4's wildcard."""
    return ":" not in address or not name.startswith(("rdma_x", "cmtime", "rcopy"))


def _bound(port, pid):
    """Whether a name of connection management has that port, in the network namespace of @pid."""
    try:
        return f".{port}." in Path(f"/proc/{pid}/net/unix").read_text()
    except OSError:
        return False


def _wait(condition, limit):
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _client(server, argv, side, path, limit):
    """The client's end, started anew while it is refused: (why, output)."""
    deadline = time.monotonic() + limit
    while True:
        client = pair.Process(side, argv, path)
        try:
            if not _wait(lambda: client.popen.poll() is not None, limit):
                return "the client is not done", client.output()
            code, output = client.popen.poll(), client.output()
        finally:
            client.end()
        refused = any(text in output for text in REFUSED)
        if not code and not refused:
            return "", output
        if not refused or server.popen.poll() is not None or time.monotonic() > deadline:
            return f"the client ended with {code}, refused: {refused}", output


def run(argvs, address, server=None, client=None):
    """Runs both command lines of a row of PROGRAMS."""
    global _next_port
    port, _next_port = _next_port, _next_port + 1
    port = OWN_PORT.get(argvs[0].split()[0], port)
    limit = PATIENCE * pair.PATIENCE
    with tempfile.TemporaryDirectory() as folder:
        argvs = [argv.format(a=address, p=port, f=folder).split() for argv in argvs]
        serving = pair.Process(server or pair.Side(), argvs[0], Path(folder) / "server")
        output, why = "", ""
        try:
            pid = serving.popen.pid
            if not _wait(lambda: _bound(port, pid) or serving.popen.poll() is not None, limit):
                why = "the server has no port"
            elif serving.popen.poll() is not None:
                why = f"the server ended with {serving.popen.returncode} before it listened"
            else:
                why, output = _client(serving, argvs[1], client or pair.Side(),
                                      Path(folder) / "client", limit)
            if why or argvs[0][0] in ENDLESS:
                return pair.Result(why, serving.output(), output)
            if not _wait(lambda: serving.popen.poll() is not None, limit):
                why = "the server is not done"
            elif serving.popen.returncode:
                why = f"the server ended with {serving.popen.returncode}"
        finally:
            serving.end()
        return pair.Result(why, serving.output(), output)
