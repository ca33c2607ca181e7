# SPDX-License-Identifier: MIT
"""What `contract` prints, as facts: {"KIND CALL in STATE": answer}; and the differences from Linux
that contract.reasons explains."""
import re
from fnmatch import fnmatchcase
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LINUX = FOLDER / "contract.rxe"
REASONS = FOLDER / "contract.reasons"


def facts(text):
    """A line "KIND CALL: ANSWER : STATES" is one fact a state; the lines behind "KIND STATE", a tab
    before them, tell of the way there."""
    found, head = {}, ""
    for line in text.splitlines():
        grouped = re.fullmatch(r"(\S+ [^:]+): (.*) : ([a-z ]+)", line)
        if line.startswith("\t"):
            key = f"{head}: {line.split(':')[0].strip()}" if ": " in line else f"{head}: way"
            found[key] = f"{found[key]}; {line.strip()}" if key in found else line.strip()
        elif line.startswith(("rules ", "names ", "endpoints ", "flows ")):
            key, _, answer = line.partition(": ")
            found[key] = answer.strip()
        elif grouped:
            for state in grouped[3].split():
                found[f"{grouped[1]} in {state}"] = grouped[2]
        elif line:
            head = line
    return found


def reasons():
    """(glob of facts, what Linux says as a regular expression, what we say instead)."""
    lines = [line for line in REASONS.read_text().splitlines()
             if line and not line.startswith("#")]
    return [tuple(line.split(" |> ")) for line in lines]


def differences(linux, ours):
    """What differs without a reason, and reasons that nothing needs."""
    rules, used = reasons(), set()
    for key in sorted({*linux, *ours}):
        want, got = linux.get(key, "nothing"), ours.get(key, "nothing")
        for rule in rules:
            if want != got and fnmatchcase(key, rule[0]):
                changed = re.sub(rule[1], rule[2], want)
                used |= {rule} if changed != want else set()
                want = changed
        if want != got:
            yield f"{key}: {got}\n#   with Linux: {want}"
    yield from (f"no fact needs the reason for {rule[0]}" for rule in rules if rule not in used)
