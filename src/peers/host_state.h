// SPDX-License-Identifier: MIT
/* The inside of a host, shared by host*.c, contact*.c, shm*.c and loopback.c.
 *
 * A thread reaches contacts through host->contact[] inside a quiesce section; what is taken out is
 * freed after quiescence, for which host_control() does not wait: another peer's memory may keep a
 * thread in its section for long. host_control() does all set-up and clean-up, under host->control;
 * no thread waits for that lock inside a section or a turn. Leaf locks: host->names_lock,
 * host->table_lock (targets of slots), those of waiting lists, contact->out_lock (the producer's
 * end). contact->in_lock (the consumer's end) is only tried: segments are delivered under it. */
#pragma once
#include <pthread.h>
#include "link/number.h"
#include "peers/contact.h"
#include "peers/host.h"
#include "peers/host_page.h"
#include "peers/host_wait.h"
#include "peers/loopback.h"
#include "util/list.h"
#include "util/mutex.h"
#include "util/spin.h"

enum {
	HOST_DIRECT_PEERS = 8, /* with more, senders set a bit in the mail page */
	HOST_MAX_SEG = 16 << 10,
	HOST_INLINE_MAX = 8 << 10,
	HOST_BARRED = 16,
};
#define HOST_MAX_REF	 (1U << 31)
#define HOST_CONTACT_NS	 UINT64_C(5000000000) /* a peer that is stopped, or has no core */
#define HOST_RETRY_NS	 UINT64_C(5000000)
#define HOST_GRACE_NS	 UINT64_C(1000000) /* from one look for quiescence to the next */
#define HOST_LIVENESS_NS UINT64_C(1000000000)

enum target_state {
	TARGET_IDLE, /* the peer is making the contact; no sender here has wanted it yet */
	TARGET_WANTED, /* a contact is to be begun, or begun again */
	TARGET_ASKING, /* a contact is under way */
	TARGET_UP,
	TARGET_DEAD,
};

/* The destination of a slot of another process. */
struct target {
	struct dest d; /* d.refs: the slot table's and the users' */
	struct host *host;
	unsigned int slot;
	uint32_t state; /* enum target_state; UP stored with release: pairs with shm_send() */
	struct contact *c; /* when UP; inside a quiesce section */
	uint64_t deadline; /* ns: UP by then, else DEAD; if DEAD for another reason 0 */
	uint64_t retry; /* WANTED: ns, no contact is begun before */
	uint64_t cookie; /* of the process that it led to when it was UP; 0: it never was */
	pid_t pid; /* of that process */
	int error; /* DEAD and never UP: errno of the last contact */
	/* The number in the names of another version of softhca, whose process had the slot when it
	 * refused us; -1: the slot had no such process; 0: we were never refused. */
	int layout;
	struct host_wait waiters;
};

struct listener {
	struct watch watch;
	struct host *host;
	unsigned int slot;
	int listed; /* socket bound to the user's own name for the slot; -1: none */
};

struct host {
	struct host_config cfg;
	bool alone; /* no name could be bound: loopback only */
	uint32_t uid; /* the user id in its names */
	struct host_layout layout;
	struct host_page *page;
	uint8_t *tables; /* of keys and QPs, as layout says */
	int page_fd, tables_fd;
	uint64_t *mail; /* HOST_MAIL_WORDS; peers write it: hints only */
	int mail_fd;
	/* Bits: contacts whose rings are looked at without a mail bit: those of strangers, who have
	 * no mail page of ours, and what look_at_all() has found, until it is empty. */
	uint64_t unmailed[NUMBER_SLOTS / 64];
	uint32_t drains; /* by mail; host_drain.c */
	int bell, epoll;
	struct listener listener[HOST_PAGE_SLOTS];
	uint32_t n_slots;
	struct mutex control;
	/* Guards what a forked child is to close: the sockets of listener[] and of meetings, lent,
	 * a contact's connections and memory, and its way onto and off the lists. At a fork() the
	 * forking thread has it. */
	struct mutex names_lock;
	int lent; /* opens our memory, while a message with it is sent; -1: none */
	struct list meetings; /* under names_lock */
	uint64_t gives_way; /* ns: until then it leaves doors of meetings to others; atomic */
	struct spin table_lock;
	struct target *target[NUMBER_SLOTS];
	struct contact *contact[NUMBER_SLOTS];
	uint64_t last_number; /* of a contact */
	uint64_t turned_away; /* strangers' connections that were refused as one too many */
	uid_t barred[HOST_BARRED]; /* other users that are not heard; the first n_barred */
	unsigned int n_barred;
	struct unread *unread; /* strangers' connections that have ended; host_strangers.c */
	struct contact *pending; /* contacts that are not up yet */
	struct contact *leaving; /* that have ended, and a thread of ours may be inside */
	uint32_t top; /* indices of contact[] in use are below */
	uint32_t ups; /* contacts that are up; atomic */
	bool buried, risen; /* a target has died; then another came up: peer_up() is due */
	uint32_t next; /* where host_drain() begins */
	uint64_t waiting[NUMBER_SLOTS / 64]; /* bits: targets with waiters */
	uint32_t waiting_words; /* bits: words of it that are not 0, or were */
	/* bits: targets that are WANTED, or were, and dead ones in whose place one is wanted */
	uint64_t wanted[NUMBER_SLOTS / 64];
	uint32_t chores; /* host_control() has something to do now */
	uint64_t deadline; /* of host_control() */
	struct watch *resting; /* listeners for which there was no descriptor */
	uint64_t rest_ends; /* ns: time at which the listeners of @resting are watched again */
	struct loopback own;
	struct dest all; /* the destination of multicast that waits for contacts */
	struct host_wait cast_waiters; /* those of all */
	uint64_t names_seen; /* ns: when the names were read last */
	uint32_t cast_look; /* contacts may have been begun since then */
};

static inline struct target *to_target(struct dest *d)
{
	return container_of(d, struct target, d);
}

/* Has each of the two processes proved that it reaches the other's memory? Then payloads that the
 * peer refers to may be fetched: it refers to memory only once it heeds our hazards. Direct access
 * waits for contact->mutual. */
static inline bool contact_reaches(const struct contact *c)
{
	return c->remote && load_acquire(&c->trusted);
}

/* @slot's target has a waiter on its list. */
static inline void host_resume_later(struct host *h, unsigned int slot)
{
	fetch_or_acq_rel(&h->waiting[slot / 64], UINT64_C(1) << slot % 64);
	fetch_or_acq_rel(&h->waiting_words, 1U << slot / 64);
}

/* host_control() is to run at @at, ns, at the latest. Under host->control. */
static inline void host_sooner(struct host *h, uint64_t at)
{
	if (at < h->deadline)
		store_relaxed(&h->deadline, at);
}

/* Have the sections that could see an object ended? False: host_control() comes back to ask again.
 * Under host->control. */
static inline bool host_quiet(struct host *h, struct quiesce_grace *g, uint64_t now)
{
	bool yes = quiesce_soon(g);

	if (!yes)
		host_sooner(h, now + HOST_GRACE_NS);
	return yes;
}
