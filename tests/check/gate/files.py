# SPDX-License-Identifier: MIT
"""The files that are ours, and a C file as text without comments and strings."""
import re
from dataclasses import dataclass

SUFFIXES = {".c", ".h", ".S", ".py", ".sh", ".md", ".map", ".in", ".build", ".txt", ".patch"}
SPECIAL = {"run", "expected-skips", ".clang-format", ".clang-tidy", ".gitignore"}
LEXEME = re.compile(r'//[^\n]*(?:\\\n[^\n]*)*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                    re.DOTALL)
WAIVER = re.compile(r"gate: *([a-z-]+): *\S")


def tracked(top):
    """All text files but build folders; no git is asked, since a copy of the tree has none."""
    found = []
    for path in sorted(top.rglob("*")):
        parts = path.relative_to(top).parts
        if parts[0] == ".git" or parts[0] == "build" or parts[0].startswith("build-"):
            continue
        if "__pycache__" in parts or not path.is_file():
            continue
        if path.suffix in SUFFIXES or path.name in SPECIAL:
            found.append(path.relative_to(top))
    return found


@dataclass
class Comment:
    """Where it begins and ends (lines from 1), and its text with the delimiters."""
    first: int
    last: int
    text: str


class Source:
    """A C file: .text; .plain, the same with comments and literals blanked; .code, also without
    directives and the parts behind #else; .comments"""

    def __init__(self, top, path):
        self.path = path
        self.text = (top / path).read_text(errors="replace")
        self.comments = []
        self.plain = LEXEME.sub(self._blank, self.text)
        self.code = _first_branches(self.plain)

    def _blank(self, match):
        lexeme = match.group(0)
        if lexeme.startswith(("//", "/*")):
            first = self.text.count("\n", 0, match.start()) + 1
            self.comments.append(Comment(first, first + lexeme.count("\n"), lexeme))
            return re.sub(r"[^\n]", " ", lexeme)
        return lexeme[0] + " " * (len(lexeme) - 2) + lexeme[0]

    def waived_here(self, measure, line):
        """Whether a waiver for @measure stands directly above @line."""
        while True:
            above = next((c for c in self.comments if c.last == line - 1), None)
            if above is None:
                return False
            if any(m.group(1) == measure for m in WAIVER.finditer(above.text)):
                return True
            line = above.first

    def waived_file(self, measure):
        """Whether a waiver for @measure stands among the first ten lines."""
        return any(m.group(1) == measure for c in self.comments if c.first <= 10
                   for m in WAIVER.finditer(c.text))


def _first_branches(code):
    """Blanks directives and every #else and #elif part, so that braces balance."""
    out, hidden, continued = [], [], False
    for line in code.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line)
        if directive and not continued:
            word = directive.group(1)
            if word in ("if", "ifdef", "ifndef"):
                hidden.append(False)
            elif word in ("else", "elif") and hidden:
                hidden[-1] = True
            elif word == "endif" and hidden:
                hidden.pop()
        blank = directive or continued or any(hidden)
        continued = bool(directive or continued) and line.endswith("\\")
        out.append("" if blank else line)
    return "\n".join(out)
