#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""refuse.py PROGRAM...: runs it under a seccomp filter that refuses process_vm_readv and _writev
with EPERM, as the default profile of container engines does."""
import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1
CALLS = {"x86_64": (310, 311), "aarch64": (270, 271)}


def program(readv, writev):
    """Loads the call's number (the first word of seccomp_data) and compares."""
    steps = [(LOAD, 0, 0, 0), (JUMP_EQUAL, 1, 0, readv), (JUMP_EQUAL, 0, 1, writev),
             (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps), len(steps)


def install():
    code, steps = program(*CALLS[platform.machine()])
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", steps, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            libc.prctl(PR_SET_SECCOMP, MODE_FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    install()
    os.execvp(sys.argv[1], sys.argv[1:])
