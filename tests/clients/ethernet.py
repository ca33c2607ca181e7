#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both alone timeout=300
"""raw_ethernet_* between two processes, which know of each other by MAC addresses alone."""
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from client import cases, pair

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
ADDRESSES = ["-J", "10.0.0.1", "-j", "10.0.0.2"]
FIGURES = re.compile(r"^ \d+ +\d+ +[\d.]+", re.MULTILINE)
READY = re.compile(r"^ #bytes", re.MULTILINE)
# Frames may be lost, and the server waits for all: so few that they are held until it takes them.
COUNT = "1000" if pair.PATIENCE == 1 else "100"
TOOLS = [
    ("raw_ethernet_bw plain", ["raw_ethernet_bw", "-n", COUNT]),
    ("raw_ethernet_bw 64 B", ["raw_ethernet_bw", "-n", COUNT, "-s", "64"]),
    ("raw_ethernet_bw 1500 B", ["raw_ethernet_bw", "-n", COUNT, "-s", "1500"]),
    ("raw_ethernet_bw -q 4", ["raw_ethernet_bw", "-n", COUNT, "-q", "4"]),
    ("raw_ethernet_bw -b", ["raw_ethernet_bw", "-n", COUNT, "-b"]),
    ("raw_ethernet_bw UDP", ["raw_ethernet_bw", "-n", COUNT, *ADDRESSES, "-K", "5", "-k", "6"]),
    ("raw_ethernet_bw TCP",
     ["raw_ethernet_bw", "-n", COUNT, *ADDRESSES, "-K", "5", "-k", "6", "--tcp"]),
    ("raw_ethernet_bw --promiscuous", ["raw_ethernet_bw", "-n", COUNT, "--promiscuous"]),
    ("raw_ethernet_bw --sniffer", ["raw_ethernet_bw", "-n", COUNT, "--sniffer"]),
    ("raw_ethernet_lat", ["raw_ethernet_lat", "-n", COUNT]),
]


def start(program, role, path):
    mine, theirs = MACS if role == "--server" else reversed(MACS)
    argv = ["stdbuf", "-oL", *program, "-d", "mlx5_0", role, "-B", mine, "-E", theirs]
    env = {**os.environ, **pair.preload(), "LD_LIBRARY_PATH": pair.LIB}
    with open(path, "wb") as out:
        return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.STDOUT)


def text(path):
    return path.read_bytes().decode(errors="replace")


def wait(process, condition, limit):
    """Until @condition or the end of @process; False: neither within @limit seconds."""
    deadline = time.monotonic() + limit
    while not condition() and process.poll() is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def run(program):
    """A server is ready when it prints the head of its table: rules are made, receives follow."""
    limit = 60 * pair.PATIENCE
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / role for role in ("server", "client")]
        sides = [start(program, "--server", paths[0])]
        if wait(sides[0], lambda: READY.search(text(paths[0])), limit):
            sides.append(start(program, "--client", paths[1]))
        for side in sides:
            wait(side, lambda: False, limit)
        why = judge(sides, paths)
        for side in sides:
            if side.poll() is None:
                side.kill()
            side.wait()
        outputs = [text(path) if path.exists() else "" for path in paths]
    return pair.Result(why, *outputs)


def judge(sides, paths):
    if len(sides) < 2:
        return "the server is not ready in time"
    for name, side, path in zip(("server", "client"), sides, paths):
        if side.poll() is None:
            return f"the {name} is not done in time"
        if side.poll():
            return f"the {name} ended with {side.poll()}"
        if not FIGURES.search(text(path)):
            return f"the {name} prints no figures"
    return ""


def flow_rate():
    """One process that makes 1000 rules and says how long that takes."""
    argv = ["raw_ethernet_fs_rate", "-d", "mlx5_0", "--server", "-B", MACS[0], "-E", MACS[1],
            "-n", "1000"]
    env = {**os.environ, **pair.preload(), "LD_LIBRARY_PATH": pair.LIB}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120 * pair.PATIENCE, check=False)
    good = done.returncode == 0 and re.search(r"^1000 +[\d.]+", done.stdout, re.MULTILINE)
    why = "" if good else f"it ended with {done.returncode} or prints no figures"
    return pair.Result(why, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(cases.run([(name, lambda argv=argv: run(argv)) for name, argv in TOOLS] +
                       [("raw_ethernet_fs_rate", flow_rate)]))
