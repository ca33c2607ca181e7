#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=180
"""The UDP port that an address vector names is the one that packets leave from: datagrams and the
packets of a DC initiator between two hosts (source_port.c), seen on the cable."""
import json
import os
import subprocess
import sys
from pathlib import Path

from net import hosts, tap

from client import cases, pair

PROGRAM = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/source_port"
UDP = 14 + 20  # behind Ethernet and IPv4
BTH = UDP + 8
LABELS_PORT, OTHER_PORT, WISH = 0xfcf4, 0xe004, 0xf234
UD_SEND, DC_CONNECT, RC_SEND = 0x65, 0x55, 0x04
WANTED = {"ud": {UD_SEND: [LABELS_PORT, WISH]},
          "dc": {DC_CONNECT: [LABELS_PORT, OTHER_PORT], RC_SEND: [LABELS_PORT, OTHER_PORT]}}


def capture():
    """The ports from which packets of each opcode leave."""
    seen = {}
    for frame, leaves in tap.frames():
        if leaves and len(frame) >= BTH + 12 and frame[12:14] == b"\x08\x00" \
           and frame[UDP + 2:UDP + 4] == b"\x12\xb7":
            ports = seen.setdefault(frame[BTH], [])
            port = int.from_bytes(frame[UDP:UDP + 2], "big")
            if port not in ports:
                ports.append(port)
    print(json.dumps(seen))


def run(mode):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0"}
    with hosts.Pair(4300) as (one, other):
        on_cable = tap.start(one, __file__)
        ran = subprocess.run([*one.enter, str(PROGRAM), f"/proc/{other.pid}/ns/net", mode],
                             env=env, check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        seen = tap.finish(on_cable)
    if ran.returncode:
        return pair.Result(f"exit code {ran.returncode}", ran.stdout, "")
    wrong = {op: seen.get(str(op)) for op, ports in WANTED[mode].items()
             if seen.get(str(op)) != ports}
    return pair.Result(f"ports by opcode: {seen}" if wrong else "", ran.stdout, "")


def main():
    if sys.argv[1:] == ["capture"]:
        capture()
        return 0
    return cases.run([(mode, lambda mode=mode: run(mode)) for mode in WANTED])


if __name__ == "__main__":
    sys.exit(main())
