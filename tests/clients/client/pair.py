# SPDX-License-Identifier: MIT
"""Two processes of one unmodified program: the server, and when it listens the client."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = Path(os.environ["SOFTHCA_PREFIX"])
LIB = os.environ["SOFTHCA_LIB"]
SLOWER = {"none": 1, "asan": 4, "tsan": 12}
PATIENCE = SLOWER[os.environ.get("SOFTHCA_SANITIZER", "none")]
LISTEN = "0A"
BAD = re.compile(r"invalid data|Completion with error|Failed|Couldn't|ERROR: |runtime error:", re.I)

HASTY = Path(os.environ["SOFTHCA_BUILD"]) / "tests/clients/hasty.so"  # for perftest

SENTENCE = re.compile(r"^softhca: .*$", re.MULTILINE)
EXPLAIN = {"SOFTHCA_EXPLAIN": "1"}

RUN = [str(PREFIX / "bin/softhca"), "run", "--"]
ALONE = ["env", f"LD_LIBRARY_PATH={LIB}"]


@dataclass
class Side:
    """How one side is started: @around comes before @inside, the program behind it. @terminal: its
    standard input is one, on which nobody types; else /dev/null."""
    around: list = field(default_factory=list)
    inside: list = field(default_factory=lambda: list(RUN))
    env: dict = field(default_factory=dict)
    terminal: bool = False

    def argv(self, program, preloaded=""):
        """What is preloaded is the program's, and no shell's before it."""
        with_it = ["env", f"LD_PRELOAD={preloaded}"] if preloaded else []
        return [*self.around, *with_it, *self.inside, *program]


@dataclass
class Result:
    """@why is '' when all went well; the outputs are for the log. @skipped: why it was not run."""
    why: str
    server: str = ""
    client: str = ""
    skipped: str = ""


_next_port = 18515


def silent(output):
    """Who has done all that it should has failed in nothing: with EXPLAIN it says no sentence."""
    found = SENTENCE.search(output)
    return f"it says: {found[0]}" if found else ""


def run(program, check, server=None, client=None, limit=120, address="127.0.0.1"):
    """Runs @program -p PORT on both sides, the client with the server's @address; check(side,
    output) tells what an output lacks."""
    global _next_port
    port, _next_port = _next_port, _next_port + 1
    argv = [*program, "-p", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        sides = [Process((server or Side()), argv, Path(folder) / "server")]
        try:
            why = _wait_listen(port, sides[0], limit * PATIENCE)
            if not why:
                sides.append(Process((client or Side()), [*argv, address],
                                      Path(folder) / "client"))
                why = _join(sides, limit * PATIENCE)
        finally:
            for side in sides:
                side.end()
            _remove_left()
        outputs = [side.output() for side in sides] + [""]
    return Result(why or _judge(outputs[:2], check), *outputs[:2])


def _remove_left():
    """Files that programs with XRC domains make and leave: the next user could not open them."""
    for name in ("xrc_domain", "xrc_domain_server", "xrc_domain_client"):
        with contextlib.suppress(OSError):
            os.unlink(f"/tmp/{name}")


class Process:
    def __init__(self, side, argv, path):
        env = {**os.environ, **preload(), **side.env}
        env.pop("LD_LIBRARY_PATH", None)
        preloaded = [env.pop("LD_PRELOAD", None), str(HASTY) if argv[0].startswith("ib_") else None]
        self.paths = [path, Path(f"{path}.errors")]
        self.ends = os.openpty() if side.terminal else ()
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as errors:
            self.popen = subprocess.Popen(
                side.argv(argv, ":".join(filter(None, preloaded))), env=env,
                stdin=self.ends[1] if self.ends else subprocess.DEVNULL,
                stdout=out, stderr=errors, process_group=0)

    def output(self):
        """Errors behind the rest: among it they would cut a line that is half written in two."""
        return "".join(path.read_bytes().decode(errors="replace") for path in self.paths)

    def end(self):
        """Its group is killed only as long as it is ours to name: before the leader is reaped."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()
        for end in self.ends:
            os.close(end)
        self.ends = ()


def preload():
    """An instrumented library in a program that is not needs the runtime first; the program's own
    leaks are not ours."""
    runtime = os.environ.get("SOFTHCA_PRELOAD")
    if not runtime:
        return {}
    return {"LD_PRELOAD": runtime,
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def listening(port, pid="self"):
    """Whether somebody of the network namespace of @pid listens on TCP @port."""
    suffix = f":{port:04X}"
    for table in (f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state = line.split()[:4]
            if local.endswith(suffix) and state == LISTEN:
                return True
    return False


def _wait_listen(port, server, limit):
    deadline = time.monotonic() + limit
    while not listening(port, server.popen.pid):
        if server.popen.poll() is not None:
            return f"the server ended with {server.popen.returncode} before it listened"
        if time.monotonic() > deadline:
            return f"the server does not listen after {limit} s"
        time.sleep(0.005)
    return ""


def _join(sides, limit):
    """Both sides, within one limit; a side that fails ends the wait for the other."""
    deadline = time.monotonic() + limit
    names = {sides[0]: "server", sides[1]: "client"}
    while True:
        codes = {names[side]: side.popen.poll() for side in sides}
        for name, code in codes.items():
            if code:
                return f"the {name} ended with {code}"
        if None not in codes.values():
            return ""
        if time.monotonic() > deadline:
            late = ", ".join(name for name, code in codes.items() if code is None)
            return f"not done after {limit} s: {late}"
        time.sleep(0.005)


def _judge(outputs, check):
    for name, output in zip(("server", "client"), outputs):
        bad = BAD.search(output)
        if bad:
            return f"the {name} says '{bad.group(0)}'"
        lacks = check(name, output)
        if lacks:
            return f"the {name} {lacks}"
    return ""
