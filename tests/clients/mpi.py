#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: alone timeout=900
"""Open MPI and MPICH over UCX over queue pairs of ours: the program in mpi/, which checks every
byte, with four threads a rank.

Four threads a rank that spin on one lock of UCX make so little progress where they share two cores
that the short run gives them fewer sizes."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from client import cases, pair, programs, ucx

SOURCES = sorted((Path(__file__).parent / "mpi").glob("*.c"))
LIMIT = 200 * pair.PATIENCE
OPEN_MPI = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root",
            "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "^openib,ofi",
            "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
            "--mca", "oob_tcp_if_include", "lo", "--mca", "plm", "isolated"]
STARTERS = {"openmpi": [*OPEN_MPI, "-np"], "mpich": ["mpiexec.mpich", "-iface", "lo", "-n"]}
# library, transport, ranks
SHORT = [("openmpi", "rc_v", 2), ("openmpi", "ud_v", 2), ("mpich", "rc_v", 2), ("mpich", "ud_v", 2),
         ("openmpi", "rc_x", 2), ("mpich", "dc_x", 2)]  # _x: UCX writes the rings itself
MORE = [("openmpi", "rc_v", 4), ("openmpi", "rc_v,ud_v", 3), ("mpich", "rc_v", 4),
        ("mpich", "ud_v", 3), ("openmpi", "ud_x", 2), ("openmpi", "dc_x", 2), ("mpich", "rc_x", 2),
        ("mpich", "ud_x", 2)]
# UCX repeats what it has sent by UD to a rank that has ended already, and one that ends gives back
# the memory of its receives before it destroys the queue pair that has them.
LEFT = re.compile(r"^softhca: .*( dropped \(.*this process has no QP "
                  r"|: ibv_post_recv: QP .* (is not mapped any more|names no memory region)).*\n",
                  re.MULTILINE)


def build(library, folder):
    program = Path(folder) / f"ranks.{library}"
    subprocess.run([f"mpicc.{library}", "-O2", "-w", "-o", program, *SOURCES, "-lpthread"],
                   check=True)
    return program


def run(library, transport, ranks, folder):
    threads, every = "4", "1" if programs.FULL else "7"
    env = {**os.environ, **pair.preload(), "UCX_TLS": f"{transport},self",
           "UCX_NET_DEVICES": "mlx5_0:1", **pair.EXPLAIN, "UCX_WARN_UNUSED_ENV_VARS": "n",
           "SOFTHCA_MLX5DV": "1" if transport.endswith("_x") else "0"}
    argv = [*pair.RUN, *STARTERS[library], str(ranks), build(library, folder), threads, every]
    process = subprocess.Popen(argv, env=env, text=True, errors="replace", stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0)
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()  # the starter ends its ranks
        output, _ = process.communicate()
        return pair.Result(f"not done after {LIMIT} s", client=output)
    if process.returncode:
        return pair.Result(f"ended with {process.returncode}", client=output)
    said = f"{ranks} ranks, {threads} threads each: every byte is right"
    why = pair.silent(LEFT.sub("", output)) if said in output else "does not say that all is right"
    return pair.Result(why, client=output)


def main():
    if os.environ.get("SOFTHCA_SANITIZER", "none") != "none":
        print("SKIP: UCX replaces the calls for memory, as a sanitizer's runtime does")
        return 77
    if not ucx.has_verbs():
        print("SKIP: this UCX is built without verbs")
        return 77
    table = SHORT + MORE if cases.whole() else SHORT
    missing = [name for name in STARTERS if not shutil.which(f"mpicc.{name}")]
    if missing:
        print(f"SKIP: no mpicc.{missing[0]}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OMPI_MCA_orte_tmpdir_base"] = folder
        return cases.run([(f"{library} {transport} {ranks} ranks",
                           lambda row=(library, transport, ranks): run(*row, folder))
                          for library, transport, ranks in table])


if __name__ == "__main__":
    sys.exit(main())
