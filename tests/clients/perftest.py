#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both alone timeout=900
"""perftest between two processes: each tool with each connection type and option that it takes."""
import sys

from client import cases, programs

if __name__ == "__main__":
    sys.exit(cases.run(cases.pairs(programs.perftest())))
