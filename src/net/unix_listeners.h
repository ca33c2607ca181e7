// SPDX-License-Identifier: MIT
/* Whose the AF_UNIX sockets are that listen under abstract names, as sock_diag tells it: also of
 * those whose queue of connections is full, so that nobody can connect and ask SO_PEERCRED. */
#pragma once
#include <stdint.h>

/* Calls @fn for each socket of this network namespace that listens to SOCK_SEQPACKET connections
 * under an abstract name without zero bytes, and whose user the kernel tells: @name, without the
 * zero byte in front; @uid, as this user namespace sees it. EPERM, ENOENT …: sock_diag cannot be
 * asked; before Linux 5.3 it names no user. */
int unix_listeners(void (*fn)(void *arg, const char *name, uint32_t uid), void *arg);
