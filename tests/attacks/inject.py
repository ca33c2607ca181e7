#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=120
"""Another user of the peer's host, who knows all numbers of a connection, sends packets into it
(inject.c)."""
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "wire"))

from net import hosts  # noqa: E402

from client import pair  # noqa: E402

INJECT = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/attacks/inject")


def main():
    with hosts.Pair(4200) as (one, other):
        return subprocess.run([*one.enter, *pair.ALONE, INJECT, f"/proc/{other.pid}/ns/net"],
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
