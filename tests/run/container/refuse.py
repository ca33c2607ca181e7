#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs a program for which the kernel refuses system calls, as the filter of a container does.
usage: refuse.py NAME=ERRNO... -- PROGRAM [ARGUMENT...]
NAME is a system call's, with a bit mask behind it (clone&0x7e020000) refused only where its first
argument has one of the bits, with a number (socket:40) only where it is that; `docker` stands for
all that Docker's default profile refuses. Needs CAP_SYS_ADMIN, or sets no_new_privs."""
import ctypes
import errno
import os
import re
import struct
import subprocess
import sys

# Docker's default profile for a container with the default capabilities, on Linux 4.8 and later.
DOCKER = {name: errno.EPERM for name in """acct add_key bpf clock_adjtime clock_settime
    delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick get_mempolicy
    init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load
    kexec_load keyctl lookup_dcookie mbind migrate_pages mount mount_setattr move_mount move_pages
    open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise quotactl
    quotactl_fd reboot request_key set_mempolicy set_mempolicy_home_node setdomainname sethostname
    setns settimeofday swapoff swapon syslog umount2 unshare userfaultfd vhangup""".split()}
DOCKER.update({"clone&0x7e020000": errno.EPERM, "clone3": errno.ENOSYS, "socket:40": errno.EPERM})

LOAD, EQUAL, SET, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, FIRST_ARGUMENT = 0, 16  # in struct seccomp_data
ALLOW, ERRNO = 0x7fff0000, 0x50000


def numbers():
    """{name: number} of this machine's system calls, as its headers have them."""
    shown = subprocess.run(["gcc", "-E", "-dM", "-"], input="#include <sys/syscall.h>\n", text=True,
                           check=True, capture_output=True).stdout
    return {name: int(number)
            for name, number in re.findall(r"#define __NR_(\w+) (\d+)$", shown, re.M)}


def filter_of(rules):
    """The program, as lines of struct sock_filter. A call that this machine has not is left out."""
    known, lines = numbers(), [(LOAD, 0, 0, NUMBER)]
    for what, err in rules.items():
        name, how, value = re.fullmatch(r"(\w+)(?:([&:])(\w+))?", what).groups()
        if name not in known:
            continue
        if not how:
            lines += [(EQUAL, 0, 1, known[name]), (RETURN, 0, 0, ERRNO | err)]
            continue
        lines += [(EQUAL, 0, 4, known[name]), (LOAD, 0, 0, FIRST_ARGUMENT),
                  (SET if how == "&" else EQUAL, 0, 1, int(value, 0)),
                  (RETURN, 0, 0, ERRNO | err), (LOAD, 0, 0, NUMBER)]
    return lines + [(RETURN, 0, 0, ALLOW)]


def install(lines):
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(text)))
    if libc.prctl(22, 2, program, 0, 0) == 0:  # PR_SET_SECCOMP, by a filter
        return
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, program, 0, 0):
        sys.exit(f"no seccomp filter: {os.strerror(ctypes.get_errno())}")


def main():
    end, rules = sys.argv.index("--"), {}
    for word in sys.argv[1:end]:
        name, _, number = word.partition("=")
        rules.update(DOCKER if name == "docker" else {name: getattr(errno, number)})
    install(filter_of(rules))
    os.execvp(sys.argv[end + 1], sys.argv[end + 1:])


if __name__ == "__main__":
    main()
