// SPDX-License-Identifier: MIT
/* Asks a process of this user, on this host, to show its QPs (host_config.show). For tools, which
 * have no struct host. Blocks for a limited time. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* The process that has @slot of user @uid (host_names.h), and the descriptor that it sent, which
 * may be anything. *@pid is set whenever there is a process; 0: not visible from here.
 * ECONNREFUSED: there is none; ETIMEDOUT: it does not answer, being stopped perhaps; EPROTO: it
 * does not understand the question; EPERM: it is another user's. */
int host_show_ask(unsigned int slot, int ms, pid_t *pid, int *fd);
