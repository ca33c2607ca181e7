#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both alone timeout=900
"""perftest between two processes: each tool with each connection type and option that it takes.

Short: as an ordinary user so many that each pair of verb, figure, connection type and option meets,
by the printed seed; as root, whose rights change how data moves and nothing else, the sample of
client/programs. Full, or where cases are picked by name: all, as both."""
import os
import sys

from client import cases, programs


def main():
    every = list(programs.perftest())
    if cases.whole():
        return cases.run(cases.pairs(every))
    if os.geteuid() == 0:
        few = [program for program in programs.sample() if program[0].startswith("ib_")]
        return cases.run_sample(cases.pairs(few), len(every), "every way of moving data is used")
    return cases.run_sample(cases.pairs(programs.pairwise_perftest()), len(every),
                            "each pair of verb, figure, connection type and option meets")


if __name__ == "__main__":
    sys.exit(main())
