#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=180
"""End-to-end credits between two hosts (credits.c): with two receives left, a message of sixteen
packets is one of two credits; with packet based credits each packet takes one, so that the sender
asks for an acknowledgement whenever it has used up what it knows of, and waits."""
import json
import os
import subprocess
import sys
from pathlib import Path

from net import hosts, tap

from client import cases, pair

PROGRAM = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/credits"
BTH = 14 + 20 + 8  # behind Ethernet, IPv4 and UDP
FIRST, MIDDLE, LAST = 0, 1, 2  # RC SEND
PACKETS, CREDITS = 16, 2


def capture():
    """Packets of the long message, and the most that left up to one that asks for an ACK."""
    seen = {"packets": 0, "most": 0}
    unasked = 0
    for frame, leaves in tap.frames():
        if not leaves or len(frame) < BTH + 12 or frame[12:14] != b"\x08\x00" \
           or frame[BTH - 6:BTH - 4] != b"\x12\xb7" or frame[BTH] not in (FIRST, MIDDLE, LAST):
            continue
        seen["packets"] += 1
        unasked += 1
        seen["most"] = max(seen["most"], unasked)
        if frame[BTH + 8] & 0x80:
            unasked = 0
    print(json.dumps(seen))


def wrong(mode, seen):
    """Packets that are sent again are no mistake."""
    return seen["packets"] < PACKETS or (seen["most"] <= CREDITS) != (mode == "packets")


def run(mode):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0"}
    with hosts.Pair(4300) as (one, other):
        for host in (one, other):
            host.ip("link", "set", "eth0", "gso_max_segs", "1")  # the cable carries packets
        on_cable = tap.start(one, __file__)
        ran = subprocess.run([*one.enter, str(PROGRAM), f"/proc/{other.pid}/ns/net", mode],
                             env=env, check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        seen = tap.finish(on_cable)
    if ran.returncode:
        return pair.Result(f"exit code {ran.returncode}", ran.stdout, "")
    return pair.Result(f"on the cable: {seen}" if wrong(mode, seen) else "", ran.stdout, "")


def main():
    if sys.argv[1:] == ["capture"]:
        capture()
        return 0
    return cases.run([(mode, lambda mode=mode: run(mode)) for mode in ("messages", "packets")])


if __name__ == "__main__":
    sys.exit(main())
