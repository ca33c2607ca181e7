# SPDX-License-Identifier: MIT
"""Where tests run: a copy of the installed tree and of the test programs, readable by everybody.

A clone may lie in a folder that an unused uid cannot enter, so nothing of it is used from there
but by the kinds that read the source itself."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

IGNORED = shutil.ignore_patterns("*.p", "meson-*", "__pycache__", "*.o", "*.a")


class Stage:
    """with Stage(source, build, libraries) as stage: its folders are gone at the end. @libraries:
    some test needs what is installed."""

    def __init__(self, source, build, libraries):
        self.source = source
        self.from_build = build
        self.libraries = libraries

    def __enter__(self):
        base = "/tmp" if os.geteuid() == 0 else None
        self.top = Path(tempfile.mkdtemp(prefix="softhca-test-", dir=base))
        try:
            self._fill()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top, ignore_errors=True)

    def _fill(self):
        self.top.chmod(0o755)
        self.prefix = self.top / "prefix"
        self.build = self.top / "build"
        self.tests = self.top / "tests"
        self.suite = self.top / "suite"
        (self.top / "tmp").mkdir()
        (self.top / "tmp").chmod(0o755)
        self._install()
        shutil.copytree(self.source / "tests", self.tests, ignore=IGNORED)
        for name in ("docs", "ci", "scripts"):  # pages and scripts that tests read and run
            shutil.copytree(self.source / name, self.top / name)
        for name in ("README.md", "action.yml", "build.sh"):
            shutil.copy(self.source / name, self.top)
        if (self.from_build / "tests").is_dir():
            shutil.copytree(self.from_build / "tests", self.build / "tests", ignore=IGNORED,
                            symlinks=True)
        if (self.source / "build-suite").is_dir():
            shutil.copytree(self.source / "build-suite", self.suite)
        self.build.mkdir(exist_ok=True)
        (self.build / "lib").symlink_to("../prefix/lib/softhca")
        (self.build / "softhca").symlink_to("../prefix/bin/softhca")

    def _install(self):
        if not self.libraries:
            self.prefix.mkdir()
            return
        dest = self.top / "dest"
        subprocess.run(["meson", "install", "-C", str(self.from_build), "--no-rebuild", "--quiet",
                        "--destdir", str(dest)], check=True, stdout=subprocess.DEVNULL)
        binaries = next(dest.rglob("bin"), None)
        if binaries:
            binaries.parent.rename(self.prefix)
        else:
            self.prefix.mkdir()
        shutil.rmtree(dest, ignore_errors=True)

    def path_of(self, test):
        """The staged copy of a test's program; source kinds run from the tree itself."""
        if "source" in test.traits:
            return test.path
        for origin, copy in ((self.from_build, self.build), (self.source, self.top)):
            if test.path.is_relative_to(origin):
                return copy / test.path.relative_to(origin)
        return test.path

    def temporary(self, name, uid):
        """A folder of @uid's own, for one run of one test."""
        folder = self.top / "tmp" / name
        folder.mkdir()
        folder.chmod(0o755)
        if uid is not None:
            os.chown(folder, uid, uid)
        return folder
