#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The counters of a port in /sys: do they say what the programs of a run have done, while these run
and when they have ended? Each case runs within one `softhca run`, where this script is started
again with the case's name."""
# traits: root timeout=240
import fcntl
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "wire"))

import cases  # noqa: E402
from net import hosts  # noqa: E402
from client import pair  # noqa: E402

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
WAITING = os.environ["SOFTHCA_BUILD"] + "/tests/verbs/verbs_shown"
CONNECTION = os.environ["SOFTHCA_BUILD"] + "/tests/verbs/verbs_cm_mads"
MADS, MAD = 5, 256  # REQ, REP, RTU, DREQ, DREP
PORT = Path("/sys/class/infiniband/mlx5_0/ports/1")
NO_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # perftest's are not ours
COUNT, SIZE, MTU = 100, 65536, 4096
PACKETS = COUNT * SIZE // MTU
PATIENCE = 60
PERFTEST = 18515  # the port of perftest's programs, and of ibv_rc_pingpong


# --- within a run ---

def path(name):
    return PORT / ("counters" if "port_" in name or "cast_" in name else "hw_counters") / name


def value(text):
    """The first line counts: beside a write that makes the text longer, a reader may get the old
    line and the tail of the new one (docs/design/port-counters.md)."""
    return int(text.split()[0])


def read(name):
    return value(path(name).read_bytes())


def until_listening(server, pid="self"):
    while not pair.listening(PERFTEST, pid):
        assert server.poll() is None
        os.sched_yield()


def start(program, *words, run=()):
    """-F: perftest fails where it cannot measure the CPU's frequency, as under load."""
    words = ("-F", "-n", str(COUNT), "-s", str(SIZE), "-x", "3", *words)
    return start_as_it_is([*run, program, *words])


def start_as_it_is(words):
    preloaded = os.environ["SOFTHCA_PRELOAD"], str(pair.HASTY), os.environ.get("LD_PRELOAD", "")
    env = {**os.environ, "LD_PRELOAD": ":".join(preloaded), "ASAN_OPTIONS": NO_LEAKS}
    return subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)


def both(program, *words, run=()):
    """Server and client on this host, to their ends."""
    server = start(program, *words, run=run)
    until_listening(server)
    client = start(program, *words, "127.0.0.1", run=run)
    assert client.wait() == 0 and server.wait() == 0


def is_moved(times):
    for way in "xmit", "rcv":
        assert read(f"port_{way}_data") == times * COUNT * SIZE // 4, (way, times)
        for name in f"port_{way}_packets", f"unicast_{way}_packets":
            assert read(name) == times * PACKETS, (name, read(name))
        assert read(f"multicast_{way}_packets") == 0


def within_moves():
    """SEND by the ring; WRITE and READ by the ring or by direct access."""
    was = read("port_xmit_data")
    for times, program in enumerate(("ib_send_bw", "ib_write_bw", "ib_read_bw"), 1):
        both(program)
        assert read("port_xmit_data") - was == times * COUNT * SIZE // 4, program
    if not was:  # files are shared by runs
        is_moved(3)


def within_brief():
    """Programs that end before their files are due."""
    words = ["ibv_rc_pingpong", "-g", "3", "-n", str(COUNT), "-s", str(SIZE), "-m", str(MTU)]
    server = start_as_it_is(words)
    until_listening(server)
    client = start_as_it_is([*words, "127.0.0.1"])
    assert client.wait() == 0 and server.wait() == 0
    is_moved(2)


def within_nested():
    both("ib_send_bw", run=(TOOL, "run"))
    is_moved(1)


def within_errors():
    """A packet in ten is lost, one in ten comes twice."""
    both("ib_send_bw")
    is_moved(1)
    for name in "out_of_sequence", "duplicate_request", "packet_seq_err":
        assert read(name) > 0, name


