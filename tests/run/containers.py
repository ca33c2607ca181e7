#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=300
"""Unmodified programs in containers, as Docker makes them: what a container forbids costs at most a
sentence. container/box.sh is the container, container/refuse.py its filter of system calls."""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for kind in ("clients", "wire"):
    sys.path.insert(0, str(HERE.parent / kind))

from client import cases, pair  # noqa: E402
from net import hosts  # noqa: E402

BOX = str(HERE / "container/box.sh")
PROGRAM = ["ib_write_bw", "-F", "-x", "3", "-s", "65536", "-n", "100"]
USER = ["-u", "1000"]
MOUNT = ["-x", "mount=EACCES", "-x", "umount2=EACCES"]
MEMORY = [word for name in ("process_vm_readv", "process_vm_writev", "ptrace", "pidfd_open",
                            "pidfd_getfd", "userfaultfd", "kcmp")
          for word in ("-x", f"{name}=EPERM")]
OLD = [word for name in ("clone3", "close_range", "epoll_pwait2", "faccessat2",
                         "io_uring_setup", "membarrier", "openat2", "pidfd_getfd",
                         "pidfd_open", "rseq", "statx")
       for word in ("-x", f"{name}=ENOSYS")]
# Boxes that share the PIDs of their caller are one container to each other.
TOGETHER = {
    "two processes of a container": (["-p"], ["-p"]),
    "--net=host": ([], []),
    "no /dev/shm": (["-s"], ["-s"]),
    "--read-only": (["-r"], ["-r"]),
    "--read-only and no /dev/shm": (["-r", "-s"], ["-r", "-s"]),
    "mounts are refused": (["-p", *MOUNT], ["-p", *MOUNT]),
    "no process reaches another's memory": (["-p", *MEMORY], ["-p", *MEMORY]),
    "an old kernel": (["-p", *OLD], ["-p", *OLD]),
    "a filter that does not know epoll_pwait2": (["-x", "epoll_pwait2=EPERM"],) * 2,
    "netlink is refused": (["-x", "socket:16=EPERM"], ["-x", "socket:16=EPERM"]),
    "netlink is unknown": (["-x", "socket:16=ENOSYS"], ["-x", "socket:16=ENOSYS"]),
    "no getrandom": (["-x", "getrandom=ENOSYS"], ["-x", "getrandom=EPERM"]),
    "a container and none": ([], None),
}
AS_USERS = {
    "a user": ([*USER], [*USER]),
    "a user, mounts are refused": ([*USER, *MOUNT], [*USER, *MOUNT]),
    "root and a user": ([], [*USER]),
}
APART = {"a network each": ([], []), "--pid=host, a network each": (["-p"], ["-p"])}
SHOWN = {"docker": [], "no /dev/shm": ["-s"], "--read-only": ["-r"], "mounts are refused": MOUNT}


def side(options, around=(), env=()):
    box = [] if options is None else [BOX, *options]
    return pair.Side(around=[*around, *box], env=dict(env))


def moved(name, output):
    """What a side's output lacks."""
    return "" if "65536" in output else "shows no bandwidth"


def together(options):
    sides = [side(words, env={"SOFTHCA_DEVICES": "mlx5_0=lo"}) for words in options]
    return pair.run(PROGRAM, moved, *sides)


def apart(options):
    with hosts.Pair(4200) as ends:
        sides = [side(words, end.enter) for words, end in zip(options, ends)]
        return pair.run(PROGRAM, moved, *sides, address="10.9.0.1")


def example(name):
    """The commands of an example's two hosts, as its image starts them: without softhca run."""
    text = (HERE.parent.parent / "ci/examples" / name).read_text()
    server, client = [words.replace('"', "").split(", ")
                      for words in re.findall(r"command: \[(ib_\w+.*)\]", text)]
    if client[:-1] != server or client[-1] not in ("server", "softhca-server"):
        return pair.Result(f"the client does not ask the server: {client}")
    with hosts.Pair(1500) as ends:
        sides = [pair.Side(around=[*end.enter, BOX], inside=pair.ALONE) for end in ends]
        return pair.run([*server, "-n", "100"], moved, *sides, address="10.9.0.1")


def within(options, *argv):
    """(status, output with errors) of a program under softhca run in a box, on lo."""
    env = {**os.environ, **pair.preload(), "SOFTHCA_DEVICES": "mlx5_0=lo"}
    preloaded = env.pop("LD_PRELOAD", "")
    done = subprocess.run([BOX, "-n", *options, "env", f"LD_PRELOAD={preloaded}", *argv], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def shows(options):
    """The device in /sys, and not a word on standard error."""
    status, text = within(options, *pair.RUN, "cat",
                          "/sys/class/infiniband/mlx5_0/ports/1/state")
    return pair.Result("" if (status, text) == (0, "4: ACTIVE\n") else f"prints {text!r}")


def nothing_to_write():
    """No folder for the files: one line, which SOFTHCA_VIEW=0 silences, and the program runs."""
    env = ["env", "SOFTHCA_VIEW=0"]
    _, text = within(["-r", "-s"], *pair.RUN, "echo", "ran")
    _, silent = within(["-r", "-s"], *env, *pair.RUN, "echo", "ran")
    good = "ran\n" in text and text.count("\n") == 2 and "a writable /tmp" in text
    return pair.Result("" if good and silent == "ran\n" else f"prints {text!r}, {silent!r}")


def refused(call):
    """The device cannot be opened, and the reason names what to allow."""
    status, text = within(["-x", f"{call}=EPERM"], "env", "SOFTHCA_EXPLAIN=1", *pair.RUN,
                          "ibv_devinfo")
    good = status and "ibv_open_device: no " in text and "seccomp profile" in text
    return pair.Result("" if good else f"status {status}, prints {text!r}")


def main():
    table = [(name, lambda o=o: together(o)) for name, o in TOGETHER.items()]
    if Path("/proc/self/uid_map").read_text().split()[2] != "1":  # there are other users
        table += [(name, lambda o=o: together(o)) for name, o in AS_USERS.items()]
    table += [(name, lambda o=o: apart(o)) for name, o in APART.items()]
    table += [(name, lambda n=name: example(n)) for name in ("compose.yaml", "kubernetes.yaml")]
    table += [(f"/sys: {name}", lambda o=o: shows(o)) for name, o in SHOWN.items()]
    table += [(f"{call} is refused", lambda c=call: refused(c))
              for call in ("memfd_create", "eventfd2", "epoll_create1")]
    table.append(("nothing can be written", nothing_to_write))
    return cases.run(table)


if __name__ == "__main__":
    sys.exit(main())
