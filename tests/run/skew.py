#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Programs on two releases of softhca: do they work together between hosts, say on both sides why
they cannot on one, and have no numbers there that the other one has? The other release is this one
with another number of the layout of shared memory (tests/run/meson.build)."""
# traits: root timeout=240
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "wire"))

import cases  # noqa: E402
from net import hosts  # noqa: E402
from client import pair as clients  # noqa: E402

PREFIX = Path(os.environ["SOFTHCA_PREFIX"])
OTHER_LIBRARY = Path(os.environ["SOFTHCA_BUILD"]) / "tests/run/libibverbs.so.1"
OTHERS = "99"  # its layout
SLOTS = 1024  # of a host
NO_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # perftest's are not ours
SENTENCE = re.compile(r"(?:its|their) process runs on another version of softhca \(layout (\d+)\), "
                      "which this one cannot reach; start all programs of a host on one version")
other = None  # the other release's prefix


def install_other(folder):
    """Its tool finds the libraries beside it."""
    prefix = Path(folder) / "other"
    shutil.copytree(PREFIX, prefix, symlinks=True)
    for path in (prefix / "lib/softhca").glob("libibverbs.so*"):
        path.unlink()
    shutil.copy(OTHER_LIBRARY, prefix / "lib/softhca/libibverbs.so.1")
    return prefix


def start(prefix, program, *words, enter=(), device="lo"):
    env = {**os.environ, "SOFTHCA_DEVICES": f"mlx5_0={device}", "SOFTHCA_EXPLAIN": "1",
           "LD_PRELOAD": os.environ["SOFTHCA_PRELOAD"], "ASAN_OPTIONS": NO_LEAKS}
    # -F: without it a program fails that cannot measure the CPU's frequency, as under load.
    return subprocess.Popen([*enter, prefix / "bin/softhca", "run", "--", program, "-F", "-n",
                             "100", "-x", "3", *words], env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def listens(server, pid="self"):
    assert server.poll() is None, server.stdout.read()
    return clients.listening(18515, pid)


def pair(server_prefix, client_prefix, *words):
    server = start(server_prefix, *words)
    while not listens(server):
        os.sched_yield()
    client = start(client_prefix, *words, "127.0.0.1")
    said = [process.communicate()[0] for process in (server, client)]
    return [process.returncode for process in (server, client)], said


def one_host():
    """Both write, at once. The first to give up ends, and the other one must have asked it before:
    they try for two seconds, not for half of one."""
    for prefixes in ((PREFIX, other), (other, PREFIX)):
        status, said = pair(*prefixes, "ib_write_bw", "-b", "-u", "16")
        for mine, code, text in zip(prefixes, status, said):
            named = SENTENCE.search(text)
            assert code != 0 and named, (mine, code, text)
            assert (named[1] == OTHERS) == (mine == PREFIX), (mine, text)


def send(server_prefix, client_prefix):
    """A server that waits on, and how its client has ended: its code and what it said."""
    server = start(server_prefix, "ib_send_bw")
    while not listens(server):
        os.sched_yield()
    client = start(client_prefix, "ib_send_bw", "-u", "16", "127.0.0.1")
    text = client.communicate()[0]
    return server, client.returncode, text


def says_to_the_receiver(server):
    """It is told although it waits, and would do so for ever."""
    line = next((line for line in server.stdout if SENTENCE.search(line)), None)
    server.kill()
    server.communicate()
    return line and SENTENCE.search(line)[1]


def one_sends():
    for server_prefix, client_prefix in ((PREFIX, other), (other, PREFIX)):
        server, code, text = send(server_prefix, client_prefix)
        assert code != 0 and SENTENCE.search(text), text
        told = says_to_the_receiver(server)
        assert told and (told == OTHERS) == (server_prefix == PREFIX), (server_prefix, told)


def shown():
    """ps of this release says that there is a program which it cannot ask."""
    server = start(other, "ib_write_bw", "-b")
    while not listens(server):
        os.sched_yield()
    said = subprocess.run([PREFIX / "bin/softhca", "ps"], capture_output=True, text=True,
                          check=True).stdout
    server.kill()
    server.communicate()
    assert said == (f"programs on another version of softhca (layout {OTHERS}) are not shown: ask "
                    "the tool of that version\n"), said


def one_release():
    """The same two, of one release: the other one works by itself."""
    status, said = pair(other, other, "ib_send_bw", "-b")
    assert status == [0, 0], said


def two_hosts():
    with hosts.Pair(4200) as (one, two):
        for prefixes in ((PREFIX, other), (other, PREFIX)):
            server = start(prefixes[0], "ib_send_bw", "-b", enter=one.enter, device="eth0")
            while not listens(server, one.pid):
                os.sched_yield()
            client = start(prefixes[1], "ib_send_bw", "-b", "10.9.0.1", enter=two.enter,
                           device="eth0")
            said = [process.communicate()[0] for process in (server, client)]
            assert [server.returncode, client.returncode] == [0, 0], said


HOLDER = """
import resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in sys.argv[2:]]
for name, slot in zip(held, sys.argv[2:]):
    name.bind(f"\\0softhca.{sys.argv[1]}.all.slot.{slot}")
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(host, slots):
    """As many programs of the other release, by their names alone."""
    words = [*host.enter, sys.executable, "-c", HOLDER, OTHERS, *map(str, slots)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"ready\n"
        yield
        holder.stdin.close()


def slot_of_server(host):
    """Where a program of this release has its numbers, and what it says."""
    server = start(PREFIX, "ib_write_bw", enter=host.enter)
    while not listens(server, host.pid):
        os.sched_yield()
    names = Path(f"/proc/{host.pid}/net/unix").read_text()
    server.kill()
    slots = [int(slot) for layout, slot in re.findall(r"@softhca\.(\d+)\.all\.slot\.(\d+)", names)
             if layout != OTHERS]
    assert len(slots) == 1, names
    return slots[0], server.communicate()[0]


def apart():
    """No numbers that a program of the other release has: through the network they would lead to
    both. Where that has all of them, a sentence says so."""
    host = hosts.Host()
    for left in 0, 517, SLOTS - 1:
        with held(host, set(range(SLOTS)) - {left}):
            slot, said = slot_of_server(host)
        assert slot == left and "another version" not in said, (slot, said)
    with held(host, range(SLOTS)):
        said = slot_of_server(host)[1]
    assert f"processes of another version of softhca (layout {OTHERS}) have the queue pair " \
        "numbers of all processes that can be" in said, said
    host.end()


def main():
    global other
    with tempfile.TemporaryDirectory() as folder:
        other = install_other(folder)
        return cases.run([one_release, one_host, one_sends, shown, apart, two_hosts])


if __name__ == "__main__":
    sys.exit(main())
