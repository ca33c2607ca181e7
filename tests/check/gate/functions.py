# SPDX-License-Identifier: MIT
"""Finds each function of a C file and measures it: a statement parser, not a compiler."""
import re
from dataclasses import dataclass

LIMITS = {"length": 80, "branches": 15, "nesting": 4, "parameters": 6}
TOKEN = re.compile(r"[A-Za-z_]\w*|\d\w*|->|&&|\|\||::|\S")
LOOPS = {"for", "while", "switch"}
OPEN, CLOSE = "([{", ")]}"


@dataclass
class Token:
    """@line counts from 1."""
    text: str
    line: int


@dataclass
class Function:
    """@line is where its name stands, @first where its declaration begins."""
    name: str
    first: int
    line: int
    length: int
    parameters: int
    branches: int
    nesting: int


def measure(sources):
    """One text for each limit that a function passes without a waiver."""
    for source in sources:
        if source.path.suffix == ".S":
            continue
        for function in find(source.code):
            for name, limit in LIMITS.items():
                value = getattr(function, name)
                if value > limit and not source.waived_here(name, function.first):
                    yield (f"{source.path}:{function.line}: {function.name}: {name} {value}, "
                           f"limit {limit}")


def find(code):
    """The functions of a text without comments."""
    tokens = [Token(m.group(0), 0) for m in TOKEN.finditer(code)]
    line, position = 1, 0
    for token, match in zip(tokens, TOKEN.finditer(code)):
        line += code.count("\n", position, match.start())
        position = match.start()
        token.line = line
    at, begin = 0, 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "{":
            end = _closing(tokens, at)
            head = tokens[begin:at]
            named = _signature(head)
            if named is not None:
                yield _measured(head, named, tokens[at:end + 1])
            at = end
            if named is not None:
                begin = at + 1
        elif text in "([":
            at = _closing(tokens, at)
        elif text == ";":
            begin = at + 1
        at += 1


def _closing(tokens, at):
    """The index of what closes the bracket at @at."""
    depth = 0
    for index in range(at, len(tokens)):
        if tokens[index].text in OPEN:
            depth += 1
        elif tokens[index].text in CLOSE:
            depth -= 1
            if not depth:
                return index
    return len(tokens) - 1


def _signature(head):
    """The index of a function's name in what precedes '{', or None: NAME ( ... ) at the end."""
    texts = [token.text for token in head]
    if "=" in texts or not texts or texts[-1] != ")":
        return None
    depth = 0
    for index in range(len(texts) - 1, 0, -1):
        depth += (texts[index] == ")") - (texts[index] == "(")
        if not depth:
            name = texts[index - 1]
            return index - 1 if re.match(r"[A-Za-z_]", name) else None
    return None


def _measured(head, named, body):
    parser = _Body([token.text for token in body])
    parser.statement(0, 0)
    return Function(name=head[named].text, first=head[0].line, line=head[named].line,
                    length=body[-1].line - head[0].line + 1,
                    parameters=_parameters([t.text for t in head[named + 2:-1]]),
                    branches=parser.branches, nesting=parser.nesting)


def _parameters(texts):
    if not texts or texts == ["void"]:
        return 0
    depth, count = 0, 1
    for text in texts:
        depth += (text in OPEN) - (text in CLOSE)
        count += text == "," and not depth
    return count


class _Body:
    """Walks the statements of a body: .branches counts if, loops, case and ?, .nesting is the
    deepest control statement ('else if' is as deep as its 'if')."""

    def __init__(self, texts):
        self.texts = texts
        self.branches = self.nesting = 0

    def statement(self, at, depth):
        """Reads one statement from @at; returns the index behind it."""
        text = self.texts[at] if at < len(self.texts) else ";"
        if text == "{":
            at += 1
            while at < len(self.texts) and self.texts[at] != "}":
                at = self.statement(at, depth)
            return at + 1
        if text == "if":
            return self._if(at, depth)
        if text in LOOPS:
            self.branches += text != "switch"
            return self._controlled(self._parenthesis(at + 1), depth)
        if text == "do":
            self.branches += 1
            return self._plain(self._controlled(at + 1, depth), depth)
        if text in ("case", "default"):
            self.branches += text == "case"
            return self._label(at)
        return self._plain(at, depth)

    def _if(self, at, depth):
        self.branches += 1
        at = self._controlled(self._parenthesis(at + 1), depth)
        if at < len(self.texts) and self.texts[at] == "else":
            if self.texts[at + 1] == "if":
                return self._if(at + 1, depth)
            return self._controlled(at + 1, depth)
        return at

    def _controlled(self, at, depth):
        self.nesting = max(self.nesting, depth + 1)
        return self.statement(at, depth + 1)

    def _parenthesis(self, at):
        """Skips ( ... ), counting the conditions in it."""
        depth = 0
        while at < len(self.texts):
            depth += (self.texts[at] in OPEN) - (self.texts[at] in CLOSE)
            self.branches += self.texts[at] == "?"
            at += 1
            if not depth:
                break
        return at

    def _label(self, at):
        while at < len(self.texts) and self.texts[at] != ":":
            at += 1
        return at + 1

    def _plain(self, at, depth):
        """An expression or declaration up to ';'; NAME ( ... ) { is a loop that a macro makes."""
        begin = at
        while at < len(self.texts) and self.texts[at] != ";":
            text = self.texts[at]
            if text == "}":
                return at
            if text == "{" and at > begin and self.texts[at - 1] == ")" and self._macro(begin, at):
                self.branches += 1
                return self._controlled(at, depth)
            if text in OPEN:
                at = self._parenthesis(at)
                continue
            self.branches += text == "?"
            at += 1
        return at + 1

    def _macro(self, begin, at):
        texts = self.texts[begin:at]
        return len(texts) > 2 and texts[1] == "(" and "=" not in texts
