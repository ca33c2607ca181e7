#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The gates of style that a machine can read; README.md in this folder lists them. --sizes: how
many files each folder has, and how long they are."""
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gate import (environment, files, functions, includes, readmes, sentences,  # noqa: E402
                  services, text)


def main():
    sources = files.tracked(TOP)
    code = [files.Source(TOP, path) for path in sources if path.suffix in (".c", ".h", ".S")]
    if sys.argv[1:] == ["--sizes"]:
        print("| folder | files | median | longest |", "|---|---|---|---|", *text.sizes(code),
              sep="\n")
        return 0
    findings = {
        "names of files": list(text.file_names(sources)),
        "SPDX lines": list(text.spdx(TOP, sources)),
        "width of lines": list(text.width(TOP, sources)),
        "length of files": list(text.length(code)),
        "files in a folder": list(text.crowds(sources)),
        "leftovers (notes to do, code in comments, #if 0)":
            list(text.leftovers(TOP, sources, code)),
        "README in each folder": list(text.readmes(TOP, sources)),
        "functions (length, branches, nesting, parameters)": list(functions.measure(code)),
        "ranks of included folders": list(includes.ranks(code)),
        "cycles among headers": list(includes.cycles(code)),
        "seams between folders": list(includes.seams(code)),
        "READMEs and what they tell of": list(readmes.true(TOP, sources, code)),
        "types of queue pairs": list(services.types(code)),
        "remedies in sentences": list(sentences.remedies(code)),
        "variables that a set-uid program ignores": list(environment.insecure(code)),
    }
    print(f"1..{len(findings)}")
    for number, (gate, found) in enumerate(findings.items(), 1):
        print(f"{'not ok' if found else 'ok'} {number} - {gate}")
        for line in found:
            print(f"# {line}")
    return 1 if any(findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
