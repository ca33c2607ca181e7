#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=180
"""A program that replies to message after message, and then does something else (replies.c): what
it leaves without a reply is acknowledged all the same. That the ACK itself does it, and no
repeated message, is unit/engine_hold's business."""
import os
import subprocess
import sys
from pathlib import Path

from net import hosts

from client import cases, pair, programs

PROGRAM = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/replies"
ROUNDS = programs.part(400, 40)
MODES = ["reply", "poll", "spin", "away", "sleep", "destroy", "end"]


def run(mode):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0"}
    runs, rounds = (ROUNDS, 1) if mode == "end" else (1, ROUNDS)
    with hosts.Pair(4300) as (one, other):
        for _ in range(runs):
            ran = subprocess.run([*one.enter, str(PROGRAM), f"/proc/{other.pid}/ns/net", mode,
                                  str(rounds)], env=env, check=False, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
            if ran.returncode:
                return pair.Result(f"exit code {ran.returncode}", ran.stdout, "")
    return pair.Result("", "", "")


def main():
    return cases.run([(mode, lambda mode=mode: run(mode)) for mode in MODES])


if __name__ == "__main__":
    sys.exit(main())
