#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""SOFTHCA_EXPLAIN=leaks: are objects that were left behind named, with the place they were made?"""
# traits: both timeout=120
import os
import re
import subprocess
import sys

import cases

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
PROGRAM = os.environ["SOFTHCA_BUILD"] + "/tests/verbs/verbs_left"
# loaded where it was linked for
IN_PLACE = os.environ["SOFTHCA_BUILD"] + "/tests/verbs/verbs_left_in_place"
NO_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
LINE = re.compile(r"softhca: (.*?)(?: 0x[0-9a-f]+)? is alive (.*); made at (.*)\+(0x[0-9a-f]+)")
KINDS = ["PD", "MR", "rdma_event_channel", "rdma_cm_id", "thread domain", "DM", "counters",
         "XRC domain", "completion channel", "SRQ", "CQ", "WQ", "indirection table"]


def said(how, value, program=PROGRAM):
    done = subprocess.run(
        [TOOL, "run", program, how], capture_output=True, text=True, check=True,
        env={**os.environ, "SOFTHCA_VIEW": "0", "SOFTHCA_DEVICES": "mlx5_0=lo",
             "SOFTHCA_EXPLAIN": value, "ASAN_OPTIONS": NO_LEAKS})
    assert done.stdout == "", done
    return done.stderr


def named(how, when, program=PROGRAM):
    """Two lines, of the PD and then of the MR; the places."""
    found = [LINE.match(line) for line in said(how, "leaks", program).splitlines()]
    assert [m and (m[1], m[2]) for m in found] == [("PD", when), ("MR", when)], found
    for match in found:
        assert os.path.samefile(match[3], program), match[3]
    return [match[4] for match in found]


def functions(place, program=PROGRAM):
    """Those around the place, with those that the compiler put into others."""
    done = subprocess.run(["addr2line", "-i", "-f", "-e", program, place], capture_output=True,
                          text=True, check=True)
    return done.stdout.splitlines()


def at_exit(program=PROGRAM):
    pd, mr = named("exit", "at exit", program)
    assert "peer_open" in functions(pd, program), pd
    assert "make_region" in functions(mr, program), mr


def in_a_program_without_pie():
    at_exit(IN_PLACE)


def when_closed():
    named("close", "when mlx5_0 is closed (ibv_close_device)")


def of_every_kind():
    found = [LINE.match(line) for line in said("kinds", "leaks").splitlines()]
    assert [m and (m[1], m[2]) for m in found] == [(kind, "at exit") for kind in KINDS], found
    for match in found[4:]:
        assert "make_all_kinds" in functions(match[4]), match[0]


def a_forked_child_says_nothing():
    named("fork", "at exit")


def nothing_is_left():
    assert said("clean", "leaks") == ""


def not_asked_for():
    assert said("exit", "0") == said("exit", "1") == ""


if __name__ == "__main__":
    sys.exit(cases.run((at_exit, in_a_program_without_pie, when_closed, of_every_kind,
                        a_forked_child_says_nothing, nothing_is_left, not_asked_for)))
