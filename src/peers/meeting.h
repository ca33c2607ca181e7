// SPDX-License-Identifier: MIT
/* Meetings: processes of this host and user that share a descriptor under a name. A member listens
 * on the abstract name "softhca.<layout>.<uid>.<name>.<slot>" and hands the descriptor to each
 * process that connects. A process that enters first listens on one of "….new.0" to "….new.15" (it
 * is *at the door*), of which another user may have some, so that no other process joins or begins
 * a meeting of that name meanwhile. The kernel removes the names of a process that dies.
 * Threads: meeting_enter() blocks; members answer from host_control(). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct host;
struct meeting;

enum { MEETING_DOORS = 16 };

/* Who keeps a process from entering, or from being a member. */
struct meeting_other {
	int pid; /* ETIMEDOUT; 0: not known */
	bool door; /* ETIMEDOUT: it stays at the door; else it is a member that does not answer */
	uint32_t uid; /* EADDRINUSE: of one that has a name; HOST_NAMES_ALL: none listens */
};

/* Goes to the door. *fd: the meeting's descriptor, the caller's to close; -1: it has no member yet.
 * Until meeting_begin() or meeting_leave() no other process enters. However many are at the door
 * before it, each may take its time. ETIMEDOUT, and *who: none of the members answers, or another
 * process stays at the door. EADDRINUSE, and *who: other users have all doors. EMFILE …: without a
 * descriptor nobody can be asked. */
int meeting_enter(struct host *h, const char *name, struct meeting **out, int *fd,
		  struct meeting_other *who);
/* This process is a member: it hands @fd to processes that come, and leaves the door. EADDRINUSE,
 * and *who: another user has the member's name. EEXIST: a process of this user has it. */
int meeting_begin(struct meeting *m, int fd, struct meeting_other *who);
void meeting_leave(struct meeting *m); /* NULL is fine */
void meeting_leave_all(struct host *h); /* a forked child: it closes its copies of the sockets */
