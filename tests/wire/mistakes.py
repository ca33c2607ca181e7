#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=180
"""The mistakes of tests/verbs and tests/mlx5dv whose two sides are on two hosts: each side explains
them, the poster in the words of the peer, which travel between hosts that both know softhca."""
import os
import subprocess
import sys
from pathlib import Path

from net import hosts

from client import cases, pair

TESTS = Path(os.environ["SOFTHCA_BUILD"]) / "tests"


def run(name):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0", "SOFTHCA_CASES": ""}
    with hosts.Pair(4300) as (one, other):
        ran = subprocess.run([*one.enter, str(TESTS / name),
                              f"/proc/{other.pid}/ns/net"], env=env, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    failed = [line for line in ran.stdout.splitlines() if not line.startswith("ok ")]
    return pair.Result("" if not ran.returncode else f"exit code {ran.returncode}",
                       "\n".join(failed), "")


def main():
    names = ["verbs/verbs_mistakes_work", "verbs/verbs_mistakes_peer",
             "verbs/verbs_mistakes_silence", "verbs/verbs_mistakes_xrc",
             "verbs/verbs_mistakes_drops",
             "mlx5dv/mlx5dv_mistakes_dc", "mlx5dv/mlx5dv_mistakes_dv"]
    return cases.run([(name, lambda name=name: run(name)) for name in names])


if __name__ == "__main__":
    sys.exit(main())
