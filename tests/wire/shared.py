#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=300
"""Many processes on one address: each gets its packets, any may be killed, and another user who
holds the port costs the network alone."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from net import hosts

from client import cases, pair, programs

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
PAIRS = 4
PATIENCE = 90 * pair.PATIENCE
FULL_ROUNDS = 10


class Process:
    """One side of a ping-pong whose output is read while it runs."""

    def __init__(self, host, folder, name, *argv):
        self.name, self.path = name, Path(folder) / name
        env = {**os.environ, **pair.preload(), "SOFTHCA_EXPLAIN": "1"}
        env.pop("LD_LIBRARY_PATH", None)
        with open(self.path, "wb") as out:
            self.popen = subprocess.Popen(
                [*host.enter, "stdbuf", "-oL", *pair.ALONE, *argv], env=env,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    def output(self):
        return self.path.read_text(errors="replace")

    def wait_for(self, words):
        deadline = time.monotonic() + PATIENCE
        while words not in self.output():
            if self.popen.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def end(self):
        """Its exit code; None when it had to be killed."""
        try:
            return self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            return None


def start(one, other, folder, count, iterations):
    argv = ["ibv_rc_pingpong", "-g", hosts.GID["v4"], "-c", "-n", str(iterations)]
    servers, clients = [], []
    for number in range(count):
        port = 18000 + number
        servers.append(Process(one, folder, f"server{number}", *argv, "-p", str(port)))
        deadline = time.monotonic() + PATIENCE
        while not pair.listening(port, one.pid) and time.monotonic() < deadline:
            time.sleep(0.005)
        clients.append(Process(other, folder, f"client{number}", *argv, "-p", str(port),
                               "10.9.0.1"))
    return servers, clients


def result(why, processes):
    text = "\n".join(f"{p.name}: {line}" for p in processes
                     for line in p.output().splitlines()[-3:])
    return pair.Result(why, "", text)


def killed():
    """The server of one pair and the client of another die in the middle of all traffic."""
    with hosts.Pair() as (one, other), tempfile.TemporaryDirectory() as folder:
        servers, clients = start(one, other, folder, PAIRS, 200)
        everybody = servers + clients
        for process in everybody:
            if not process.wait_for("remote address"):
                return result(f"{process.name} has not connected", everybody)
        victims = [servers[0], clients[1]]
        for victim in victims:
            victim.popen.send_signal(signal.SIGKILL)
        lonely = [clients[0], servers[1]]
        for process in everybody:
            code = 0 if process in victims + lonely else process.end()
            if code != 0:
                return result(f"{process.name} ended with {code}", everybody)
        for process in lonely:  # one whose last send was acknowledged waits for ever
            code = process.popen.poll()
            if code and (code != 1 or "retry counter exceeded" not in process.output()):
                return result(f"{process.name}, left alone, ended with {code}", everybody)
            process.popen.kill()
            process.popen.wait()
    return result("", [])


HOLDER = """
import contextlib, os, socket, sys
with contextlib.suppress(OSError):
    os.setuid(65534)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.9.0.1", 4791))
print("held", flush=True)
sys.stdin.read()
"""
# Between a ping-pong's client and its server: keeps the server's answer until it is told to go on.
BETWEEN = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 18100))
print("ready", flush=True)
client = listener.accept()[0]
server = socket.create_connection(("10.9.0.1", 18000))
server.sendall(client.recv(200))
answer = server.recv(200)
print("answered", flush=True)
sys.stdin.readline()
client.sendall(answer)
server.sendall(client.recv(200))
sys.stdin.read()
"""


