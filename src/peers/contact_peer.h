// SPDX-License-Identifier: MIT
/* Which process is at the other end of a connection, as the kernel says, and whether the kernel
 * lets us open its memory, by the rules of contact_trust.h. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include "peers/contact_trust.h"

/* The user and the pid. Where other users look like ours (host_names_alike()), a process is of our
 * user if the kernel lets us look into it. */
int contact_user(int conn, struct trust_name *name);
/* EPERM: it is another user's. *pid: 0 when not visible from here. */
int contact_peer(int conn, pid_t *pid);
/* Does the process @name have @slot? 0: yes; EPROTO: another process has it; ECONNREFUSED: none has
 * it any more; EAGAIN: ask again; EINPROGRESS: the kernel does not say, and *owner is a connection
 * with the process that has it. */
int contact_owns(const struct trust_name *name, unsigned int slot, int *owner);
/* contact_user(), and all members of @name. *pidfd: -1 when there is none. Where @name->exact is
 * false, the kernel names the sender of each message from here on. */
int contact_name(int conn, struct trust_name *name, int *pidfd);
enum trust_word contact_word(void); /* SOFTHCA_DIRECT */
/* The peer's memory, if the kernel lets us trace it and could let it trace us; -1: not. */
int contact_open_memory(const struct trust_name *name, int pidfd);
int contact_own_memory(int conn); /* a descriptor of ours, to be lent; -1: descriptors are short */
bool contact_fds_left(int fd); /* is @fd, the newest, below 80 % of RLIMIT_NOFILE? */
