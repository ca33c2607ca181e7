#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=900
"""Against the Linux kernel's rdma_rxe in a virtual machine (matrix.py tells what): both sides of
each case must end well. A guest that dies by itself is no failure of ours: it is named, and one
more is started."""
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import connections
import guest
import matrix
import transcript
from client import cases, pair, programs
from heard import Heard
from sides import SECONDS, Side, ours, start

IMAGE = Path(os.environ["SOFTHCA_GUEST"])
TALK = Path(os.environ["SOFTHCA_BUILD"]) / "tests/interop/interop_talk"
CONTRACT = TALK.with_name("interop_contract")
RECORDED = "the contract of rdma_cm is what was recorded"
SEED = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
MTU = 4300
CNP, HELLO, REPORT = 0x81, 0xc0, 0xc1
THEIRS, OURS = "10.9.0.1", "10.9.0.2"
GIDS = {"v4": ("1", "3"), "v6": ("2", "5")}  # of the guest, ours
NETEM = """modprobe ifb numifbs=0; ip link add ifb0 type ifb; ip link set ifb0 up
tc qdisc add dev eth0 root netem {} && tc qdisc add dev ifb0 root netem {} &&
tc qdisc add dev eth0 ingress &&
tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0"""
NETEM_OFF = "tc qdisc del dev eth0 root; tc qdisc del dev eth0 ingress; ip link del ifb0"


def wanted():
    if programs.FULL:
        return list(matrix.full())[programs.PART - 1::programs.PARTS]
    if os.environ.get("SOFTHCA_CASES"):
        return [case for case in matrix.full() if cases.chosen(case.name)]
    chosen = matrix.sample(random.Random(SEED))
    return chosen if pair.PATIENCE == 1 else chosen[::3]


def command(case, in_guest, port):
    """The argument vector of one side."""
    gid = GIDS[case.version][not in_guest]
    asks = in_guest != case.guest_serves
    address = [OURS if in_guest else THEIRS] if asks else []
    program, *options = case.program.split()
    if program in (*matrix.TALK, "endless"):
        return [TALK.name if in_guest else str(TALK), program, gid, case.mtu, port, *address]
    device = ["-d", "rxe0"] if in_guest else []
    if program.startswith("ibv_"):
        mtu = [] if "_ud_" in program else ["-m", case.mtu]
        return [program, *options, *mtu, "-g", gid, "-p", port, *device, *address]
    mtu = [] if "UD" in options else ["-m", case.mtu]
    return [program, *options, *mtu, "-F", "-n", "50", "-x", gid, "-p", port, *device, *address]


def ours_killed(argv):
    """Our side, killed as soon as the connection is in use."""
    with start(argv) as process:
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        said = process.stdout.readline()
        process.kill()
        timer.cancel()
        said += process.stdout.read()
    return (0 if said.startswith("running") else process.returncode), said


def listening(machine, port):
    """The guest's own word for it; a look at our own tables for ours."""
    look = f"grep -q ':{int(port):04X} .* 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null"
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if not machine.run(look)[0] if machine else pair.listening(int(port)):
            return
        time.sleep(0.02)


def both(machine, case, port):
    """The results of the server and of the client: (status, output)."""
    in_guest = " ".join(command(case, True, port)) + " 2>&1"
    here = command(case, False, port)
    theirs = machine.run, in_guest, SECONDS
    mine = ours_killed if case.killed else ours, here
    server = Side(*(theirs if case.guest_serves else mine))
    try:
        if case.program.startswith("ib"):  # talk's client waits for its server
            listening(machine if case.guest_serves else None, port)
        client = Side(*(mine if case.guest_serves else theirs))
    finally:
        server.join()
    return {"server": server.result(), "client": client.result()}


@contextlib.contextmanager
def network(machine, fault):
    """The guest's network as @fault has it."""
    if not fault:
        yield
        return
    on, off = (connections.LOSE_ONCE if fault == connections.ONCE else
               (NETEM.format(*matrix.FAULTS[fault]), NETEM_OFF))
    status, output = machine.run(on)
    if status:
        raise guest.Died(f"no {fault} in the guest: {output}")
    yield
    machine.run(off)


