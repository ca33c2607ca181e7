#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both alone timeout=300
"""raw_ethernet_* between two processes, which know of each other by MAC addresses alone."""
import os
import re
import subprocess
import sys

from client import cases, frames, pair

ADDRESSES = ["-J", "10.0.0.1", "-j", "10.0.0.2"]
# Frames may be lost, and the server waits for all: so few that they are held until it takes them.
COUNT = "1000" if pair.PATIENCE == 1 else "100"
TOOLS = [
    ("raw_ethernet_bw plain", ["raw_ethernet_bw", "-n", COUNT]),
    ("raw_ethernet_bw 64 B", ["raw_ethernet_bw", "-n", COUNT, "-s", "64"]),
    ("raw_ethernet_bw 1500 B", ["raw_ethernet_bw", "-n", COUNT, "-s", "1500"]),
    ("raw_ethernet_bw -q 4", ["raw_ethernet_bw", "-n", COUNT, "-q", "4"]),
    ("raw_ethernet_bw -b", ["raw_ethernet_bw", "-n", COUNT, "-b"]),
    ("raw_ethernet_bw UDP", ["raw_ethernet_bw", "-n", COUNT, *ADDRESSES, "-K", "5", "-k", "6"]),
    ("raw_ethernet_bw TCP",
     ["raw_ethernet_bw", "-n", COUNT, *ADDRESSES, "-K", "5", "-k", "6", "--tcp"]),
    ("raw_ethernet_bw --promiscuous", ["raw_ethernet_bw", "-n", COUNT, "--promiscuous"]),
    ("raw_ethernet_bw --sniffer", ["raw_ethernet_bw", "-n", COUNT, "--sniffer"]),
    ("raw_ethernet_lat", ["raw_ethernet_lat", "-n", COUNT]),
]


def flow_rate():
    """One process that makes 1000 rules and says how long that takes."""
    argv = ["raw_ethernet_fs_rate", "-F", "-d", "mlx5_0", "--server", "-B", frames.MACS[0], "-E",
            frames.MACS[1], "-n", "1000"]
    env = {**os.environ, **pair.preload(), "LD_LIBRARY_PATH": pair.LIB}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120 * pair.PATIENCE, check=False)
    good = done.returncode == 0 and re.search(r"^1000 +(\d|-?nan|inf)", done.stdout, re.MULTILINE)
    why = "" if good else f"it ended with {done.returncode} or prints no figures"
    return pair.Result(why, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(cases.run([(name, lambda argv=argv: frames.run(argv)) for name, argv in TOOLS] +
                       [("raw_ethernet_fs_rate", flow_rate)]))
