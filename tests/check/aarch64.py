#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: timeout=900
"""All of src and tools compiles for aarch64 without a warning, and lacks nothing of its own there.

The headers of libraries are those of this machine: Debian has one text for all architectures.
Linked is only as far as needs no library of the other one; `./build.sh aarch64` does the rest."""
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gate import commands  # noqa: E402

TOOLS = "aarch64-linux-gnu-"
HEADERS = ["infiniband", "rdma", "libmnl", "isa-l", "isa-l.h"]
LEFT_OUT = ("-mstringop-strategy", "-fcf-protection",  # x86's
            "-flto", "-ffat-lto")  # nothing is optimised at the link
# What begins so comes from a library of the other architecture.
LIBRARIES = ("mnl_", "crc32_", "crc16_")


def compile_one(path, cwd, flags, target, headers):
    flags = [flag for flag in flags if not flag.startswith(LEFT_OUT)]
    done = subprocess.run([TOOLS + "gcc", *flags, "-Werror", "-isystem", str(headers), "-c",
                           str(path), "-o", str(target)], cwd=cwd, capture_output=True, text=True,
                          check=False)
    return done.stderr if done.returncode else ""


def lacking(objects, folder):
    """What the objects name and nobody defines, but for what libraries bring."""
    linked = folder / "all.so"
    done = subprocess.run([TOOLS + "gcc", "-shared", "-o", linked, *objects], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        return [done.stderr]
    names = subprocess.run([TOOLS + "nm", "-D", "-u", linked], capture_output=True, text=True,
                           check=True).stdout.split("\n")
    return [name.split()[-1] for name in names if " U " in name and "@" not in name and
            not name.split()[-1].startswith(LIBRARIES)]


def main():
    if not shutil.which(TOOLS + "gcc"):
        print(f"SKIP: {TOOLS}gcc is not installed")
        return 77
    build = Path(os.environ.get("SOFTHCA_BUILD", TOP / "build-test")).resolve()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        for header in HEADERS:
            (folder / header).symlink_to(f"/usr/include/{header}")
        jobs = []
        for path, (cwd, flags) in commands.units(TOP, build, ["src", "tools"]).items():
            path = path.with_name(path.name.replace("x86_64", "aarch64"))
            target = folder / (str(path.relative_to(TOP)).replace("/", "-") + ".o")
            jobs.append((path, cwd, flags, target, folder))
        failed = [said for said in pool.map(lambda job: compile_one(*job), jobs) if said]
        core = [job[3] for job in jobs if job[0].is_relative_to(TOP / "src") and
                job[0].parent.name not in ("verbs", "mlx5", "rdmacm", "rsocket")]
        failed = failed or [f"nobody defines {name}" for name in lacking(core, folder)]
    print(*failed, sep="\n")
    return 1 if failed or not core else 0


if __name__ == "__main__":
    sys.exit(main())
