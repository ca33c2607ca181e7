#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both alone timeout=120
"""ibv_*_pingpong between two processes: plain, with events, with every byte checked."""
import sys

from client import cases, programs

if __name__ == "__main__":
    sys.exit(cases.run(cases.pairs(programs.pingpongs())))
