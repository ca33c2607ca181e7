// SPDX-License-Identifier: MIT
/* The slot that a peer claims in HELLO or WELCOME. The name of a slot belongs to one process, and
 * the kernel tells which process has bound it. Where it tells no pids (the two processes are in PID
 * namespaces beside each other) this process asks the one that has the name, by CONTACT_CLAIM,
 * whether the message with this nonce, cookie and generation is its own. The message is kept until
 * CONTACT_CLAIMED comes. Under host->control. */
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

/* 0: the peer has the slot that @m says. EPROTO: another process has it. EINPROGRESS: @m and its
 * descriptors are c->claim now, and @ready is called when an answer has come. ECONNREFUSED: no
 * process has the slot any more; EAGAIN: try again later; or another errno. */
int contact_claim(struct contact *c, const struct contact_message *m, int *fds, unsigned int n,
		  void (*ready)(struct watch *w, uint64_t now));
/* 0: the slot's owner has said that the message is its own. EAGAIN: no answer yet. EPROTO: it is
 * not. */
int contact_claim_answer(const struct claim *claim);
void contact_claim_free(struct contact *c); /* c->claim is NULL then; before, too, is fine */
/* @m asks about a message: did this process send it, to the peer that asks? */
bool contact_claim_ours(const struct host *h, const struct contact_message *m);
