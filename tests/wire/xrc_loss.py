#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=300
"""XRC over the relay, which loses packets: what is lost is sent again, and hardly anything else
(counted on the cable of the host that sends the payload), and members of a domain may be killed in
the middle (xrc.c). The seed is printed; SOFTHCA_SEED sets it."""
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

from net import hosts, tap

from client import cases, pair

BUILD = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire"
SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
JUMBO = 4300
MTU = 1024
SIZE, COUNT = 65536, 64
PACKETS = SIZE // MTU * COUNT
XRC, HEADERS = 0xa0, 14 + 20 + 8
# For a packet that is lost, either way: about one, until the two hosts have told each other what
# they are able to a window. Who goes back sends about seven.
AGAIN = 4


def capture():
    """Counts the packets with payload that leave this host until it is told to end."""
    packets, numbers = 0, set()
    for frame, leaves in tap.frames():
        if not leaves or len(frame) < MTU or frame[HEADERS] & 0xe0 != XRC:
            continue
        packets += 1
        numbers.add(frame[HEADERS + 9:HEADERS + 12])
    print(json.dumps({"packets": packets, "numbers": len(numbers)}))


def done(side, output):
    return "prints no figures" if side == "client" and f" {SIZE} " not in output else ""


def counted(number, program, sender):
    """@sender: which host the payload leaves."""
    argv = [program, "-c", "XRC", "-F", "-s", str(SIZE), "-n", str(COUNT), "-m", str(MTU), "-u",
            "14", "-x", hosts.GID["v4"]]
    over = hosts.Relayed(BUILD / "relay", ["loss=5", f"seed={SEED + number}"], JUMBO)
    with over as (one, other):
        on_cable = tap.start((one, other)[sender], __file__)
        result = pair.run(argv, done, server=pair.Side(one.enter, pair.ALONE),
                          client=pair.Side(other.enter, pair.ALONE), limit=90, address="10.9.0.1")
        seen = tap.finish(on_cable)
    lost = int(re.search(r"(\d+) lost", over.report).group(1))
    again = seen["packets"] - seen["numbers"]
    print(f"# {over.report}; {seen}: {again} again", flush=True)
    if not result.why and (seen["numbers"] < PACKETS or again > AGAIN * lost):
        return pair.Result(f"{again} sent again for {lost} lost", result.server, result.client)
    return result


def members(number):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=eth0",
           "SOFTHCA_CASES": "two_receivers_in_turn *die*"}  # the NAK of a refusal may get lost
    with hosts.Relayed(BUILD / "relay", ["loss=5", f"seed={SEED + number}"], JUMBO) as (one, other):
        ran = subprocess.run([*one.enter, str(BUILD / "xrc"), f"/proc/{other.pid}/ns/net"],
                             env=env, check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    return pair.Result(f"exit code {ran.returncode}" if ran.returncode else "", ran.stdout, "")


def main():
    if sys.argv[1:] == ["capture"]:
        capture()
        return 0
    print(f"# SOFTHCA_SEED={SEED}")
    return cases.run([("SENDs", lambda: counted(0, "ib_send_bw", 1)),
                      ("WRITEs", lambda: counted(1, "ib_write_bw", 1)),
                      ("READs", lambda: counted(2, "ib_read_bw", 0)),
                      ("members of a domain", lambda: members(3))])


if __name__ == "__main__":
    sys.exit(main())