def within_connection():
    """What connection management says on one host counts as what it says through a network."""
    env = {**os.environ, "SOFTHCA_CASES": "each_message_is_in_the_trace"}
    subprocess.run([CONNECTION], check=True, env=env, stdout=subprocess.DEVNULL)
    for way in "xmit", "rcv":
        assert read(f"port_{way}_packets") == MADS, read(f"port_{way}_packets")
        assert read(f"port_{way}_data") == MADS * MAD // 4


def until(name, least):
    end = time.monotonic() + PATIENCE
    while read(name) < least:
        assert time.monotonic() < end, (name, read(name))
        os.sched_yield()


def waiting():
    """A program whose sends find no receive, for as long as it runs."""
    return subprocess.Popen([WAITING, "rnr"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def within_killed():
    """Both values come while the program runs, and stay when it is killed. A reader that had read
    one of them half has the old one."""
    with open(path("rnr_nak_retry_err"), "rb", buffering=0) as file:
        text = file.read(2)
        process = waiting()
        until("rnr_nak_retry_err", 10)
        until("out_of_buffer", 1)
        text += file.read()
    assert len(text) > 2 and value(text) == 0, text
    process.kill()
    process.wait()
    was = read("out_of_buffer")
    assert was > 0
    both("ib_send_bw")
    assert read("out_of_buffer") >= was


def within_descriptors():
    """What a program could not write for want of a descriptor, it writes when it has one. It has
    tried when another one, which begins later, has written."""
    process = waiting()
    until("rnr_nak_retry_err", 1)
    most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (0, most[1]))
    other = waiting()
    until("rnr_nak_retry_err", read("rnr_nak_retry_err") + 1)
    other.kill()
    other.wait()
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, most)
    until("rnr_nak_retry_err", read("rnr_nak_retry_err") + 1)
    process.kill()
    process.wait()


def within_locked():
    """A process that keeps the lock of the files does not keep others from their end."""
    folder = os.open(PORT / "counters", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    both("ib_send_bw")
    assert read("port_xmit_data") == 0
    os.close(folder)


def within_server():
    print("up", flush=True)
    server = start("ib_send_bw")
    assert server.wait() == 0
    assert read("port_rcv_data") == COUNT * SIZE // 4, read("port_rcv_data")
    assert read("port_rcv_packets") == PACKETS


def within_client():
    client = start("ib_send_bw", "10.9.0.1")
    assert client.wait() == 0
    assert read("port_xmit_data") == COUNT * SIZE // 4, read("port_xmit_data")
    assert read("port_xmit_packets") == PACKETS


# --- the cases ---

def inside(name, enter=(), **env):
    env = {**os.environ, "SOFTHCA_DEVICES": "mlx5_0=lo", **env}
    return subprocess.Popen([*enter, TOOL, "run", sys.executable, __file__, name], env=env,
                            stdout=subprocess.PIPE)


def passes(process):
    process.stdout.read()
    assert process.wait() == 0


def messages():
    passes(inside("moves"))


def brief_programs():
    passes(inside("brief"))


def copied_files():
    passes(inside("moves", SOFTHCA_VIEW="files"))


def run_within_a_run():
    passes(inside("nested"))


def errors():
    passes(inside("errors", SOFTHCA_FAULT="loss=10%,dup=10%,seed=3"))


def connection():
    passes(inside("connection"))


def killed():
    passes(inside("killed"))


def no_descriptor():
    passes(inside("descriptors"))


def locked():
    passes(inside("locked"))


def two_hosts():
    with hosts.Pair(4200) as (one, other):
        server = inside("server", one.enter, SOFTHCA_DEVICES="mlx5_0=eth0")
        server.stdout.readline()
        until_listening(server, one.pid)
        passes(inside("client", other.enter, SOFTHCA_DEVICES="mlx5_0=eth0"))
        passes(server)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        globals()["within_" + sys.argv[1]]()
    else:
        sys.exit(cases.run([messages, brief_programs, copied_files, run_within_a_run, errors,
                            connection, killed, no_descriptor, locked, two_hosts]))
