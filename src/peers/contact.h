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
#include "util/spin.h"

struct claim;
struct target;

enum contact_end {
	CONTACT_LEFT = 1, /* the peer has gone: records that it has published are still read */
	CONTACT_BROKEN, /* the peer has broken a rule: nothing of it is read any more */
};

struct contact {
	struct host *host;
	uint64_t number; /* of the process at its other end: no other contact ever has it */
	struct contact *next; /* in host->pending, until it is up */
	uint32_t state; /* enum contact_state */
	uint32_t broken; /* enum contact_end: host_control() is to end it; 0 not */
	uint32_t index; /* place in host->contact[]; NUMBER_SLOTS: none */
	struct watch conn, pidfd;
	struct trust_name name; /* which process the peer is */
	uint64_t deadline; /* ns: of the handshake; then of the next look whether it is alive */
	struct target *asked; /* destination that our handshake is for; a reference */
	unsigned int came_by; /* slot of ours that the peer has connected to */
	struct claim *claim; /* its presentation, while its slot's owner is asked; NULL: none */
	/* the peer */
	uint64_t cookie, cookie_addr;
	uint32_t gen;
	unsigned int slot; /* first slot of the peer */
	struct target *home; /* the destination of that slot; a reference */
	struct host_layout layout;
	const struct host_page *page;
	const uint8_t *tables; /* NULL: it is a stranger, and keeps them to itself */
	uint64_t *mail; /* NULL: it is a stranger; all of its peers write there */
	uint32_t mail_bit; /* our bit in its mail page */
	int bell; /* its doorbell; -1: not given to us, it is rung through conn */
	bool one_sided; /* a record was sent that the peer is to be rung for even while it polls */
	bool late; /* it had no room for too long: multicast does not wait until it has some */
	uint32_t rung; /* mode word that it was rung for last */
	struct remote *remote; /* NULL: its memory is not reached from here */
	enum trust_word word;
	uint64_t secret, nonce; /* ours: what the peer is to read here, and to repeat */
	uint64_t their_secret_addr, their_nonce,
		proof; /* its: an address; a number; what was read */
	uint32_t trusted; /* it reads our memory, as it has proved: its hazards count */
	uint32_t mutual; /* so do we its, and it knows: both may access and refer */
	bool told; /* FETCHES is out */
	struct shares shares;
	/* what comes from it: config->deliver, but of a stranger only what it may send */
	void (*deliver)(void *arg, const struct seg *s);
	void *deliver_arg;
	/* the rings */
	struct spin out_lock; /* guards out, out_next, and the questions for the position */
	uint64_t question, answered; /* number of the newest question; of the newest answered one */
	uint32_t out_moves, asked_in; /* rings before out; before that of the newest question */
	struct ring_end out, out_next; /* next: offered by the peer, MOVED not written yet */
	struct spin in_lock; /* guards in, in_next, in_old, poll's writers */
	struct ring_end in, in_next, in_old; /* next: MOVED not read yet; old: to be unmapped */
	const uint64_t *poll; /* first word of the next record: not 0 once that is there */
	const uint32_t *owed; /* the ring's want: not 0 while the producer waits for an answer */
	uint32_t wanted; /* times that the peer has waited for space */
};

struct contact *contact_new(struct host *h, int conn); /* owns conn; NULL: no memory */
/* No thread can reach it any more. */
void contact_free(struct contact *c);

/* The peer has broken a rule: host_control() will end the contact, and a warning says @why. Any
 * thread. */
void contact_break(struct contact *c, const char *why);
/* The peer has gone, or the contact is not needed: the same without a warning. Any thread. */
static inline void contact_left(struct contact *c)
{
	uint32_t none = 0;

	cas_acq_rel(&c->broken, &none, CONTACT_LEFT); /* BROKEN stays */
}
