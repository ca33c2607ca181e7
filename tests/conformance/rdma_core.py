#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both timeout=700
"""Debian's own test suite of rdma-core, unmodified, on our libraries: the ids of must-pass.txt must
be reported `ok`; whatever else passes is told. One module at a time, so that a test that hangs or
crashes costs itself alone.
"""
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from suite import huge_pages, rdma_tool, source, verbose  # noqa: E402

ONE_RUN = 180  # seconds; what hangs costs its test alone


def listed(name):
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def of_release():
    """The ids that some releases of rdma-core have: must-pass-since-N, must-pass-until-N."""
    release = source.release()
    for path in sorted(HERE.glob("must-pass-*-*.txt")):
        kind, number = path.stem.split("-")[2:]
        if release >= int(number) if kind == "since" else release <= int(number):
            yield from listed(path.name)


def must_pass(huge):
    return [*listed("must-pass.txt"), *listed("must-pass-mlx5dv.txt"), *of_release(),
            *(listed("must-pass-huge.txt") if huge else []),
            *(listed("must-pass-root.txt") if os.geteuid() == 0 else [])]


def environment():
    env = dict(os.environ, LD_LIBRARY_PATH=os.environ["SOFTHCA_LIB"])
    if os.environ.get("SOFTHCA_PRELOAD"):
        env["LD_PRELOAD"] = os.environ["SOFTHCA_PRELOAD"]
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return env


def run_module(suite, ids, env):
    """Results of all @ids, and what was printed about those that did not pass."""
    results, told, left = {}, [], list(ids)
    if ids[0].startswith("tests.test_mlx5_"):
        env = {**env, "SOFTHCA_MLX5DV": "1"}
    while left:
        outcome = verbose.run(suite, left, env, ONE_RUN * verbose.patience())
        results.update(outcome.results)
        told += outcome.told
        reached = [i for i in left if i not in outcome.results]
        if outcome.ended_by and outcome.last:
            results[outcome.last] = outcome.ended_by
        if len(reached) == len(left) and not outcome.last:
            results.update({i: f"not run: {outcome.ended_by or 'the loader failed'}" for i in left})
        left = [i for i in left if i not in results]
    return results, told


def main():
    with tempfile.TemporaryDirectory() as folder, huge_pages.reserved() as huge:
        suite = source.unpack(Path(folder))
        if suite is None:
            print("SKIP: python3-pyverbs, which carries the suite, is not installed")
            return 77
        env = rdma_tool.stand_in(Path(folder), environment())
        required = must_pass(huge)
        known = verbose.list_ids(suite, env)
        results, told = {}, []
        for ids in modules(known or required):
            got, said = run_module(suite, ids, env)
            results.update(got)
            told += said
    return report(required, results, told)


def modules(ids):
    grouped = {}
    for test_id in ids:
        grouped.setdefault(test_id.rpartition(".")[0].rpartition(".")[0], []).append(test_id)
    return grouped.values()


def report(required, results, told):
    failed = 0
    print(f"1..{len(required)}")
    for number, test_id in enumerate(required, 1):
        result = results.get(test_id, "the suite does not have it")
        good = result == "ok"
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {test_id}{'' if good else ': ' + result}")
    extra = sorted(i for i, result in results.items() if result == "ok" and i not in required)
    print(f"# beside these, {len(extra)} of {len(results) - len(required)} others pass")
    for test_id in extra:
        print(f"# also ok: {test_id}")
    wanted = [text for test_id, text in told if test_id in required]
    print("\n".join(wanted), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
