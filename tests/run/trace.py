#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""softhca trace: are the packets of a program with known work all there, right, and explained?"""
# traits: timeout=180
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
PROGRAM = os.environ["SOFTHCA_BUILD"] + "/tests/verbs/verbs_traced"
ACK, WRITE_ONLY, GROUNDS = 17, 10, 0xc3
# BTH opcodes of traced.c's work at MTU 1024, sent once and received once
EXPECTED = {4: 5, 6: 3, 7: 9, 8: 3, 12: 2, 13: 2, 14: 2, 15: 2, 20: 2, 18: 2, WRITE_ONLY: 1,
            GROUNDS: 1}  # of its refusal
BEGIN = r"QP 0x[0-9a-f]+ (sends|receives) PSN \d+[^;]*; verdict: "
DIRECTIONS = {1: "in", 2: "out"}


class Packet:
    """One enhanced packet block: direction, comment, and what stands in the frame."""

    def __init__(self, body):
        kept, size = struct.unpack_from("<II", body, 12)
        assert kept == size, "cut off"
        self.frame = body[20:20 + kept]
        self.comment = self.direction = None
        at = 20 + (kept + 3) // 4 * 4
        while at + 4 <= len(body):
            code, length = struct.unpack_from("<HH", body, at)
            value = body[at + 4:at + 4 + length]
            at += 4 + (length + 3) // 4 * 4
            if code == 1:
                self.comment = value.decode()
            elif code == 2:
                self.direction = DIRECTIONS[struct.unpack("<I", value)[0] & 3]
        self.ip = self.frame[14:]
        self.opcode, self.psn = self.ip[28], int.from_bytes(self.ip[37:40], "big")

    def is_answer(self):
        return 13 <= self.opcode <= 18

    def icrc_is_right(self):
        """Of IPv4: fields that routers change are ones, eight bytes of ones are in front."""
        masked = bytearray(b"\xff" * 8 + self.ip[:-4])
        for place in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, checksum; UDP's; BTH's FECN byte
            masked[8 + place] = 0xff
        return zlib.crc32(masked) == struct.unpack("<I", self.ip[-4:])[0]


def blocks(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert size >= 12 and struct.unpack_from("<I", data, at + size - 4)[0] == size
        yield kind, data[at + 8:at + size - 4]
        at += size


def traced(where):
    path = Path(os.environ["TMPDIR"]) / f"{where}.pcapng"
    path.write_bytes(b"what was there before")
    subprocess.run([TOOL, "trace", "-o", path.name, "--", PROGRAM, where], check=True, timeout=100,
                   cwd=path.parent)
    return path


def counts_agree(packets):
    for direction in DIRECTIONS.values():
        found = Counter(p.opcode for p in packets if p.direction == direction)
        acks = found.pop(ACK)
        assert found == EXPECTED, (direction, found)
        assert acks >= 1
    sent = Counter(p.opcode for p in packets if p.direction == "out")
    came = Counter(p.opcode for p in packets if p.direction == "in")
    assert sent == came, (sent, came)


def explained(packets):
    for p in packets:
        assert re.match(BEGIN, p.comment), p.comment
        if p.opcode == GROUNDS:
            continue  # no part of the sequence
        expected = re.search(r" receives PSN (\d+), expected (\d+)", p.comment)
        answer = re.search(r" receives PSN \d+, the oldest open is \d+", p.comment)
        assert bool(expected) == (p.direction == "in" and not p.is_answer()), p.comment
        assert bool(answer) == (p.direction == "in" and p.is_answer()), p.comment
        assert not expected or expected[1] == expected[2] == str(p.psn), (p.comment, p.psn)
    request = [p for p in packets if p.opcode == WRITE_ONLY and p.direction == "in"]
    assert "verdict: refused; reason: RDMA WRITE of 64 B" in request[0].comment, request[0].comment
    assert "rkey 0x" in request[0].comment, request[0].comment
    naks = [p for p in packets if p.opcode == ACK and p.ip[40] >> 5 == 3 and p.direction == "in"]
    assert len(naks) == 1 and "; reason: " in naks[0].comment, [p.comment for p in naks]


def dissected(path, packets):
    """By a program that knows nothing of us. Returns why it could not be had, or None."""
    if not shutil.which("tshark"):
        return "there is no tshark"
    said = subprocess.run(["tshark", "-r", path, "-T", "fields", "-e", "infiniband.bth.opcode",
                           "-e", "frame.comment"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in said.stdout.splitlines()]
    assert [int(row[0], 0) for row in rows] == [p.opcode for p in packets]
    assert [row[1] for row in rows] == [p.comment for p in packets]
    return None


def check(where):
    path = traced(where)
    found = list(blocks(path))
    packets = [Packet(body) for kind, body in found if kind == 6]
    sections = sum(kind == 0x0a0d0d0a for kind, _ in found)
    assert sections == (1 if where == "thread" else 2), sections
    assert all(p.icrc_is_right() for p in packets)
    counts_agree(packets)
    explained(packets)
    return path, packets


def usage():
    for words in (["trace"], ["trace", "-o"], ["trace", "-x", "true"], ["trace", "--"],
                  ["trace", "-o", "/nonexistent/file", "--", "true"]):
        done = subprocess.run([TOOL, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 125 and done.stderr.startswith("softhca: "), (words, done)


def main():
    found = {}
    cases = [("usage", usage)]
    for where in ("process", "thread"):
        cases += [(where, lambda where=where: found.update({where: check(where)})),
                  (f"{where}, read by tshark", lambda where=where: dissected(*found[where]))]
    failed = 0
    print(f"1..{len(cases)}")
    for number, (name, run) in enumerate(cases, 1):
        try:
            skipped = run()
            print(f"ok {number} - {name}{f' # SKIP {skipped}' if skipped else ''}", flush=True)
        except (AssertionError, subprocess.SubprocessError, KeyError) as err:
            failed += 1
            print(f"not ok {number} - {name}\n# {type(err).__name__}: {err}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
