#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=300
"""What others see: packets captured between two hosts, and what `softhca trace` writes there, are
read by tshark without a complaint, and an implementation of the ICRC that is not ours (scapy's for
IPv4) finds it right in each of them. Marks of congestion are answered by CNPs."""
import logging
import os
import re
import select
import subprocess
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

from net import hosts

from client import cases, pair, programs

warnings.simplefilter("ignore")  # scapy's, about itself and this machine
logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.utils import PcapReader, PcapNgReader  # noqa: E402

RELAY = Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/relay"
TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
JUMBO = 4300
CAPTURES = Path(__file__).resolve().parent.parent / "captures"
LEAST = 10  # packets of a run
LAST = b"the capture may end"
SEND_LAST = f"""
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto({LAST!r}, ("10.9.0.2", 4791))
"""
SEND = """
import select, socket, sys
packet = open(sys.argv[1], "rb").read()
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
print("ready", flush=True)
while True:
    s.sendto(packet, ("10.9.0.2", 0))
    select.select([], [], [], 0.001)
"""
CNP = 0x81
RUNS = [["ibv_rc_pingpong", "-c", "-n", "20", "-s", "10000"], ["ibv_uc_pingpong", "-n", "20"],
        ["ibv_ud_pingpong", "-n", "20", "-s", "1000"], ["ibv_xsrq_pingpong", "-n", "20"]]
PERFTEST = ["ib_write_bw RC plain", "ib_read_bw RC plain", "ib_atomic_bw RC plain",
            "ib_send_bw XRC plain"]


def icrc(packet):
    """As it stands in the packet, and as it should."""
    stands = bytes(packet)[-4:]
    if IPv6 not in packet:
        return stands, packet[BTH].compute_icrc(b"")
    ip = bytearray(bytes(packet[IPv6])[:-4])
    ip[0:4] = bytes([ip[0] | 0x0f, 0xff, 0xff, 0xff])  # traffic class, flow label
    for place in (7, 46, 47, 52):  # hop limit, UDP's checksum, the BTH's byte of routers
        ip[place] = 0xff
    return stands, zlib.crc32(b"\xff" * 8 + ip).to_bytes(4, "little")


def roce(path, reader):
    with reader(str(path)) as frames:
        for frame in frames:
            packet = Ether(bytes(frame))
            if UDP in packet and packet[UDP].dport == 4791 and LAST not in bytes(packet):
                yield packet


def wrong_with(path, reader):
    packets = list(roce(path, reader))
    if len(packets) < LEAST:
        return f"{len(packets)} packets"
    for number, packet in enumerate(packets, 1):
        stands, right = icrc(packet)
        if stands != right:
            return f"packet {number}, opcode {packet[BTH].opcode:#x}: the ICRC is not {right.hex()}"
    said = subprocess.run(
        ["tshark", "-r", path, "-Y",
         f'udp.dstport == 4791 && !(frame contains "{LAST.decode()}")', "-T", "fields", "-e",
         "infiniband.bth.opcode", "-e", "_ws.malformed", "-e", "frame.number"],
        capture_output=True, text=True, check=False)
    rows = [line.split("\t") for line in said.stdout.splitlines()]
    if said.returncode or len(rows) != len(packets):
        return f"tshark reads {len(rows)} of {len(packets)}: {said.stderr}"
    for (opcode, malformed, number), packet in zip(rows, packets):
        if malformed or int(opcode or "-1", 0) != packet[BTH].opcode:
            return f"tshark says of frame {number}: opcode {opcode}, malformed '{malformed}'"
    return ""


class Capture:
    """All that comes to and leaves @host's cable: a last packet is waited for in the file."""

    def __init__(self, host, path):
        self.host, self.path = host, Path(path)
        self.argv = [*host.enter, "tcpdump", "-i", "eth0", "-B", "16384", "-U", "--immediate-mode",
                     "-Z", "root", "-w", path, "udp port 4791"]

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stderr=subprocess.PIPE, text=True)
        while "listening on" not in self.process.stderr.readline():
            assert self.process.poll() is None
        return self

    def __exit__(self, *_):
        subprocess.run([*self.host.enter, "/usr/bin/python3", "-c", SEND_LAST], check=True)
        while LAST not in self.path.read_bytes():
            assert self.process.poll() is None
            select.select([], [], [], 0.01)
        self.process.terminate()
        self.process.communicate()


