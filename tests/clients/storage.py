#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: alone timeout=300
"""Bigger programs of rdma_cm, in a soak or by name: a disk over iSER (tgt, libiscsi), and a virtual
machine that moves (QEMU)."""
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from client import cases, pair

LIMIT = 60 * pair.PATIENCE  # seconds
TARGET, INITIATOR = "iqn.2026-01.t:1", "iqn.2026-01.i:1"
URL = f"iser://127.0.0.1:3260/{TARGET}/1"
SETUP = ("--op new --mode target --tid 1 -T " + TARGET,
         "--op new --mode logicalunit --tid 1 --lun 1 -b {disk}",
         "--op bind --mode target --tid 1 -I ALL",
         "--op bind --mode target --tid 1 -Q " + INITIATOR)
READERS = (("iscsi-inq", "Version Descriptor"), ("iscsi-readcapacity16", "Total size:16777216"),
           ("iscsi-perf -t 1 -m 8 -b 8", "finished"))
QEMU = "qemu-system-x86_64 -M pc,accel=tcg -m 64 -nodefaults -display none"
MOVE = "rdma:127.0.0.1:4444"


class Failed(Exception):
    """The text is why."""


def until(condition, what):
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {LIMIT} s")
        time.sleep(0.05)


def ran(argv, env):
    done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    return done.returncode, done.stdout + done.stderr


def iser(folder, server):
    env = {"TGT_IPC_SOCKET": str(folder / "control")}
    disk = folder / "disk"
    disk.write_bytes(bytes(16 << 20))
    server(["env", *(f"{k}={v}" for k, v in env.items()),
            *"tgtd -f --iser pool_sz_mb=32".split()])
    for command in SETUP:
        argv = ["tgtadm", "--lld", "iser", *command.format(disk=disk).split()]
        until(lambda argv=argv: ran(argv, env)[0] == 0, command)
    for command, said in READERS:
        code, output = ran([*pair.RUN, *command.split(), "-i", INITIATOR, URL], env)
        if code or said not in output:
            raise Failed(f"{command} ended with {code}: {output[-300:]}")


def monitor(path, command):
    """What QEMU answers to @command: everything before its next prompt."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(LIMIT)
        s.connect(str(path))
        said, sent = "", False
        while said.count("(qemu) ") < (2 if sent else 1):
            said += s.recv(65536).decode(errors="replace")
            if not sent and said.endswith("(qemu) "):
                s.sendall(f"{command}\n".encode())
                sent = True
        return said


def migrate(folder, server):
    ends = [folder / "from", folder / "to"]
    for end, more in zip(ends, ("", f" -incoming {MOVE}")):
        server(f"{QEMU} -monitor unix:{end},server,nowait{more}".split())
    for end in ends:
        until(end.exists, "QEMU's monitor")
    until(lambda: ".4444." in Path("/proc/net/unix").read_text(), "QEMU listens")
    monitor(ends[0], f"migrate -d {MOVE}")
    until(lambda: "status: active" not in (said := monitor(ends[0], "info migrate")) and
          "status: setup" not in said, "the migration")
    said = monitor(ends[0], "info migrate")
    if "status: completed" not in said:
        raise Failed(f"info migrate says: {said[-300:]}")
    if "running" not in monitor(ends[1], "info status"):
        raise Failed("the machine does not run where it went")


def run(case):
    with tempfile.TemporaryDirectory() as folder:
        servers = []

        def server(argv):
            out = Path(folder) / f"server{len(servers)}"
            servers.append(pair.Process(pair.Side(), argv, out))

        why = ""
        try:
            case(Path(folder), server)
        except (Failed, OSError, subprocess.TimeoutExpired) as err:
            why = str(err)
        finally:
            for process in servers:
                process.end()
        return pair.Result(why, "\n".join(process.output() for process in servers))


def main():
    if not cases.whole():
        print("SKIP: only a soak installs what it needs")
        return 77
    return cases.run([("iSER", lambda: run(iser)), ("migration", lambda: run(migrate))])


if __name__ == "__main__":
    sys.exit(main())
