#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=180
"""XRC from one host to three processes on another (xrc.c)."""
import os
import subprocess
import sys
from pathlib import Path

from net import hosts


PROGRAM = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/xrc"


def main():
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0"}
    with hosts.Pair(4300) as (one, other):
        return subprocess.run([*one.enter, str(PROGRAM), f"/proc/{other.pid}/ns/net"], env=env,
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
