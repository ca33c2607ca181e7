# SPDX-License-Identifier: MIT
"""Who may include whom: folders are ranked, and headers have no cycle."""
import re
from pathlib import Path

RANK = {"util": 0, "wire": 1, "prm": 1, "obs": 1, "net": 1, "hca": 2, "link": 2, "peers": 3,
        "udp": 3, "transport": 3, "engine": 4, "xrc": 5, "dc": 5, "driver": 6, "cm": 6, "verbs": 7,
        "mlx5": 7, "rdmacm": 7, "tools": 8}
# The two other drop-ins are linked with libibverbs and share its headers.
BESIDE = {("mlx5", "verbs"), ("rdmacm", "verbs")}
# Where ARCHITECTURE.md promises a narrow seam: (who, of whom) -> the headers, by whom alone.
SEAMS = {("driver", "engine"): {"engine/doorbell.h": "", "engine/qp_life.h": "",
                                "engine/unrung.h": ""},
         ("engine", "udp"): {"udp/udp_link.h": "node.c"}}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def ranks(sources):
    """A folder includes only lower ranks, or itself; tests include what they test."""
    for source in sources:
        here = _folder(source.path)
        if here is None:
            continue
        for name in INCLUDE.findall(source.text):
            there = Path(name).parts[0] if "/" in name else here
            if there == here or (here, there) in BESIDE:
                continue
            if there not in RANK:
                yield f'{source.path}: "{name}" is in no folder of src/'
            elif RANK[there] >= RANK[here]:
                yield (f'{source.path}: includes "{name}": {here} has rank {RANK[here]}, '
                       f"{there} {RANK[there]}")


def seams(sources):
    """Where two folders meet in few headers, no other is included."""
    for source in sources:
        for name in INCLUDE.findall(source.text):
            allowed = SEAMS.get((_folder(source.path), name.partition("/")[0]))
            if allowed is None:
                continue
            if name not in allowed:
                yield f'{source.path}: includes "{name}" past {", ".join(sorted(allowed))}'
            elif allowed[name] not in ("", source.path.name):
                yield f'{source.path}: includes "{name}", which only {allowed[name]} may'


def folders(sources):
    """folder of src/ -> the other folders that its files include"""
    found = {}
    for source in sources:
        here = _folder(source.path)
        if here in RANK and here != "tools":
            there = {Path(name).parts[0] for name in INCLUDE.findall(source.text) if "/" in name}
            found.setdefault(here, set()).update(there - {here})
    return found


def _folder(path):
    if path.parts[0] == "tools":
        return "tools"
    return path.parts[1] if path.parts[0] == "src" and len(path.parts) > 2 else None


def cycles(sources):
    """Every header that can reach itself, each cycle once."""
    headers = {s.path: s for s in sources if s.path.suffix == ".h"}
    edges = {path: [t for t in _targets(path, s.text) if t in headers]
             for path, s in headers.items()}
    seen, told = set(), set()

    def walk(path, trail):
        if path in trail:
            cycle = trail[trail.index(path):]
            if frozenset(cycle) not in told:
                told.add(frozenset(cycle))
                yield " -> ".join(str(p) for p in [*cycle, path])
            return
        if path in seen:
            return
        for target in edges[path]:
            yield from walk(target, [*trail, path])
        seen.add(path)

    for path in edges:
        yield from walk(path, [])


def _targets(path, text):
    for name in INCLUDE.findall(text):
        yield Path("src") / name if "/" in name else path.parent / name
