# SPDX-License-Identifier: MIT
"""Which tests there are: executables that meson lists, and executable scripts of tests/KIND/."""
import json
import os
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

FIRST = ["unit", "sim", "links", "abi", "check", "conformance", "clients"]
ONLY_BY_NAME = {"bench"}
NOT_KINDS = {"runner", "mutants"}
SOURCE_KINDS = {"check"}
NO_DEVICE_KINDS = {"check", "unit", "sim", "fuzz"}
SCRIPT_TIMEOUT = 120
TRAITS = {"root", "both", "alone", "device", "source"}


class NothingFound(Exception):
    """A selection that matches no test must not look like a run that passed."""


@dataclass
class Test:
    """One program. Traits: root (needs root, or root of its own namespaces), both (as root and as
    an ordinary user), alone (nothing beside it), device (own network namespace), source (runs in
    the source tree, as whoever started the run)."""
    kind: str
    name: str
    path: Path
    arguments: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    traits: set = field(default_factory=set)
    timeout: int = SCRIPT_TIMEOUT
    compiled: bool = False
    cases: list = field(default_factory=list)

    @property
    def id(self):
        return f"{self.kind}/{self.name}"


def find(source, build, select, without):
    """The tests in the order they run; @select: KIND, KIND/NAME or KIND/NAME:CASE, with globs."""
    tests = [*_compiled(build), *_scripts(source / "tests")]
    for test in tests:
        _default_traits(test)
    tests = [t for t in tests if t.kind not in without]
    if not select:
        tests = [t for t in tests if t.kind not in ONLY_BY_NAME]
    for wanted in select:
        if not any(_matches(t, wanted) for t in tests):
            raise NothingFound(f"no test matches '{wanted}'")
    if select:
        tests = [t for t in tests if any([_matches(t, wanted) for wanted in select])]
    if not tests:
        raise NothingFound("there is no test")
    return sorted(tests, key=_order)


def _order(test):
    rank = FIRST.index(test.kind) if test.kind in FIRST else len(FIRST)
    return ("alone" in test.traits, rank, test.kind, test.name)


def _matches(test, wanted):
    name, _, case = wanted.partition(":")
    if not (fnmatchcase(test.kind, name) or fnmatchcase(test.id, name)):
        return False
    if case and case not in test.cases:
        test.cases.append(case)
    return True


def _default_traits(test):
    if test.kind in SOURCE_KINDS:
        test.traits.add("source")
    if test.kind not in NO_DEVICE_KINDS:
        test.traits.add("device")
    if test.kind in ONLY_BY_NAME:
        test.traits.add("alone")


def _compiled(build):
    listing = build / "meson-info/intro-tests.json"  # as `meson introspect --tests` prints it
    for entry in json.loads(listing.read_text()):
        suites = [suite.split(":")[-1] for suite in entry["suite"]]
        kind, traits = suites[0], set(suites[1:])
        entry["env"].pop("LD_LIBRARY_PATH", None)  # the build folder's, which the stage replaces
        _check_traits(entry["name"], traits)
        yield Test(kind=kind, name=re.sub(f"^{kind}[_-]", "", entry["name"]),
                   path=Path(entry["cmd"][0]), arguments=entry["cmd"][1:], env=entry["env"],
                   traits=traits, timeout=entry["timeout"] or 600, compiled=True)


def _scripts(folder):
    for path in sorted(folder.glob("*/*")):
        if path.parent.name in NOT_KINDS or path.suffix not in (".py", ".sh"):
            continue
        if not os.access(path, os.X_OK):
            continue
        test = Test(kind=path.parent.name, name=path.stem, path=path)
        _read_traits(test)
        yield test


def _read_traits(test):
    """From a comment line '# traits: WORD...' among the script's first ten."""
    head = test.path.read_text().splitlines()[:10]
    for line in head:
        if not line.startswith("# traits:"):
            continue
        for word in line.removeprefix("# traits:").split():
            if word.startswith("timeout="):
                test.timeout = int(word.removeprefix("timeout="))
            else:
                test.traits.add(word)
    _check_traits(test.id, test.traits)


def _check_traits(name, traits):
    unknown = traits - TRAITS
    if unknown:
        raise NothingFound(f"{name}: unknown traits {sorted(unknown)}")
