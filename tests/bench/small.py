# SPDX-License-Identifier: MIT
"""The figures of small messages, which per-message work bounds and not the bytes: millions of
messages a second. Most of them stand beside another figure of ours, of the same minutes."""
import meters as m
from table import Figure

COUNT = 1000000
LISTS = "-l 64"  # a post of 64 work requests
MANY = 1024


def stream(operation, size, *options, count=COUNT):
    """perftest's arguments for a stream of small messages."""
    return " ".join((f"ib_{operation}_bw -F -s {size} -n {count // 64 * 64}", *options))


def one_host():
    send = m.rate(stream("send", 64))
    ucx = m.ucx_rate("tag_bw", 64)

    def row(name, command, factor, peer=send, against="ib_send_bw -s 64"):
        return Figure(f"small/{name}", m.rate(command), "M/s", factor, peer, against, True)

    yield Figure("small/send/64", send, "M/s", 0.5, ucx, "UCX tag_bw", True)
    yield row("send/64/list", stream("send", 64, LISTS), 0.75, ucx, "UCX tag_bw")
    yield row("write/64", stream("write", 64), 0.5)
    yield row("write/64/list", stream("write", 64, LISTS), 0.5)
    yield row("write/4096", stream("write", 4096), 0.5, m.rate(stream("send", 4096)),
              "ib_send_bw -s 4096")
    yield row("read/64", stream("read", 64), 2, m.bare_rate("vm_read", 64), "process_vm_readv")
    yield row("atomic", f"ib_atomic_bw -F -n {COUNT // 2}", 0.6)
    yield row("ud/64", stream("send", 64, "-c UD"), 0.8)
    yield Figure(f"small/{MANY}_qps", m.ours("burst", MANY, COUNT), "M/s", 1 / 1.5,
                 m.ours("burst", 1, COUNT), "the same over one QP", True)


def between(perftest):
    """@perftest: runs a command between two hosts; the columns of its last row."""
    def rate(operation, size, *options, count=COUNT // 8):
        return lambda: perftest(stream(operation, size, *options, count=count))[4]

    def large(operation):
        """What the bytes of 64 KiB messages would be in messages of 4 KiB."""
        return lambda: rate(operation, 65536, "-m 4096", count=1 << 14)() * 16

    def row(name, run, factor, peer, against):
        return Figure(f"net/small/{name}", run, "M/s", factor, peer, against, True)

    lists = rate("send", 64, LISTS)
    yield row("send/64", rate("send", 64), 0.65, lists, "ib_send_bw -l 64")
    yield row("write/64", rate("write", 64), 0.65, rate("write", 64, LISTS),
              "ib_write_bw -l 64")
    yield row("write/4096", rate("write", 4096, "-m 4096"), 0.65, large("write"),
              "the bytes of 64 KiB")
    yield row("ud/64", rate("send", 64, "-c UD"), 0.65, lists, "RC's with -l 64")
    yield row("read/4096", rate("read", 4096, "-m 4096"), 0.6, large("read"),
              "the bytes of 64 KiB")
