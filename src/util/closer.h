// SPDX-License-Identifier: MIT
/* Closing what another process has sent. The file system of a file may be a process of its own
 * (FUSE), and a socket may linger: then close() lasts as long as that process likes, and no signal
 * ends it. Any thread. */
#pragma once
#include <stdbool.h>

bool closer_is_eventfd(int fd);
/* Could close(@fd) wait, or fstat()? Not of an eventfd, or of memory that has seals. */
bool closer_waits(int fd);
/* Closes @fd in a thread of its own. The descriptor is free at once, so that neither exec nor a
 * forked child waits for it; exit() does. Where too many such threads wait already it stays
 * open. */
void closer_close(int fd);
