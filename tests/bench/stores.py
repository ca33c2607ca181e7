# SPDX-License-Identifier: MIT
"""The figures of programs that write rings themselves, by stores that are calls or by an engine
thread on a core of its own: of one process, and UCX's rc_mlx5 between two."""
import meters as m
from table import Figure


def one_host():
    def row(name, run, most):
        return Figure(f"stores/{name}", run, "us", most)

    yield row("doorbell", m.single("stores", "nop", 20000, doorbell="trap"), 3.5)
    yield row("send/spin", m.single("stores", "send", 100000, doorbell="spin"), 2)
    yield row("send/trap", m.single("stores", "send", 20000, doorbell="trap"), 20)
    for test, most in (("ucp_put_lat", 8), ("ucp_fadd", 8), ("tag_lat", 20)):
        yield row(f"rc_x/{test}", m.ucx_over("rc_x", test), most)
    yield row("rc_v/tag_lat", m.ucx_over("rc_v", "tag_lat"), 20)
