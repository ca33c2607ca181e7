// SPDX-License-Identifier: MIT
/* The slot that a peer says it has, in HELLO or WELCOME. The name of a slot belongs to one process.
 * The kernel tells which process has bound it; where it tells no pids (the two processes are in
 * PID namespaces beside each other) the one that has the name is asked, by CONTACT_CLAIM, whether
 * the message with this nonce, cookie and generation is its own. Until CONTACT_CLAIMED comes the
 * message is held. Under host->control. */
#pragma once
#include "peers/contact_talk.h"
#include "peers/host_watch.h"

struct contact;
struct host;

struct claim {
	struct watch owner; /* connection with the process that has the slot's name */
	struct contact *c;
	struct contact_message m; /* HELLO or WELCOME */
	int fds[CONTACT_FDS]; /* what came with it */
	unsigned int n;
};

/* 0: the peer has the slot that @m says. EPROTO: another process has. EINPROGRESS: @m and its
 * descriptors are c->claim now, and @ready is called when an answer has come. ECONNREFUSED: it has
 * ended; EAGAIN: later; or another errno. */
int contact_claim(struct contact *c, const struct contact_message *m, int *fds, unsigned int n,
		  void (*ready)(struct watch *w, uint64_t now));
/* 0: the owner has said that the message is its own. EAGAIN: no answer yet. EPROTO: it has not. */
int contact_claim_answer(const struct claim *claim);
void contact_claim_free(struct host *h, struct claim *claim); /* NULL is fine */
/* Is what @m asks about a message of this process, which that very peer should have got? */
bool contact_claim_ours(const struct host *h, const struct contact_message *m);
