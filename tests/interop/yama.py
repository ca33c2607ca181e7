#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=600
"""Yama, which this machine's kernel may lack, and the guest's has: two processes of our own in the
guest, of which none is the other's ancestor, so that it refuses the right to trace. Who reaches
whose memory (links/reach.c), and every byte of random RC work (wire/pattern)."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import guest
from client import cases, pair
from sides import SECONDS, Side

IMAGE = Path(os.environ["SOFTHCA_GUEST"])
TESTS = Path(os.environ["SOFTHCA_BUILD"]) / "tests"
REACH, PATTERN = TESTS / "links/links_reach", TESTS / "wire/pattern"
LIBRARY = Path(os.environ["SOFTHCA_LIB"]) / "libibverbs.so.1"
MTU, PORT = 4300, 18700
YAMA = "/proc/sys/kernel/yama/ptrace_scope"
USER = """grep -q ^user /etc/passwd || echo user:x:1000:1000::/tmp:/bin/sh >>/etc/passwd
echo {scope} >""" + YAMA + """ && su user -c '{env} {command}' 2>&1"""

# What ptrace_scope is, settings; what the kernel lets each open, and what both open.
CASES = {
    "nobody is kept from tracing": (0, "", 1, 1),
    "only ancestors may trace": (1, "", 0, 0),
    "only ancestors may trace, both lend": (1, "SOFTHCA_DIRECT=1", 0, 1),
}


def libraries(program):
    """Those that the guest's image may lack."""
    shown = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    found = map(Path, re.findall(r"=> (/\S+)", shown))
    return {path for path in found if not path.name.startswith(("libc.", "libibverbs."))}


def in_guest(machine, case, command):
    """(status, output)"""
    env = f"LD_LIBRARY_PATH=/bin SOFTHCA_DEVICES=mlx5_0=lo {case[1]}"
    return machine.run(USER.format(scope=case[0], env=env, command=command), SECONDS)


def reached(machine, case):
    """What is wrong with who reaches whom, or ''."""
    _, _, may, opened = case
    line = f"may {may}, has opened {opened}, both reach {opened}, refers {opened}\n"
    status, said = in_guest(machine, case, f"links_reach both {'reach' if opened else 'rings'}")
    return "" if (status, said) == (0, 2 * line) else f"status {status}, {said!r}"


def works(machine, case, port):
    """The same of the work between two."""
    work = f"pattern -p {port} -n 4 -z 300000 -o 18"
    server = Side(in_guest, machine, case, work)
    machine.run(f"until grep -q ':{port:04X} .* 0A ' /proc/net/tcp6; do sleep 0.1; done")
    client = Side(in_guest, machine, case, f"{work} 127.0.0.1")
    results = [server.result(), client.result()]
    good = all(status == 0 and "; 0 peers gone" in output for status, output in results)
    return "" if good else repr(results)


def run(machine, case, port):
    return pair.Result(reached(machine, case) or works(machine, case, port))


def main():
    why = guest.missing(IMAGE)
    if os.environ["SOFTHCA_SANITIZER"] != "none":
        why = "the guest has no runtime of a sanitizer"
    if why:
        print(f"SKIP: {why}")
        return 77
    programs = {REACH, PATTERN, LIBRARY, *libraries(REACH), *libraries(LIBRARY)}
    with tempfile.TemporaryDirectory() as folder, \
            guest.Guest(IMAGE, folder, MTU, programs) as machine:
        return cases.run([(name, lambda c=case, p=PORT + n: run(machine, c, p))
                          for n, (name, case) in enumerate(CASES.items())])


if __name__ == "__main__":
    sys.exit(main())
