# SPDX-License-Identifier: MIT
"""The programs, the options that each takes, and what their output must show."""
import os
import re

from . import pairwise

FULL = os.environ.get("SOFTHCA_LENGTH") == "full"
PART, PARTS = map(int, os.environ.get("SOFTHCA_PART", "1/1").split("/"))


def part(whole, short):
    """How much of @whole a round of full length does, but not less than a short run's."""
    return max(short, whole // PARTS) if FULL else short


PINGPONGS = {"ibv_rc_pingpong": [], "ibv_uc_pingpong": [], "ibv_srq_pingpong": [],
             "ibv_ud_pingpong": ["-s", "1024"]}
# What only some of them take: timestamps, the ibv_wr_* API, device memory, on-demand paging (-o: of
# its buffer, -O: of all memory, -P: fetched ahead).
# Not -e with -t: with both it takes an event whose completion it has polled already for an error.
PINGPONG_MORE = {"ibv_rc_pingpong": ["-t", "-N", "-c -t -N", "-e -N", "-t -N -j", "-t -N -o",
                                    "-c -o -P", "-o -P", "-O", "-c -O -P"],
                 "ibv_srq_pingpong": ["-o"], "ibv_ud_pingpong": []}
TYPES = {"send": ["RC", "UC", "UD", "XRC", "DC"], "write": ["RC", "UC", "XRC", "DC"],
         "read": ["RC", "XRC", "DC"], "atomic": ["RC", "XRC", "DC"]}

# What each option is given, and who does not take it (a regular expression of
# tool and connection type). With DC and -e perftest destroys the channel before one of its CQs.
OPTIONS = {
    "plain": ([], None),
    "-a": (["-a"], "atomic"),
    "-q 64": (["-q", "64"], "_lat"),
    "-e": (["-e"], "write|DC"),
    "-b": (["-b"], "_lat"),
    "-I": (["-s", "32", "-I", "32"], "read|atomic"),
    "-l": (["-l", "64"], "_lat"),
    "old post": (["--use_old_post_send"], "DC"),
    "SRQ": (["--use-srq"], "write|read|atomic|UC|XRC"),
}
# To a multicast group: perftest's own, or 239.1.2.3 in its notation of GIDs. It wants that GID
# and its own to be of one kind; ib_send_bw left to itself takes an IPv4 one and an IPv6 group.
MULTICAST = {
    "ib_send_bw UD -g": ["ib_send_bw", "-g", "-x", "1"],
    "ib_send_bw UD -g IPv4": ["ib_send_bw", "-g", "-x", "3", "-M",
                              "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3"],
    "ib_send_lat UD -g": ["ib_send_lat", "-g"],
    "ib_send_lat UD -g IPv4": ["ib_send_lat", "-g", "-x", "3", "-M",
                               "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3"],
}

FIGURES = re.compile(r"^[ \t]*\d+[ \t]+\d+([ \t]+(\d[\d.]*|-?nan|inf))+[ \t]*$", re.MULTILINE)
SIZES = {"UD": 10}


def pingpong_done(_side, output):
    return "" if re.search(r"\d+ iters in [\d.]+ seconds", output) else "prints no 'iters in'"


def success(_side, output):
    return "" if "success" in output else "does not print 'success'"


def pingpongs():
    """(name, argv, check) of each program, plain, with events and with verified data."""
    iterations = "20000" if FULL else "1000"
    for program, more in PINGPONGS.items():
        for option in ("", "-e", "-c", *PINGPONG_MORE.get(program, [])):
            argv = [program, "-g", "3", "-n", iterations, *more, *option.split()]
            yield f"{program} {option or 'plain'}", argv, pingpong_done
    iterations = "10000" if FULL else "1000"  # it makes a queue that has room for all of them
    for option in ("", "-e", "-o"):
        argv = ["ibv_xsrq_pingpong", "-g", "3", "-n", iterations, *option.split()]
        yield f"ibv_xsrq_pingpong {option or 'plain'}", argv, success


def perftest():
    """(name, argv, check) of each tool x connection type x option that it takes."""
    for verb, types in TYPES.items():
        for tool in (f"ib_{verb}_bw", f"ib_{verb}_lat"):
            for service in types:
                for option, (argv, refuses) in OPTIONS.items():
                    if refuses and re.search(refuses, f"{tool} {service}"):
                        continue
                    yield (f"{tool} {service} {option}",
                           [tool, "-F", "-c", service, "-n", _iterations(tool, option, service),
                            *argv],
                           figures(SIZES.get(service, 23) if option == "-a" else 1))
    for name, argv in MULTICAST.items():
        argv = [*argv, "-F", "-c", "UD", "-n", _iterations(argv[0], "", "UD")]
        yield name, argv, figures(1)


def _iterations(tool, option, service):
    """A post list must divide the count; all sizes together move 16 MiB an iteration, and a latency
    tool takes turns with its peer, which costs a time slice where another program is busy. Without
    flow control a server that has lost its core drops what it has no receive for, and waits for
    ever: perftest posts 512 of them. The time in which it finds the peak grows with the square of
    the count times the QPs."""
    if tool == "ib_send_bw" and service in ("UC", "UD"):
        full = "512" if option == "-l" else "500"  # many QPs want hundreds: its CQ moderation
        return full if FULL or option not in ("-a", "-q 64") else "100"
    if FULL:
        return "6400" if option not in ("-a", "-q 64") else "1000"
    if option == "-a":
        return "20" if tool.endswith("_lat") else "100"
    return "640" if option == "-l" else "100" if option == "-q 64" else "1000"


def figures(least):
    """@least: rows. Servers that only wait print no figures."""

    def check(side, output):
        if "local address" not in output:
            return "has not connected"
        rows = len(FIGURES.findall(output))
        if side == "client" and rows < least:
            return f"prints {rows} rows of figures, not {least}"
        return ""
    return check


def pairwise_perftest():
    """So many of perftest() that every pair of verb, figure, connection type and option meets."""
    listed = list(perftest())
    return [listed[i] for i in pairwise.cover([_features(program[0]) for program in listed])]


def _features(name):
    tool, service, option = name.split(" ", 2)
    _, verb, figure = tool.split("_")
    return {"verb": verb, "figure": figure, "service": service, "option": option}


def sample():
    """A few that together use every way in which data moves."""
    wanted = ["ib_send_bw RC -a", "ib_write_bw RC -a", "ib_read_bw RC -a", "ib_write_lat RC plain",
              "ib_send_lat RC -e", "ib_send_bw UD plain", "ib_atomic_bw RC plain",
              "ibv_rc_pingpong -c", "ibv_rc_pingpong -e", "ibv_ud_pingpong -c"]
    return [p for p in [*pingpongs(), *perftest()] if p[0] in wanted]
