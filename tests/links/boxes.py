#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=200
"""Walls between two processes of one user: PID and user namespaces beside each other, Docker's
filter of system calls and its capabilities, on one side or both. Who reaches whose memory is as
docs/design/peer-identity.md says, and never more than the kernel allows (reach.c); and random RC
work gets through, every byte of it (wire/pattern)."""
import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

from client import cases, pair  # noqa: E402

BUILD = Path(os.environ["SOFTHCA_BUILD"]) / "tests"
PATTERN = [str(BUILD / "wire/pattern"), "-n", "6", "-z", "300000", "-o", "18"]
PATIENCE = 40 * pair.PATIENCE

BOX = str(HERE.parent / "run/container/box.sh")
OUTSIDE = []
PIDS = ["unshare", "-pf", "--kill-child"]  # it sees the caller's /proc
PIDS_AND_PROC = [*PIDS, "--mount-proc"]
USERS = ["unshare", "-Urpf", "--kill-child"]
DOCKER, DOCKER_HOST = [BOX], [BOX, "-p"]
USER = ["-u", "1000"]
OUTSIDE_USER = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]
DIRECT, RINGS = {"SOFTHCA_DIRECT": "1"}, {"SOFTHCA_DIRECT": "0"}

# The two sides: namespaces, settings; what the kernel lets each open of the other; what each opens
# of it. They reach each other's memory if both do; else what one has opened stays unused.
BOTH, NEITHER = (1, 1), (0, 0)
WALLS = {
    "nothing between them": (OUTSIDE, {}, OUTSIDE, {}, BOTH, BOTH),
    "nothing, one wants none": (OUTSIDE, {}, OUTSIDE, RINGS, BOTH, NEITHER),
    "PID namespaces": (PIDS, {}, PIDS, {}, BOTH, NEITHER),
    "PID namespaces with a /proc each": (PIDS_AND_PROC, {}, PIDS_AND_PROC, {}, BOTH, NEITHER),
    "PID namespaces, both lend": (PIDS, DIRECT, PIDS, DIRECT, BOTH, BOTH),
    "PID namespaces, one lends": (PIDS, DIRECT, PIDS, {}, BOTH, NEITHER),
    "PID and user namespaces": (USERS, {}, USERS, {}, NEITHER, NEITHER),
    "PID and user namespaces, both lend": (USERS, DIRECT, USERS, DIRECT, NEITHER, BOTH),
    "PID and user namespaces, one lends": (USERS, {}, USERS, DIRECT, NEITHER, NEITHER),
    "PID namespaces, one with users": (PIDS, {}, USERS, {}, (1, 0), NEITHER),
    "docker": (DOCKER, {}, DOCKER, {}, BOTH, NEITHER),
    "docker --pid=host": (DOCKER_HOST, {}, DOCKER_HOST, {}, BOTH, BOTH),
    "docker and none": (DOCKER, {}, OUTSIDE, {}, (0, 1), (0, 1)),
    "docker --pid=host and none": (DOCKER_HOST, {}, OUTSIDE, {}, (0, 1), (0, 1)),
    "docker and none, both lend": (DOCKER, DIRECT, OUTSIDE, DIRECT, (0, 1), BOTH),
}
BOX_USER, HOST_USER = [*DOCKER, *USER], [*DOCKER_HOST, *USER]
AS_USERS = {
    "docker --pid=host, a user": (HOST_USER, {}, HOST_USER, {}, BOTH, BOTH),
    "docker --pid=host and none, a user": (HOST_USER, {}, OUTSIDE_USER, {}, BOTH, BOTH),
    "docker and none, a user": (BOX_USER, {}, OUTSIDE_USER, {}, BOTH, (0, 1)),
}


def met(sides, reaches):
    """What both sides of reach print, or why it did not come to that."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    said = []
    programs = [subprocess.Popen(
        [*around, str(BUILD / "links/links_reach"), str(end.fileno()),
         "reach" if reaches else "rings"], env={**os.environ, **env}, pass_fds=[end.fileno()],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for (around, env), end in zip(sides, ends)]
    for end in ends:
        end.close()
    for program in programs:
        try:
            text = program.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            program.kill()
            text = f"does not end: {program.communicate()[0]}"
        said.append(text.strip() + (f", status {program.returncode}" if program.returncode else ""))
    return said


def reached(sides, may, opened):
    """What is wrong with who reaches whom, or ''."""
    both = int(all(opened))
    wanted = [f"may {right}, has opened {mine}, both reach {both}, refers {both}"
              for right, mine in zip(may, opened)]
    said = met(sides, both)
    return "" if said == wanted else f"{said} instead of {wanted}"


def done(_side, output):
    return "" if "done: " in output and "; 0 peers gone" in output else "is not done"


def case(wall):
    one, one_env, other, other_env, may, opened = wall
    sides = [(one, one_env), (other, other_env)]
    why = reached(sides, may, opened)
    if why:
        return pair.Result(why)
    server, client = [pair.Side(around=around, inside=pair.ALONE,
                                env={"SOFTHCA_DEVICES": "mlx5_0=lo", **env})
                      for around, env in sides]
    return pair.run(PATTERN, done, server, client)


def main():
    walls = dict(WALLS)
    if Path("/proc/self/uid_map").read_text().split()[2] != "1":  # there are other users
        walls.update(AS_USERS)
    return cases.run([(name, lambda w=wall: case(w)) for name, wall in walls.items()])


if __name__ == "__main__":
    sys.exit(main())
