#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both
"""What ibv_devices and ibv_devinfo -v print is what a card of this kind would show."""
import os
import re
import subprocess
import sys

from client import cases, pair

SHOWN = {
    "device": r"hca_id:\s*mlx5_0\b",
    "transport": r"transport:\s*InfiniBand \(0\)",
    "firmware": r"fw_ver:\s*softhca-\d",
    "node guid": r"node_guid:\s*(?!0000:0000:0000:0000)[0-9a-f:]{19}",
    "vendor": r"vendor_id:\s*0x02c9",
    "part": r"vendor_part_id:\s*4129",
    "ports": r"phys_port_cnt:\s*1\b",
    "QPs": r"max_qp:\s*[1-9]\d{3}",
    "work requests": r"max_qp_wr:\s*[1-9]\d{3}",
    "CQ entries": r"max_cqe:\s*[1-9]\d{3}",
    "atomics": r"atomic_cap:\s*ATOMIC_HCA",
    "completion vectors": r"num_comp_vectors:\s*[1-9]",
    "port state": r"state:\s*PORT_ACTIVE \(4\)",
    "largest MTU": r"max_mtu:\s*4096 \(5\)",
    "MTU": r"active_mtu:\s*(1024 \(3\)|2048 \(4\)|4096 \(5\))",
    "link layer": r"link_layer:\s*Ethernet",
    "largest message": r"max_msg_sz:\s*0x[1-9a-f]",
    "GID table": r"gid_tbl_len:\s*16\b",
    "address as GID 3": r"GID\[\s*3\]:\s*\S*:ffff:127\.0\.0\.1, RoCE v2",
}


def printed(program):
    env = {**os.environ, **pair.preload()}
    done = subprocess.run([*pair.RUN, *program], env=env, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    why = f"{program[0]} ended with {done.returncode}" if done.returncode else ""
    return pair.Result(why, client=done.stdout)


def shows(output, pattern):
    if output.why or re.search(pattern, output.client):
        return pair.Result(output.why)
    return pair.Result(f"nothing matches {pattern}")


def main():
    devices, info = printed(["ibv_devices"]), printed(["ibv_devinfo", "-v"])
    table = [("ibv_devices lists it", lambda: shows(devices, r"\bmlx5_0\s+[0-9a-f]{16}"))]
    for name, pattern in SHOWN.items():
        table.append((name, lambda pattern=pattern: shows(info, pattern)))
    code = cases.run(table)
    if code:
        print(info.client, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
