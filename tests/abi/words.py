#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Names and rates are the system's, value by value: scripts read them. Ours may know names of later
releases besides."""

import ctypes
import os
import re
import subprocess
import sys

NO_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # Python's are not ours
UNKNOWN = ("b'unknown'", "b'UNKNOWN EVENT'")
TABLES = {
    "libibverbs.so.1": {
        "ibv_wc_status_str": (ctypes.c_char_p, range(-1, 40)),
        "ibv_node_type_str": (ctypes.c_char_p, range(-1, 12)),
        "ibv_port_state_str": (ctypes.c_char_p, range(-1, 12)),
        "ibv_event_type_str": (ctypes.c_char_p, range(-1, 40)),
        "ibv_rate_to_mult": (ctypes.c_int, range(-1, 40)),
        "ibv_rate_to_mbps": (ctypes.c_int, range(-1, 40)),
        "mult_to_ibv_rate": (ctypes.c_int, range(-1, 600)),
        "mbps_to_ibv_rate": (ctypes.c_int, [*range(-1, 3000)] + [*range(3125, 1300000, 3125)] +
                             [14062, 56250, 112500, 168750, 25781, 103125, 206250, 309375]),
    },
    "librdmacm.so.1": {"rdma_event_str": (ctypes.c_char_p, range(-1, 24))},
}


def dump(libdir):
    for so, calls in TABLES.items():
        lib = ctypes.CDLL(os.path.join(libdir, so))
        for name, (restype, values) in calls.items():
            call = getattr(lib, name)
            call.restype = restype
            for v in values:
                print(name, v, call(v))


def words_of(libdir, preload=""):
    """In a process of its own: two libraries of one SONAME do not go together."""
    return subprocess.run([sys.executable, sys.argv[0], libdir], text=True, check=True,
                          env=os.environ | {"LD_LIBRARY_PATH": libdir, "LD_PRELOAD": preload,
                                            "ASAN_OPTIONS": NO_LEAKS},
                          stdout=subprocess.PIPE).stdout.splitlines()


def system_libdir():
    """Where the loader finds the distribution's; our own folder is in no cache."""
    cache = subprocess.run(["ldconfig", "-p"], text=True, check=True,
                           stdout=subprocess.PIPE).stdout
    return os.path.dirname(re.search(r"^\s*libibverbs\.so\.1 .* => (\S+)$", cache, re.M)[1])


def main():
    if len(sys.argv) == 2:
        dump(sys.argv[1])
        return 0
    ours = words_of(os.environ["SOFTHCA_LIB"], os.environ.get("SOFTHCA_PRELOAD", ""))
    system = words_of(system_libdir())
    wrong = [f"{a!r}, the system's {b!r}" for a, b in zip(ours, system)
             if a != b and not b.endswith(UNKNOWN)]
    print("\n".join(wrong) or f"{len(ours)} words the same")
    return 1 if wrong or len(ours) != len(system) or not ours else 0


if __name__ == "__main__":
    sys.exit(main())
