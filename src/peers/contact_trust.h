// SPDX-License-Identifier: MIT
/* Who is at the other end of a connection, and what may be handed to him (M2, M30, DESIGN section
 * 4). */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* EPERM: not the user whose host this is. *pid: 0 when not visible from here. */
int contact_peer(int conn, pid_t *pid);
/* A descriptor of our own memory for @pid, or -1: it goes to who could ptrace us anyway, and where
 * descriptors are not short. SOFTHCA_DIRECT=1 gives it to everybody, 0 to nobody. */
int contact_trust(pid_t pid, int conn);
bool contact_is_bell(int fd); /* an eventfd */
bool contact_fds_left(int fd); /* the newest descriptor @fd is below 80 % of RLIMIT_NOFILE */
