#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both alone timeout=240
"""Success says nothing: programs that look around, try what a device may have and then do their
work print no sentence with SOFTHCA_EXPLAIN=1. Probing is not failing."""
import os
import shutil
import subprocess
import sys

from client import cases, pair, programs

LOOKERS = [["ibv_devices"], ["ibv_devinfo"], ["ibv_devinfo", "-v"], ["ucx_info", "-d"],
           ["env", "SOFTHCA_MLX5DV=1", "ucx_info", "-d"], ["fi_info"], ["fi_info", "-p", "verbs"],
           ["lstopo-no-graphics"]]
# One of each verb, service and way of waiting.
PAIRS = ["ib_write_bw RC plain", "ib_read_bw RC plain", "ib_send_bw UD plain", "ib_send_lat UC -e",
         "ib_send_bw XRC plain", "ib_atomic_lat RC plain", "ibv_rc_pingpong -e",
         "ibv_srq_pingpong plain", "ibv_ud_pingpong plain", "ibv_xsrq_pingpong plain"]


def look(argv):
    env = {**os.environ, **pair.preload(), **pair.EXPLAIN}
    ran = subprocess.run([*pair.RUN, *argv], env=env, check=False, capture_output=True, text=True,
                         timeout=60 * pair.PATIENCE)
    why = pair.silent(ran.stderr)
    if ran.returncode:
        why = f"exit code {ran.returncode}"
    return pair.Result(why, ran.stdout + ran.stderr)


def work(argv, check):
    side = pair.Side(env=pair.EXPLAIN)
    return pair.run(argv, lambda who, output: check(who, output) or pair.silent(output),
                    side, side)


def main():
    runs = [(" ".join(argv), lambda argv=argv: look(argv)) for argv in LOOKERS
            if shutil.which(argv[0] if argv[0] != "env" else argv[2])]
    runs += [(name, lambda argv=argv, check=check: work(argv, check))
             for name, argv, check in [*programs.pingpongs(), *programs.perftest()]
             if name in PAIRS]
    return cases.run(runs)


if __name__ == "__main__":
    sys.exit(main())
