# SPDX-License-Identifier: MIT
"""What passes on a host's cable, seen by the test's own script, which runs there meanwhile."""
import json
import socket
import subprocess
import sys

RECEIVE_BUFFER_FORCE = 33  # SO_RCVBUFFORCE


def start(host, script):
    """Runs "@script capture" on @host, which calls frames(), until finish()."""
    process = subprocess.Popen([*host.enter, sys.executable, "-B", script, "capture"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def finish(process):
    """What it has printed as JSON."""
    return json.loads(process.communicate("end\n")[0])


def frames():
    """Each frame on eth0, and whether it leaves, until finish(); then all that had come is seen."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, 64 << 20)
    tap.bind(("eth0", 0))
    tap.settimeout(0.05)
    print("ready", flush=True)
    ended = False
    while True:
        try:
            frame, (_, _, kind, *_) = tap.recvfrom(1 << 17)
        except TimeoutError:
            if ended:
                return
            ended = sys.stdin.readline() != ""
            continue
        yield frame, kind == socket.PACKET_OUTGOING
