# SPDX-License-Identifier: MIT
"""Some of all cases, in which pairs of features meet; a case is a dict of its features."""
import itertools
import os
import random

SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))


def pairs(case, alone=()):
    """Each pair of its features; those named in @alone by themselves."""
    single = {((key, case[key]),) for key in alone}
    rest = sorted(item for item in case.items() if item[0] not in alone)
    return single | set(itertools.combinations(rest, 2))


def sample(cases, count, dice, tries=150):
    """@count of @cases, and how many of their pairs meet in these, of how many. Greedy: each time
    that of a few by the @dice which adds most."""
    left, chosen = list(cases), []
    reachable, met = set().union(*map(pairs, left)), set()
    while left and len(chosen) < count:
        few = dice.sample(range(len(left)), min(tries, len(left)))
        best = max(few, key=lambda i: len(pairs(left[i]) - met))
        met |= pairs(left[best])
        chosen.append(left[best])
        left[best] = left[-1]
        left.pop()
    return chosen, len(met), len(reachable)


def cover(cases, alone=(), seed=SEED):
    """The indices of so many of @cases that every pair meets in one of them; by @seed, in the order
    of @cases."""
    wanted = [pairs(case, alone) for case in cases]
    missing, order, chosen = set().union(*wanted), list(range(len(cases))), []
    random.Random(seed).shuffle(order)
    while missing:
        best = max(order, key=lambda i: len(wanted[i] & missing))
        missing -= wanted[best]
        chosen.append(best)
    return sorted(chosen)
