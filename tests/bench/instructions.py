#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: alone timeout=900
"""Instructions a message, counted by callgrind: repeatable where times are not.

The engine threads of both processes are stopped, so the threads that post and poll do all of the
work, and always the same. SOFTHCA_BASE, a folder with the libraries of another build, is counted
beside this one, with the change in percent."""
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SEIZE, INTERRUPT, CONT, DETACH = 0x4206, 0x4207, 7, 17
WALL = 0x40000000
# nanosleep, clock_nanosleep, epoll_wait, epoll_pwait: a thread in one of them does not have the
# lock that valgrind gives to one thread at a time.
WAITS = {"232", "281"}  # their fourth argument: ms
ASLEEP = {"35", "230", *WAITS}
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

# transport, operation, size, messages, messages a batch; by which calls, behind these
PATHS = [("RC", "send", 8, 2000, 1), ("RC", "send", 8, 6400, 64), ("RC", "send", 4096, 2000, 1),
         ("RC", "send", 65536, 320, 1), ("RC", "write", 8, 2000, 1), ("RC", "write", 65536, 320, 1),
         ("RC", "read", 8, 2000, 1), ("RC", "read", 65536, 320, 1), ("RC", "atomic", 8, 2000, 1),
         ("UC", "send", 8, 2000, 1), ("UC", "write", 8, 2000, 1), ("UD", "send", 8, 2000, 1)]
# the same by other calls
PATHS = [(*path, "post") for path in PATHS] + [
    ("RC", "send", 8, 2000, 1, "wr"), ("RC", "send", 8, 2000, 1, "raw"),
    ("RC", "write", 8, 2000, 1, "wr"), ("RC", "write", 8, 2000, 1, "raw"),
    # no message: an mkey is laid anew over as many bytes in four parts
    ("RC", "mkey", 64, 2000, 1, "list"), ("RC", "mkey", 64, 2000, 1, "configure"),
    ("RC", "mkey", 64, 2000, 1, "raw")]
HOW = {"post": "", "wr": ", ibv_wr_*", "raw": ", mlx5dv_wr_raw_wqe", "list": ", mlx5dv_wr_mr_list",
       "configure": ", mlx5dv_wr_mkey_*"}
COUNTED = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)

# How often a run begins anew whose receiver's engine thread is armed and does not nap: a busy
# machine has given the program no core for the length of a nap, so it seemed not to poll. What a
# message costs then is another figure: behind each WRITE the sender rings an engine that naps, and
# one that is armed only once.
TRIES = 5


class Failed(Exception):
    pass


class Armed(Exception):
    pass


def stop_engine(pid):
    """Stops all threads of the process but the first while they sleep; for each, does it nap?"""
    naps = {}
    for task in [int(name) for name in os.listdir(f"/proc/{pid}/task") if int(name) != pid]:
        ptrace(SEIZE, task)
        while True:
            ptrace(INTERRUPT, task)
            os.waitpid(task, WALL)
            call, *words = Path(f"/proc/{pid}/task/{task}/syscall").read_text().split()
            if call in ASLEEP:
                break
            ptrace(CONT, task)
        naps[task] = call not in WAITS or int(words[3], 16) <= 1
    return naps


def ptrace(request, task):
    if libc.ptrace(request, task, None, None):
        raise Failed(f"ptrace of thread {task}: {os.strerror(ctypes.get_errno())}")


def counted(libraries, path):
    """(sender's, receiver's) instructions a message, and "*" if the receiver's engine was armed"""
    for _ in range(TRIES):
        try:
            return *counted_once(libraries, path, False), " "
        except Armed:
            continue
    return *counted_once(libraries, path, True), "*"


def counted_once(libraries, path, even_armed):
    program = Path(os.environ["SOFTHCA_BUILD"]) / "tests/bench/instructions"
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.Popen(
            ["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no",
             "--toggle-collect=step_*", f"--callgrind-out-file={folder}/%p", program,
             *(str(word) for word in path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "LD_LIBRARY_PATH": str(libraries)})
        pids = told(run, "ready", path)
        naps = {pid: stop_engine(pid) for pid in pids}
        stopped = [task for tasks in naps.values() for task in tasks]
        napping = all(nap for pid in naps if pid != run.pid for nap in naps[pid].values())
        if not napping and not even_armed:
            end(run, pids, stopped)
            raise Armed
        answer(run)
        told(run, "done", path)
        for task in stopped:
            ptrace(DETACH, task)
        answer(run)
        if run.wait():
            raise Failed(f"{path}: exit code {run.returncode}")
        found = {pid: COUNTED.search((Path(folder) / str(pid)).read_text()) for pid in pids}
    if not all(found.values()):
        raise Failed(f"{path}: callgrind counted nothing")
    (receiver,) = found.keys() - {run.pid}
    return tuple(int(found[pid].group(1)) / path[3] for pid in (run.pid, receiver))


def end(run, pids, stopped):
    for task in stopped:
        ptrace(DETACH, task)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    run.communicate()


def told(run, word, path):
    """The ids of both processes, once both have said @word."""
    pids = []
    for line in run.stdout:
        if line.startswith(word + " "):
            pids.append(int(line.split()[1]))
        if len(pids) == 2:
            return pids
    raise Failed(f"{path}: exit code {run.wait()}")


def answer(run):
    run.stdin.write("go")
    run.stdin.flush()


def beside(base, path, new):
    """What another build needs for the same, and the change since."""
    try:
        old = counted(base, path)
    except Failed:
        return "          cannot do it"
    return (f"          {old[0]:>7.0f} {old[1]:>8.0f}{old[2]}"
            f" {100 * (sum(new[:2]) / sum(old[:2]) - 1):>+6.2f} %")


def main():
    ours, base = os.environ["SOFTHCA_LIB"], os.environ.get("SOFTHCA_BASE")
    if base and not (Path(base) / "libibverbs.so.1").exists():
        raise Failed(f"SOFTHCA_BASE: {base} has no libibverbs.so.1")
    print("instructions a message            sender receiver"
          + ("     base: sender receiver    change" if base else "")
          + "     * behind an engine that is armed: the machine is busy")
    for path in PATHS:
        service, op, size, _count, batch, how = path
        name = (f"{service} {op} {size} B" + (f", {batch} at a time" if batch > 1 else "")
                + HOW[how])
        new = counted(ours, path)
        line = f"{name:<32} {new[0]:>7.0f} {new[1]:>8.0f}{new[2]}"
        print(line + (beside(base, path, new) if base else ""), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as err:
        print(err)
        sys.exit(1)
