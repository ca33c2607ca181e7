# SPDX-License-Identifier: MIT
"""The terminals at which a reader sits: a shell each, on this machine or on another host."""
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

READER = 65534  # root reads as somebody without rights
SLOWER = {"none": 1, "asan": 4, "tsan": 12}
PATIENCE = 60 * SLOWER[os.environ.get("SOFTHCA_SANITIZER", "none")]
END = "-- end of that, status"
LISTEN = "0A"
NAME = re.compile(r"\.cm\.106\.\d+\.")  # of a port of rdma_cm, RDMA_PS_TCP (connections.md)
WAITS = "waiting for a client"


class Terminal:
    """One shell, for the commands of one block."""

    def __init__(self, home, host):
        around = host.enter if host else []
        if os.stat(home).st_uid == READER:
            around = [*around, "setpriv", f"--reuid={READER}", f"--regid={READER}",
                      "--clear-groups"]
        self.home, self.commands, self.text = home, [], ""
        self.popen = subprocess.Popen(
            [*around, "bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, cwd=home, process_group=0,
            env={"HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8",
                 **{name: os.environ[name] for name in os.environ
                    if name in ("PATH", "SOFTHCA_PRELOAD") or name.endswith("SAN_OPTIONS")}})
        os.set_blocking(self.popen.stdout.fileno(), False)

    def type(self, command):
        """A script of several lines ends at its first failure."""
        text = command.text
        script = f"( set -e\n{text}\n)" if "\n" in text else f"{{ {text}\n}}"
        self.commands.append(command)
        line = f"{script} </dev/null; status=$?; echo; echo {END} $status\n"
        self.popen.stdin.write(line.encode())
        self.popen.stdin.flush()

    def read(self, seconds):
        """What comes within that time, at most once."""
        if select.select([self.popen.stdout], [], [], seconds)[0]:
            self.text += (self.popen.stdout.read() or b"").decode(errors="replace")

    def is_ready(self):
        """All that was typed has ended."""
        return len(self.ends()) == len(self.commands)

    def listens(self):
        """Whether somebody of its network waits to be connected, or a program says that it does. By
        rdma_cm: has a port."""
        if self.text.splitlines()[-1:] == [WAITS]:
            return True
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{self.popen.pid}/net/{table}").read_text().splitlines()[1:]:
                if line.split()[3] == LISTEN:
                    return True
        return bool(NAME.search(Path(f"/proc/{self.popen.pid}/net/unix").read_text()))

    def ends(self):
        """[(what a command has printed, its status)]"""
        parts = re.split(rf"\n?{END} (\d+)\n", self.text)
        return list(zip(parts[0::2], map(int, parts[1::2])))

    def end(self):
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.stdin.close()
        self.popen.wait()
        self.popen.stdout.close()


class Desk:
    """The terminals of one block; @hosts: {name: the host that a terminal of that name is on}"""

    def __init__(self, home, hosts):
        self.home, self.hosts, self.terminals = home, hosts, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for terminal in self.terminals.values():
            terminal.end()

    def type(self, command):
        """When what was typed before, there and elsewhere, has ended or waits for a client."""
        name = command.file()
        if name and not (self.home / name).exists():
            (self.home / name).write_text("\n".join([*command.prints, ""]))
            (self.home / name).chmod(0o755)
        if command.where not in self.terminals:
            self.terminals[command.where] = Terminal(self.home, self.hosts.get(command.where))
        here = self.terminals[command.where]
        for terminal in self.terminals.values():
            self._wait(lambda t=terminal: t.is_ready() or (t is not here and t.listens()))
        here.type(command)

    def done(self):
        """(command, exit status, what it has printed) of all that was typed, when all has ended"""
        self._wait(lambda: all(t.is_ready() for t in self.terminals.values()))
        for terminal in self.terminals.values():
            for command, (printed, status) in zip(terminal.commands, terminal.ends()):
                yield command, status, printed

    def _wait(self, until):
        limit = time.monotonic() + PATIENCE
        while not until():
            for terminal in self.terminals.values():
                terminal.read(0.01)
            what = "\n".join(t.text for t in self.terminals.values())
            assert time.monotonic() < limit, f"does not end: {what}"
