# SPDX-License-Identifier: MIT
"""Finds the suite: python3-pyverbs brings it in /usr/share/doc/rdma-core/tests; slim images drop
that folder, and then the set-up has unpacked it where SOFTHCA_SUITE says."""
import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

INSTALLED = "/usr/share/doc/rdma-core/tests"


def unpack(folder):
    """A readable copy below @folder; the path of its run_tests.py, or None."""
    places = [Path(INSTALLED), Path(os.environ.get("SOFTHCA_SUITE") or "/nonexistent")]
    origin = next((p for p in places if p.is_dir() and any(p.glob("run_tests.py*"))), None)
    if origin is None:
        return None
    tests = folder / "tests"
    tests.mkdir()
    for path in origin.iterdir():
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                (tests / path.stem).write_bytes(packed.read())
        elif path.is_file():
            shutil.copy(path, tests)
    return tests / "run_tests.py"


def release():
    """rdma-core's number, of the installed python3-pyverbs."""
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs"], text=True,
                             stdout=subprocess.PIPE, check=True).stdout
    return int(re.match(r"\d+", version)[0])
