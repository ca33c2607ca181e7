#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=120
"""The MTU of a host's own interface is lowered under connections that work (narrow.c)."""
import os
import subprocess
import sys
from pathlib import Path

from net import hosts

from client import pair

NARROW = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/narrow")


def main():
    env = {**os.environ, "SOFTHCA_DEVICES": "mlx5_0=eth0"}
    with hosts.Pair(4300) as (one, other):
        return subprocess.run([*one.enter, *pair.ALONE, NARROW, f"/proc/{other.pid}/ns/net"],
                              env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
