#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: timeout=900
"""No files in and below one folder of src/ call each other in a circle, but for the calls that
circles.waivers lists with a reason; a waiver that no circle needs fails too.

By hand: circles.py BUILD-FOLDER [-v] [FOLDER...]"""
import argparse
import os
import shutil
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gate import calls  # noqa: E402

WAIVERS = Path(__file__).resolve().parent / "circles.waivers"
ALL = ("*", "*")


def waivers(text):
    """`src/FOLDER: CALLER -> CALLEE: reason` a line, or `src/FOLDER: *: reason` for all calls of
    the folder; # begins a comment."""
    for line in text.split("\n"):
        line = line.split("#")[0].strip()
        if not line:
            continue
        parts = [part.strip() for part in line.split(":", 2)]
        if len(parts) < 3 or not parts[2]:
            raise SystemExit(f"{WAIVERS.name}: '{line}' gives no reason")
        caller, _, callee = parts[1].partition("->")
        yield Path(parts[0]), ALL if parts[1] == "*" else (caller.strip(), callee.strip()), parts[2]


def judge(edges, waived):
    """(circles that remain, waivers that no circle needs)"""
    if ALL in waived:
        return [], [w for w in waived if w != ALL or not calls.circles(edges)]
    kept = {edge: texts for edge, texts in edges.items() if edge not in waived}
    left = calls.circles(kept)
    stale = [w for w in waived
             if w not in edges or calls.circles({**kept, w: edges[w]}) == left]
    return left, stale


def report(found, lines, verbose=False, tell=print):
    """Tells a line for each folder of @found (folder -> edges), and what is wrong in it; returns
    the number of those in which something is."""
    bad = 0
    unknown = sorted({str(where) for where, _, _ in lines if where not in found})
    tell(f"1..{len(found) + len(unknown)}")
    for number, (folder, edges) in enumerate(found.items(), 1):
        left, stale = judge(edges, [call for where, call, _ in lines if where == folder])
        bad += bool(left or stale)
        tell(f"{'not ok' if left or stale else 'ok'} {number} - {folder}: files call one way")
        for circle in left:
            tell(f"# {len(circle)} files call each other in a circle: {', '.join(sorted(circle))}")
            for edge in sorted(e for e in edges if set(e) <= circle and verbose):
                tell(f"#   {edge[0]} -> {edge[1]}: {', '.join(sorted(edges[edge]))}")
        for caller, callee in stale:
            tell(f"# {WAIVERS.name}: {folder}: {caller} -> {callee} is no longer needed")
    for number, folder in enumerate(unknown, len(found) + 1):
        tell(f"not ok {number} - {WAIVERS.name}: there is no folder {folder}")
    return bad + len(unknown)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("build", type=Path, nargs="?", default=os.environ.get("SOFTHCA_BUILD"),
                         help="a build folder, configured by meson (default: $SOFTHCA_BUILD)")
    options.add_argument("folder", nargs="*", help="names in src/ (default: all)")
    options.add_argument("-v", "--verbose", action="store_true", help="name the calls")
    given = options.parse_args()
    if not shutil.which("gcc"):
        print("SKIP: gcc, which tells who calls whom, is not installed")
        return 77
    found = calls.all_edges(TOP, (given.build or TOP / "build-test").resolve())
    lines = list(waivers(WAIVERS.read_text())) if WAIVERS.exists() else []
    if given.folder:
        found = {folder: edges for folder, edges in found.items() if folder.name in given.folder}
        lines = [line for line in lines if line[0] in found]
    return 1 if report(found, lines, given.verbose or bool(given.folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
