# SPDX-License-Identifier: MIT
"""Connections of rdma_cm between the guest's kernel and us: Debian's programs on both sides; each
message lost once; our side killed at a message, and started anew; one client again and again."""
import contextlib
import shlex
import time

from client import cm
from sides import SECONDS, Side, ours, start

ADDRESSES = {"v4": ("10.9.0.1", "10.9.0.2"), "v6": ("fd09::1", "fd09::2")}  # the guest's, ours
# (the server's arguments, the client's); {a}: the server's address, {o}: one's own, {p}: the port
SHORT = {
    "rping": ("rping -s -C 5 -v -a {a} -p {p}", "rping -c -C 5 -v -a {a} -p {p}"),
    "ucmatose": ("ucmatose -c 5 -C 5 -b {a} -p {p}", "ucmatose -c 5 -C 5 -s {a} -p {p}"),
    "rdma_client": ("rdma_server -s {a} -p {p}", "rdma_client -s {a} -p {p}"),
    "udaddy": ("udaddy -c 4 -b {a}", "udaddy -c 4 -s {a}"),
    "rstream": ("rstream -b {a} -T v -S 30000 -C 20 -p {p}",
                "rstream -s {a} -T v -S 30000 -C 20 -p {p}"),
}
PERFTEST = " -F -R -n 50 -p {p}"
LONG = {
    "rping -S 65000": ("rping -s -C 5 -S 65000 -V -v -a {a} -p {p}",
                       "rping -c -C 5 -S 65000 -V -v -a {a} -p {p}"),
    "ucmatose -P ib": ("ucmatose -P ib -C 5 -b {a} -p {p}", "ucmatose -P ib -C 5 -s {a} -p {p}"),
    "ucmatose -m -t 96": ("ucmatose -m -t 96 -C 5 -b {a} -p {p}",
                          "ucmatose -m -t 96 -C 5 -s {a} -p {p}"),
    "rdma_xclient -c r": ("rdma_xserver -c r -p {p}", "rdma_xclient -c r -s {a} -p {p}"),
    "rstream -S 1000000": ("rstream -b {a} -S 1000000 -C 10 -p {p}",
                           "rstream -s {a} -S 1000000 -C 10 -p {p}"),
    "mckey": ("mckey -m 239.7.7.7 -b {o} -C 5", "mckey -m 239.7.7.7 -b {o} -C 5 -s"),
    "cmtime": ("cmtime -c 50 -b {a} -p {p}", "cmtime -c 50 -s {a} -p {p}"),
    # Each end offers as many READs as its device can answer, and asks for as many of the other.
    **{f"{name} -R": (f"{name}{PERFTEST}", f"{name}{PERFTEST} {{a}}")
       for name in ("ib_write_bw", "ib_read_lat -o 16", "ib_atomic_bw -o 16", "ib_send_bw -c UD")},
}
PROGRAMS = {**SHORT, **LONG}
IPV4_ONLY = ("mckey", "cmtime", "rdma_x", "ib_")  # of a group of IPv6 rxe says ENOTSUPP
OWN_PORT = {"udaddy": "7174"}
NO_PORT = ("mckey",)
SERVES_ON = ("cmtime",)
ENDLESS = "rping -s -P -v -a {a} -p {p}"  # it serves any number of clients
KILLED_AT = {"REQ": 1, "REP": 1, "RTU": 1, "data": 20}
ONCE = "each message of connection management is lost once"
# Odd packets to QP 1 are lost, even ones pass. "trap" is "drop" of which the sender hears nothing:
# rxe keeps a packet that is dropped on its way out. u32 counts from the header of IP on.
LOSE = "".join(f"""tc filter add dev eth0 {way} protocol {protocol} u32\
 match u16 4791 0xffff at {ip + 2} match u32 0x64000000 0xff000000 at {ip + 8}\
 match u32 1 0xffffff at {ip + 12} action trap random determ pass 2 && """
               for way in ("egress", "ingress") for protocol, ip in (("ip", 20), ("ipv6", 40)))
LOSE_ONCE = (f"modprobe act_gact; tc qdisc add dev eth0 clsact && {LOSE} true",
             "tc qdisc del dev eth0 clsact")


def speaks(program, version):
    return version == "v4" or not program.startswith(IPV4_ONLY)


def _argv(text, case, in_guest, port):
    addresses = ADDRESSES[case.version]
    return shlex.split(text.format(a=addresses[not case.guest_serves], o=addresses[not in_guest],
                                   p=OWN_PORT.get(case.program, port)))


