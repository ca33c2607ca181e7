#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=120
"""A host beside the path forges ICMP messages about its MTU (icmp.c)."""
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "wire"))

from net import hosts  # noqa: E402

from client import pair  # noqa: E402

ICMP = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/attacks/icmp")


def beside(one):
    """A third host, by a cable of its own."""
    third = hosts.Host()
    hosts.cable(one, third, ("eth1", "eth0"), 1500)
    for host, dev, number in ((one, "eth1", 1), (third, "eth0", 2)):
        host.ip("addr", "add", f"10.8.0.{number}/24", "dev", dev)
        host.ip("addr", "add", f"fd08::{number}/64", "dev", dev, "nodad")
    third.ip("route", "add", "10.9.0.0/24", "via", "10.8.0.1")
    third.ip("route", "add", "fd09::/64", "via", "fd08::1")
    return third


def main():
    with hosts.Pair(4200) as (one, other):
        third = beside(one)
        try:
            return subprocess.run([*one.enter, *pair.ALONE, ICMP, f"/proc/{other.pid}/ns/net",
                                   f"/proc/{third.pid}/ns/net"], check=False).returncode
        finally:
            third.end()


if __name__ == "__main__":
    sys.exit(main())
