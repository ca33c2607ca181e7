#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=300
"""What the kernel makes of a train: each packet of it, seen on the cable, has an IP header that its
ICRC fits, so that other stacks and hardware would take it too."""
import json
import socket
import struct
import sys
import zlib

from net import hosts, tap

from client import cases, pair

JUMBO = 4300
ROCE_PORT = 4791
INDEX = 0x3f


def masked(frame, ip):
    """What the ICRC covers of a frame with its IP header at @ip; None: it is not RoCEv2."""
    data = bytearray(frame[ip:])
    if data[0] >> 4 == 6:
        at, protocol = 40, data[6]
        data[0] |= 0x0f
        data[1:4] = b"\xff" * 3
        data[7] = 0xff
    else:
        at, protocol = (data[0] & 15) * 4, data[9]
        data = data[:struct.unpack_from("!H", data, 2)[0]]
        data[1] = data[8] = data[10] = data[11] = 0xff
    if protocol != socket.IPPROTO_UDP or struct.unpack_from("!H", data, at + 2)[0] != ROCE_PORT:
        return None
    data[at + 6] = data[at + 7] = 0xff
    data[at + 8 + 4] = 0xff
    return b"\xff" * 8 + data


def capture():
    """Counts the packets that this host gets until it is told to end."""
    count = {"packets": 0, "behind": 0, "wrong": 0, "long": 0}
    for frame, leaves in tap.frames():
        covered = None if leaves else masked(frame, 14)
        if covered is None:
            continue
        count["packets"] += 1
        count["long"] += len(frame) > JUMBO + 14
        at = 14 + (40 if frame[14] >> 4 == 6 else 20) + 8
        count["behind"] += frame[at + 4] & INDEX > 0
        count["wrong"] += zlib.crc32(covered[:-4]) != struct.unpack("<I", covered[-4:])[0]
    print(json.dumps(count))


def done(side, output):
    return "prints no figures" if side == "client" and " 65536 " not in output else ""


def run(address):
    with hosts.Pair(JUMBO) as (one, other):
        for host in (one, other):
            host.ip("link", "set", "eth0", "gso_max_segs", "1")  # the cable carries packets
        argv = ["ib_write_bw", "-F", "-s", "65536", "-n", "200", "-m", "4096", "-x",
                hosts.GID[address]]
        on_cable = tap.start(one, __file__)
        result = pair.run(argv, done, server=pair.Side(one.enter, pair.ALONE),
                          client=pair.Side(other.enter, pair.ALONE), address="10.9.0.1")
        seen = tap.finish(on_cable)
        if not result.why and (seen["wrong"] or seen["long"] or seen["packets"] < 3000
                               or seen["behind"] < seen["packets"] / 2):
            return pair.Result(f"on the cable: {seen}", result.server, result.client)
        return result


def main():
    if sys.argv[1:] == ["capture"]:
        capture()
        return 0
    return cases.run([(f"packets of trains, {address}", lambda address=address: run(address))
                      for address in ("v4", "v6")])


if __name__ == "__main__":
    sys.exit(main())
