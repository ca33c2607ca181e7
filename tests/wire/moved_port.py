#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=180
"""A connection between two hosts that goes on from another UDP port (moved_port.c): the messages
arrive, and the cable shows the ports. "lost": the first notice of each way is lost, and the first
question."""
import json
import os
import subprocess
import sys
from pathlib import Path

from net import hosts, tap

from client import cases, pair

PROGRAM = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/moved_port"
UDP = 14 + 20  # behind Ethernet and IPv4
BTH = UDP + 8
SENDS, PORT = (0x04, 0x24), 0xc4  # of RC and UC; OP_PORT
# By the end whose cable is looked at. Below those that a process takes by its pid.
CHOSEN = {20001, 20003, 20004, 20006}
MODES = {"rc": "rc", "uc": "uc", "label": "label", "lost": "rc"}


def capture():
    """The ports from which messages leave, and how many packets tell of ports."""
    ports, notices = set(), 0
    for frame, leaves in tap.frames():
        if len(frame) >= BTH + 12 and frame[12:14] == b"\x08\x00" \
           and frame[UDP + 2:UDP + 4] == b"\x12\xb7":
            notices += frame[BTH] == PORT
            if leaves and frame[BTH] in SENDS:
                ports.add(int.from_bytes(frame[UDP:UDP + 2], "big"))
    print(json.dumps({"ports": sorted(ports), "notices": notices}))


def wrong(mode, seen):
    ports = set(seen["ports"])
    moved = len(ports) > 1 if mode == "label" else len(ports) == 5 and CHOSEN <= ports
    return not moved or not seen["notices"]


def run(mode):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0"}
    if mode == "lost":
        env["SOFTHCA_FAULT"] = "loss=100%,psn=0,count=1"  # OP_PORT alone has no PSN
    with hosts.Pair(4300) as (one, other):
        on_cable = tap.start(one, __file__)
        ran = subprocess.run([*one.enter, str(PROGRAM), f"/proc/{other.pid}/ns/net", MODES[mode]],
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
    return cases.run([(mode, lambda mode=mode: run(mode)) for mode in MODES])


if __name__ == "__main__":
    sys.exit(main())
