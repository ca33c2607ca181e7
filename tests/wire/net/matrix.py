# SPDX-License-Identifier: MIT
"""Runs out of all that may be run, in which as many pairs of features as possible meet."""
import itertools


def pairs(run):
    """@run: a dict of features; each pair of them."""
    return set(itertools.combinations(sorted(run.items()), 2))


def sample(runs, count, dice, tries=150):
    """@count of @runs, and how many of their pairs meet in these, of how many. Greedy: each time
    that of a few by the @dice which adds most."""
    left, chosen = list(runs), []
    reachable, met = set().union(*map(pairs, left)), set()
    while left and len(chosen) < count:
        few = dice.sample(range(len(left)), min(tries, len(left)))
        best = max(few, key=lambda i: len(pairs(left[i]) - met))
        met |= pairs(left[best])
        chosen.append(left[best])
        left[best] = left[-1]
        left.pop()
    return chosen, len(met), len(reachable)
