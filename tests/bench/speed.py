#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: alone timeout=1800
"""How fast, beside what the machine and its other software can do.

A target that is missed is said, it is not a failure: a program that does not do its work is."""
import os
import sys
from statistics import median

import connections
import meters as m
import pairs
import small
import stores
from table import RUNS, Figure, chosen, show

SIZES = {"64K": 65536, "256K": 262144, "1M": 1 << 20, "4M": 1 << 22}
BYTES_A_RUN = 4 << 30


def latencies():
    send = m.latency("ib_send_lat -F -s 8 -n 200000")
    yield Figure("ib_send_lat", send, "us", 2, m.ucx("tag_lat"), "UCX tag_lat")
    yield Figure("ib_send_lat/tcp", send, "us", 1 / 20, m.tcp, "TCP loopback")
    yield Figure("ib_write_lat", m.latency("ib_write_lat -F -s 8 -n 200000"), "us", 1.1,
                 m.bare("vm_call"), "process_vm_writev call")
    yield Figure("ib_write_lat/uc", m.latency("ib_write_lat -F -c UC -s 8 -n 200000"), "us", 1.2,
                 m.latency("ib_write_lat -F -s 8 -n 200000"), "ib_write_lat by RC")
    yield Figure("ib_write_lat/pingpong", m.latency("ib_write_lat -F -s 8 -n 200000"), "us", 1.1,
                 m.bare("vm_pingpong"), "the same ping-pong by it")
    yield Figure("write_lat/mapped", m.ours("mapped", "write_lat", 8, 100000), "us", 2.7,
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


def memory():
    """A queue pair with 16 work requests of one SGE each way"""
    for state in ("created", "connected", "used"):
        yield Figure(f"memory/qp/{state}", m.memory(state, 10000), "bytes", 8192)


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


def intro():
    lines = sorted(m.bare("line")() for _ in range(RUNS))
    return (f"medians of {RUNS} runs, cores {pairs.cores()}, uid {os.getuid()}; a cache line goes"
            f" from one to the other in {lines[0]:.3f} to {lines[-1]:.3f} us")


def main():
    parts = (latencies, bandwidths, others, small.one_host, stores.one_host,
             connections.one_host, memory)
    figures = [f for part in parts for f in part()]
    reached, all_of_them, broken = show(figures, intro)
    try:
        shared_cores()
    except pairs.Failed as err:
        broken += 1
        print(f"rounds FAILED: {err}", flush=True)
    print(f"{reached} of {all_of_them} targets reached, {broken} programs failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
