#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=300
"""Each allocation and each system call of a connection between two hosts fails once, from its
opening to its end (verbs/nth.c): all work completes, and nothing is left."""
import os
import subprocess
import sys
from pathlib import Path

from net import hosts

from client import pair

NTH = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/verbs/verbs_nth")


def main():
    with hosts.Pair(4200) as (one, other):
        return subprocess.run([*one.enter, *pair.ALONE, NTH, f"/proc/{other.pid}/ns/net"],
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
