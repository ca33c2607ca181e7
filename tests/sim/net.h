// SPDX-License-Identifier: MIT
/* A network in virtual time, seeded: a link whose segments arrive after a delay, or never, or
 * twice, or late, or damaged. Lossy networks carry RoCEv2 packets (built, damaged, checked by
 * their ICRC, parsed); same-host ones carry segments by value or by reference, in order, may be
 * full or unable to fetch, and may have direct access. Losses are fair: no packet is lost or
 * damaged more than twice, so that retry counts suffice. */
#pragma once
#include "link/link.h"
#include "util/rand.h"

/* How ends of one host take messages of the predicted form (transport/predicted): no shorter way;
 * the shorter way; the same ends without it, and with segments that no receiver predicts. */
enum net_prediction { NET_NO_PREDICTION, NET_PREDICTED, NET_ORDINARY };

struct net_config {
	bool same_host;
	enum net_prediction prediction; /* same host; other than none: ends have flush() */
	double loss, dup, late, flip; /* probabilities; lossy networks */
	double cork; /* that a doorbell's segments wait for more; not 0: ends have flush() */
	double again; /* that a send is answered by EAGAIN */
	double direct; /* same host: that direct access is granted; 0: ends have none */
	bool cannot_fetch;
	uint32_t max_seg, max_ref, inline_max;
	uint32_t window; /* not 0: a network as hosts see it, with addresses */
	uint32_t abilities[2]; /* as the first and the second end see the other */
	uint64_t delay; /* ns one way */
	uint64_t slot; /* not 0: ns that a payload takes to pass what all of them share */
	uint32_t queue, mark; /* so many may wait there; so many, and it is marked */
};

struct flight { /* a segment on its way */
	struct flight *next;
	uint64_t at, order;
	struct waiter *waiter; /* instead: who is resumed */
	uint32_t to;
	bool marked;
	size_t len;
	struct seg seg;
	struct piece pieces[32];
	uint8_t bytes[]; /* payload or packet */
};

struct net {
	struct net_config cfg;
	struct link_ops ops; /* of its ends */
	struct rand rand;
	uint64_t now, order;
	struct flight *first; /* by time */
	void (*deliver)(void *arg, uint32_t qpn, struct seg *s, uint64_t now);
	int (*direct)(void *arg, struct direct_ask *ask); /* as link_ops.direct(); of its owner */
	void *arg;
	bool cut; /* everything is lost */
	bool stopped; /* one host: the peers' processes do not run */
	uint64_t drop_at; /* the segment that is lost for certain: the first sent is 1 */
	uint64_t hash; /* of all that was sent and when: the run's fingerprint */
	uint64_t sent, lost;
	uint64_t payloads, lost_payloads; /* of these, messages' and responses' */
	struct net_end *holds; /* whose flights wait for flush(), while it sends one */
	unsigned int ends;
	uint64_t busy; /* until when the shared part is */
	uint64_t overflows; /* payloads that found the queue full */
	uint64_t no_reference; /* fetches refused */
	uint64_t plain; /* segments that went the shorter way */
	void (*watch)(void *arg, const struct seg *s); /* sees each segment that is sent */
	void *watch_arg;
	uint8_t drops[1 << 14]; /* by fingerprint of the packet */
};

struct net_end {
	struct dest d; /* first */
	struct net *net;
	uint32_t qpn; /* of its owner */
	struct flight *held; /* sent with seg.more: they leave by flush(); at: from then on */
	int refuse; /* what send() answers instead of taking the segment; 0 */
	bool mute; /* all that it sends is lost */
};

void net_init(struct net *n, const struct net_config *cfg, uint64_t seed,
	      void (*deliver)(void *, uint32_t, struct seg *, uint64_t), void *arg);
void net_fini(struct net *n);
void net_end_init(struct net_end *e, struct net *n, uint32_t qpn);
void net_end_fini(struct net_end *e);
uint64_t net_next(const struct net *n); /* when the next flight lands; UINT64_MAX: none */
void net_step(struct net *n); /* lands it */
void net_mix(struct net *n, uint64_t x); /* into the fingerprint */
