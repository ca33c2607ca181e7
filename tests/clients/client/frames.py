# SPDX-License-Identifier: MIT
"""raw_ethernet_*: a server and a client, which know of each other by MAC addresses alone."""
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from . import pair

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
FIGURES = re.compile(r"^ \d+ +\d+ +(\d|-?nan|inf)", re.MULTILINE)
READY = re.compile(r"^ #bytes", re.MULTILINE)


def start(program, role, path):
    mine, theirs = MACS if role == "--server" else reversed(MACS)
    # -F: without it a program fails that cannot measure the CPU's frequency, as under load.
    argv = ["stdbuf", "-oL", *program, "-F", "-d", "mlx5_0", role, "-B", mine, "-E", theirs]
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