def captured(argv, check, faults):
    with tempfile.TemporaryDirectory() as folder, \
         hosts.Relayed(RELAY, [*faults, "seed=1"], JUMBO) as (one, other):
        path = f"{folder}/pcap"
        with Capture(one, path):
            result = pair.run(argv, check, server=pair.Side(one.enter, pair.ALONE),
                              client=pair.Side(other.enter, pair.ALONE), address="10.9.0.1")
        result.why = result.why or wrong_with(path, PcapReader)
        if not result.why and any(f.startswith("ce=") for f in faults):
            result.why = answered(path)
    return result


def answered(path):
    """What is marked on its way makes its receiver say so, to the QP that sent it."""
    asked, notified = set(), set()
    for packet in roce(path, PcapReader):
        ip = packet[IPv6] if IPv6 in packet else packet[IP]
        asked |= {ip.src} if ((ip.tc if IPv6 in packet else ip.tos) & 3) == 3 else set()
        notified |= {ip.dst} if packet[BTH].opcode == CNP and packet[BTH].becn else set()
    return "" if notified & asked else f"marked from {asked}, CNPs to {notified}"


def traced(argv, check):
    with tempfile.TemporaryDirectory() as folder, hosts.Pair(JUMBO) as (one, other):
        path = f"{folder}/pcapng"
        result = pair.run(argv, check, server=pair.Side(one.enter, pair.ALONE),
                          client=pair.Side(other.enter, [TOOL, "trace", "-o", path, "--"]),
                          address="10.9.0.1")
        result.why = result.why or wrong_with(path, PcapNgReader)
    return result


def request(folder):
    """A REQ of the kernel, from another stack to 10.9.0.2: a file with the IP packet."""
    frame = next(bytes(frame) for frame in PcapReader(str(CAPTURES / "cm_rping.pcap")))
    packet = Ether(frame)[IP]
    packet.src, packet.dst, packet.id = "10.9.0.7", "10.9.0.2", 77
    packet[UDP].chksum = 0
    del packet.chksum
    path = Path(folder) / "request"
    path.write_bytes(bytes(packet)[:-4] + icrc(IP(bytes(packet)))[1])
    return str(path)


def told():
    """A message of connection management that nobody takes is in the trace, by its name: that of
    the server, which is there as long as its client takes to start."""
    with tempfile.TemporaryDirectory() as folder, hosts.Pair(JUMBO) as (one, other):
        path = f"{folder}/pcapng"
        sender = subprocess.Popen([*one.enter, "/usr/bin/python3", "-c", SEND, request(folder)],
                                  stdout=subprocess.PIPE, text=True)
        sender.stdout.readline()
        result = pair.run(["ibv_rc_pingpong", "-g", hosts.GID["v4"], "-n", "2000"],
                          programs.pingpong_done, address="10.9.0.2",
                          server=pair.Side(other.enter, [TOOL, "trace", "-o", path, "--"]),
                          client=pair.Side(one.enter, pair.ALONE))
        sender.kill()
        sender.wait()
        said = subprocess.run(["tshark", "-r", path, "-Y", "infiniband.bth.destqp == 1", "-T",
                               "fields", "-e", "frame.comment"], capture_output=True, text=True,
                              check=False).stdout
        if not result.why and not re.search(
                r"QP 0x1 receives CM REQ PSN \d+; verdict: no process takes it", said):
            result.why, result.client = "the trace does not say so", said
    return result


def plan():
    """(argv, check, address)"""
    for address in ("v4", "v6"):
        for argv in RUNS:
            check = programs.success if "xsrq" in argv[0] else programs.pingpong_done
            yield [*argv, "-g", hosts.GID[address]], check, address
        for name, argv, check in programs.perftest():
            if name in PERFTEST:
                yield [*argv, "-x", hosts.GID[address], "-n", "5", "-m", "1024",
                       *([] if "atomic" in name else ["-s", "16000"])], check, address


def main():
    runs = []
    for argv, check, address in plan():
        name = f"{argv[0]} {address}"
        runs.append((f"captured: {name}",
                     lambda argv=argv, check=check: captured(argv, check, [])))
        runs.append((f"traced: {name}", lambda argv=argv, check=check: traced(argv, check)))
    runs.append(("traced: a request of connection management", told))
    for address in ("v4", "v6"):
        argv = ["ib_write_bw", "-F", "-x", hosts.GID[address], "-n", "20", "-s", "20000"]
        check = next(c for name, _, c in programs.perftest() if name == "ib_write_bw RC plain")
        runs.append((f"captured, some marked: ib_write_bw {address}",
                     lambda argv=argv, check=check: captured(argv, check, ["ce=30", "loss=2"])))
    return cases.run(runs)


if __name__ == "__main__":
    sys.exit(main())
