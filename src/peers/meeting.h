// SPDX-License-Identifier: MIT
/* Meetings: processes of this host and user that share a descriptor under a name. Whoever has it
 * listens on the abstract name "softhca.<layout>.<uid>.<name>.<slot>" and hands it to who connects;
 * who is at the door holds "….new", so that nobody else comes or begins a meeting of the same name
 * meanwhile. Names are the kernel's: a process that dies has left.
 * Threads: meeting_enter() blocks; members answer from host_control(). */
#pragma once

struct host;
struct meeting;

/* Goes to the door. *fd: the descriptor (the caller's to close), or -1 when nobody has it. Until
 * meeting_begin() or meeting_leave() nobody else enters. ETIMEDOUT: members there are, but none of
 * them answers, or somebody stays at the door. */
int meeting_enter(struct host *h, const char *name, struct meeting **out, int *fd);
/* From now on @fd is handed to whoever comes, and the door is free. */
int meeting_begin(struct meeting *m, int fd);
void meeting_leave(struct meeting *m); /* NULL is fine */
