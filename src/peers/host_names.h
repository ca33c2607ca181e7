// SPDX-License-Identifier: MIT
/* The meeting point (docs/design/meeting-point.md): abstract AF_UNIX names of this network
 * namespace. "softhca.<layout>.all.slot.<n>" is a slot: all users share them, and the process that
 * has bound the name has the slot. With it goes "softhca.<layout>.<uid>.slot.<n>", by which the
 * processes of a user are listed. The kernel takes names back when the process dies. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "link/number.h"

/* In the environment of a program that `softhca run` has put into a user namespace of its own:
 * "UID:NAME", its user id in that namespace, and the user id in its names before. It proves
 * nothing: contacts check the peer's credentials. */
#define HOST_NAMES_TOLD "SOFTHCA_HOST_UID"

/* The user id in our names: as HOST_NAMES_TOLD says, else as our parent user namespace sees it.
 * EPERM: our uid is not mapped (then every process has the same overflow id). */
int host_names_uid(uint32_t *out);
/* Do processes of users that our user namespace does not map look as if they were of @uid, which is
 * ours? They do if @uid is the overflow id of a namespace that maps some users only. */
bool host_names_alike(uint32_t uid);
/* Takes a slot: listens. EADDRINUSE: a process has it. */
int host_name_bind(unsigned int slot, int *fd);
/* The same of a slot whose name another user has: under one of HOST_NAMES_OWN names of our own
 * user's, of which others may have some, too. EADDRINUSE: a process of our user has the slot, or
 * other users have all its names. */
int host_name_bind_own(unsigned int slot, int *fd);
/* Connects to the process of our user that has the slot; else to the one that has bound its shared
 * name. ECONNREFUSED: no process has it; EAGAIN: try again later. */
int host_name_connect(unsigned int slot, int *fd);
/* Lists the slot as one of the user's processes, as long as *fd is open. */
int host_name_list(uint32_t uid, unsigned int slot, int *fd);
enum { HOST_NAMES_OWN = 16 };
#define HOST_NAMES_ALL UINT32_MAX /* no user id: in its place, of names that all users share */
/* The same for the names of other things: "softhca.<layout>.<uid>.<name>". Does not listen. */
int host_name_bind_any(uint32_t uid, const char *name, int *fd);
int host_name_listen_any(uint32_t uid, const char *name, int *fd); /* binds, and listens */
int host_name_connect_any(uint32_t uid, const char *name, int *fd);
bool host_names_short(int err); /* memory or descriptors are: nobody was looked for */
enum host_name {
	HOST_NAME_SILENT, /* nobody listens there */
	HOST_NAME_OURS, /* a process of our user does */
	HOST_NAME_FOREIGN,
	HOST_NAME_UNKNOWN, /* its queue is full, and the kernel does not say whose it is; or no
			    * socket could be had */
};
/* Who listens at the name that is @stem and the number @k, below NUMBER_SLOTS? */
enum host_name host_name_whose(uint32_t uid, const char *stem, unsigned int k);
/* Connects to a process of our user that listens at one of those from @first up to @end. ENOENT:
 * none does. EAGAIN: one does, or nobody knows whose it is, and its queue is full. EMFILE …: that
 * could not be seen. */
int host_names_find(uint32_t uid, const char *stem, unsigned int first, unsigned int end, int *fd);
/* Names that processes of other users hold. */
struct host_foreign {
	unsigned int n;
	unsigned int silent; /* how many of them nobody listens to */
	uint32_t holder; /* the uid of one that listens, as we see it; HOST_NAMES_ALL: none does */
};
/* Of the names that are @stem and a number from @first up to @end, NUMBER_SLOTS at most. */
struct host_foreign host_names_foreign(uint32_t uid, const char *stem, unsigned int first,
				       unsigned int end);
struct host_foreign host_names_foreign_slots(void);
/* The layout of another version of softhca of which a process has this slot; 0: there is none. */
unsigned int host_names_foreign_layout(unsigned int slot);
/* Sets the bit of each slot that a process of another version of softhca has. False: there is no
 * such process. */
bool host_names_add_others(uint64_t taken[NUMBER_SLOTS / 64]);
/* The layout of another version of softhca that lists a process of the user; 0: there is none. */
unsigned int host_names_other_layout(uint32_t uid);
/* Sets the bit of each slot that a process of the user has, as /proc/net/unix shows. */
void host_names_read(uint32_t uid, uint64_t taken[NUMBER_SLOTS / 64]);
