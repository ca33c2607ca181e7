#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both alone timeout=240
"""Unmodified programs of rdma_cm, two processes each on this host, over IPv4 and IPv6."""
import sys

from client import cases, cm

if __name__ == "__main__":
    sys.exit(cases.run([(f"{name}, {address}",
                         lambda argv=argv, address=address: cm.run(argv, address))
                        for name, argv in cm.PROGRAMS for address in ("127.0.0.1", "::1")
                        if cm.speaks(name, address)]))
