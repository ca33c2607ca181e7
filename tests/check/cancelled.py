#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: timeout=900
"""No function in which a thread takes a turn, a quiesce section, a spin lock or a plain mutex gets
to a point of cancellation (pthreads(7)), but by a function that disables cancellation, or one that
cancelled.waivers lists with a reason; a waiver that no function needs fails too.

Function by function: what a function does before it takes or after it gives back counts as well.

By hand: cancelled.py BUILD-FOLDER"""
import argparse
import os
import shutil
import sys
from collections import defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gate import calls, pointers  # noqa: E402

WAIVERS = Path(__file__).resolve().parent / "cancelled.waivers"
TAKES = {"quiesce_enter", "quiesce_enter_by_rmw", "turn_take", "turn_try", "turn_close",
         "spin_lock", "spin_trylock", "pthread_mutex_lock"}
DISABLES = {"uncancelled_begin", "mutex_lock", "mutex_trylock", "mutex_timedlock"}
POINTS = set("""
    accept accept4 clock_nanosleep close closedir connect creat dprintf epoll_pwait epoll_pwait2
    epoll_wait fallocate fclose fdatasync fdopen fflush fgets flock fopen fprintf fputc fputs fread
    fsync fwrite getaddrinfo getline getnameinfo lockf msync nanosleep open openat opendir poll
    ppoll pread preadv preadv2 printf pselect pthread_cond_timedwait pthread_cond_wait pthread_join
    pthread_testcancel pwrite pwritev pwritev2 read readdir readv recv recvfrom recvmmsg recvmsg
    select sem_timedwait sem_wait send sendmmsg sendmsg sendto sigtimedwait sigwait sleep syslog
    usleep vdprintf vfprintf wait waitpid write writev
    mnl_socket_close mnl_socket_open2 mnl_socket_recvfrom mnl_socket_sendto""".split())


def waivers(text):
    """(file, function) -> reason, of `FILE: FUNCTION: reason` lines; # begins a comment."""
    found = {}
    for line in text.split("\n"):
        line = line.split("#")[0].strip()
        if not line:
            continue
        parts = [part.strip() for part in line.split(":", 2)]
        if len(parts) < 3 or not parts[2]:
            raise SystemExit(f"{WAIVERS.name}: '{line}' gives no reason")
        found[Path(parts[0]), parts[1]] = parts[2]
    return found


def callees(graph, held):
    """(file, function) -> what it calls, as (file or None, function)."""
    after = defaultdict(set)
    for call in graph.calls:
        if call.callee == calls.INDIRECT:
            after[call.file, call.caller] |= held.at(call)
        else:
            home = call.home or graph.file_of(call.callee, call.file)
            after[call.file, call.caller].add((home, call.callee))
    return after


def is_point(target):
    """With 64-bit offsets the compiler names open64() and the like."""
    home, name = target
    return home is None and name.removesuffix("64").lstrip("*") in POINTS


def judge(after, waived):
    """(chains of functions from one that takes to a point of cancellation, waivers not needed)"""
    stops = {node for node, targets in after.items() if {name for _, name in targets} & DISABLES}
    holders = sorted((node for node, targets in after.items()
                      if {name for _, name in targets} & TAKES), key=str)
    found, used = {}, set()

    def search(start, chains):
        before, left = {start: None}, [start]
        while left:
            node = left.pop(0)
            if node in stops or node in waived and node != start:
                used.update({node} & set(waived))
                continue
            for target in after[node]:
                if is_point(target):
                    chain, at = [target[1]], node
                    while at:
                        chain.append(at[1])
                        at = before[at]
                    chains.setdefault((node, target[1]), (start, chain[::-1]))
                elif target[0] and target not in before:
                    before[target] = node
                    left.append(target)

    for holder in holders:
        if holder in waived:
            used.add(holder)
        else:
            search(holder, found)
    stale = [node for node in waived if node not in used or not _needs(search, node)]
    return list(found.values()), stale


def _needs(search, node):
    chains = {}
    search(node, chains)
    return bool(chains)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("build", type=Path, nargs="?", default=os.environ.get("SOFTHCA_BUILD"),
                         help="a build folder, configured by meson (default: $SOFTHCA_BUILD)")
    given = options.parse_args()
    if not shutil.which("gcc"):
        print("SKIP: gcc, which tells who calls whom, is not installed")
        return 77
    graph = calls.compile_graph(TOP, (given.build or TOP / "build-test").resolve())
    found, stale = judge(callees(graph, pointers.Held(graph)), waivers(WAIVERS.read_text()))
    print("1..1")
    print(f"{'not ok' if found or stale else 'ok'} 1 - a thread that is cancelled holds nothing")
    for (path, _), chain in found:
        print(f"# {path}: {' > '.join(chain)} is a point of cancellation: disable it in between "
              "(util/uncancelled.h), or take a struct mutex")
    for path, name in stale:
        print(f"# {WAIVERS.name}: {path}: {name} is no longer needed")
    return 1 if found or stale else 0


if __name__ == "__main__":
    sys.exit(main())
