# SPDX-License-Identifier: MIT
"""A copy of the source tree with a build folder, in which bugs are planted."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

from runner import discover

FAILED = re.compile(r"^  (\S+)(?: as \w+)?: \d+ failed, first: (.*)$", re.MULTILINE)
ERROR = re.compile(r"^.*\berror: .*$", re.MULTILINE)
CHANGED = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)
IMPORTS = re.compile(r"^from client import", re.MULTILINE)
CLIENT = Path(__file__).resolve().parent.parent / "clients/client"


class Broken(Exception):
    """A bug that could not be tried; the text says why."""


class Stopped(Exception):
    """The whole run ends."""


class Tree:
    """Its tests are built when they are needed, and forgotten then: each run copies them."""
    lock = threading.Lock()
    live = set()
    stopping = False

    def __init__(self, origin, top, beside):
        """@beside: how many trees share the processors."""
        self.origin = origin
        self.top = top
        self.builddir = top / "build-test"
        self.jobs = max(1, (os.cpu_count() or 1) // beside)
        self.tests = {}
        self.programs = {}
        self.preloaded = []
        # One compiler cache serves all trees, and the file that is put back after a bug.
        self.env = {**os.environ, "CCACHE_BASEDIR": str(top), "CCACHE_NOHASHDIR": "1"}

    def copy(self):
        """All trees are copied before a bug is planted, lest an edit comes between."""
        shutil.copytree(self.origin, self.top, symlinks=True, ignore=self._left_out)
        for guest in ("build-suite", "build-interop"):  # what two kinds run on
            if (self.origin / guest).is_dir():
                (self.top / guest).symlink_to(self.origin / guest)

    def configure(self):
        """A second call does nothing."""
        if self.builddir.exists():
            return
        code, out = self._run(["meson", "setup", str(self.builddir), "-Dtests=true",
                               "-Dlto=false"])
        if code:
            raise RuntimeError(f"meson setup failed: {out}")
        listing = json.loads((self.builddir / "meson-info/intro-targets.json").read_text())
        files = [(Path(file).relative_to(self.builddir), target) for target in listing
                 for file in target["filename"] if target["type"] != "static library"]
        self.installed = [str(file) for file, target in files if target["installed"]]
        self.preloaded = [str(file) for file, target in files
                          if target["type"] == "shared library" and file.parent.name == "clients"]
        self.programs = {file.name: str(file) for file, _ in files if file.parts[0] == "tests"}

    def _left_out(self, folder, names):
        if Path(folder) != self.origin:
            return {name for name in names if name == "__pycache__"}
        return {name for name in names if name == ".git" or name.startswith("build-")
                or name == "build"}

    def found(self, select):
        """What tests/run.py runs for @select: 'unit/wire_psn', 'sim', 'verbs/flush:reset*'."""
        if select not in self.tests:
            self.tests[select] = discover.find(self.top, self.builddir, [select], [])
        return self.tests[select]

    def alone(self, tests):
        return any("alone" in test.traits for select in tests for test in self.found(select))

    def _programs(self, select):
        """The programs that @select runs: a compiled test's own; for a script those of its kind
        and those that it names, or the clients' package if it imports that, and what that
        package preloads, whoever imports it."""
        for test in self.found(select):
            if test.compiled:
                yield str(test.path.relative_to(self.builddir))
                continue
            yield from self.preloaded
            text = test.path.read_text()
            if IMPORTS.search(text):
                text += "".join(file.read_text() for file in CLIENT.glob("*.py"))
            for name, file in self.programs.items():
                if file.startswith(f"tests/{test.kind}/") or name in text:
                    yield file

    def build(self, tests):
        """What @tests need. Programs that open no device have the code in themselves; to be
        installed, the libraries must be there, whatever is in them."""
        targets = {file for select in tests for file in self._programs(select)}
        kinds = {test.kind for select in tests for test in self.found(select)}
        if kinds - discover.NO_DEVICE_KINDS or not all(
                (self.builddir / file).exists() for file in self.installed):
            targets |= set(self.installed)
        code, out = self._run(["ninja", "-C", str(self.builddir), f"-j{self.jobs}",
                               *sorted(targets)])
        if code:
            why = ERROR.search(out)
            raise Broken(f"does not compile: {why[0] if why else out[-200:]}")

    def forget(self, tests):
        for select in tests:
            for file in self._programs(select):
                (self.builddir / file).unlink(missing_ok=True)

    def run(self, tests, at_most):
        """'' if all pass, else which failed first and what it said. @at_most: seconds a test."""
        limit = [] if at_most is None else ["--at-most", str(int(at_most))]
        code, out = self._run(["/usr/bin/python3", "-B", str(self.top / "tests/run.py"),
                               "--build", str(self.builddir), "--jobs", "1", "--fail-fast",
                               *limit, *tests])
        if code == 0:
            return ""
        failed = FAILED.search(out)
        if failed:
            return f"{failed[1]}: {failed[2]}"
        raise Broken(f"the run broke: {out.strip().rpartition(chr(10))[2]}")

    @contextlib.contextmanager
    def planted(self, name):
        """The tree with the patch @name; whatever becomes of it, the files are put back."""
        patch = self.top / "tests/mutants" / name
        before = {self.top / file: (self.top / file).read_bytes()
                  for file in CHANGED.findall(patch.read_text())
                  if (self.top / file).is_file()}
        try:
            code, _ = self._run(["patch", "-p1", "-s", "-f", "-F0", "-i", str(patch)])
            if code:
                raise Broken("does not apply")
            yield
        finally:
            for file, content in before.items():
                file.write_bytes(content)
                for left in (f"{file}.rej", f"{file}.orig"):
                    Path(left).unlink(missing_ok=True)

    def _run(self, argv):
        with Tree.lock:
            if Tree.stopping:
                raise Stopped
            child = subprocess.Popen(argv, cwd=self.top, env=self.env, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     errors="replace")
            Tree.live.add(child)
        out, _ = child.communicate()
        with Tree.lock:
            Tree.live.discard(child)
            if Tree.stopping:
                raise Stopped
        return child.returncode, out

    @staticmethod
    def stop():
        """Ends what the trees run; tests/run.py ends its tests by itself."""
        with Tree.lock:
            Tree.stopping = True
            for child in Tree.live:
                child.terminate()
