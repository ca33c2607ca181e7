// SPDX-License-Identifier: MIT
/* A contact: this process and one other of the host, with a ring each way. A handshake of three
 * messages over a SOCK_SEQPACKET connection makes it (contact_hello.h). There is at most one per
 * pair of processes: when both begin, the connection of the process with the lower slot stays.
 * Functions run under host->control but where they are said to be for any thread. */
#pragma once
#include <sys/types.h>
#include "link/link.h"
#include "peers/contact_share.h"
#include "peers/contact_state.h"
#include "peers/contact_trust.h"
#include "peers/host_page.h"
#include "peers/host_watch.h"
#include "peers/remote.h"
#include "peers/ring_end.h"
#include "util/quiesce.h"
#include "util/spin.h"

struct claim;
struct target;

enum contact_end {
	CONTACT_LEFT = 1, /* the peer has gone: records that it has published are still read */
	CONTACT_BROKEN, /* the peer has broken a rule: nothing of it is read any more */
};

struct contact {
	struct host *host;
	uint64_t number; /* of this contact, never used again: dest.process of its destinations */
	struct contact *next; /* in host->pending, until it is up; then in host->leaving */
	uint32_t state; /* enum contact_state */
	uint32_t broken; /* enum contact_end: host_control() is to end it; 0: it goes on */
	uint32_t index; /* place in host->contact[]; NUMBER_SLOTS: none */
	struct watch conn, pidfd;
	struct trust_name name; /* which process the peer is */
	uint64_t deadline; /* ns: end of the handshake; once up: next look whether the peer lives */
	struct target *asked; /* destination that our handshake is for; a reference */
	unsigned int came_by; /* slot of ours that the peer has connected to */
	struct claim *claim; /* its presentation, while its slot's owner is asked; NULL: none */
	/* the peer */
	uint64_t cookie, cookie_addr; /* of its page, and where that lies in its memory */
	uint32_t gen; /* generation of its page */
	unsigned int slot; /* first slot of the peer */
	struct target *home; /* the destination of that slot; a reference */
	struct host_layout layout;
	const struct host_page *page;
	const uint8_t *tables; /* NULL: it is a stranger, and keeps them to itself */
	uint64_t *mail; /* NULL: it is a stranger; all of its peers write there */
	uint32_t mail_bit; /* our bit in its mail page */
	int bell; /* its doorbell; -1: not given to us, it is rung through conn */
	bool one_sided; /* a record was sent for which the peer must be rung even while it polls */
	bool late; /* it had no room for too long: multicast passes it over until it has room */
	uint32_t rung; /* its mode word when it was rung last; 0: it is to be rung anew */
	uint32_t unheard; /* a ring has failed: host_control() rings anew; atomic */
	struct remote *remote; /* NULL: its memory is not reached from here */
	int memory; /* opens its memory, until it is seen to be that; -1: none. Under names_lock */
	enum trust_word word; /* this process' SOFTHCA_DIRECT */
	uint64_t secret, nonce; /* ours: the peer is to read the one and repeat the other */
	uint64_t their_secret_addr, their_nonce,
		proof; /* where its secret lies; its nonce; its secret, as read from here */
	uint32_t trusted; /* it has proved that it reads our memory: its hazards count; atomic */
	uint32_t mutual; /* the peer reads ours and we its: direct access may begin; atomic */
	bool told; /* FETCHES has been sent */
	struct shares shares;
	/* takes its segments: config->deliver, or a filter in front of it for a stranger's */
	void (*deliver)(void *arg, const struct seg *s);
	void *deliver_arg;
	/* the rings */
	struct spin out_lock; /* guards out, out_next, and the questions for the position */
	uint64_t question, answered; /* number of the newest question; of the newest answered one */
	uint32_t out_moves, asked_in; /* how many rings out has followed: now; at that question */
	struct ring_end out, out_next; /* next: a larger one that the peer has offered */
	struct spin in_lock; /* guards in, in_next, in_old, poll's writers */
	struct ring_end in, in_next, in_old; /* next: MOVED not read yet; old: to be unmapped */
	struct quiesce_grace in_old_grace; /* of threads that may be looking into in_old */
	const uint64_t *poll; /* first word of the next record: not 0 once the record is there */
	const uint32_t *owed; /* the ring's want: not 0 while the producer waits for an answer */
	uint32_t wanted; /* how often the peer has waited for space in this ring */
	/* its end, contact_end.c */
	struct quiesce_grace grace; /* of threads that may be in its rings, or the peer's memory */
	bool retires; /* when they have left it is retired, not freed */
	uint16_t buried[HOST_PAGE_SLOTS]; /* slots of the peer whose destinations are dead */
	unsigned int n_buried;
};

/* Under names_lock since @conn was made, which is the contact's then; NULL: no memory. */
struct contact *contact_new(struct host *h, int conn);
/* No thread can reach it any more. A child that is forked from here on has nothing of it that it
 * could use: memory is closed, the connection shut down. To close that may wait for what its peer
 * has sent, so contact_free() does. Under names_lock. */
void contact_hang_up(struct contact *c);
void contact_free(struct contact *c); /* behind contact_hang_up() */

/* The peer has broken a rule: host_control() will end the contact, and a warning says @why. Any
 * thread. */
void contact_break(struct contact *c, const char *why);
/* The peer has gone, or the contact is not needed: the same without a warning. Any thread. */
static inline void contact_left(struct contact *c)
{
	uint32_t none = 0;

	cas_acq_rel(&c->broken, &none, CONTACT_LEFT); /* BROKEN stays */
}
