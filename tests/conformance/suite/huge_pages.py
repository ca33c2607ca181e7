# SPDX-License-Identifier: MIT
"""Huge pages for the tests that need some: reserved where the machine lets us, and given back when
no other run that counts on them, which may be an ordinary user's, is left."""
import fcntl
from contextlib import contextmanager
from pathlib import Path

COUNT = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
NEEDED = 16


def _count():
    try:
        return int(COUNT.read_text())
    except (OSError, ValueError):
        return 0


def _set(number):
    try:
        COUNT.write_text(f"{number}\n")
    except OSError:
        pass


@contextmanager
def reserved():
    """Yields whether there are enough. Who counts on them holds a shared lock; who gives back waits
    for an exclusive one."""
    try:
        lock = COUNT.open()
    except OSError:
        yield False
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        before = _count()
        if before < NEEDED:
            _set(NEEDED)
        try:
            yield _count() >= NEEDED
        finally:
            if before < NEEDED and _count() != before:
                fcntl.flock(lock, fcntl.LOCK_EX)
                _set(before)