def _listening(machine, port):
    """The guest's own word for it; a look at our names for ours. Within SECONDS, or as it is."""
    look = f"rdma resource show cm_id | grep -q 'LISTEN.*:{port} '"
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if not machine.run(look)[0] if machine else cm.is_there(int(port), "self"):
            return
        time.sleep(0.02)


def _run(machine, argv):
    """In the guest, or here (@machine is None): (status, output)."""
    if not machine:
        return ours(argv)
    return machine.run(f"{shlex.join(argv)} 2>&1", SECONDS)


class Behind:
    """with Behind(machine, argv): a program beside the others, until then or its kill()."""

    def __init__(self, machine, argv):
        self.machine, self.argv, self.said = machine, argv, None

    def __enter__(self):
        if self.machine:
            said = self.machine.run(f"{shlex.join(self.argv)} >/tmp/behind 2>&1 & echo $!")[1]
            self.pid = int(said)
        else:
            self.process = start(self.argv)
        return self

    def kill(self):
        """What it has said."""
        if self.said is None and self.machine:
            self.said = self.machine.run(f"kill -9 {self.pid}; tail /tmp/behind")[1]
        elif self.said is None:
            self.process.kill()
            self.said, _ = self.process.communicate()
        return self.said

    def __exit__(self, *_):
        self.kill()


def _beside(machine, case, port, texts):
    """As _pair(), of a server that does not end when the client has."""
    serving, asking = (machine, None) if case.guest_serves else (None, machine)
    client = _argv(texts[1], case, not case.guest_serves, port)
    with Behind(serving, _argv(texts[0], case, case.guest_serves, port)) as server:
        _listening(serving, port)
        result = _judged(client, *_run(asking, client))
        return {"server": (0, server.kill() if result[0] else ""), "client": result}


def _pair(machine, case, port):
    """Both sides, as of a row of PROGRAMS."""
    texts = PROGRAMS[case.program]
    if case.program in SERVES_ON:
        return _beside(machine, case, port, texts)
    # A DREQ is not repeated when its id is destroyed, in Linux and here: a server may not hear it.
    if case.loses and case.program == "rping":
        return _beside(machine, case, port, (ENDLESS, texts[1]))
    server, client = (_argv(text, case, in_guest, port)
                      for text, in_guest in zip(texts, (case.guest_serves, not case.guest_serves)))
    there, asking = (machine, None) if case.guest_serves else (None, machine)
    serving = Side(_run, there, server)
    try:
        if case.program not in NO_PORT:
            _listening(there, OWN_PORT.get(case.program, port))
        asked = Side(_run, asking, client)
    finally:
        serving.join()
    return {side: _judged(client, *one.result())
            for side, one in (("server", serving), ("client", asked))}


def _judged(client, status, output):
    """rping may end with 255 after all pings (client/cm.py)."""
    return 0 if status == 255 and cm.has_pinged(client, output) else status, output


def _repeated(machine, case, port):
    """One client after the other: none is taken for an earlier one."""
    client = _argv(PROGRAMS["rping"][1], case, False, port)
    with Behind(machine, _argv(ENDLESS, case, True, port)) as server:
        _listening(machine, port)
        for number in range(1, case.times + 1):
            status, output = _judged(client, *ours(client))
            if status:
                return {"server": (0, server.kill()),
                        "client": (status, f"{output}\nclient {number} of {case.times}")}
        return {"server": (0, ""), "client": (0, "")}


def _killed(machine, case, heard, port):
    """Ours is killed when that has passed; the next client connects by its first REQ."""
    there, asking = (machine, None) if case.guest_serves else (None, machine)
    serve = _argv(ENDLESS, case, case.guest_serves, port)
    ask = _argv(PROGRAMS["rping"][1], case, not case.guest_serves, port)
    heard.forget()
    with contextlib.ExitStack() as behind:
        server = behind.enter_context(Behind(there, serve))
        _listening(there, port)
        client = behind.enter_context(Behind(asking, [*ask, "-C", "1000000"]))
        passed = heard.wait(case.at, KILLED_AT[case.at], SECONDS)
        if case.guest_serves:
            client.kill()
        else:
            server.kill()
            server = behind.enter_context(Behind(there, serve))
            _listening(there, port)
            client.kill()
        heard.forget()
        status, output = _judged(ask, *_run(asking, ask))
        requests = heard.names["REQ"]
        if status or not passed or requests != 1:
            return {"server": (1, server.kill()),
                    "client": (status, f"{output}\n{case.at} passed: {passed}, REQs: {requests}")}
        return {"server": (0, ""), "client": (0, "")}


def run(machine, case, heard, port):
    """The results of the server and of the client: (status, output)."""
    if case.at:
        return _killed(machine, case, heard, port)
    return _repeated(machine, case, port) if case.times else _pair(machine, case, port)
