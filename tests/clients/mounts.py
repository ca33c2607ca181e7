#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=480
"""The programs with a /dev/shm that is small or read-only, and with sides that live in different
mount and PID namespaces, as containers on one network do."""
import sys

from client import cases, pair

SHM = 'mount -t tmpfs -o {} none /dev/shm && exec "$@"'


def shm(options):
    return pair.Side(around=["unshare", "-m", "sh", "-c", SHM.format(options), "sh"])


def variants():
    small, read_only = shm("size=1m"), shm("ro")
    apart = pair.Side(around=["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc"])
    plain = pair.Side()
    return {
        "/dev/shm of 1 MiB": (small, small),
        "/dev/shm read-only": (read_only, read_only),
        "/dev/shm private to each": (shm("size=64m"), shm("size=64m")),
        "each in its own mount and PID namespace": (apart, apart),
        "the client in a mount and PID namespace": (plain, apart),
    }


def main():
    return cases.run_sample(*cases.crossed(variants()),
                            "each variant meets each way of moving data")


if __name__ == "__main__":
    sys.exit(main())
