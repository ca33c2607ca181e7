#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: alone timeout=900
"""UCX over queue pairs of ours: ucx_info, and ucx_perftest between two processes, over each
transport one pair that runs a list of tests. Shared memory and TCP are closed to it.

Short: so many that each pair of transport, test and size meets, by the printed seed; full, or where
cases are picked by name: all. ucx_perftest ends with 0 whatever becomes of a test of its list, so
the figures of each are looked for."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from client import cases, pair, pairwise, programs, ucx

DEVICE = "mlx5_0:1"
SIZES = [8, 4096, 1 << 20]
MESSAGES = ["tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw",
            "ucp_get", "stream_lat", "stream_bw", "ucp_am_lat", "ucp_am_bw"]
ATOMICS = ["ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"]
TRANSPORTS = ["rc_v", "ud_v", "rc_x", "ud_x", "dc_x"]  # _x: it writes the rings itself
# Tests of one transport alone: what it is asked for, in which layouts, and how much of it.
UCT = {
    "rc_verbs": [(test, layout, size)
                 for test in ("am_lat", "am_bw", "put_lat", "put_bw", "get")
                 for layout, sizes in (("short", [8]), ("bcopy", [8, 4000]),
                                       ("zcopy", [2000, 4096, 1 << 20]))
                 for size in sizes
                 if not (test == "get" and layout == "short" or
                         test.startswith("am") and size > 4000)] +
                [(test, "short", 8) for test in ("add_lat", "add_mr", "fadd", "cswap")],
    "ud_verbs": [(test, layout, size) for test in ("am_lat", "am_bw")
                 for layout in ("short", "bcopy", "zcopy") for size in (8, 1000)
                 if (layout, size) not in (("short", 1000), ("zcopy", 8))],
}
UCT["rc_mlx5"] = UCT["dc_mlx5"] = UCT["rc_verbs"]
UCT["ud_mlx5"] = UCT["ud_verbs"]
SHOWN = {"0": ["rc_verbs", "ud_verbs"],
         "1": ["rc_verbs", "rc_mlx5", "dc_mlx5", "ud_verbs", "ud_mlx5"]}  # by SOFTHCA_MLX5DV
# its rc_verbs has no flush at the remote side, on no device, and says so since 1.18
ITS_OWN = r"(?:flush\(remote\) is not supported|error during flush: Unsupported operation)"
INFOS = 50 if programs.FULL else 3


def environment(transports):
    return {"UCX_TLS": f"{transports},self", "UCX_NET_DEVICES": DEVICE,
            "SOFTHCA_MLX5DV": "1" if transports.endswith("_x") else "0"}


def info(mlx5dv):
    """It sees the transports on the device, as often as it looks."""
    env = {**os.environ, **pair.preload(), "SOFTHCA_MLX5DV": mlx5dv}
    for i in range(INFOS):
        done = subprocess.run([*pair.RUN, "ucx_info", "-d"], env=env, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        found = re.findall(r"Transport: ((?:rc|ud|dc)_(?:verbs|mlx5))\n#\s+Device: " + DEVICE,
                           done.stdout)
        if done.returncode or sorted(found) != sorted(SHOWN[mlx5dv]):
            return pair.Result(f"run {i}: ended with {done.returncode}, shows {found}",
                               client=done.stdout)
    return pair.Result("")


def done(names):
    """Every test of the list has printed its figures, and nothing is called an error."""
    def check(side, output):
        error = re.search(r"UCX +(ERROR|FATAL)(?!.*" + ITS_OWN + ").*", output)
        if error:
            return f"says '{error.group(0)}'"
        if side == "server":
            return ""
        parts = dict(re.findall(r"^\+(\w+)-*\+[-+]*\n((?:[^+].*\n)*)", output, re.MULTILINE))
        lacks = [name for name in names if "Final:" not in parts.get(name, "")]
        return f"has no figures of {', '.join(lacks)}" if lacks else ""
    return check


def perftest(transports, lines):
    """One pair of processes that runs the tests of @lines, {name: arguments}."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list"
        path.write_text("".join(f"{name} {words}\n" for name, words in lines.items()))
        path.chmod(0o644)
        # without a terminal those built with MPI wait for mpirun
        side = pair.Side(env=environment(transports), terminal=True)
        return pair.run(["ucx_perftest", "-b", str(path)], done(lines), side, side, limit=300)


def every_byte(transports):
    """A program of ours: two processes that compare what UCX brings."""
    program = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/clients/ucp_bytes")
    ran = subprocess.run([*pair.RUN, program, "10" if programs.FULL else "1"],
                         env={**os.environ, **pair.preload(), **environment(transports)},
                         text=True, errors="replace", stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, check=False)
    right = ran.returncode == 0 and "all right" in ran.stdout
    return pair.Result("" if right else f"ended with {ran.returncode}", client=ran.stdout)


def count(size):
    return f"-n {20 if size > 4096 else 100} -w 5" if not programs.FULL else \
        f"-n {200 if size > 4096 else 2000} -w 50"


def protocol_tests():
    """[(transport, test, size)] of the upper layer"""
    every = [(t, test, size) for t in TRANSPORTS for test in MESSAGES for size in SIZES]
    every += [(t, test, 8) for t in TRANSPORTS for test in ATOMICS]
    if cases.whole():
        return every
    few = pairwise.cover([dict(zip(("transport", "test", "size"), row)) for row in every])
    print(f"# SOFTHCA_SEED={pairwise.SEED}: {len(few)} of {len(every)} tests of the upper layer, "
          "in which each pair of transport, test and size meets")
    return [every[i] for i in few]


def main():
    if os.environ.get("SOFTHCA_SANITIZER", "none") != "none":
        print("SKIP: UCX replaces the calls for memory, as a sanitizer's runtime does")
        return 77
    if not ucx.has_verbs():
        print("SKIP: this UCX is built without verbs")
        return 77
    chosen = protocol_tests()
    table = [(f"ucx_info -d SOFTHCA_MLX5DV={on}", lambda on=on: info(on)) for on in SHOWN]
    for transport in TRANSPORTS:
        lines = {f"{test}_{size}": f"-t {test} -s {size} {count(size)}"
                 for t, test, size in chosen if t == transport}
        table.append((f"ucx_perftest {transport}", lambda t=transport, x=lines: perftest(t, x)))
        table.append((f"every byte {transport}", lambda t=transport: every_byte(t)))
    for transport, rows in UCT.items():
        lines = {f"{test}_{layout}_{size}":
                 f"-d {DEVICE} -x {transport} -t {test} -D {layout} -s {size} {count(size)}"
                 for test, layout, size in rows}
        of = transport[:2] + "_x" if transport.endswith("_mlx5") else "rc_v,ud_v"
        table.append((f"ucx_perftest -x {transport}", lambda t=of, x=lines: perftest(t, x)))
    return cases.run(table)


if __name__ == "__main__":
    sys.exit(main())
