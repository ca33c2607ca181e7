// SPDX-License-Identifier: MIT
/* Which process is at the other end of a connection, as the kernel says, and what it is handed by
 * the rules of contact_trust.h. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* EPERM: it may not have a contact. *pid: 0 when not visible from here. */
int contact_peer(int conn, pid_t *pid);
/* A descriptor of our own memory for the process @pid at the other end of @conn; -1: none. */
int contact_memory(pid_t pid, int conn);
bool contact_is_bell(int fd); /* an eventfd */
bool contact_fds_left(int fd); /* the newest descriptor @fd is below 80 % of RLIMIT_NOFILE */
