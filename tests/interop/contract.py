#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=180
"""What each call of rdma_cm answers in each state, the events that follow and the attributes of
queue pairs: on our libraries as with Debian's librdmacm and the kernel's rdma_rxe, from which
contract.rxe was recorded (rxe.py runs the same program there), but for contract.reasons."""
import os
import subprocess
import sys
from pathlib import Path

import guest
import transcript

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
from client import pair

PROGRAM = Path(os.environ["SOFTHCA_BUILD"]) / "tests/interop/interop_contract"
ADDRESSES = ["10.9.0.1", "fd09::1"]


def machine():
    """An interface, and the names of hosts and services, as the guest has them."""
    subprocess.run(["mount", "--bind", guest.ETC, "/etc"], check=True)
    for argv in (["link", "add", "eth0", "type", "veth", "peer", "name", "eth1"],
                 ["link", "set", "eth1", "mtu", "4300", "up"],
                 ["link", "set", "eth0", "mtu", "4300", "up"],
                 ["addr", "add", f"{ADDRESSES[0]}/24", "dev", "eth0"],
                 ["addr", "add", f"{ADDRESSES[1]}/64", "dev", "eth0", "nodad"]):
        subprocess.run(["ip", *argv], check=True)


def main():
    machine()
    env = {**os.environ, **pair.preload(), "LD_LIBRARY_PATH": pair.LIB,
           "SOFTHCA_DEVICES": "mlx5_0=eth0"}
    ran = subprocess.run([PROGRAM, *ADDRESSES], env=env, capture_output=True, text=True,
                         check=False)
    found = list(transcript.differences(transcript.facts(transcript.LINUX.read_text()),
                                        transcript.facts(ran.stdout)))
    print("1..2")
    print(f"{'not ok' if ran.returncode else 'ok'} 1 - each state can be reached")
    for line in ran.stderr.splitlines()[-8:] if ran.returncode else ():
        print(f"# {line}")
    print(f"{'not ok' if found else 'ok'} 2 - all answers are Linux's")
    for line in found:
        print(f"# {line}")
    return 1 if found or ran.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
