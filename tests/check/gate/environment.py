# SPDX-License-Identifier: MIT
"""What is loaded into a program reads variables by secure_getenv(): a set-uid program ignores
them. The tool is no set-uid program, and passes variables on."""
import re

LOADED = ("src/", "tools/redirect/")
READ = re.compile(r"\bgetenv\b")


def insecure(sources):
    """Each getenv() in what programs load, unless a waiver stands above it."""
    for source in sources:
        path = source.path.as_posix()
        if not path.startswith(LOADED):
            continue
        for number, line in enumerate(source.plain.split("\n"), 1):
            if READ.search(line) and not source.waived_here("environment", number):
                yield (f"{path}:{number}: getenv: secure_getenv(), or say why not: "
                       "gate: environment: REASON")
