# SPDX-License-Identifier: MIT
"""What runs between the guest and us: each program in both directions, over IPv4 and IPv6, with
every path MTU, and some with a network that loses, delays and doubles."""
import itertools
from dataclasses import dataclass

import connections

MTUS = ["256", "512", "1024", "2048", "4096"]
VERSIONS = ["v4", "v6"]
TALK = ["sizes", "empty", "marked", "immediates", "atomics", "batch", "both", "srq", "uc",
        "uc-immediates", "ud", "multicast", "refused", "invalidate", "rnr", "gone"]
DEBIAN = ["ibv_rc_pingpong -n 50", "ibv_uc_pingpong -n 50", "ibv_srq_pingpong -n 50",
          "ibv_ud_pingpong -n 50 -s 256", "ib_send_bw -s 8192", "ib_write_bw -s 65536",
          "ib_read_bw -s 65536 -o 16", "ib_atomic_bw -o 16", "ib_send_bw -c UC -s 2048",
          "ib_send_bw -c UD -s 1024", "ib_send_lat -s 64", "ib_write_lat -s 4097"]
# netem's words: of what the guest sends, and of what it gets. The latter stays in order: an ACK
# that comes late, between READ responses, makes rxe end its QP (rxe_comp.c, WARN_ON_ONCE).
FAULTS = {"loss": ("loss 3%", "loss 3%"), "duplicates": ("duplicate 3%", "duplicate 3%"),
          "reordered": ("delay 2ms reorder 97%", ""),
          "everything": ("loss 3% duplicate 3% delay 2ms reorder 97%", "loss 3% duplicate 3%")}
FAULTY = ["sizes", "both", "batch", "atomics", "ibv_rc_pingpong -n 50"]


@dataclass(frozen=True)
class Case:
    program: str
    guest_serves: bool
    version: str
    mtu: str
    fault: str = ""
    killed: bool = False
    at: str = ""  # ours is killed when that has passed
    times: int = 0

    @property
    def loses(self):
        return self.fault == connections.ONCE or "loss" in " ".join(FAULTS.get(self.fault, ()))

    @property
    def name(self):
        how = f"{self.version}, MTU {self.mtu}, {'rxe' if self.guest_serves else 'ours'} serves"
        ends = {", ours is killed": self.killed, f", ours is killed at {self.at}": self.at,
                f", {self.fault}": self.fault, f", {self.times} times": self.times}
        return f"{self.program}, {how}{''.join(end for end, has in ends.items() if has)}"


def connected(programs, serves, version, **more):
    """Connection management takes the path's MTU."""
    return [Case(program, serves, version, MTUS[-1], **more) for program in programs
            if connections.speaks(program, version)]


def full():
    """All of it."""
    yield from full_connections()
    paths = itertools.cycle(itertools.product(VERSIONS, MTUS))
    for program, serves, version, mtu in itertools.product(TALK + DEBIAN, (True, False), VERSIONS,
                                                           MTUS):
        yield Case(program, serves, version, mtu)
    for program, serves, fault in itertools.product(FAULTY, (True, False), FAULTS):
        for _ in range(3):
            yield Case(program, serves, *next(paths), fault)
    for serves, version in itertools.product((True, False), VERSIONS):
        yield Case("endless", serves, version, "1024", killed=True)


def full_connections():
    """All of rdma_cm."""
    for serves, version in itertools.product((True, False), VERSIONS):
        yield from connected(connections.PROGRAMS, serves, version)
        for at in connections.KILLED_AT:
            yield from connected(["rping"], serves, version, at=at)
        for fault in FAULTS:
            yield from connected(["rping", "ucmatose"], serves, version, fault=fault)
        yield from connected(["rping"], serves, version, fault=connections.ONCE)
    for version in VERSIONS * 4:  # a round of `soak` runs one of these eight
        yield from connected(["rping"], True, version, times=250)


def sample_connections(dice):
    """Each short program in both directions, one of them over IPv6, where @dice has it; each death
    and each fault in one, and one client again and again."""
    cases = []
    for program in connections.SHORT:
        for serves, version in zip((True, False), dice.sample(VERSIONS, 2)):
            cases += connected([program], serves, version)
    for one in [*({"at": at} for at in connections.KILLED_AT),
                *({"fault": fault} for fault in (*FAULTS, connections.ONCE))]:
        cases += connected(["rping"], dice.random() < 0.5, dice.choice(VERSIONS), **one)
    return cases + connected(["rping"], True, dice.choice(VERSIONS), times=50)


def sample(dice):
    """Our own cases in both directions, Debian's programs in one, each fault in both and death;
    each direction with all paths, as @dice has it."""
    paths = list(itertools.product(VERSIONS, MTUS))
    cases = []
    for serves in (True, False):
        dice.shuffle(paths)
        path = itertools.cycle(paths)
        programs = TALK + [p for n, p in enumerate(DEBIAN) if n % 2 == serves]
        cases += [Case(program, serves, *next(path)) for program in programs]
        cases += [Case(program, serves, *next(path), fault)
                  for program, fault in zip(dice.sample(FAULTY, len(FAULTS)), FAULTS)]
        cases.append(Case("endless", serves, *next(path), killed=True))
    return cases + sample_connections(dice)
