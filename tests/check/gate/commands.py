# SPDX-License-Identifier: MIT
"""How a build folder compiles the files of the tree, so that a gate can do it its own way."""
import json
import shlex
from pathlib import Path

OF_THE_OBJECT = ("-o", "-MF", "-MQ")
UNWANTED = ("-MD", "-c")


def units(top, build, folders):
    """{source: (folder to compile in, flags)} of the C files below @folders that @build lists;
    the flags are without those that name the object."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        ours = any(path.is_relative_to(top / folder) for folder in folders)
        if ours and path.suffix in (".c", ".S") and path not in found:
            found[path] = Path(entry["directory"]), _flags(entry)
    return dict(sorted(found.items()))


def _flags(entry):
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    for flag in OF_THE_OBJECT:
        if flag in words:
            at = words.index(flag)
            del words[at:at + 2]
    return [word for word in words if word not in UNWANTED and word != entry["file"]]
