# SPDX-License-Identifier: MIT
"""Who a test runs as, in which namespaces, with which environment."""
import functools
import os
import pwd
import shutil
import subprocess
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# dtestcm listens at port 45248 behind 51 ids with ports of that range, which has it otherwise.
RANGE = "echo 46000 60999 >/proc/sys/net/ipv4/ip_local_port_range"
LO_UP = f'ip link set lo up && {{ {RANGE} || :; }} 2>/dev/null && exec "$@"'
SANITIZER_ENV = {
    "none": {},
    "asan": {"ASAN_OPTIONS": "exitcode=99:detect_leaks=1:abort_on_error=0",
             "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
    # Each process waits a second for races at its end, unless it is told to wait less.
    "tsan": {"TSAN_OPTIONS": "exitcode=99:halt_on_error=1:second_deadlock_stack=1:"
                             "die_after_fork=0:ignore_noninstrumented_modules=0:"
                             "atexit_sleep_ms=20:print_suppressions=0:"
                             "suppressions={tests}/tsan-suppressions.txt"},
}
CALLERS = ["SOFTHCA_SEED", "SOFTHCA_PART", "SOFTHCA_BASE", "SOFTHCA_FAULT"]
RUNTIME = {"asan": "libasan.so", "tsan": "libtsan.so"}


class Forbidden(Exception):
    """This run cannot be had here; the text is the reason of the skip."""


@functools.cache
def unused_uid():
    """An id that neither the user data base nor any process has."""
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            taken.add(proc.stat().st_uid)
        except FileNotFoundError:
            continue
    return next(uid for uid in range(61000, 64000) if uid not in taken)


@functools.cache
def _namespaces_refused():
    """Why an ordinary user cannot make namespaces here, or None."""
    probe = subprocess.run(["unshare", "-Urnm", "true"], capture_output=True, text=True,
                           check=False)
    if probe.returncode == 0:
        return None
    return "namespaces are forbidden here: " + (probe.stderr.strip() or "unshare -Urnm failed")


def runs_as(test):
    """The identities one test is run as: 'self', or 'root' and 'user' when we are root."""
    if "source" in test.traits or os.geteuid() != 0:
        return ["self"]
    if "both" in test.traits:
        return ["root", "user"]
    return ["root"] if "root" in test.traits else ["user"]


def uid_of(identity):
    return unused_uid() if identity == "user" else None


def command(test, program, identity, settings):
    """The argument vector, wrapped in what the identity and the traits ask for."""
    inner = [str(program), *test.arguments]
    if test.compiled:
        inner = [*settings.under, *inner]
    if program.suffix == ".py":
        inner = ["/usr/bin/python3", "-B", *inner]
    if settings.sanitizer == "tsan":
        inner = ["setarch", "-R", *inner]
    return _become(test, identity, inner)


def _become(test, identity, inner):
    """Every test but those of the source gets namespaces of its own, so that no two runs meet."""
    if "source" in test.traits:
        return inner
    if identity == "self":
        return _own_user_namespace(test, inner)
    if identity == "user":
        uid = str(unused_uid())
        inner = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", *inner]
    return ["unshare", "-n", "-m", "sh", "-c", LO_UP, "sh", *inner]


def _own_user_namespace(test, inner):
    """For an ordinary user: root of new namespaces; and unless the test wants to be that, himself
    again in one more user namespace, without any right."""
    refused = _namespaces_refused()
    if refused and test.traits & {"device", "root"}:
        raise Forbidden(refused)
    if refused:
        return inner
    if "root" not in test.traits:
        inner = ["unshare", "-U", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}",
                 *inner]
    return ["unshare", "-Urnm", "sh", "-c", LO_UP, "sh", *inner]


def environment(test, stage, home, settings):
    """Clean: what tests/README.md promises, of the caller's no more than CALLERS."""
    env = {
        "PATH": PATH, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1", "CMOCKA_MESSAGE_OUTPUT": "TAP",
        "SOFTHCA_PREFIX": str(stage.prefix), "SOFTHCA_LIB": str(stage.prefix / "lib/softhca"),
        "SOFTHCA_LENGTH": settings.length, "SOFTHCA_SANITIZER": settings.sanitizer,
        "SOFTHCA_CASES": " ".join(test.cases), "SOFTHCA_SUITE": str(stage.suite),
        "SOFTHCA_GUEST": str(stage.source / "build-interop"),
    }
    in_source = "source" in test.traits
    env["SOFTHCA_BUILD"] = str(stage.from_build if in_source else stage.build)
    env["SOFTHCA_TESTS"] = str(stage.source / "tests" if in_source else stage.tests)
    if test.compiled and "device" in test.traits:
        env["LD_LIBRARY_PATH"] = env["SOFTHCA_LIB"]
    env.update({name: os.environ[name] for name in CALLERS if name in os.environ})
    for name, options in SANITIZER_ENV[settings.sanitizer].items():
        env[name] = options.format(tests=stage.tests)
    env["SOFTHCA_PRELOAD"] = _runtime(settings.sanitizer)
    env.update(test.env)
    return env


@functools.cache
def _runtime(sanitizer):
    """What a program that is not instrumented preloads to take instrumented libraries."""
    if sanitizer not in RUNTIME or not shutil.which("gcc"):
        return ""
    return subprocess.run(["gcc", f"-print-file-name={RUNTIME[sanitizer]}"], check=True,
                          capture_output=True, text=True).stdout.strip()
