#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=900
"""The suite's module of connection management on an interface that is no loopback, once; at full
length twenty times there and on lo."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import rdma_core  # noqa: E402
from suite import rdma_tool, source  # noqa: E402

MODULE, VETH, ADDRESS, TIMES = "tests.test_rdmacm.", "cm0", "10.77.0.1/24", 20


def make_veth():
    for words in (["link", "add", VETH, "type", "veth", "peer", "name", "cm1"],
                  ["address", "add", ADDRESS, "dev", VETH],
                  ["link", "set", VETH, "up"], ["link", "set", "cm1", "up"]):
        subprocess.run(["ip", *words], check=True)


def on(netdev, suite, folder, ids):
    """What is wrong with one run there: id, result."""
    env = {**rdma_core.environment(), "SOFTHCA_DEVICES": f"mlx5_0={netdev}"}
    results, told = rdma_core.run_module(suite, ids, rdma_tool.stand_in(folder, env, netdev))
    wrong = [f"{i}: {results.get(i)}" for i in ids if results.get(i) != "ok"]
    return wrong + [text for _, text in told if wrong]


def main():
    full = os.environ.get("SOFTHCA_LENGTH") == "full"
    runs = [(n, netdev) for n in range(TIMES) for netdev in (VETH, "lo")] if full else [(0, VETH)]
    with tempfile.TemporaryDirectory() as name:
        suite = source.unpack(Path(name))
        if suite is None:
            print("SKIP: python3-pyverbs, which carries the suite, is not installed")
            return 77
        make_veth()
        ids = [i for i in rdma_core.must_pass(False) if i.startswith(MODULE)]
        print(f"1..{len(runs)}")
        failed = 0
        for number, (nth, netdev) in enumerate(runs, 1):
            wrong = on(netdev, suite, Path(name), ids)
            failed += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {number} - {netdev}, time {nth + 1}", flush=True)
            print("\n".join(wrong), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
