#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The pictures of docs/ are what docs/pictures/draw.py makes of its texts, and the texts are true:
the house has the folders of src/ at the ranks that the gate of includes knows, and the files that
the time lines name exist."""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
PICTURES = TOP / "docs/pictures"
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gate.includes import RANK  # noqa: E402


def drawn():
    """Each picture that differs from what the script draws"""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([sys.executable, "-B", PICTURES / "draw.py", folder],
                             capture_output=True, text=True)
        if run.returncode:
            yield run.stderr.strip()
            return
        for new in sorted(Path(folder).iterdir()):
            old = TOP / "docs" / new.name
            if not old.is_file() or old.read_text() != new.read_text():
                yield f"docs/{new.name}: run docs/pictures/draw.py"


def lines(name):
    return [line for line in (PICTURES / name).read_text().splitlines()
            if not line.startswith("#")]


def house():
    """Folders that are not in the picture of the house, or not at their rank"""
    shown, rank = {}, None
    for line in lines("architecture.txt"):
        words = line.split("|")[0].split()
        if words[:1] == ["rank"]:
            rank = int(words[1])
        elif words[:1] == ["folder"]:
            shown[words[4]] = rank
    there = {p.name for p in (TOP / "src").iterdir() if p.is_dir()} | {"tools"}
    for name in sorted(there ^ set(shown)):
        yield f"{name}: {'is not drawn' if name in there else 'is drawn and not there'}"
    for name in sorted(there & set(shown)):
        if shown[name] != RANK.get(name):
            yield f"{name}: drawn at rank {shown[name]}, the gate of includes has {RANK.get(name)}"


def files():
    """Files that a time line names and that do not exist"""
    for line in [*lines("send.txt"), *lines("loss.txt")]:
        for name in re.findall(r"\b([a-z0-9]+/[a-z0-9_]+)\b", line):
            if not any((TOP / "src" / (name + suffix)).is_file() for suffix in (".c", ".h")):
                yield f"src/{name}: is not there"


def main():
    gates = {"the pictures are what their texts say": drawn, "the house is drawn as it is": house,
             "the files of the time lines exist": files}
    bad = 0
    print(f"1..{len(gates)}")
    for number, (name, find) in enumerate(gates.items(), 1):
        found = list(find())
        bad += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {name}")
        for line in found:
            print(f"# {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
