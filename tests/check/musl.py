#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: timeout=900
"""All of src and tools is right C with musl's headers too, as distributions that use it have them.

Nothing is linked: Debian has no library of ours that is built with musl. A short run looks at a
sample, printed with its seed."""
import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gate import commands  # noqa: E402

CC = "musl-gcc"
SAMPLE = 60
FLAGS = ["-fsyntax-only", "-w", "-Werror=implicit-function-declaration",
         "-Werror=incompatible-pointer-types", "-Werror=int-conversion"]
# The headers of libraries and of the kernel are the system's, behind musl's own.
BEHIND = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]


def look(path, cwd, flags):
    wanted = [flag for flag in flags if flag.startswith(("-D", "-I", "-std", "-f", "-U")) and
              not flag.startswith(("-flto", "-ffat-lto", "-fsanitize", "-D_FORTIFY"))]
    done = subprocess.run([CC, *wanted, *FLAGS, *BEHIND, str(path)], cwd=cwd, capture_output=True,
                          text=True, check=False)
    return done.stderr if done.returncode else ""


def chosen(units):
    if os.environ.get("SOFTHCA_LENGTH") == "full":
        return units
    seed = int(os.environ.get("SOFTHCA_SEED", random.randrange(1 << 32)))
    print(f"# SOFTHCA_SEED={seed}: {SAMPLE} of {len(units)} files")
    return random.Random(seed).sample(units, min(SAMPLE, len(units)))


def main():
    if not shutil.which(CC):
        print(f"SKIP: {CC} is not installed")
        return 77
    build = Path(os.environ.get("SOFTHCA_BUILD", TOP / "build-test")).resolve()
    units = [(path, *how) for path, how in commands.units(TOP, build, ["src", "tools"]).items()
             if path.suffix == ".c"]
    with ThreadPoolExecutor(2) as pool:
        failed = [said for said in pool.map(lambda unit: look(*unit), chosen(units)) if said]
    print(*failed, sep="\n")
    return 1 if failed or not units else 0


if __name__ == "__main__":
    sys.exit(main())
