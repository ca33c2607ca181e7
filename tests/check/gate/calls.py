# SPDX-License-Identifier: MIT
"""Which file of a folder calls which, as the compiler sees it, and the circles among them.

gcc -fcallgraph-info writes one graph for each object: it sees through macros and tells statics of
the same name apart. A call through a pointer counts as a call of each function of the same folder
that the pointer may hold: what is assigned to a field of that name, stands in a table of that
name, or is passed to the function that makes the call. `x.c` and `x.h` count as one file, x."""
import json
import re
import shlex
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NODE = re.compile(r'^node: \{ title: "([^"]*)" label: "[^"\\]*\\n([^":]*):\d+:\d+"')
EDGE = re.compile(r'^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"'
                  r'(?: label: "([^":]*):(\d+):\d+")?')
INDIRECT = "__indirect_call"
MEMBER = re.compile(r"(?:->|\.)\s*(\w+)\s*\(")
TABLE = re.compile(r"\b(\w+)\s*\[[^\]]*\](?:\s*\.\s*(\w+))?\s*\(")
PLAIN = re.compile(r"(?<![\w.>])(\w+)\s*\(")
WORD = re.compile(r"\b[A-Za-z_]\w*\b")


class Graph:
    """What the objects of one build say: .calls of (file, function) by (file, function), and the
    lines where a function calls through a pointer."""

    def __init__(self, top):
        self.top = top
        self.home = {}  # function of external linkage -> the file that defines it
        self.calls = []  # (from file, caller, callee's file or None, callee, file and line)
        self.text = {}

    def code(self, path):
        if path not in self.text:
            try:
                self.text[path] = (self.top / path).read_text(errors="replace").split("\n")
            except OSError:
                self.text[path] = []
        return self.text[path]


def compile_graph(top, build, workers=2):
    """Compiles what compile_commands.json of @build lists under src/ and tools/ once more, with
    -O0, into a folder inside @build, and reads the graphs."""
    out = build / "calls"
    out.mkdir(exist_ok=True)
    commands = json.loads((build / "compile_commands.json").read_text())
    jobs = {}
    for entry in commands:
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if path.suffix == ".c" and path.is_relative_to(top / "src"):
            jobs.setdefault(path, entry)

    def compiled(item):
        path, entry = item
        name = str(path.relative_to(top)).replace("/", "-")
        words = [w for w in shlex.split(entry["command"]) if not w.startswith(("-O", "-flto", "-fsan"))]
        words = words[next(i for i, w in enumerate(words) if w.startswith("-")):]
        for flag in ("-o", "-MF", "-MQ"):
            if flag in words:
                at = words.index(flag)
                del words[at:at + 2]
        words = [w for w in words if w not in ("-MD", "-c", entry["file"])]
        target = out / (name + ".o")
        graph = out / (name + ".ci")
        done = subprocess.run(["gcc", *words, "-w", "-O0", "-fcallgraph-info", "-c", str(path), "-o",
                               str(target)], cwd=entry["directory"], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise RuntimeError(f"{path}: {done.stderr}")
        made = target.with_suffix(".ci")
        text = made.read_text()
        made.rename(graph)
        target.unlink()
        return path.relative_to(top), Path(entry["directory"]), text

    graph = Graph(top)
    with ThreadPoolExecutor(workers) as pool:
        units = list(pool.map(compiled, sorted(jobs.items())))
    for unit, cwd, text in units:
        _read(graph, unit, cwd, text)
    return graph


def _read(graph, unit, cwd, text):
    where = {}

    def relative(name):
        path = (cwd / name).resolve()
        return path.relative_to(graph.top) if path.is_relative_to(graph.top) else None

    for line in text.split("\n"):
        node = NODE.match(line)
        if node and "shape : ellipse" not in line:
            where[node.group(1)] = relative(node.group(2))
            if ":" not in node.group(1):
                graph.home[node.group(1)] = where[node.group(1)]
    for line in text.split("\n"):
        edge = EDGE.match(line)
        if edge and where.get(edge.group(1)):
            source, target, name, number = edge.groups()
            place = (relative(name), int(number)) if name else None
            graph.calls.append((where[source], source.split(":")[-1],
                                where.get(target) if ":" in target else None,
                                target.split(":")[-1], place))


def edges_of(graph, folder):
    """(file, file) -> the calls between them, as text, for the files of one folder."""
    found = defaultdict(set)
    inside = [c for c in graph.calls if c[0].parent == folder]
    functions = {name: path for name, path in graph.home.items() if path and path.parent == folder}
    for source, caller, _home, _callee, _place in inside:
        functions.setdefault(caller, source)
    held = _held(graph, folder, functions, inside)
    for source, caller, home, callee, place in inside:
        targets = [(callee, home or graph.home.get(callee))]
        if callee == INDIRECT:
            targets = [(f, functions[f]) for f in _pointed(graph, held, caller, place)]
        for function, target in targets:
            if target and target.parent == folder and target.stem != source.stem:
                found[source.stem, target.stem].add(f"{caller} -> {function}")
    return found


def _held(graph, folder, functions, inside):
    """Name of a field, a table or a function that takes a pointer -> the functions it may hold."""
    held = defaultdict(set)
    paths = {p for p in (graph.top / folder).iterdir() if p.suffix in (".c", ".h")}
    for path in sorted(paths):
        text = "\n".join(graph.code(path.relative_to(graph.top)))
        for field, value in re.findall(r"[.>]\s*(\w+)\s*=\s*&?(\w+)\b(?!\s*\()", text):
            if value in functions:
                held["." + field].add(value)
        for table, body in re.findall(r"\b(\w+)\s*\[[^\]]*\]\s*=\s*\{(.*?)\n\}", text, re.DOTALL):
            held["[" + table] |= {w for w in WORD.findall(body) if w in functions}
    for _source, _caller, _home, callee, place in inside:
        if place and place[0] and callee != INDIRECT:
            text = " ".join(graph.code(place[0])[place[1] - 1:place[1] + 3])
            call = re.search(rf"\b{re.escape(callee)}\s*\(([^;]*)", text)
            if call:
                passed = re.findall(r"\b(\w+)\b(?!\s*\()", call.group(1))
                held["(" + callee] |= {w for w in passed if w in functions and w != callee}
    return held


def _pointed(graph, held, caller, place):
    if not place or not place[0]:
        return set()
    text = " ".join(graph.code(place[0])[place[1] - 1:place[1] + 1])
    found = set()
    for field in MEMBER.findall(text):
        found |= held["." + field]
    for table, field in TABLE.findall(text):
        found |= held["[" + table] | held["." + field]
    return found | held["(" + caller]


def circles(edges):
    """Sets of files that reach each other (strongly connected, more than one), largest first."""
    after = defaultdict(set)
    for source, target in edges:
        after[source].add(target)
    index, low, stack, found = {}, {}, [], []

    def visit(start):
        work = [(start, iter(sorted(after[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            for following in rest:
                if following not in index:
                    index[following] = low[following] = len(index)
                    stack.append(following)
                    work.append((following, iter(sorted(after[following]))))
                    break
                if following in stack:
                    low[node] = min(low[node], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        found.append(frozenset(stack[at:]))
                    del stack[at:]

    for node in sorted({n for edge in edges for n in edge}):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda c: (-len(c), sorted(c)))
