#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Is SOFTHCA_EXPLAIN told of, once, to those who read it and have had failures?"""
# traits: both timeout=120
import os
import pty
import resource
import subprocess
import sys
import tempfile

import cases

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
PROGRAM = """
import ctypes, os, signal, sys
for each in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and others do not
    signal.signal(each, signal.SIG_DFL)
v = ctypes.CDLL("libibverbs.so.1")
for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr"):
    getattr(v, name).restype = ctypes.c_void_p
devices = v.ibv_get_device_list(None)
os.chdir("/")  # as a daemon does
first = ctypes.cast(devices, ctypes.POINTER(ctypes.c_void_p))[0]
pd = v.ibv_alloc_pd(ctypes.c_void_p(v.ibv_open_device(ctypes.c_void_p(first))))
for i in range(int(sys.argv[1])):
    assert not v.ibv_reg_mr(ctypes.c_void_p(pd), ctypes.c_void_p(4096), ctypes.c_size_t(i + 1), 0)
if len(sys.argv) > 2 and not os.fork():
    sys.exit(0)
if len(sys.argv) > 2:
    os.wait()
"""
SAYS = "softhca: {}; SOFTHCA_EXPLAIN=1 says why\n"
QUIET = {"LD_PRELOAD": os.environ["SOFTHCA_PRELOAD"], "SOFTHCA_DEVICES": "mlx5_0=lo",
         "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def environment(**more):
    env = {k: v for k, v in os.environ.items() if k not in ("CI", "SOFTHCA_EXPLAIN")}
    return {**env, **QUIET, "SOFTHCA_VIEW": "0", **more}


def command(*words):
    return [TOOL, "run", sys.executable, "-c", PROGRAM, *map(str, words)]


def said(*words, before=None, **env):
    """What the program writes to stderr, which is a pipe."""
    done = subprocess.run(command(*words), env=environment(**env), capture_output=True,
                          text=True, check=True, preexec_fn=before)
    assert done.stdout == "", done
    return done.stderr


def in_ci():
    assert said(3, CI="true") == SAYS.format("3 failures")
    assert said(1, CI="1") == SAYS.format("1 failure")
    assert said(0, CI="1") == ""


def nobody_reads():
    assert said(3) == ""
    assert said(3, CI="") == said(3, CI="false") == ""


def already_known():
    assert said(3, CI="1", SOFTHCA_EXPLAIN="0") == ""
    explained = said(3, CI="1", SOFTHCA_EXPLAIN="1")
    assert "ibv_reg_mr" in explained and "SOFTHCA_EXPLAIN" not in explained, explained


def files_that_cannot_be_written():
    """Said at first use, once: no sentence and no packet goes there."""
    for path, why in (("/nowhere/x", "No such file or directory"), ("/", "Is a directory"),
                      ("/dev/full", "No space left on device")):
        assert said(3, CI="1", SOFTHCA_EXPLAIN=path) == (
            f"softhca: SOFTHCA_EXPLAIN={path}: {why}; what fails is not explained there\n"), path
        assert said(0, SOFTHCA_TRACE=path) == (
            f"softhca: SOFTHCA_TRACE={path}: {why}; there is no trace\n"), path


def files_as_long_as_they_may_be():
    """The program, which writes nothing itself, gets no SIGXFSZ."""
    longest = 1 << 30
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tempfile.NamedTemporaryFile() as full:
        full.truncate(longest)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (longest, hard))
        assert "File too large" in said(3, before=limit, SOFTHCA_EXPLAIN=full.name)
        assert "File too large" in said(0, before=limit, SOFTHCA_TRACE=full.name)


def nobody_is_left_to_read():
    """The program, which writes nothing itself, gets no SIGPIPE."""
    for more in ({"CI": "1"}, {"SOFTHCA_EXPLAIN": "1"}, {"SOFTHCA_TRACE": "/nowhere/x"}):
        theirs, stderr = os.pipe()
        os.close(theirs)
        subprocess.run(command(3), env=environment(**more), stderr=stderr, check=True)
        os.close(stderr)


def relative_names():
    """They begin in the folder in which the program has first used the library."""
    with tempfile.TemporaryDirectory() as folder:
        was = os.getcwd()
        os.chdir(folder)
        try:
            assert said(3, SOFTHCA_EXPLAIN="./log", SOFTHCA_TRACE="a.pcapng") == ""
        finally:
            os.chdir(was)
        assert sorted(os.listdir(folder)) == ["a.pcapng", "log"], os.listdir(folder)


def forked_child_is_silent():
    assert said(2, "fork", CI="1") == SAYS.format("2 failures")


def on_a_terminal():
    ours, theirs = pty.openpty()
    subprocess.run(command(2), env=environment(), stdout=subprocess.DEVNULL, stderr=theirs,
                   check=True)
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 4096):
            text += part
    except OSError:  # EIO: the other end is closed, and all was read
        pass
    os.close(ours)
    assert text.decode().replace("\r", "") == SAYS.format("2 failures"), text


if __name__ == "__main__":
    sys.exit(cases.run((in_ci, nobody_reads, already_known, files_that_cannot_be_written,
                        files_as_long_as_they_may_be, nobody_is_left_to_read,
                        relative_names, forked_child_is_silent, on_a_terminal)))
