# SPDX-License-Identifier: MIT
"""Makes and packs corpora: one input a line, in hexadecimal.

	seeds.py captures packet|frame|mad  of tests/captures, one packet of each kind, to stdout
	seeds.py pack FOLDER              libFuzzer's folder, shortest first, to stdout
	seeds.py unpack FILE FOLDER       the other way round
"""
import struct
import sys
from pathlib import Path

CAPTURES = Path(__file__).resolve().parent.parent / "captures"
HEAD = {"packet": b"", "frame": bytes(10)}
SKIP = {"packet": 14, "frame": 0}
MAD = 14 + 20 + 8 + 12 + 8  # behind Ethernet, IPv4, UDP, BTH and DETH; 256 bytes
LONGEST = 400  # more payload teaches nothing


def frames(path):
    """Of a classic pcap file, little-endian."""
    data, at = path.read_bytes(), 24
    while at + 16 <= len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16:at + 16 + size]
        at += 16 + size


def kind(frame):
    """What makes two packets alike: IP version, transport and BTH opcode."""
    v6 = frame[12:14] == b"\x86\xdd"
    if not v6 and frame[12:14] != b"\x08\x00":
        return frame[12:14]
    udp = 54 if v6 else 34
    protocol = frame[20] if v6 else frame[23]
    return v6, protocol, frame[udp + 2:udp + 4], frame[udp + 8:udp + 9]


def captures(target):
    shortest = {}
    for path in sorted(CAPTURES.glob("*.pcap")):
        for frame in frames(path):
            known = shortest.get(kind(frame))
            if known is None or len(frame) < len(known):
                shortest[kind(frame)] = frame
    chosen = [frame for frame in shortest.values() if len(frame) <= LONGEST]
    return [HEAD[target] + frame[SKIP[target]:] for frame in chosen]


def mads():
    """Of each attribute one."""
    chosen = {}
    for path in sorted(CAPTURES.glob("*.pcap")):
        for frame in frames(path):
            to_qp1 = frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[47:50] == b"\0\0\1"
            if to_qp1 and frame[36:38] == b"\x12\xb7":
                mad = frame[MAD:MAD + 256]
                chosen.setdefault(mad[16:18], mad)
    return chosen.values()


def pack(folder):
    return sorted({path.read_bytes() for path in folder.iterdir()}, key=lambda b: (len(b), b))


def unpack(file, folder):
    folder.mkdir(exist_ok=True)
    for number, line in enumerate(file.read_text().splitlines()):
        if not line.startswith("#"):
            (folder / str(number)).write_bytes(bytes.fromhex(line))


def main(command, *args):
    if command == "unpack":
        unpack(Path(args[0]), Path(args[1]))
        return
    if command == "captures":
        inputs = mads() if args[0] == "mad" else captures(args[0])
    else:
        inputs = pack(Path(args[0]))
    for data in inputs:
        print(data.hex())


if __name__ == "__main__":
    main(*sys.argv[1:])
