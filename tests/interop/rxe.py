#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: source alone timeout=600
"""Against the Linux kernel's rdma_rxe in a virtual machine: RC, UC and UD, SEND, WRITE, READ and
atomics, the guest as server and as client, IPv4 and IPv6."""
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import guest

HERE = Path(__file__).resolve().parent
IMAGE = HERE.parent.parent / "build-interop"
LIB = os.environ["SOFTHCA_LIB"]
MTU = 4300
SECONDS = 60
GIDS = {"v4": ("1", "3"), "v6": ("2", "5")}  # of the guest, ours

PINGPONGS = [["ibv_rc_pingpong", "-n", "50"], ["ibv_uc_pingpong", "-n", "50"],
             ["ibv_srq_pingpong", "-n", "50"], ["ibv_ud_pingpong", "-n", "50", "-s", "1024"]]
PERFTEST = [["ib_send_bw", "-s", "8192"], ["ib_write_bw", "-s", "65536"],
            ["ib_read_bw", "-s", "65536", "-o", "16"], ["ib_atomic_bw", "-o", "16"],
            ["ib_send_bw", "-c", "UC", "-s", "2048"], ["ib_send_bw", "-c", "UD", "-s", "1024"],
            ["ib_send_lat", "-s", "64"], ["ib_write_lat", "-s", "4097"]]


def programs():
    for argv in PINGPONGS:
        yield [*argv, "-g"]
    for argv in PERFTEST:
        yield [*argv, "-F", "-n", "50", "-x"]


def cases():
    for number, argv in enumerate(programs()):
        for guest_serves in (True, False):
            yield argv, guest_serves, "v6" if (number + guest_serves) % 3 == 0 else "v4"


def ours(argv):
    env = {**os.environ, "LD_LIBRARY_PATH": LIB, "SOFTHCA_DEVICES": "mlx5_0=tap0",
           "SOFTHCA_EXPLAIN": "1"}
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=SECONDS,
                              check=False)
    except subprocess.TimeoutExpired:
        return None, "not done in time"
    return done.returncode, done.stdout + done.stderr


def listening(machine, port):
    """The guest's own word for it; a look at our own tables for ours."""
    look = f"grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null"
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if machine:
            status = machine.run(look)[0]
        else:
            status = subprocess.run(["sh", "-c", look], check=False).returncode
        if not status:
            return


def run(machine, argv, guest_serves, version, port):
    theirs, mine = GIDS[version]
    port_args = ["-p", str(port)]
    in_guest = [*argv, theirs, "-d", "rxe0", *port_args, *([] if guest_serves else ["10.9.0.2"])]
    here = [*argv, mine, *port_args, *(["10.9.0.1"] if guest_serves else [])]
    results = {}

    def serve():
        results["server"] = machine.run(" ".join(in_guest) + " 2>&1", SECONDS) if guest_serves \
            else ours(here)

    server = threading.Thread(target=serve)
    server.start()
    listening(machine if guest_serves else None, port)
    results["client"] = ours(here) if guest_serves \
        else machine.run(" ".join(in_guest) + " 2>&1", SECONDS)
    server.join()
    return results


def all_cases(machine, first=0):
    failed = 0
    for number, (argv, guest_serves, version) in enumerate(cases()):
        if number < first:
            continue
        name = f"{' '.join(argv[:-1])} {version}, {'rxe' if guest_serves else 'ours'} serves"
        try:
            results = run(machine, argv, guest_serves, version, 18515 + number)
        except guest.Died as why:
            return number, failed, why
        bad = any(status != 0 for status, _ in results.values())
        failed += bad
        print(f"{'not ok' if bad else 'ok'} {number + 1} - {name}", flush=True)
        for side, (status, output) in results.items() if bad else ():
            for line in [f"ended with {status}", *output.splitlines()[-5:]]:
                print(f"# {side}: {line}", flush=True)
    return None, failed, None


def main():
    if os.geteuid() != 0 or not (IMAGE / "initramfs.gz").exists():
        print("SKIP: needs root, and the guest's image: bash tests/interop/image.sh build-interop")
        return 77
    if "SOFTHCA_INTEROP_NS" not in os.environ:
        os.environ["SOFTHCA_INTEROP_NS"] = "1"
        os.execvp("unshare", ["unshare", "-n", "-m", "sh", "-c", 'ip link set lo up; exec "$@"',
                              "sh", sys.executable, "-B", __file__])
    print(f"1..{len(list(cases()))}", flush=True)
    number, failed = 0, 0
    for _ in range(2):  # a guest that dies by itself is replaced once, and named
        with tempfile.TemporaryDirectory() as folder, guest.Guest(IMAGE, folder, MTU) as machine:
            number, more, why = all_cases(machine, number)
        failed += more
        if number is None:
            return 1 if failed else 0
        print(f"# the guest died: {why}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
