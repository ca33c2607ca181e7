#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""No files of one folder call each other in a circle, but for the calls that
circles.waivers lists with a reason; a waiver that no circle needs fails too."""
import argparse
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gate import calls  # noqa: E402

WAIVERS = Path(__file__).resolve().parent / "circles.waivers"


def waivers(text):
    """`src/FOLDER: CALLER -> CALLEE: reason` a line; # begins a comment."""
    for line in text.split("\n"):
        line = line.split("#")[0].strip()
        if line:
            folder, call, reason = (part.strip() for part in line.split(":", 2))
            caller, callee = (part.strip() for part in call.split("->"))
            yield Path(folder), (caller, callee), reason


def judge(edges, waived):
    """(circles that remain, waivers that no circle needs)"""
    kept = {e: c for e, c in edges.items() if e not in waived}
    left = calls.circles(kept)
    stale = [w for w in waived
             if w not in edges or len(calls.circles({**kept, w: edges[w]})) == len(left) and
             calls.circles({**kept, w: edges[w]}) == left]
    return left, stale


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("build", type=Path, help="a build folder of gcc, configured by meson")
    options.add_argument("folder", nargs="*", help="names in src/ (default: all)")
    options.add_argument("-v", "--verbose", action="store_true", help="name the calls")
    given = options.parse_args()
    graph = calls.compile_graph(TOP, given.build.resolve())
    folders = sorted({c[0].parent for c in graph.calls if c[0].parts[0] == "src"})
    chosen = [f for f in folders if not given.folder or f.name in given.folder]
    lines = list(waivers(WAIVERS.read_text())) if WAIVERS.exists() else []
    print(f"1..{len(chosen)}")
    bad = False
    for number, folder in enumerate(chosen, 1):
        edges = calls.edges_of(graph, folder)
        left, stale = judge(edges, [call for where, call, _ in lines if where == folder])
        bad = bad or bool(left or stale)
        print(f"{'not ok' if left or stale else 'ok'} {number} - {folder}: files call one way")
        for circle in left:
            print(f"# {len(circle)} files call each other in a circle: {', '.join(sorted(circle))}")
            for edge in sorted(e for e in edges if set(e) <= circle):
                if given.verbose:
                    print(f"#   {edge[0]} -> {edge[1]}: {', '.join(sorted(edges[edge]))}")
        for caller, callee in stale:
            print(f"# {WAIVERS.name}: {folder}: {caller} -> {callee} is no longer needed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
