# SPDX-License-Identifier: MIT
"""Which of Debian's programs run between two hosts, how, and under which impairment of the way."""
import random
import re
from collections import namedtuple

from . import hosts

from client import pairwise, programs

ADDRESSES = ["v4", "v6"]
MTUS = ["256", "512", "1024", "2048", "4096"]
CABLE = ""  # the fault of a way that has none
LOSSES = ["loss=0.1", "loss=1", "loss=5"]
FAULTS = [*LOSSES, "dup=5", "reorder=5", "corrupt=5"]
MORE_FAULTS = ["ce=20", "loss=2 dup=2 reorder=2 corrupt=2 ce=5"]
SIZES = ["1", "4097", "65536"]
OPTIONS = ["plain", "-e", "-b", "-q 64", "-l", "SRQ", "-c"]
MIXED = 100  # runs at full length under MORE_FAULTS
# In a short run over a cable: the other options are the same for all tools.
FEW = ["ib_send_bw RC -a", "ib_write_bw RC -a", "ib_read_bw RC -a", "ib_send_lat RC -e",
       "ib_send_lat XRC -e", "ib_write_bw RC -q 64", "ib_send_bw RC -e", "ib_write_bw RC -l",
       "ib_send_bw RC SRQ"]
LARGE = ["ib_write_bw", "ib_read_bw", "ib_send_bw"]

Run = namedtuple("Run", "name fault argv check")


def all_programs():
    """{name: (argv, check)}"""
    found = {name: (argv, check) for name, argv, check in programs.pingpongs()}
    found.update({name: (argv, check) for name, argv, check in programs.perftest()
                  if " -g" not in name})  # multicast.py
    return found


PROGRAMS = all_programs()


def unreliable(name):
    return re.search("UC|UD|uc_ping|ud_ping", name)


def features(name):
    """Of a program, by its name in client/programs."""
    if name.startswith("ibv_"):
        program, option = name.split(" ", 1)
        return {"verb": program, "service": "XRC" if "xsrq" in program else "RC",
                "option": option}
    program, service, option = name.split(" ", 2)
    return {"verb": program, "service": service, "option": option}


def may_run(name, fault):
    """What is known not to work anywhere, or would take too long: matrix.py tells the reasons."""
    if fault == CABLE:
        return not re.search("UC -a", name)
    if unreliable(name) or name.endswith(" -a"):
        return False
    return not re.match("ib_send_lat .* -e", name)


# --- what a program is given ---

def count(name, size):
    """A post list must divide it; with -q it is for each QP, and with ten of them ib_send_bw of XRC
    waits for ever, on one host too. Nobody waits for the receiver of UC and UD: all of it must
    have room in a socket."""
    if re.search("-[ql]", name):
        return "64"
    if name.endswith("-a"):
        return "5"
    if unreliable(name):
        return "40"
    return "100" if int(size) < 65536 else "16"


def perftest_size(name, mtu, size):
    """Its arguments: some set theirs themselves."""
    if unreliable(name) and "-q" in name:
        size = "64"
    elif "UD" in name:
        size = min(size, mtu, "1024", key=int)
    elif "UC" in name:
        size = min(size, "1024", key=int)
    elif "-q" in name:  # they share one way, or XRC one SRQ with a receive for each
        size = min(size, "256", key=int)
    elif "-l" in name:
        size = min(size, "4097", key=int)
    return [] if re.search("atomic| -[aI]$", name) else ["-s", size]


def make(name, address, mtu, size, fault=CABLE):
    argv, check = PROGRAMS[name]
    sized = [] if name.startswith("ibv_") else perftest_size(name, mtu, size)
    argv = [*argv, *sized, "-n", count(name, sized[-1] if sized else "1")]
    if name.startswith("ibv_ud"):
        argv += ["-g", hosts.GID[address], "-s", mtu]  # its message is one packet
    else:
        argv += ["-g" if name.startswith("ibv_") else "-x", hosts.GID[address], "-m", mtu]
    if name.endswith("UD -a"):
        check = programs.figures(int(mtu).bit_length() - 1)  # 2 to that
    told = " ".join([name, address, "-m", mtu, *sized])
    return Run(f"{fault}: {told}" if fault else told, fault, argv, check)


# --- which ---

def link_local():
    check = PROGRAMS["ibv_rc_pingpong plain"][1]
    for name in ("ibv_rc_pingpong", "ibv_ud_pingpong"):
        yield Run(f"{name} link-local", CABLE, [name, "-g", hosts.GID["link-local"], "-n", "100",
                                                "-s", "1024"], check)


def large():
    """Messages of 32768 packets, of which many are lost; perftest's retry_cnt is 7."""
    check = PROGRAMS["ib_write_bw RC plain"][1]
    for name in LARGE:
        argv = [name, "-F", "-x", hosts.GID["v4"], "-m", "256", "-u", "14", "-s", "8388608", "-n",
                "5"]
        yield Run(f"loss=5: {name} v4 -m 256 -s 8388608", "loss=5", argv, check)


def each_once(dice):
    """Every program, the IP versions and the MTUs in turn, in an order of the @dice."""
    names = [name for name in PROGRAMS
             if name.endswith("plain") or name in FEW or name.startswith("ibv_")]
    dice.shuffle(names)
    for number, name in enumerate(names):
        mtu = MTUS[-1] if re.search("-[aq]", name) else MTUS[number % len(MTUS)]
        yield make(name, ADDRESSES[number % len(ADDRESSES)], mtu, "65536")


def choices(faults, options=None):
    """Every run over the relay, as its features."""
    for name in PROGRAMS:
        program = features(name)
        if options and program["option"] not in options:
            continue
        for address in ADDRESSES:
            for mtu in MTUS:
                for fault in filter(lambda fault: may_run(name, fault), faults):
                    for size in SIZES if re.search("_(bw|lat)", name) else SIZES[:1]:
                        yield {**program, "address": address, "mtu": mtu, "fault": fault,
                               "size": size}


def chosen(run):
    name = (f"{run['verb']} {run['option']}" if run["verb"].startswith("ibv_")
            else f"{run['verb']} {run['service']} {run['option']}")
    return make(name, run["address"], run["mtu"], run["size"], run["fault"])


def sampled(faults, options, number, dice):
    """@number runs in which most pairs of features meet; and how many do, of how many."""
    runs, met, reachable = pairwise.sample(list(choices(faults, options)), number, dice)
    return [chosen(run) for run in runs], met, reachable


def product(dice):
    """Every program, IP version, MTU and impairment; the @dice choose the sizes."""
    for name in PROGRAMS:
        for address in ADDRESSES:
            for mtu in MTUS:
                for fault in [CABLE, *FAULTS]:
                    size = dice.choice(SIZES)
                    if may_run(name, fault):
                        yield make(name, address, mtu, size, fault)


def runs(seed, full):
    """All of them, and a line that tells how many."""
    dice = random.Random(seed)
    faults = MORE_FAULTS if full else [*FAULTS, *MORE_FAULTS]
    sample, met, reachable = sampled(faults, None if full else OPTIONS, MIXED if full else 60,
                                     dice)
    rest = list(product(dice)) if full else list(each_once(dice))
    return ([*rest, *link_local(), *sample, *large()],
            f"{len(rest)} runs, and {len(sample)} in which {met} of {reachable} pairs meet")
