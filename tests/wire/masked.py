#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=180
"""Masked atomics between two hosts (mlx5dv/masked.c): over a cable, and over the relay, which loses
packets, so that some come twice. The seed is printed; SOFTHCA_SEED sets it."""
import os
import random
import subprocess
import sys
from pathlib import Path

from net import hosts

from client import cases, pair

BUILD = Path(os.environ["SOFTHCA_BUILD"]) / "tests"
JUMBO = 4300
SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))


def run(over):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0", "SOFTHCA_CASES": "bits*OTHER*"}
    with over as (one, other):
        ran = subprocess.run([*one.enter, str(BUILD / "mlx5dv/mlx5dv_masked"),
                              f"/proc/{other.pid}/ns/net"], env=env, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return pair.Result(f"exit code {ran.returncode}" if ran.returncode else "", ran.stdout, "")


def main():
    print(f"# SOFTHCA_SEED={SEED}")
    relay = ["loss=20", f"seed={SEED}"]
    return cases.run([
        ("a cable", lambda: run(hosts.Pair(JUMBO))),
        ("packets are lost", lambda: run(hosts.Relayed(BUILD / "wire/relay", relay, JUMBO)))])


if __name__ == "__main__":
    sys.exit(main())
