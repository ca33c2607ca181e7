// SPDX-License-Identifier: MIT
/* A contact: this process and one other of the host, with a ring each way. Made by a handshake of
 * three messages over a SOCK_SEQPACKET connection (contact_hello.h). There is at most one per pair
 * of processes: when both sides begin, the connection of the one with the lower slot stays.
 * Everything here but what is said to be for any thread runs under host->control. */
#pragma once
#include <sys/types.h>
#include "link/link.h"
#include "peers/contact_share.h"
#include "peers/contact_state.h"
#include "peers/host_page.h"
#include "peers/host_watch.h"
#include "peers/remote.h"
#include "peers/ring_end.h"
#include "util/spin.h"

struct target;

enum contact_end {
	CONTACT_LEFT = 1, /* the peer has gone: what it published is still read */
	CONTACT_BROKEN, /* it broke a rule: nothing of it is read any more */
};

struct contact {
	struct host *host;
	struct contact *next; /* host->pending: not up yet */
	uint32_t state; /* enum contact_state */
	uint32_t broken; /* enum contact_end: to be ended */
	uint32_t index; /* in host->contact[]; NUMBER_SLOTS: not there */
	struct watch conn, pidfd;
	pid_t pid; /* 0: not visible from here */
	uint64_t deadline; /* of the handshake */
	struct target *asked; /* for whom we ask; a reference */
	/* the peer */
	uint64_t cookie, cookie_addr;
	uint32_t gen;
	unsigned int slot; /* its first */
	struct target *home; /* the destination of that slot; a reference */
	struct host_layout layout;
	const struct host_page *page;
	uint64_t *mail;
	uint32_t mail_bit; /* ours in there */
	int bell;
	bool one_sided; /* the peer is to be rung for what was sent, even while it polls */
	bool late; /* it had no room for too long: nobody waits until it takes something */
	uint32_t rung; /* the mode word it was rung for last */
	struct remote *remote; /* NULL: its memory is not reached from here */
	bool trusted; /* it got our memory descriptor */
	struct shares shares;
	/* the rings */
	struct spin out_lock; /* guards out, out_next */
	struct ring_end out, out_next; /* next: sent by the peer, MOVED not written yet */
	struct spin in_lock; /* guards in, in_next, in_old, poll's writers */
	struct ring_end in, in_next, in_old; /* next: MOVED not read yet; old: to be unmapped */
	const uint64_t *poll; /* the word that comes next in the ring: one load tells */
	const uint32_t
		*owed; /* not 0: its producer waits for space, which nothing else would tell */
	uint32_t wanted; /* how often the peer waited for space */
};

struct contact *contact_new(struct host *h, int conn); /* owns conn; NULL: no memory */
/* Quiet: nobody can reach it any more. */
void contact_free(struct contact *c);

/* The peer has broken a rule: the contact is ended by host_control(). Any thread. */
void contact_break(struct contact *c, const char *why);
/* The peer has gone, or the contact is not needed: the same, without a word. Any thread. */
static inline void contact_left(struct contact *c)
{
	uint32_t none = 0;

	cas_acq_rel(&c->broken, &none, CONTACT_LEFT); /* BROKEN stays */
}
