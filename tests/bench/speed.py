#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: alone timeout=1800
"""How fast, beside what the machine and its other software can do.

Each figure is the median of several runs; its peer runs in between, in the same minutes, since the
speed of a shared machine drifts. A target that is missed is said, it is not a failure: a program
that does not do its work is."""
import os
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import median

import meters as m
import pairs

RUNS = 5
SIZES = {"64K": 65536, "256K": 262144, "1M": 1 << 20, "4M": 1 << 22}
BYTES_A_RUN = 4 << 30


@dataclass
class Figure:
    """@run must reach @factor x @peer: at most, or at least where @more is better. Without a peer,
    @factor itself."""
    name: str
    run: object
    unit: str
    factor: float
    peer: object = None
    against: str = ""
    more: bool = False


def latencies():
    send = m.latency("ib_send_lat -F -s 8 -n 200000")
    yield Figure("ib_send_lat", send, "us", 1.5, m.ucx("tag_lat"), "UCX tag_lat")
    yield Figure("ib_send_lat/tcp", send, "us", 1 / 20, m.tcp, "TCP loopback")
    yield Figure("ib_write_lat", m.latency("ib_write_lat -F -s 8 -n 200000"), "us", 1.1,
                 m.bare("vm_call"), "process_vm_writev call")
    yield Figure("ib_write_lat/pingpong", m.latency("ib_write_lat -F -s 8 -n 200000"), "us", 1.1,
                 m.bare("vm_pingpong"), "the same ping-pong by it")
    yield Figure("write_lat/mapped", m.ours("mapped", "write_lat", 8, 100000), "us", 2,
                 m.ucx("ucp_put_lat"), "UCX ucp_put_lat")


def bandwidths():
    for name, size in SIZES.items():
        count = max(BYTES_A_RUN // size, 1000)
        options = f"-F -s {size} -n {count}"
        yield Figure(f"ib_write_bw/{name}", m.bandwidth(f"ib_write_bw {options}"), "GB/s", 0.9,
                     m.bare("vm_write", size), "process_vm_writev", True)
        yield Figure(f"ib_read_bw/{name}", m.bandwidth(f"ib_read_bw {options}"), "GB/s", 0.9,
                     m.bare("vm_read", size), "process_vm_readv", True)
        for way in ("write", "read"):
            yield Figure(f"{way}_bw/mapped/{name}", m.ours("mapped", f"{way}_bw", size, count),
                         "GB/s", 0.85, m.bare("memcpy", size), "memcpy", True)


def others():
    yield Figure("ib_send_bw", m.rate("ib_send_bw -F -s 64 -l 64 -n 1920000"), "M/s", 8,
                 more=True)
    yield Figure("ibv_rc_pingpong", m.pingpong("ibv_rc_pingpong -g 3 -e -s 64 -n 30000"), "us",
                 1.5, m.bare("futex"), "futex round trip")


def chosen(name):
    wanted = os.environ.get("SOFTHCA_CASES", "").split()
    return not wanted or any(fnmatchcase(name, w) for w in wanted)


def alternate(figure):
    """The medians of the figure and of its peer (None: it has none)."""
    mine, theirs = [], []
    for _ in range(RUNS):
        mine.append(figure.run())
        if figure.peer:
            theirs.append(figure.peer())
    return median(mine), median(theirs) if theirs else None


def verdict(figure, value, target):
    """'reached', or by how much it is not."""
    if figure.more and value < target:
        return f"falls short by {100 - 100 * value / target:.0f} %"
    if figure.more:
        return "reached"
    return "reached" if value <= target else f"falls short: {value / target:.2f} x the target"


def tell(figure):
    value, peer = alternate(figure)
    target = figure.factor * (peer if figure.peer else 1)
    rule = f"{'>=' if figure.more else '<='} {target:.3g}"
    beside = f"{figure.factor:.3g} x {figure.against} {peer:.3g}" if figure.peer else ""
    ratio = f"{value / peer:.2f}" if figure.peer else f"{value / target:.2f}"
    said = verdict(figure, value, target)
    print(f"{figure.name:<22} {value:>8.3g} {figure.unit:<5} {rule:<10} {ratio:>6}  {said:<32}"
          f" {beside}", flush=True)
    return said == "reached"


def shared_cores():
    """Ping-pongs beside a third busy process: no target, both are shown."""
    for how in ("event", "poll"):
        if not chosen(f"rounds/{how}"):
            continue
        for busy in (False, True):
            runs = [m.rounds(how, busy)() for _ in range(RUNS)]
            p50, p99, total = (median(column) for column in zip(*runs))
            print(f"{'rounds/' + how:<22} 10^5 ping-pongs of 64 B, {'with' if busy else 'without'}"
                  f" a third busy process: p50 {p50:.2f} us, p99 {p99:.1f} us, total {total:.2f} s",
                  flush=True)


def main():
    figures = [f for part in (latencies, bandwidths, others) for f in part() if chosen(f.name)]
    lines = sorted(m.bare("line")() for _ in range(RUNS))
    print(f"medians of {RUNS} runs, cores {pairs.cores()}, uid {os.getuid()}; a cache line goes"
          f" from one to the other in {lines[0]:.3f} to {lines[-1]:.3f} us")
    print(f"{'figure':<22} {'value':>8} {'unit':<5} {'target':<10} {'ratio':>6}  {'verdict':<32}"
          " target is")
    reached = broken = 0
    for figure in figures:
        try:
            reached += tell(figure)
        except pairs.Failed as err:
            broken += 1
            print(f"{figure.name:<22} FAILED: {err}", flush=True)
    try:
        shared_cores()
    except pairs.Failed as err:
        broken += 1
        print(f"rounds FAILED: {err}", flush=True)
    print(f"{reached} of {len(figures)} targets reached, {broken} programs failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
