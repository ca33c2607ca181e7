#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=1800
"""What many pairs of processes that poll carry together between two hosts, as a share of what one
pair does in the same place right before and after; the longest time in which one of them got no
completion, how many connections ended, and packets that were sent again. The aim is half of one
pair's at least, no gap of half a second, and no connection that ends."""
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "wire"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
from net import crowds  # noqa: E402

RUNS = 3
SECONDS = 4
PAIRS = [4, 16, 64]


def point(both, what, count, around):
    """One line; whether all connections lived."""
    found, alone = [], []
    for _ in range(RUNS):
        alone.append(crowds.run(both, 1, SECONDS, around).rate)
        found.append(crowds.run(both, count, SECONDS, around))
    middle = crowds.Crowd(count, median(c.rate for c in found), max(c.gap for c in found),
                          max(c.first for c in found), sum(c.failed for c in found),
                          median(c.repeated for c in found), "")
    print(crowds.line(what, middle, median(alone)), flush=True)
    for why in (c.why for c in found if c.why):
        print(f"  {why}", flush=True)
    return not middle.failed


def place(both, what, around):
    return all([point(both, what, count, around) for count in PAIRS])


def main():
    with crowds.cable() as both, crowds.quota(0.5) as half:
        print(f"# medians of {RUNS} runs of {SECONDS} s, messages of 4 KiB, 16 on their way")
        well = place(both, "two cores", [])
        well &= place(both, "one core", ["taskset", "-c", "0"])
        if half:
            well &= place(both, "a quota of half a core", half)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
