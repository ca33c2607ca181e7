# SPDX-License-Identifier: MIT
"""Types of queue pairs are named where their services are described, and where connections are made
for them; all else asks the row."""
import re

NAMED_IN = re.compile(r"src/(hca/(service|qp)[a-z_]*\.[ch]|verbs/.*|cm/.*|rdmacm/.*)$")
TYPE = re.compile(r"\bIBV_QPT_[A-Z_]+\b")


def types(sources):
    """Each IBV_QPT_* in src/ and tools/ outside of NAMED_IN, unless a waiver stands above it."""
    for source in sources:
        path = source.path.as_posix()
        if not path.startswith(("src/", "tools/")) or NAMED_IN.match(path):
            continue
        for number, line in enumerate(source.plain.split("\n"), 1):
            for name in TYPE.findall(line):
                if not source.waived_here("services", number):
                    yield (f"{path}:{number}: {name}: ask the service's row (hca/service.h), or "
                           "say why not: gate: services: REASON")