class Helper:
    """A few lines of Python on a host, until their input ends; each line they print is a step."""

    def __init__(self, host, text):
        self.popen = subprocess.Popen([*host.enter, sys.executable, "-c", text],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.step()

    def step(self):
        return self.popen.stdout.readline()

    def go_on(self):
        self.popen.stdin.write(b"\n")
        self.popen.stdin.flush()

    def end(self):
        self.popen.stdin.close()
        self.popen.stdout.close()
        self.popen.wait()


def held():
    """Who holds the port is named; the programs of this host do not need it."""
    with hosts.Pair() as (one, other), tempfile.TemporaryDirectory() as folder:
        holder = Helper(one, HOLDER)
        servers, clients = start(one, other, folder, 1, 10)
        codes = [process.end() for process in servers + clients]
        said = servers[0].output()
        same = pair.run(["ibv_rc_pingpong", "-g", hosts.GID["v4"], "-n", "100"],
                        programs.pingpong_done, server=pair.Side(one.enter, pair.ALONE),
                        client=pair.Side(one.enter, pair.ALONE))
        holder.end()
        if 0 in codes or not re.search(r"UDP 4791 on 10\.9\.0\.1 is held by uid \d+", said):
            return result(f"codes {codes}; nobody is named", servers + clients)
    return same


def freed():
    """A receiver that only waits notices when the port becomes free."""
    argv = ["ibv_ud_pingpong", "-g", hosts.GID["v4"], "-n", "10", "-s", "512", "-e"]
    with hosts.Pair() as (one, other), tempfile.TemporaryDirectory() as folder:
        holder = Helper(one, HOLDER)
        server = Process(one, folder, "server", *argv, "-p", "18000")
        deadline = time.monotonic() + PATIENCE
        while not pair.listening(18000, one.pid) and time.monotonic() < deadline:
            time.sleep(0.005)
        between = Helper(other, BETWEEN)
        client = Process(other, folder, "client", *argv, "-p", "18100", "127.0.0.1")
        between.step()  # the server is ready, and waits
        why = "" if server.wait_for("is held by") else "nothing is said of the holder"
        holder.end()
        if not why and not server.wait_for("UDP 4791 on 10.9.0.1 is free again"):
            why = "the server does not notice"
        between.go_on()
        if why:
            server.popen.kill()
            client.popen.kill()
        codes = [process.end() for process in (server, client)]
        between.end()
        return result(why or ("" if codes == [0, 0] else f"codes {codes}"), [server, client])


def counts(pid):
    """What `softhca counters` shows of a process, or what it says instead."""
    done = subprocess.run([TOOL, "counters", str(pid)], capture_output=True, text=True, check=False)
    if done.returncode:
        return {}, done.stderr
    return {words[0]: int(words[1]) for words in map(str.split, done.stdout.splitlines())}, ""


def count(sides):
    """'' when each of @sides counts what it does."""
    deadline = time.monotonic() + PATIENCE
    for side in sides:
        seen, said = {}, ""
        while not all(seen.get(name) for name in ("sent", "received", "answers_received")):
            if side.popen.poll() is not None or time.monotonic() > deadline:
                return f"{side.name}: {seen} {said}"
            time.sleep(0.005)
            seen, said = counts(side.popen.pid)
        if seen["bad_icrc"] or seen["malformed"] or not seen["questions_sent"]:
            return f"{side.name}: {seen}"
    said = counts(os.getpid())[1]
    return "" if "no link to the network" in said else f"of no program: {said}"


def counted():
    """The tool shows what a running program sends and receives."""
    with hosts.Pair() as (one, other), tempfile.TemporaryDirectory() as folder:
        sides = [side for sides in start(one, other, folder, 1, 100000000) for side in sides]
        why = count(sides)
        for side in sides:
            side.popen.kill()
            side.popen.wait()
        return result(why, sides)


def main():
    rounds = programs.part(FULL_ROUNDS, 1)
    return cases.run([("the port is held by another", held), ("the port becomes free", freed),
                      ("what goes to the network is counted", counted)] +
                     [(f"two of eight are killed, round {number}", killed)
                      for number in range(rounds)])


if __name__ == "__main__":
    sys.exit(main())
