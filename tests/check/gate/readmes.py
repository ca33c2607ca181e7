# SPDX-License-Identifier: MIT
"""What the README of a folder of src/ says of it is so: its rank, what it includes, its files."""
import re

from . import includes

RANK = re.compile(r"\brank (\d)", re.IGNORECASE)
INCLUDES = re.compile(r"\bIncludes ((?:[^.]|\.(?=\w))*)")
QUOTED = re.compile(r"`(\w+)[`/]")
WORD = re.compile(r"\w+\*?")


def true(top, paths, sources):
    for folder, found in sorted(includes.folders(sources).items()):
        readme = top / "src" / folder / "README.md"
        if readme.is_file():
            yield from _head(f"src/{folder}/README.md", readme.read_text(), folder, found)
    for folder in sorted({p.parent for p in paths if p.parts[0] == "src"}):
        readme = top / folder / "README.md"
        if readme.is_file():
            stems = {p.stem for p in paths if p.parent == folder and p.suffix in (".c", ".h", ".S")}
            yield from _unnamed(folder / "README.md", readme.read_text(), stems)


def _head(name, text, folder, found):
    """Its rank and the sentence "Includes `a` and `b`."."""
    rank = RANK.search(text)
    if not rank or int(rank.group(1)) != includes.RANK[folder]:
        yield f"{name}: does not say that its rank is {includes.RANK[folder]}"
    told = INCLUDES.search(text)
    said = set(QUOTED.findall(told.group(1))) & set(includes.RANK) if told else set()
    for other in sorted(found - said):
        yield f"{name}: does not say 'Includes `{other}`'"
    for other in sorted(said - found):
        yield f"{name}: says 'Includes `{other}`', and no file does"


def _unnamed(name, text, stems):
    """Files that no row names; `flow*` names several."""
    words = set(WORD.findall(text))
    several = tuple(word[:-1] for word in words if word.endswith("*"))
    for stem in sorted(stems - words):
        if not stem.startswith(several or ("\0",)):
            yield f"{name}: names no {stem}"
