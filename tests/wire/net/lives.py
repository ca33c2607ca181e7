# SPDX-License-Identifier: MIT
"""The pattern program as one side of connections that go on and on, until it is told to end."""
import os
import re
import select
import subprocess
import time
from pathlib import Path

from client import pair

PATTERN = str(Path(os.environ["SOFTHCA_BUILD"]) / "tests/wire/pattern")
PATIENCE = 60 * pair.PATIENCE
# With many of them a process has a small part of a core: a second of silence says nothing.
OPTIONS = ["-k", "-z", "20000", "-o", "18"]


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Process:
    """One process, through all its lives."""

    def __init__(self, host, folder, name, around, argv):
        self.name, self.path = name, Path(folder) / name
        self.argv = [*host.enter, *around, *pair.ALONE, PATTERN, *OPTIONS, *argv]
        self.popen = None
        self.start()

    def start(self):
        env = {**os.environ, **pair.preload(), "SOFTHCA_EXPLAIN": "1"}
        env.pop("LD_LIBRARY_PATH", None)
        with open(self.path, "wb") as out:
            self.popen = subprocess.Popen(self.argv, env=env, stdin=subprocess.PIPE, stdout=out,
                                          stderr=subprocess.STDOUT)

    def begin(self, connections):
        """Waits until so many of its connections have done a round, unless it ends before."""
        deadline = time.monotonic() + PATIENCE
        while self.popen.poll() is None and time.monotonic() < deadline and \
                self.path.read_text(errors="replace").count("begun\n") < connections:
            time.sleep(0.01)

    def kill(self):
        """Gone for good: what the program listened on is free for its next life. Behind
        `unshare --fork` the program is a child, which outlives its parent by a moment."""
        held = [os.pidfd_open(pid) for pid in children(self.popen.pid)]
        self.popen.kill()
        self.popen.stdin.close()
        self.popen.wait()
        for child in held:
            if not select.select([child], [], [], PATIENCE)[0]:
                raise RuntimeError(f"{self.name}: a child of it does not end")
            os.close(child)

    def end(self):
        """What is wrong with its end, or ''; its rounds and the peers that it has lost."""
        self.popen.stdin.close()
        try:
            code = self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            code = "nothing, and was killed"
        text = self.path.read_text(errors="replace")
        found = re.search(r"done: (\d+) rounds.*; (\d+) peers gone", text)
        if code or not found:
            return f"{self.name} ends with {code}: {' | '.join(text.splitlines()[-3:])}", 0, 0
        return "", int(found.group(1)), int(found.group(2))
