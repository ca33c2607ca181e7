#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: timeout=120
"""One side inside `softhca run` and one outside, for an ordinary user of a namespace that somebody
else has made: a container without root. From inside all of them nobody sees out to the first."""
import os
import sys

from client import cases, pair, programs

WITHIN = "SOFTHCA_TEST_WITHIN"


def main():
    if WITHIN not in os.environ:
        os.environ[WITHIN] = "1"
        os.execvp("unshare", ["unshare", "-Ur", "unshare", "-U", "--map-user=1000",
                              "--map-group=1000", sys.executable, "-B", *sys.argv])
    plain, alone = pair.Side(), pair.Side(inside=pair.ALONE)
    some = [p for p in programs.pingpongs() if p[0] == "ibv_rc_pingpong plain"]
    return cases.run(
        cases.pairs(some, "server inside, client outside", server=plain, client=alone) +
        cases.pairs(some, "server outside, client inside", server=alone, client=plain))


if __name__ == "__main__":
    sys.exit(main())