def run(machine, case, ports, heard):
    with network(machine, case.fault):
        if case.program in connections.PROGRAMS:
            return connections.run(machine, case, heard, str(next(ports)))
        results = both(machine, case, str(next(ports)))
    if case.killed and all(status == 0 for status, _ in results.values()):
        again = matrix.Case("sizes", case.guest_serves, case.version, case.mtu)
        results = both(machine, again, str(next(ports)))
    return results


def left_alone(case, results):
    """A pingpong ends when it has got everything. Where its last ACK is lost, rxe is not there any
    more to repeat it, and our last message fails though it has arrived."""
    theirs, mine = (results[side] for side in
                    (("server", "client") if case.guest_serves else ("client", "server")))
    return (case.program.startswith("ibv_rc_pingpong") and case.loses and
            theirs[0] == 0 and " 50 iters in " in f" {theirs[1]}".replace("\n", " ") and
            mine[0] == 1 and "transport retry counter exceeded (12) for wr_id 2" in mine[1])


def run_all(machine, todo, number, heard):
    """Runs cases from the front of @todo; returns how many failed and why the guest died."""
    failed, ports = 0, iter(range(18515 + number, 65536))
    while todo:
        try:
            results = run(machine, todo[0], ports, heard)
        except guest.Died as why:
            return failed, why
        bad = any(status != 0 or pair.BAD.search(output) for status, output in results.values())
        if bad and left_alone(case := todo[0], results):
            print(f"# {case.name}: the guest's last ACK was lost, and the guest has ended")
            bad = False
        failed += bad
        number += 1
        print(f"{'not ok' if bad else 'ok'} {number} - {todo.pop(0).name}", flush=True)
        for side, (status, output) in results.items() if bad else ():
            for line in [f"ended with {status}", *output.splitlines()[-8:]]:
                print(f"# {side}: {line}", flush=True)
        if any(status > 128 for status, _ in results.values()):  # where a signal has met it
            print(f"# the guest's kernel: {machine.run('dmesg | tail -n 3')[1]!r}", flush=True)
    return failed, None


def harmless(number, opcodes):
    """What rxe does not know it has got, and stood: our hellos, and CNPs; never a report."""
    good = {HELLO, CNP} <= opcodes and REPORT not in opcodes
    print(f"{'ok' if good else 'not ok'} {number} - rxe gets hellos and CNPs, and no report\n"
          f"# opcodes: {' '.join(f'{opcode:02x}' for opcode in sorted(opcodes))}", flush=True)
    return good


def asks_contract():
    """It takes minutes, of which most are a wait of the kernel's."""
    return cases.chosen(RECORDED) if os.environ.get("SOFTHCA_CASES") else programs.FULL


def recorded(machine, number):
    """What contract.py holds us against."""
    status, output = machine.run(f"{CONTRACT.name} {THEIRS} fd09::1 slowly", 13 * SECONDS)
    was, now = (transcript.facts(text) for text in (transcript.LINUX.read_text(), output))
    changed = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
    good = not status and not changed
    print(f"{'ok' if good else 'not ok'} {number} - {RECORDED}", flush=True)
    if status:
        print(f"# it ended with {status}", flush=True)
    for key in changed[:20]:
        print(f"# {key}: {now.get(key)}, was {was.get(key)}", flush=True)
    return good


def main():
    why = guest.missing(IMAGE)
    if why:
        print(f"SKIP: {why}")
        return 77
    heard = Heard()
    todo = wanted()
    count, failed = len(todo), 0
    marked = any(case.program == "marked" for case in todo)
    contract = asks_contract()
    print(f"# SOFTHCA_SEED={SEED}\n1..{count + marked + contract}", flush=True)
    for _ in range(2):
        try:
            with tempfile.TemporaryDirectory() as folder, \
                    guest.Guest(IMAGE, folder, MTU, [TALK, CONTRACT]) as machine:
                more, why = run_all(machine, todo, count - len(todo), heard)
                if contract and not todo:
                    more += not recorded(machine, count + marked + 1)
                    contract = False
        except guest.Died as died:
            more, why = 0, died
        failed += more
        if not todo:
            failed += marked and not harmless(count + 1, heard.opcodes)
            return 1 if failed else 0
        print(f"# the guest died: {why}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
