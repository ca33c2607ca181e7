# SPDX-License-Identifier: MIT
"""Which functions a pointer may hold, as the text says.

A pointer is a field of a struct, a table of the file, or a parameter of a function. A field is
known by its struct, as far as the declarations of a file tell of what type an expression is; where
they do not, it is any field of that name that holds a function."""
import re
from collections import defaultdict

from . import files

CHAIN = r"(?:\w+(?:\([^()]*\)|\[[^\]]*\])*\s*(?:->|\.)\s*)*"
CALL = re.compile(rf"\(?\s*\*?\s*({CHAIN})(\w+)((?:\[[^\]]*\])*)\s*\)?\s*\(")
ASSIGNED = re.compile(rf"({CHAIN})(\w+)\s*=\s*&?(\w+)\s*[;,)]")
DESIGNATED = re.compile(r"[{,]\s*\.(\w+)\s*=(?!=)\s*(?!\{)")
INITIALIZED = re.compile(r"\bstruct\s+(\w+)\s+\w+\s*(?:\[[^\]]*\]\s*)*=\s*\{"
                         r"|\(\s*(?:const\s+)?struct\s+(\w+)\s*\)\s*\{")
STRUCT = re.compile(r"\b(?:struct|union)\s+(\w+)\s*\{")
POINTER = re.compile(r"\(\s*\*\s*(?:const\s+)?(\w+)(?:\[[^\]]*\])?\s*\)\s*\(")
MEMBER = re.compile(r"\b(?:struct|union)\s+(\w+)\s+(?:const\s+)?(\**\s*\w[^;(){}]*);")
TABLE = re.compile(r"\W(\w+)\s*\[[^\]]*\]\s*=\s*\{")
VARIABLE = re.compile(r"\bstruct\s+(\w+)\s*(?=[\w*])")
WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*\b(?!\s*\()")
OPEN, CLOSE = "{([", "})]"


def closing(text, at):
    """Where the bracket that opens at @at is closed."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in OPEN) - (text[i] in CLOSE)
        if not depth:
            return i
    return len(text)


def opening(text, at):
    """The brace around @at, or -1."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (text[i] == "}") - (text[i] == "{")
        if depth < 0:
            return i
    return -1


def split(text, at, ends):
    """The parts between commas from @at on, up to one of @ends or a bracket that closes."""
    depth, begin, parts = 0, at, []
    for i in range(at, len(text)):
        depth += text[i] in OPEN
        if not depth and text[i] in ends + CLOSE:
            return [*parts, text[begin:i]]
        depth -= text[i] in CLOSE
        if not depth and text[i] == ",":
            parts.append(text[begin:i])
            begin = i + 1
    return parts


class Held:
    """at(call): the functions, as (file, name), that the pointer of an indirect call may hold."""

    def __init__(self, graph):
        self.graph = graph
        self.fields = defaultdict(dict)  # struct -> field -> its struct's name, or "()"
        self.declared_in = {}  # struct -> the file
        self.sources, self.starts, self.functions = {}, {}, defaultdict(list)
        self.variables = defaultdict(list)  # (file, name) -> (where, struct)
        self.holds, self.flows = defaultdict(set), defaultdict(set)
        self.begins = defaultdict(list)  # file -> (line, function)
        for (path, name), line in graph.lines.items():
            self.begins[path].append((line, name))
        headers = {p.relative_to(graph.top) for p in (graph.top / "src").rglob("*.h")}
        for path in sorted({*self.begins} | headers):
            self._read(path)
        for path, source in self.sources.items():
            self._read_values(path, source.code)
        for call in graph.calls:
            self._read_arguments(call)
        self._settle()

    def at(self, call):
        if not call.place or call.place[0] not in self.sources:
            return set()
        return set().union(*(self.holds[slot] for slot in self._slots(call)))

    def is_wrapper(self, call):
        """Whether it stands in a header that declares the struct of the pointer: then it is no
        more than a way to write the call."""
        return (call.file.suffix == ".h" and
                any(slot[0] == "field" and self.declared_in.get(slot[1]) == call.file
                    for slot in self._slots(call)))

    # --- what is where ---

    def _read(self, path):
        source = self.sources[path] = files.Source(self.graph.top, path)
        starts = self.starts[path] = [0]
        for line in source.code.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        for line, name in self.begins[path]:
            if line < len(starts):
                brace = source.code.find("{", starts[line - 1])
                end = closing(source.code, brace) if brace >= 0 else starts[line - 1]
                self.functions[path].append((starts[line - 1], brace, end, name))
        for match in VARIABLE.finditer(source.code):
            for part in split(source.code, match.end(), ";{"):
                name = re.match(r"[\s*]*(?:const\s+)?(\w+)", part)
                if name:
                    self.variables[path, name.group(1)].append((match.start(), match.group(1)))
        self._read_structs(path, source.code)

    def _around(self, path, at):
        """(begin, brace, end, name) of the function of @path in which @at stands, or None. It
        begins with its name: its type may stand before."""
        return next((f for f in self.functions[path] if f[0] <= at <= f[2]), None)

    def _read_structs(self, path, code):
        for match in STRUCT.finditer(code):
            name = match.group(1)
            self.declared_in[name] = path
            body = code[match.end():closing(code, match.end() - 1)]
            for kind, names in MEMBER.findall(body):
                for field in re.findall(r"\w+(?=\s*(?:\[|,|$|:))", names):
                    self.fields[name][field] = kind
            for field in POINTER.findall(body):
                self.fields[name][field] = "()"
            for kind, field in re.findall(r"^\s*(\w+)\s+(\w+);", body, re.MULTILINE):
                if kind.endswith("_fn"):
                    self.fields[name][field] = "()"

    # --- of what type an expression is ---

    def _type(self, path, at, chain):
        """The struct whose field follows @chain (`a->b.`), or None where that is not known."""
        parts = re.findall(r"(\w+)(\([^()]*\))?(?:\[[^\]]*\])*\s*(?:->|\.)", chain)
        if not parts:
            return None
        name, call = parts[0]
        code = self.sources[path].code
        if call:
            found = re.findall(rf"\bstruct\s+(\w+)\s*\*\s*{name}\s*\(", self.sources[path].code)
            kind = found[-1] if found else None
        else:
            kind = self._type_of_variable(path, at, name)
        for name, _ in parts[1:]:
            kind = self.fields[kind].get(name) if kind in self.fields else None
        return kind

    def _type_of_variable(self, path, at, name):
        known = [kind for where, kind in self.variables[path, name] if where <= at]
        return known[-1] if known else None

    def _fields(self, kind, name):
        """The slots that `.name` of struct @kind may be."""
        if kind in self.fields and self.fields[kind].get(name) == "()":
            return {("field", kind, name)}
        return {("field", struct, name) for struct, fields in self.fields.items()
                if fields.get(name) == "()"}

    def _type_of_braces(self, path, at):
        """The struct that the initializer around @at is one of, or None."""
        code = self.sources[path].code
        brace = opening(code, at)
        if brace < 0:
            return None
        before = code[max(0, brace - 200):brace].rstrip()
        cast = re.search(r"\(\s*(?:const\s+)?struct\s+(\w+)\s*(?:\[\w*\])?\s*\)$", before)
        declared = re.search(r"\bstruct\s+(\w+)\s+\w+(?:\s*\[[^\]]*\])*\s*=$", before)
        if cast or declared:
            return (cast or declared).group(1)
        inner = re.search(r"\.(\w+)\s*=$", before)
        outer = self._type_of_braces(path, brace - 1)
        if inner:
            return self.fields[outer].get(inner.group(1)) if outer in self.fields else None
        return outer if before.endswith(("{", ",", "] =", "]=")) else None

    # --- what is put where ---

    def _function(self, path, name):
        home = self.graph.file_of(name, path)
        return {(home, name)} if home and (home, name) in self.graph.lines else set()

    def _put(self, path, at, slots, expression):
        around = self._around(path, at)
        for value in WORD.findall(expression):
            for slot in slots:
                self.holds[slot] |= self._function(path, value)
                if around and self._is_parameter(path, around, value):
                    self.flows["argument", path, around[3]].add(slot)

    def _is_parameter(self, path, around, name):
        begin, brace, _, _ = around
        return name in POINTER.findall(self.sources[path].code[begin:brace])

    def _read_values(self, path, code):
        for match in ASSIGNED.finditer(code):
            chain, name, value = match.groups()
            if chain:
                kind = self._type(path, match.start(), chain)
                self._put(path, match.start(), self._fields(kind, name), value)
        for match in DESIGNATED.finditer(code):
            kind = self._type_of_braces(path, match.start(1) - 1)
            self._put(path, match.start(), self._fields(kind, match.group(1)),
                      split(code, match.end(), ",")[0])
        for match in INITIALIZED.finditer(code):  # those without a name may go to any field
            kind = match.group(1) or match.group(2)
            slots = {("field", kind, field) for field, is_a in self.fields[kind].items()
                     if is_a == "()"}
            for part in split(code, match.end(), ";") if slots else []:
                if not part.lstrip().startswith("."):
                    self._put(path, match.start(), slots, part)
        for match in TABLE.finditer(code):
            body = code[match.end():closing(code, match.end() - 1)]
            self._put(path, match.start(), {("table", path, match.group(1))}, body)

    def _read_arguments(self, call):
        """What a call passes to a function that takes pointers."""
        target = call.home or self.graph.home.get(call.callee)
        if not target or not call.place or call.place[0] not in self.sources:
            return
        path, line, column = call.place
        code = self.sources[path].code
        at = self.starts[path][line - 1] + column - 1
        if not code.startswith(call.callee, at):
            return
        begin = code.find("(", at)
        self._put(path, at, {("argument", target, call.callee)},
                  code[begin + 1:closing(code, begin)])

    def _settle(self):
        """What a parameter holds, all that it is passed to or stored in holds too."""
        grown = True
        while grown:
            grown = False
            for source, targets in list(self.flows.items()):
                for target in targets:
                    if not self.holds[source] <= self.holds[target]:
                        self.holds[target] |= self.holds[source]
                        grown = True

    # --- what is called ---

    def _slots(self, call):
        path, line, column = call.place
        code = self.sources[path].code
        at = self.starts[path][line - 1] + column - 1
        match = CALL.match(code, at)
        if not match:  # in a macro
            end = self.starts[path][min(line + 1, len(self.starts[path]) - 1)]
            names = re.findall(r"(?:->|\.)\s*(\w+)\s*\(", code[at:end])
            return set().union(*(self._fields(None, name) for name in names))
        chain, name, index = match.groups()
        table = re.search(r"(\w+)\s*\[[^\]]*\]\s*\.\s*$", chain)
        if index or table:
            known = ("table", path, name if index else table.group(1))
            if known in self.holds:
                return {known}
        if chain:
            return self._fields(self._type(path, at, chain), name)
        return self._of_variable(path, call.caller, at, name)

    def _of_variable(self, path, caller, at, name):
        """A parameter of @caller, or a variable of its own that was given a value before."""
        slots = {("argument", path, caller)}
        begin = (self._around(path, at) or (0,))[0]
        before = self.sources[path].code[begin:at]
        for match in re.finditer(rf"\b{name}\s*=\s*({CHAIN})(\w+)", before):
            chain, value = match.groups()
            if chain:
                slots |= self._fields(self._type(path, begin + match.start(), chain), value)
            for function in self._function(path, value):
                self.holds["function", *function].add(function)
                slots.add(("function", *function))
        return slots
