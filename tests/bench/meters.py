# SPDX-License-Identifier: MIT
"""What is measured: functions that run one program once and return one number."""
import re
import shlex
import subprocess

import pairs

NUMBER = r"[\d.]+"


def tool(command):
    """An argv of @command twice: for the server and for the client."""
    argv = [*shlex.split(command), "-p", str(pairs.port())]
    return argv, [*argv, "127.0.0.1"]


def latency(command):
    """perftest's typical latency one way, us."""
    return lambda: row(pairs.ours(*tool(command)))[4]


def bandwidth(command):
    """perftest's average bandwidth, GB/s."""
    return lambda: row(pairs.ours(*tool(f"{command} --report_gbits")))[3] / 8


def rate(command):
    """perftest's message rate, millions a second."""
    return lambda: row(pairs.ours(*tool(command)))[4]


def row(output):
    rows = [line.split() for line in output.splitlines() if re.match(r"^ *\d+ +\d+ +[\d.]", line)]
    if not rows:
        raise pairs.Failed(f"no figures: {output[-300:]}")
    return [float(word) for word in rows[-1]]


def pingpong(command):
    """us a round trip"""
    return lambda: find(rf"({NUMBER}) usec/iter", pairs.ours(*tool(command)))[0]


def ours(program, *arguments):
    """A program of tests/bench over softhca: its figure."""
    return lambda: find(rf"^({NUMBER}) ", _own(program, arguments))[0]


def single(program, *arguments, doorbell):
    """The same by one process that has both ends and may use both cores. @doorbell: how its stores
    are found."""
    argv = [*pairs.RUN, str(pairs.PROGRAMS / program), *map(str, arguments)]
    return lambda: find(rf"^({NUMBER}) ", pairs.alone(argv, {"SOFTHCA_DOORBELL": doorbell}))[0]


def memory(state, count):
    """Bytes of memory that one of @count queue pairs takes."""
    argv = [*pairs.RUN, str(pairs.PROGRAMS / "memory"), state, str(count)]
    return lambda: find(rf"^({NUMBER}) bytes", pairs.alone(argv))[0]


def rounds(how, busy):
    """(p50, p99, total) of 10^5 ping-pongs, with a third process on the two cores or without."""
    pattern = rf"p50 ({NUMBER}) us p99 ({NUMBER}) us total ({NUMBER}) s"

    def run():
        if not busy:
            return find(pattern, _own("rounds", [how, 100000]))
        with pairs.Busy():
            return find(pattern, _own("rounds", [how, 100000]))
    return run


def _own(program, arguments):
    at = pairs.port()
    argv = [str(pairs.PROGRAMS / program), *map(str, arguments), str(at)]
    return pairs.pair([*pairs.RUN, *argv], [*pairs.RUN, *argv, "127.0.0.1"], at=at)


def bare(loop, size=8):
    """A loop of bare.c."""
    def run():
        first, second = pairs.cores()
        return find(rf"^({NUMBER}) ", pairs.alone(
            [str(pairs.PROGRAMS / "bare"), str(first), str(second), loop, str(size)]))[0]
    return run


def bare_rate(loop, size):
    """The same loop, millions a second; bare() says GB/s."""
    run = bare(loop, size)
    return lambda: run() * 1e3 / size


def ucx(test, size=8):
    """UCX's median latency one way over shared memory, us."""
    return lambda: _ucx(test, size, 200000)[1]


def ucx_rate(test, size):
    """Its rate of messages, millions a second."""
    return lambda: _ucx(test, size, 2000000)[-1] / 1e6


def ucx_over(transport, test):
    """UCX's median latency one way over queue pairs of ours, 8 bytes, us; rc_x: whose rings it
    writes itself."""
    env = {"UCX_TLS": f"{transport},self", "UCX_NET_DEVICES": "mlx5_0:1",
           "SOFTHCA_MLX5DV": "1" if transport.endswith("_x") else "0"}
    return lambda: _ucx(test, 8, 10000, env, pairs.RUN)[1]


def _ucx(test, size, count, env=None, run=()):
    """The columns of ucx_perftest's result."""
    server, client = tool(f"ucx_perftest -t {test} -s {size} -n {count} -w {count // 10} -f -v")
    server, client = [*run, *server], [*run, client[0], "127.0.0.1", *client[1:-1]]
    line = words(rf"^(\d+(?:,{NUMBER})+)$", pairs.pair(server, client, env=env or pairs.UCX))[0]
    return [float(word) for word in line.split(",")]


def tcp():
    """TCP over the loopback device, one way, us."""
    at = pairs.port()
    first, second = pairs.cores()
    server = pairs.start(["qperf", "-lp", str(at)], first)
    try:
        pairs.wait_listen(at, server)
        client = ["qperf", "-lp", str(at), "127.0.0.1", "-t", "1", "-uu", "tcp_lat"]
        value = qperf_us(pairs.finish(pairs.start(client, second), client))
        subprocess.run([*client[:4], "quit"], capture_output=True, check=False)
    finally:
        pairs.end(server)
    return value


def qperf_us(output):
    """The latency that qperf -uu printed."""
    value, unit = words(r"latency += +([\d.]+) (\w+)", output)
    return float(value) * {"ns": 1e-3, "us": 1, "ms": 1e3}[unit]


def find(pattern, output):
    return [float(word) for word in words(pattern, output)]


def words(pattern, output):
    found = re.search(pattern, output, re.MULTILINE)
    if not found:
        raise pairs.Failed(f"no figure: {output[-300:]}")
    return found.groups()
