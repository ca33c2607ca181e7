// SPDX-License-Identifier: MIT
/* Asks a process of this user, on this host, to show its QPs (host_config.show). For tools, which
 * have no struct host. Never waits. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* Asks the process of this user that has @slot; *conn leads to it. *@pid is set whenever there is a
 * process; 0: not visible from here. ECONNREFUSED: there is none; EPERM: it is another user's. */
int host_show_ask(unsigned int slot, pid_t *pid, int *conn);
/* Takes the answer, for which poll() waits, and closes the connection. The descriptor may be
 * anything. ETIMEDOUT: no answer has come; EPROTO: it does not understand the question. */
int host_show_answer(int conn, int *fd);
