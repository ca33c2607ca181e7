# SPDX-License-Identifier: MIT
"""Figures beside their peers: each is the median of several runs; its peer runs in between, in the
same minutes, since the speed of a shared machine drifts."""
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import median

import pairs

RUNS = 7


@dataclass
class Figure:
    """@run must reach @factor x @peer: at most, or at least where @more is better. Without a peer,
    @factor itself."""
    name: str
    run: object
    unit: str
    factor: float
    peer: object = None
    against: str = ""
    more: bool = False


def chosen(name):
    wanted = os.environ.get("SOFTHCA_CASES", "").split()
    return not wanted or any(fnmatchcase(name, w) for w in wanted)


def alternate(figure):
    """The medians of the figure and of its peer (None: it has none)."""
    mine, theirs = [], []
    for _ in range(RUNS):
        mine.append(figure.run())
        if figure.peer:
            theirs.append(figure.peer())
    return median(mine), median(theirs) if theirs else None


def verdict(figure, value, target):
    """'reached', or by how much it is not."""
    if figure.more and value < target:
        return f"falls short by {100 - 100 * value / target:.0f} %"
    if figure.more:
        return "reached"
    return "reached" if value <= target else f"falls short: {value / target:.2f} x the target"


def tell(figure):
    value, peer = alternate(figure)
    target = figure.factor * (peer if figure.peer else 1)
    rule = f"{'>=' if figure.more else '<='} {target:.3g}"
    beside = f"{figure.factor:.3g} x {figure.against} {peer:.3g}" if figure.peer else ""
    ratio = f"{value / peer:.2f}" if figure.peer else f"{value / target:.2f}"
    said = verdict(figure, value, target)
    print(f"{figure.name:<22} {value:>8.3g} {figure.unit:<5} {rule:<10} {ratio:>6}  {said:<32}"
          f" {beside}", flush=True)
    return said == "reached"


def show(figures, intro):
    """Measures those that are asked for; (targets reached, figures, programs that failed)."""
    figures = [f for f in figures if chosen(f.name)]
    reached = broken = 0
    if figures:
        print(intro())
        print(f"{'figure':<22} {'value':>8} {'unit':<5} {'target':<10} {'ratio':>6}  "
              f"{'verdict':<32} target is")
    for figure in figures:
        try:
            reached += tell(figure)
        except pairs.Failed as err:
            broken += 1
            print(f"{figure.name:<22} FAILED: {err}", flush=True)
    return reached, len(figures), broken
