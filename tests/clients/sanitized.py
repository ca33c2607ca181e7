#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both timeout=600
"""Programs that their users have built with AddressSanitizer or ThreadSanitizer, on the libraries
as they are: of right programs the sanitizers report nothing, not even at their end, and the
mistakes of wrong ones are found as anywhere else."""
import os
import re
import subprocess
import sys
from pathlib import Path

from client import cases, pair

PROGRAMS = Path(os.environ["SOFTHCA_BUILD"]) / "tests/clients"
DONE = "done\n"
TRAPPED = {"SOFTHCA_MLX5DV": "1"}
COPIED = {"SOFTHCA_DIRECT": "0"}
SHELL = ["sh", "-c", 'eval "$("$0" env)" && exec "$@"', pair.RUN[0]]
# A shadow of all addresses leaves ThreadSanitizer few places where libraries may lie.
AROUND = {"address": [], "thread": ["setarch", "-R"]}
LIMIT = 300
# LeakSanitizer looks in a child for the threads of its parent.
OF_PARENT = re.compile(r"^==\d+==Running thread \d+ was not suspended\. False leaks are possible\.$"
                       r"\n", re.MULTILINE)

# (program, environment, with a process for each end)
RIGHT = [("threads", {}, False), ("threads", COPIED, False), ("left", {}, False),
         ("forks", {}, False), ("rings", {}, False), ("rings", TRAPPED, False),
         ("connections", {}, False), ("polls", {}, True), ("waits", {}, True),
         ("polls", COPIED, True), ("waits", COPIED, True)]
# (sanitizer, program, what the report says)
WRONG = [("address", "past", "AddressSanitizer: heap-buffer-overflow"),
         ("address", "freed", "AddressSanitizer: heap-use-after-free"),
         ("address", "lost", "LeakSanitizer: detected memory leaks"),
         ("address", "null", "AddressSanitizer: SEGV on unknown address 0x000000000000"),
         ("thread", "race", "ThreadSanitizer: data race"),
         ("thread", "null", "ThreadSanitizer: SEGV on unknown address 0x000000000000")]


def program(sanitizer):
    return str(PROGRAMS / f"sanitized_{sanitizer}")


def alone(start, sanitizer, how, env):
    """(exit code, what it says)"""
    done = subprocess.run([*start, program(sanitizer), how], env={**os.environ, **env}, text=True,
                          check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=LIMIT)
    return done.returncode, done.stdout


def right(start, sanitizer, how, env):
    code, said = alone(start, sanitizer, how, env)
    if how == "forks":
        said = OF_PARENT.sub("", said)
    return pair.Result("" if (code, said) == (0, DONE) else f"it ends with {code}", said)


def right_two(start, sanitizer, how, env):
    side = pair.Side(inside=start, env=env)
    return pair.run([program(sanitizer), how],
                    lambda _name, said: "" if said == DONE else "says more", side, side)


def wrong(start, sanitizer, how, report):
    code, said = alone(start, sanitizer, how, TRAPPED)
    found = code != 0 and report in said
    return pair.Result("" if found else f"not found: {report}; it ends with {code}", said)


def cases_of(sanitizer):
    for where, start, programs in (("run", pair.RUN, RIGHT), ("env", SHELL, RIGHT[:1])):
        start = [*AROUND[sanitizer], *start]
        for how, env, two in programs:
            name = ", ".join([f"{sanitizer}, {where}: {how}", "two processes"][:1 + two] +
                             [f"{name}={value}" for name, value in env.items()])
            yield (name, lambda run=right_two if two else right, a=(start, sanitizer, how, env):
                   run(*a))
    for which, how, report in WRONG:
        if which == sanitizer:
            yield (f"{sanitizer}, run: wrong: {how}",
                   lambda a=([*AROUND[which], *pair.RUN], which, how, report): wrong(*a))


def main():
    if os.environ.get("SOFTHCA_SANITIZER", "none") != "none":
        print("SKIP: these programs are for libraries that are not instrumented")
        return 77
    table = []
    for sanitizer in AROUND:
        if Path(program(sanitizer)).exists():
            table += cases_of(sanitizer)
        else:
            why = f"the compiler has no runtime for -fsanitize={sanitizer} here"
            table.append((sanitizer, lambda why=why: pair.Result("", skipped=why)))
    return cases.run(table)


if __name__ == "__main__":
    sys.exit(main())
