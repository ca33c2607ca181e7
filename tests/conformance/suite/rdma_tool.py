# SPDX-License-Identifier: MIT
"""iproute2's `rdma` asks the kernel which interface a device sits on, and suites since rdma-core 50
ask `rdma`. Where the kernel has no RDMA it fails, and a script that knows the answer stands in."""
import json
import os
import socket
import subprocess


def stand_in(folder, env, netdev="lo"):
    """@env, with a stand-in for `rdma` in @folder first on PATH where the real one fails."""
    try:
        real = subprocess.run(["rdma", "link", "show", "-j"], capture_output=True, check=False)
    except FileNotFoundError:
        real = None
    if real and real.returncode == 0:
        return env
    links = json.dumps([{"ifindex": 0, "ifname": "mlx5_0", "port": 1, "state": "ACTIVE",
                         "physical_state": "LINK_UP", "netdev": netdev,
                         "netdev_index": socket.if_nametoindex(netdev)}])
    script = folder / "rdma"
    script.write_text(f"#!/bin/sh\n[ \"$*\" = 'link show -j' ] && echo '{links}'\n")
    script.chmod(0o755)
    return dict(env, PATH=f"{folder}{os.pathsep}{env['PATH']}")
