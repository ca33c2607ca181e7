# SPDX-License-Identifier: MIT
"""Which file of a folder of src/ calls which, as the compiler sees it, and the circles among them.

gcc -fcallgraph-info writes one graph for each object: it sees through macros and tells statics of
the same name apart. For a call through a pointer it names the place alone, and `pointers` the
functions that the pointer may hold. `x.c` and `x.h` count as one file, x."""
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import commands, files, pointers

NODE = re.compile(r'^node: \{ title: "([^"]*)" label: "[^"\\]*\\n([^":]*):(\d+):\d+"')
EDGE = re.compile(r'^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"'
                  r'(?: label: "([^":]*):(\d+):(\d+)")?')
INDIRECT = "__indirect_call"
UNWANTED = ("-O", "-flto", "-fsan", "-Werror")


@dataclass(frozen=True)
class Call:
    """A call that stands in @file; @home is the callee's file where it is a static. @place is
    (file, line, column) of the expression, or None."""
    file: Path
    caller: str
    home: Path
    callee: str
    place: tuple


class Graph:
    """What the objects of one build say."""

    def __init__(self, top):
        self.top = top
        self.home = {}  # function of external linkage -> the file that defines it
        self.lines = {}  # (file, function) -> where its definition begins
        self.inline = {}  # function of a header -> the header
        self.calls = set()

    def file_of(self, name, seen_from):
        """The file that defines what @seen_from knows as @name; None: none of ours."""
        if (seen_from, name) in self.lines:
            return seen_from
        if name in self.home:
            return self.home[name]
        return self.inline.get(name)


def compile_graph(top, build, workers=2):
    """Compiles what @build compiles of src/ once more, with -O0 and into a folder of its own, and
    reads the graphs."""
    graph = Graph(top)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        jobs = [(path, cwd, flags, Path(folder) / f"{number}.o") for number, (path, (cwd, flags))
                in enumerate(commands.units(top, build, ["src"]).items()) if path.suffix == ".c"]
        for path, cwd, text in pool.map(lambda job: _compile(*job), jobs):
            _read(graph, path.relative_to(top), cwd, text)
    return graph


def _compile(path, cwd, flags, target):
    flags = [flag for flag in flags if not flag.startswith(UNWANTED)]
    done = subprocess.run(["gcc", *flags, "-w", "-O0", "-fcallgraph-info", "-c", str(path), "-o",
                           str(target)], cwd=cwd, capture_output=True, text=True, check=False,
                          env={**os.environ, "CCACHE_DISABLE": "1"})  # it keeps no .ci files
    if done.returncode:
        raise RuntimeError(f"{path}: {done.stderr}")
    target.unlink()
    return path, cwd, target.with_suffix(".ci").read_text()


def _line_of(code, name):
    """Where @code defines the function @name, or None where a macro does."""
    for match in re.finditer(rf"^[^\s#].*?\b{name}\)?\s*(?=\()", code, re.MULTILINE):
        if code[pointers.closing(code, match.end()) + 1:].lstrip().startswith("{"):
            return code.count("\n", 0, match.end()) + 1
    return None


def _read(graph, unit, cwd, text):
    where, code = {}, files.Source(graph.top, unit).code

    def ours(name):
        path = (cwd / name).resolve()
        return path.relative_to(graph.top) if path.is_relative_to(graph.top) else None

    for match in filter(None, map(NODE.match, text.split("\n"))):
        title, name, line = match.groups()
        where[title] = ours(name)
        # gcc lists what a unit only declares too, as an ellipse, by where it is declared
        defined = "shape : ellipse" not in match.string
        if defined and not where[title] and ":" not in title:
            # one that a system's header declares, by where that does
            where[title], line = unit, _line_of(code, title) or line
        if where[title] and defined:
            graph.lines[where[title], title.split(":")[-1]] = int(line)
            if ":" not in title:
                graph.home[title] = where[title]
            elif where[title].suffix == ".h":
                graph.inline[title.split(":")[-1]] = where[title]
    for match in filter(None, map(EDGE.match, text.split("\n"))):
        source, target, name, line, column = match.groups()
        if where.get(source):
            place = (ours(name), int(line), int(column)) if name else None
            graph.calls.add(Call(where[source], source.split(":")[-1],
                                 where.get(target) if ":" in target else None,
                                 target.split(":")[-1], place))


def edges_of(graph, held, folder):
    """(file, file) -> the calls between them, as text, for the files in and below one folder;
    @held is a pointers.Held of the same graph."""
    found = defaultdict(set)

    def named(path):
        return path.relative_to(folder).with_suffix("").as_posix()

    def add(source, caller, targets):
        for target, function in targets:
            if target and folder in target.parents and folder in source.parents:
                if named(target) != named(source):
                    found[named(source), named(target)].add(f"{caller} -> {function}")

    wrappers = {(c.file, c.caller): held.at(c) for c in graph.calls
                if c.callee == INDIRECT and held.is_wrapper(c)}
    for call in graph.calls:
        target = (call.home or graph.home.get(call.callee), call.callee)
        if call.callee != INDIRECT:
            add(call.file, call.caller, {target} | wrappers.get(target, set()))
        elif (call.file, call.caller) not in wrappers:
            add(call.file, call.caller, held.at(call))
    return found


def all_edges(top, build):
    """folder -> edges_of() it, for each folder of src/; those below it are of it."""
    graph = compile_graph(top, build)
    held = pointers.Held(graph)
    return {folder: edges_of(graph, held, folder) for folder in folders(graph)}


def folders(graph):
    return sorted({Path(*path.parts[:2]) for path, _ in graph.lines
                   if path.parts[0] == "src" and len(path.parts) > 2})


def circles(edges):
    """Sets of files that reach each other (strongly connected, more than one), largest first."""
    after = defaultdict(set)
    for source, target in edges:
        after[source].add(target)

    def reached(start):
        seen, left = set(), [start]
        while left:
            new = after[left.pop()] - seen
            seen |= new
            left.extend(new)
        return seen

    reach = {node: reached(node) for edge in list(edges) for node in edge}
    found = {frozenset(other for other in reach if other in reach[node] and node in reach[other])
             for node in reach if node in reach[node]}
    return sorted(found, key=lambda c: (-len(c), sorted(c)))
