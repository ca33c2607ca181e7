# SPDX-License-Identifier: MIT
"""Two processes of one unmodified program of rdma_cm: the server, and when it listens the client.

A server is known to listen by the name of its port (docs/design/connections.md), which is there
from rdma_bind_addr() on, or by TCP or UDP: a client that is faster than the server's rdma_listen()
behind it is refused, and started again."""
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from client import pair, programs

STREAM = "-p {p} -S 30000 -C 50"
FIO = "fio --ioengine=rdma --bs=64k --size=4m "
PRELOAD = "env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so "
FORK_SAFE = PRELOAD + "RDMAV_FORK_SAFE=1 "
# The preload library's, one for the host: the next user could not open it.
FORK_SEMAPHORE = "/dev/shm/sem.rsocket_fork"
DAT = "env DAT_OVERRIDE={f}/dat.conf "
DAT_CONF = 'lo u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "lo 0" ""\n'
UCX = "env UCX_TLS=rc_v,self UCX_NET_DEVICES=mlx5_0:1 " \
      "{b}/ucp_client_server {v}-i 20 -s 5000 -p {p} "
# What is built from the sources or for the library of a package that a machine may lack.
BUILT = Path(os.environ["SOFTHCA_BUILD"]) / "tests/clients"
# (name, (the server's arguments, the client's)); {a}: the server's address, {o}: one's own,
# {p}: the port, {f}: a folder, {b}: that of BUILT, {m}: a group, {v}, {w}: "-6 ", "-V "
# for IPv6
PROGRAMS = [
    ("rping", ("rping -s -C 20 -v -a {a} -p {p}", "rping -c -C 20 -v -a {a} -p {p}")),
    ("rping, big", ("rping -s -C 5 -S 65000 -v -V -a {a} -p {p}",
                    "rping -c -C 5 -S 65000 -v -V -a {a} -p {p}")),
    # Its server serves until it is ended.
    ("rping -P", ("rping -s -P -a {a} -p {p}", "rping -c -C 5 -v -a {a} -p {p}")),
    ("ucmatose -t", ("ucmatose -c 50 -t 8 -C 5 -b {a} -p {p}",
                     "ucmatose -c 50 -t 8 -C 5 -s {a} -p {p}")),
    ("ucmatose", ("ucmatose -c 20 -C 5 -b {a} -p {p}", "ucmatose -c 20 -C 5 -s {a} -p {p}")),
    ("ucmatose -P ib", ("ucmatose -P ib -C 5 -b {a} -p {p}", "ucmatose -P ib -C 5 -s {a} -p {p}")),
    ("ucmatose, migrated", ("ucmatose -m -C 5 -b {a} -p {p}", "ucmatose -m -C 5 -s {a} -p {p}")),
    ("udaddy", ("udaddy -c 8 -b {a}", "udaddy -c 8 -s {a}")),
    ("rdma_client", ("rdma_server -s {a} -p {p}", "rdma_client -s {a} -p {p}")),
    ("rdma_xclient RC", ("rdma_xserver -c r -p {p}", "rdma_xclient -c r -s {a} -p {p}")),
    ("rdma_xclient XRC", ("rdma_xserver -c x -p {p}", "rdma_xclient -c x -s {a} -p {p}")),
    ("rstream, latency", ("rstream -b {a} " + STREAM, "rstream -s {a} " + STREAM)),
    ("rstream, verified", ("rstream -b {a} -T v " + STREAM, "rstream -T v -s {a} " + STREAM)),
    ("rstream, blocking", ("rstream -b {a} -T b " + STREAM, "rstream -T b -s {a} " + STREAM)),
    ("rstream, asynchronous", ("rstream -b {a} -T a " + STREAM, "rstream -T a -s {a} " + STREAM)),
    ("rstream, nonblocking", ("rstream -b {a} -T n " + STREAM, "rstream -T n -s {a} " + STREAM)),
    ("rstream, resolved", ("rstream -b {a} -T r " + STREAM, "rstream -T r -s {a} " + STREAM)),
    ("riostream, verified", ("riostream -b {a} -T v " + STREAM, "riostream -T v -s {a} " + STREAM)),
    *[(f"udpong, {how}", (f"udpong -b {{a}} -p {{p}} -T {how}",
                          f"udpong -s {{a}} -p {{p}} -C 200 -S {size} -T {how}"))
      for how, size in (("b", 64), ("n", 1000), ("a", 2000))],
    ("rcopy", ("rcopy -p {p}", "rcopy /proc/self/exe {a}:{f}/copy -p {p}")),
    # -F: without it a program fails that cannot measure the CPU's frequency, as under load.
    *[(f"{name} -R", (f"{name} -F -R -n 200 -p {{p}}", f"{name} -F -R -n 200 -p {{p}} {{a}}"))
      for name in ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw",
                   "ib_atomic_lat", "ib_send_bw", "ib_send_lat", "ib_send_bw -c UD",
                   "ib_send_lat -c UD")],
    *[(f"fio, {verb}", (FIO + "--name=server --port={p} --rw=read",
                        FIO + f"--name=client --port={{p}} --rw=write --verb={verb} "
                        "--hostname={a}"))
      for verb in ("write", "read")],
    # As many receives as messages: nobody tries again (rnr_retry_count 0) that meets none.
    ("fio, send", (FIO + "--name=server --port={p} --rw=read --iodepth=64",
                   FIO + "--name=client --port={p} --rw=write --verb=send --hostname={a}")),
    ("iperf, preloaded", (PRELOAD + "iperf {w}-s -P 1 -p {p}",
                          PRELOAD + "iperf {w}-c {a} -p {p} -n 8M")),
    # Both connect by TCP, as forking programs must, and change over with the first bytes.
    ("iperf, preloaded, RDMAV_FORK_SAFE", (FORK_SAFE + "iperf {w}-s -P 1 -p {p}",
                                           FORK_SAFE + "iperf {w}-c {a} -p {p} -n 8M")),
    *[(name, (DAT + f"{name} -P lo -s", DAT + f"{name} -P lo -h {{a}}"))
      for name in ("dtest", "dtestcm -c 50")],
    ("dapltest", (DAT + "dapltest -T S -D lo",
                  DAT + "dapltest -T T -s {a} -D lo -i 20 client SR 4096 1 server SR 4096 1")),
    *[(f"ucp_client_server, {kind}", (f"{UCX}-c {kind}", f"{UCX}-c {kind} -a {{a}}"))
      for kind in ("am", "tag", "stream")],
    ("librpma", ("{b}/rpma {a} {p}", "{b}/rpma {a} {p} client")),
    # One test each: before the next its server, which is warm then, says at which port it will
    # listen, and the client may be there first.
    ("qperf -cm1", ("qperf -lp {p}", "qperf {a} -lp {p} -t 1 -cm1 rc_bw")),
    ("qperf -cm1, READ", ("qperf -lp {p}", "qperf {a} -lp {p} -t 1 -cm1 rc_rdma_read_lat")),
    ("fi_pingpong, msg", ("fi_pingpong -p verbs -e msg -B {p}",
                          "fi_pingpong -p verbs -e msg -P {p} {a}")),
    ("fi_pingpong, rdm", ("fi_pingpong -p verbs;ofi_rxm -e rdm -B {p}",
                          "fi_pingpong -p verbs;ofi_rxm -e rdm -P {p} {a}")),
]
# What takes seconds: in a soak, or by name.
LONG = [
    ("rstream, all sizes", ("rstream -b {a} -S all -p {p}", "rstream -s {a} -S all -p {p}")),
    ("rstream, all sizes, verified", ("rstream -b {a} -S all -T v -p {p}",
                                      "rstream -s {a} -S all -T v -p {p}")),
    # The sender waits for three seconds, posts, and destroys its queue pair at once; with -o it
    # joins to send alone.
    *[(f"mckey{how}", ("mckey -m {m} -b {o} -C 5",
                       f"mckey -m {{m}} -b {{o}} -C 5{how} -s"))
      for how in ("", " -o")],
]
if os.environ.get("SOFTHCA_LENGTH") == "full" or os.environ.get("SOFTHCA_CASES"):
    PROGRAMS += LONG


