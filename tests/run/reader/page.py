# SPDX-License-Identifier: MIT
"""What a page tells its reader to type: blocks indented by four columns. What stands between fences
(```) is not typed.

In a block with prompts (`$ `, or `NAME$ ` for a terminal of that name) the lines behind a command,
up to the next prompt, are what it prints; `...` stands for any lines. Words must agree, and small
numbers; larger ones, fractions and long hexadecimal numbers differ from run to run. `$ cat FILE`
of a file that does not exist has the reader write it. A command that prints nothing on the page may
print anything, but must succeed. A block without prompts is one script, which must succeed."""
import re
from dataclasses import dataclass, field

PROMPT = re.compile(r"([a-z0-9]*)\$ (.*)")
VARIES = re.compile(r"(?<=QP )0x[0-9a-f]+|0x[0-9a-f]{4,}|\d+\.\d+|\d{3,}")
INDENT = "    "


@dataclass
class Command:
    text: str
    where: str = ""  # the terminal
    prints: list = field(default_factory=list)

    def file(self):
        """The name of the file that the command shows, or None."""
        found = re.fullmatch(r"cat (\S+)", self.text)
        return found and found[1]

    def differs(self, status, printed):
        """In what the outcome is other than the page says, or ''."""
        wanted, found = ([plain(line) for line in lines if line.strip()]
                         for lines in (self.prints, printed.splitlines()))
        if not wanted:
            return f"exit status {status}: {printed}" if status else ""
        return "" if matches(wanted, found) else f"exit status {status}, prints:\n{printed}"


@dataclass
class Block:
    name: str
    commands: list


def plain(line):
    return " ".join(VARIES.sub("N", line).split())


def matches(wanted, found):
    """Whether the lines are those; '...' in @wanted is any number of lines."""
    for number, line in enumerate(wanted):
        if line == "...":
            rest = wanted[number + 1:]
            return any(matches(rest, found[at:]) for at in range(number, len(found) + 1))
        if number >= len(found) or line != found[number]:
            return False
    return len(wanted) == len(found)


def blocks(path):
    """In the order of the page, named by their headings."""
    found, heading, lines, fenced = [], "", [], False
    for line in [*path.read_text().splitlines(), "end"]:
        fenced ^= line.startswith("```")
        if fenced:
            continue
        if line.startswith(INDENT) or (lines and not line):
            lines.append(line[len(INDENT):])
            continue
        if lines:
            found.append(Block(f"{path.name}: {heading}", _commands(lines)))
            lines = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return found


def _commands(lines):
    if not any(PROMPT.fullmatch(line) for line in lines):
        return [Command("\n".join(lines))]
    commands = []
    for line in lines:
        prompt = PROMPT.fullmatch(line)
        if prompt:
            commands.append(Command(prompt[2], prompt[1]))
        else:
            commands[-1].prints.append(line)
    return commands
