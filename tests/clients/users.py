#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=300
"""Two users on one host: a server of root and a client of a user, and the other way round."""
import sys

from client import cases, cm, pair, programs

USER = 61011
ROOT = pair.Side()
ORDINARY = pair.Side(around=["setpriv", "--reuid", str(USER), "--regid", str(USER),
                             "--clear-groups", "env", "HOME=/", "TMPDIR=/tmp"])
PINGPONGS = {"ibv_rc_pingpong plain", "ibv_uc_pingpong plain", "ibv_ud_pingpong plain",
             "ibv_srq_pingpong plain", "ibv_rc_pingpong -e"}
PERFTEST = ["ib_send_bw RC", "ib_write_bw RC", "ib_read_bw RC", "ib_atomic_bw RC"]
CM = {"rping", "rping, big", "ucmatose", "udaddy", "rstream, verified", "rdma_xclient RC"}


def ours():
    plain = [p for p in programs.pingpongs() if p[0] in PINGPONGS]
    for name in PERFTEST:
        plain += [p for p in programs.perftest() if p[0].startswith(name)][:1]
    return plain


def table():
    for server, client, words in ((ROOT, ORDINARY, "server of root"),
                                  (ORDINARY, ROOT, "client of root")):
        yield from cases.pairs(ours(), words, server=server, client=client)
        for name, argv in cm.PROGRAMS:
            if name in CM:
                yield (f"{name}, {words}",
                       lambda argv=argv, server=server, client=client:
                       cm.run(argv, "127.0.0.1", server, client))


if __name__ == "__main__":
    sys.exit(cases.run(list(table())))