# Newer ones of cmtime are another program: several peers, led by a controller. Those in between,
# which compare themselves with sockets (-S), ask getaddrinfo() for AF_INET alone.
_CMTIME = subprocess.run(["cmtime", "-h"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, check=False).stdout
if "controller_address" not in _CMTIME:
    PROGRAMS.append(("cmtime", ("cmtime -c 50 -b {a} -p {p}", "cmtime -c 50 -s {a} -p {p}")))
OWN_PORT = {"udaddy": 7174,  # its -p is the port space
            "dapltest": 62000, "dtest": 15828, "dtestcm": 15828,
            "mckey": 111}  # the port space again, in hexadecimal
# Their servers serve the next client.
ENDLESS = {"cmtime", "rcopy", "qperf", "udpong", "iperf", "dapltest", "ucp_client_server"}
# What clients say when nobody listens yet; some end with 0 all the same.
REFUSED = ("rdma_connect: Connection refused", "rconnect: Connection refused",
           "rconnect failed\n: Connection refused", "connect failed: Connection refused",
           "event is RDMA_CM_EVENT_REJECTED instead of", "RDMA_CM_EVENT_REJECTED; error: 8",
           "RDMA_CM_EVENT_REJECTED, error 8",
           "unexpected event from RDMA CM: Event rejected",
           "RDMA_CM_EVENT_REJECTED, error: 8", "RDMA_CM_EVENT_UNREACHABLE, error: 1")
IPV4, IPV6 = {"m": "239.7.7.7", "v": "", "w": ""}, {"m": "ff0e::7:7:7", "v": "-6 ", "w": "-V "}
# rdma_xserver and rcopy listen on what getaddrinfo() of no name gives: IPv4's wildcard. perftest,
# qperf and fi_pingpong ask getaddrinfo() for AF_INET alone, perftest -R with --ipv6 as well; fio's
# engine knows sockaddr_in alone. dapl's programs are given lo, and take its IPv4 address.
IPV4_ONLY = ("rdma_x", "rcopy", "ib_", "qperf", "fi_", "fio", "dapl", "dtest",
             *(["cmtime"] if "[-S]" in _CMTIME else []))
HERE_ONLY = ("dapl", "dtest")
PATIENCE = 180 if programs.FULL else 60  # seconds, on an idle machine

_next_port = 21500


def speaks(name, address):
    """libfabric leaves loopback interfaces alone. A sanitizer's runtime has to be preloaded first,
    and UCX replaces the calls for memory as it does."""
    if ("preloaded" in name or name.startswith("ucp_")) and \
            os.environ.get("SOFTHCA_SANITIZER", "none") != "none":
        return False
    if name.startswith("fi_") and address == "127.0.0.1":
        return False
    if name.startswith(HERE_ONLY) and address != "127.0.0.1":
        return False
    return ":" not in address or not name.startswith(IPV4_ONLY)


def _lacks(argv):
    """Why the program is not run on this machine, or ''."""
    program = argv.split("{b}/")[-1].split()[0]
    if "{b}/" in argv and not (BUILT / program).exists():
        return f"{program} is not built: its library's package is not installed"
    name = _program(argv.split())
    if name.startswith(HERE_ONLY) and not shutil.which(name):
        return f"there is no {name}: this release has no dapl2-utils"
    return ""


def _has_udp(port, pid):
    return any(f":{port:04X} 0" in Path(f"/proc/{pid}/net/{table}").read_text()
               for table in ("udp", "udp6") if Path(f"/proc/{pid}/net/{table}").exists())


def is_there(port, pid):
    """Whether a name of connection management has that port, in the network namespace of @pid, or
    somebody listens there by TCP, or has it of UDP."""
    if pair.listening(port, pid) or _has_udp(port, pid):
        return True
    try:
        return f".{port}." in Path(f"/proc/{pid}/net/unix").read_text()
    except OSError:
        return False


def _program(argv):
    """Its name, behind the environment that it is given."""
    return Path(next(word for word in argv if word != "env" and "=" not in word)).name


def _is_endless(argv):
    """A server of that command line serves the next client."""
    return _program(argv) in ENDLESS or _program(argv) == "rping" and "-P" in argv


def _wait(condition, limit):
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def has_pinged(argv, output):
    """Both ends of rping destroy their channel and end. Their thread may ask the channel once more,
    and end the process with 255 before that. @argv: the client's, which says how often."""
    return argv[0] == "rping" and "-v" in argv and \
        output.count("ping data: rdma-ping-") == int(argv[argv.index("-C") + 1])


def _client(server, argv, side, path, limit):
    """The client's end, started anew while it is refused: (why, output)."""
    deadline = time.monotonic() + limit
    while True:
        client = pair.Process(side, argv, path)
        try:
            if not _wait(lambda: client.popen.poll() is not None, limit):
                return "the client is not done", client.output()
            code, output = client.popen.poll(), client.output()
        finally:
            client.end()
        refused = any(text in output for text in REFUSED)
        if not refused and (not code or code == 255 and has_pinged(argv, output)):
            return "", output
        if not refused or server.popen.poll() is not None or time.monotonic() > deadline:
            return f"the client ended with {code}, refused: {refused}", output


def run(argvs, address, server=None, client=None, own=None):
    """Runs both command lines of a row of PROGRAMS; a program that is not built is a skip. @own:
    the client's address, if it is another than the server's."""
    global _next_port
    if _lacks(argvs[0]):
        return pair.Result("", skipped=_lacks(argvs[0]))
    port, _next_port = _next_port, _next_port + 1
    port = OWN_PORT.get(_program(argvs[0].split()), port)
    limit = PATIENCE * pair.PATIENCE
    ways = IPV6 if ":" in address else IPV4
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "dat.conf").write_text(DAT_CONF)
        argvs = [argv.format(a=address, o=one, p=port, f=folder, b=BUILT, **ways).split()
                 for argv, one in zip(argvs, (address, own or address))]
        serving = pair.Process(server or pair.Side(), argvs[0], Path(folder) / "server")
        output, why = "", ""
        try:
            pid = serving.popen.pid
            if not _wait(lambda: is_there(port, pid) or serving.popen.poll() is not None, limit):
                why = "the server has no port"
            elif serving.popen.poll() is not None:
                why = f"the server ended with {serving.popen.returncode} before it listened"
            else:
                why, output = _client(serving, argvs[1], client or pair.Side(),
                                      Path(folder) / "client", limit)
            if why or _is_endless(argvs[0]):
                return pair.Result(why, serving.output(), output)
            if not _wait(lambda: serving.popen.poll() is not None, limit):
                why = "the server is not done"
            elif serving.popen.returncode and not (
                    serving.popen.returncode == 255 and has_pinged(argvs[1], serving.output())):
                why = f"the server ended with {serving.popen.returncode}"
        finally:
            serving.end()
            if "RDMAV_FORK_SAFE=1" in argvs[0]:
                with contextlib.suppress(OSError):
                    os.unlink(FORK_SEMAPHORE)
        return pair.Result(why, serving.output(), output)
