# SPDX-License-Identifier: MIT
"""How much of the code that a fuzz target is meant for does it reach: lines, by gcov, after the
corpus and the changes of it that `fuzz_NAME_seeded` makes. `./build.sh coverage [TARGET...]`.

usage: coverage.py BUILD [TARGET...], BUILD made with -Db_coverage=true"""
import os
import re
import subprocess
import sys
from pathlib import Path

# Sources of each target's code, below src/.
MEANT = {
    "packet": ["wire/packet", "wire/grh", "wire/icrc", "wire/icrc_id", "link/seg_pkt"],
    "frame": ["wire/frame"],
    "mad": ["wire/cm_msg"],
    "cm": ["cm/cm_fsm"],
    "arrive": ["cm/cm_arrive", "cm/cm_talk", "cm/cm_fsm", "cm/cm_connect", "cm/cm_life",
               "cm/cm_event", "cm/cm_id", "cm/cm_far", "cm/cm_blame"],
    "gsi": ["engine/gsi/gsi", "engine/gsi/gsi_names", "engine/gsi/gsi_own", "engine/gsi/gsi_way",
            "engine/gsi/gsi_say"],
    "ring": ["peers/ring", "peers/ring_seg"],
    "wqe": ["prm/wqe", "prm/umr", "prm/av"],
    "qp": ["transport/requester", "transport/responder", "transport/completer",
           "transport/execute", "transport/answer", "transport/place", "transport/hold",
           "transport/retry", "transport/read_request", "transport/recovery",
           "transport/congestion", "transport/credit", "transport/grounds", "transport/uc"],
    "hello": ["peers/contact_hello", "peers/contact_message", "peers/contact_talk",
              "peers/contact_state", "peers/contact_claim", "peers/contact_grow",
              "peers/contact_share", "peers/contact_end", "peers/ring_end"],
    "kernel": ["net/rtnl", "net/unix_listeners", "net/netdev_rtnl", "net/netdev_proc",
               "udp/udp_seen", "hca/memory", "peers/mapping"],
    "text": ["link/fault_parse", "link/fault_live", "util/spelling"],
    "page": ["xrc/xrc_page"],
    "tag": ["transport/tag", "transport/tag_cqe", "transport/inner", "hca/srq_tags",
            "hca/tag_list"],
    "steer": ["udp/udp_steer", "udp/udp_hello", "udp/udp_talk"],
    "meeting": ["peers/meeting"],
    "laid": ["transport/sent", "transport/form", "transport/message", "transport/local_work",
             "transport/flush", "transport/raw", "transport/ud", "transport/receive", "hca/srq"],
    "mkey": ["hca/mkey/mkey", "hca/mkey/mkey_layout", "hca/mkey/signature", "hca/key_table",
             "prm/umr", "prm/bsf", "transport/gather", "transport/linear/linear"],
    "tables": ["peers/shm_access", "peers/hazard"],
    "rsocket": ["rdmacm/rsocket/stream", "rdmacm/rsocket/ring", "rdmacm/rsocket/iomap"],
}
LINES = re.compile(r"File '([^']*)'\nLines executed:([\d.]+)% of (\d+)")


def compiled(build):
    subprocess.run(["ninja", "-C", build, *(f"tests/fuzz/fuzz_{name}_seeded" for name in MEANT)],
                   check=True, stdout=subprocess.DEVNULL)


def run(build, name):
    """Counts of this target alone."""
    for counts in Path(build).rglob("*.gcda"):
        counts.unlink()
    subprocess.run([f"{build}/tests/fuzz/fuzz_{name}_seeded"], check=True,
                   stderr=subprocess.DEVNULL,
                   env={**os.environ, "TMPDIR": os.environ.get("TMPDIR", "/tmp")})


def reached(build, name, source):
    """(lines reached, lines) of src/@source.c, which the target @name links or includes."""
    objects = [f"*src_{source.replace('/', '_')}.c.gcda", f"fuzz_{name}_seeded.p/{name}.c.gcda"]
    for counts in (path for pattern in objects for path in Path(build).rglob(pattern)):
        shown = subprocess.run(["gcov", "-n", counts.name], cwd=counts.parent, text=True,
                               check=True, capture_output=True).stdout
        for path, share, lines in LINES.findall(shown):
            if path.endswith(f"src/{source}.c"):
                return round(float(share) * int(lines) / 100), int(lines)
    raise SystemExit(f"no counts of src/{source}.c")


def report(build, name):
    run(build, name)
    found = {source: reached(build, name, source) for source in MEANT[name]}
    total = [sum(column) for column in zip(*found.values())]
    print(f"{name}: {total[0]} of {total[1]} lines, {100 * total[0] // total[1]} %", flush=True)
    for source, (n, lines) in found.items():
        print(f"    {100 * n // lines:3} %  {n:4} of {lines:4}  src/{source}.c", flush=True)


def main():
    build, *wanted = sys.argv[1:]
    for name in wanted:
        if name not in MEANT:
            raise SystemExit(f"no fuzz target {name!r}")
    compiled(build)
    for name in wanted or MEANT:
        report(build, name)


if __name__ == "__main__":
    main()
