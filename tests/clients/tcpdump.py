#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=120
"""tcpdump at the other end of a veth sees each frame that a RAW_PACKET queue pair sends, as it was
sent: in a network namespace where we may."""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from client import cases, frames, pair

OURS, WIRE = "softhca0", "softhca1"
COUNT, SIZE, FCS = 100, 512, 4  # perftest counts the FCS, which nobody shows
MADE = f"link add {OURS} type veth peer name {WIRE}", f"link set {WIRE} up", f"link set {OURS} up"


def ip(*commands):
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


def capture(out, errors):
    """Ends by itself after COUNT frames from the client's MAC address; so few bytes of each that
    its buffer, which has room for as many of the longest, holds them all."""
    argv = ["tcpdump", "-i", WIRE, "-U", "-c", str(COUNT), "-s", "2048", "-B", "8192", "-w", "-",
            "--immediate-mode", "ether", "src", frames.MACS[1]]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)


def read(path):
    """The frames of a pcap file."""
    data, at, found = path.read_bytes(), 24, []
    while at + 16 <= len(data):
        length = struct.unpack_from("=I", data, at + 8)[0]
        found.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return found


def judge(seen):
    to, source = (bytes.fromhex(mac.replace(":", "")) for mac in frames.MACS)
    if len(seen) < COUNT:
        return f"tcpdump has seen {len(seen)} of {COUNT} frames"
    for frame in seen:
        if frame[:12] != to + source or len(frame) != SIZE - FCS:
            return f"a frame of {len(frame)} B begins with {frame[:14].hex()}"
    return ""


def seen_by_tcpdump():
    os.environ["SOFTHCA_DEVICES"] = f"mlx5_0={OURS}"
    with tempfile.TemporaryDirectory() as folder:
        pcap, errors = Path(folder) / "pcap", Path(folder) / "errors"
        with open(pcap, "wb") as out, open(errors, "wb") as err:
            tcpdump = capture(out, err)
        try:
            listening = frames.wait(tcpdump, lambda: "listening on" in frames.text(errors), 60)
            if not listening or tcpdump.poll() is not None:
                return pair.Result("tcpdump does not begin", frames.text(errors))
            result = frames.run(["raw_ethernet_bw", "-n", str(COUNT), "-s", str(SIZE)])
            frames.wait(tcpdump, lambda: False, 10 * pair.PATIENCE)
        finally:
            tcpdump.kill()
            tcpdump.wait()
        result.why = result.why or judge(read(pcap))
        return result


def main():
    if not shutil.which("tcpdump"):
        print("SKIP: there is no tcpdump")
        return 77
    if Path("/proc/self/setgroups").read_text().strip() == "deny":
        print("SKIP: tcpdump leaves root's groups, which a user namespace of one user denies")
        return 77
    ip(*MADE)
    try:
        return cases.run([("raw_ethernet_bw on a veth, seen by tcpdump", seen_by_tcpdump)])
    finally:
        ip(f"link del {OURS}")


if __name__ == "__main__":
    sys.exit(main())
