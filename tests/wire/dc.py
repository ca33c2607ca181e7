#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=300
"""DC between two hosts (mlx5dv/dc.c, mlx5dv/dci_streams.c): over a cable, and over the relay, which
loses packets of connections and of what goes by them. The seed is printed; SOFTHCA_SEED sets it."""
import os
import random
import subprocess
import sys
from pathlib import Path

from net import hosts

from client import cases, pair

BUILD = Path(os.environ["SOFTHCA_BUILD"]) / "tests"
SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
JUMBO = 4300
# The NAK of a refusal may get lost, and who has refused is silent then.
LOSSY = ["sends", "immediates", "writes_and_reads", "atomics", "in_turn", "two_initiators",
         "wrong_key", "no_receive", "target_destroyed", "target_reset", "destroyed_in_the_middle"]


def run(over, program, names):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0", "SOFTHCA_CASES": " ".join(names)}
    with over as (one, other):
        ran = subprocess.run([*one.enter, str(BUILD / "mlx5dv" / program),
                              f"/proc/{other.pid}/ns/net"], env=env, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return pair.Result(f"exit code {ran.returncode}" if ran.returncode else "", ran.stdout, "")


def main():
    print(f"# SOFTHCA_SEED={SEED}")
    relay = ["loss=5", f"seed={SEED}"]
    return cases.run([
        ("a cable", lambda: run(hosts.Pair(JUMBO), "mlx5dv_dc", ["*OTHER*"])),
        ("a cable, streams",
         lambda: run(hosts.Pair(JUMBO), "mlx5dv_dci_streams", ["*OTHER*"])),
        ("packets are lost", lambda: run(hosts.Relayed(BUILD / "wire/relay", relay, JUMBO),
                                         "mlx5dv_dc", [f"{n}*OTHER*" for n in LOSSY]))])


if __name__ == "__main__":
    sys.exit(main())
