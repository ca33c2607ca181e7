#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: alone timeout=3600
"""How rates and costs grow with sizes and numbers: prints the points of the curves."""
import sys
from statistics import median

import meters as m
import pairs
from small import stream

RUNS = 7
SIZES = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536]
QPS = [1, 4, 16, 64, 256, 1024, 4096, 10000]
PROCESSES = [2, 4, 8, 16, 32]
OBJECTS = [1, 10, 100, 1000, 10000]
MESSAGES = 1 << 19
BYTES = 1 << 32


def against_size(operation):
    def at(size):
        return m.rate(stream(operation, size, count=min(MESSAGES, BYTES // size)))()
    return at, SIZES


def against_queue_pairs(count):
    return m.ours("burst", count, MESSAGES)()


def against_processes(count):
    """Pairs of processes at once on both cores: their sum"""
    first, second = pairs.cores()
    both = f"{first},{second}"
    servers = clients = []
    ports = [pairs.port() for _ in range(count // 2)]
    argv = [*pairs.RUN, *"ib_send_bw -F -s 64 -D 3 -p".split()]
    try:
        servers = [pairs.start([*argv, str(at)], both) for at in ports]
        for at, server in zip(ports, servers):
            pairs.wait_listen(at, server)
        clients = [pairs.start([*argv, str(at), "127.0.0.1"], both) for at in ports]
        return sum(m.row(pairs.finish(c, argv))[4] for c in clients)
    finally:
        for process in (*servers, *clients):
            pairs.end(process)


def cost(what):
    def at(count):
        argv = [*pairs.RUN, str(pairs.PROGRAMS / "costs"), what, str(count)]
        return m.find(rf"^({m.NUMBER}) us", pairs.alone(argv))[0]
    return at, OBJECTS


PANELS = [
    ("bytes a message", "million messages a second",
     [("SEND", "one", *against_size("send")), ("WRITE", "two", *against_size("write")),
      ("READ", "three", *against_size("read"))]),
    ("queue pairs", "million SENDs of 64 B a second", [("SEND", "one", against_queue_pairs, QPS)]),
    ("processes, in pairs, on two cores", "million SENDs of 64 B a second",
     [("SEND", "one", against_processes, PROCESSES)]),
    ("objects that are there", "microseconds for one more",
     [("ibv_reg_mr, 4 KiB", "one", *cost("reg_mr")), ("ibv_create_qp", "two", *cost("create_qp")),
      ("two QPs to RTS", "three", *cost("connect"))]),
]


def main():
    lines = sorted(m.bare("line")() for _ in range(RUNS))
    print(f"# medians of {RUNS} runs on two cores; a cache line goes from one to the other in "
          f"{lines[0]:.3f} to {lines[-1]:.3f} us", flush=True)
    for across, up, curves in PANELS:
        print(f"panel {across} | {up}", flush=True)
        for name, colour, measure, places in curves:
            points = (f"{x}:{median(measure(x) for _ in range(RUNS)):.3g}" for x in places)
            print(f"curve {colour} {name} | {' '.join(points)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
