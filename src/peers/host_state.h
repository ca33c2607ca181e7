// SPDX-License-Identifier: MIT
/* The inside of a host, shared by host*.c, contact*.c, shm*.c and loopback.c.
 *
 * Contacts are reached through host->contact[] inside a quiesce section; who takes one out waits
 * for quiescence before it frees anything of it. Everything about set-up and death is done by
 * host_control(), under host->control; nobody waits for that lock inside a section or a turn. Leaf
 * locks: host->table_lock (targets of slots), the waiting lists', contact->out_lock (the
 * producer's end). contact->in_lock (the consumer's end) is held while segments are delivered:
 * tried. */
#pragma once
#include <pthread.h>
#include "link/number.h"
#include "peers/contact.h"
#include "peers/host.h"
#include "peers/host_page.h"
#include "peers/host_wait.h"
#include "peers/loopback.h"
#include "util/spin.h"

enum {
	HOST_DIRECT_PEERS = 8, /* with more, senders set a bit in the mail page */
	HOST_MAX_SEG = 16 << 10,
	HOST_INLINE_MAX = 8 << 10,
};
#define HOST_MAX_REF	 (1U << 31)
#define HOST_CONTACT_NS	 UINT64_C(5000000000) /* a peer that is stopped, or has no core */
#define HOST_RETRY_NS	 UINT64_C(5000000)
#define HOST_LIVENESS_NS UINT64_C(1000000000)

enum target_state {
	TARGET_IDLE, /* it came to us; nobody here has wanted it yet */
	TARGET_WANTED, /* nobody has asked for it yet, or it is to be asked again */
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
	uint64_t deadline; /* until UP; DEAD: when it passed, 0 if it was not that */
	uint64_t retry; /* WANTED: not before */
	struct host_wait waiters;
};

struct listener {
	struct watch watch;
	struct host *host;
	unsigned int slot;
};

struct host {
	struct host_config cfg;
	bool alone; /* no names: loopback only */
	uint32_t uid; /* as names carry it */
	struct host_layout layout;
	struct host_page *page;
	int page_fd;
	uint64_t *mail; /* HOST_MAIL_WORDS; peers write it: hints only */
	int mail_fd;
	int bell, epoll;
	struct listener listener[HOST_PAGE_SLOTS];
	uint32_t n_slots;
	pthread_mutex_t control;
	struct spin table_lock;
	struct target *target[NUMBER_SLOTS];
	struct contact *contact[NUMBER_SLOTS];
	struct contact *pending; /* not up yet */
	uint32_t top; /* contacts stand below */
	uint32_t ups; /* contacts that are up */
	uint32_t next; /* where host_drain() begins */
	uint64_t waiting[NUMBER_SLOTS / 64]; /* bits: targets with waiters */
	uint32_t chores; /* host_control() has something to do now */
	uint64_t deadline; /* of host_control() */
	struct loopback own;
	struct dest all; /* where who waits for contacts stands */
	struct host_wait cast_waiters; /* for contacts to come up */
	uint64_t names_seen; /* when the names were read last */
	uint32_t cast_look; /* contacts may be coming up since then */
};

static inline struct target *to_target(struct dest *d)
{
	return container_of(d, struct target, d);
}

void host_chore(struct host *h); /* host_control() is to run soon */
/* The slot's destination, with a reference; @wanted: a contact is begun. ENOMEM. */
int host_target(struct host *h, unsigned int slot, bool wanted, struct target **out);
void host_target_put(struct target *t);
/* The target stays as it is for senders from now on; waiters are resumed by host_resume(). */
void host_target_settle(struct target *t, enum target_state state, struct contact *c);
void host_resume_all(struct host *h);
/* Outside all locks: calls the waiters that can go on. */
static inline void host_resume(struct host *h)
{
	uint64_t any = 0;

	for (unsigned int i = 0; i < NUMBER_SLOTS / 64; i++)
		any |= load_relaxed(&h->waiting[i]);
	if (unlikely(any))
		host_resume_all(h);
}
/* The target of the slot that is in the table now, with a reference; NULL none. */
struct target *host_target_now(struct host *h, unsigned int slot);
void host_contact_up(struct contact *c);
void host_pid_ready(struct watch *w, uint64_t now); /* a process' pidfd says it has ended */
void host_end_contacts(struct host *h); /* all, without a word to anybody: host_destroy() */
int host_listen(struct host *h, struct listener *l); /* its fd is bound: contacts are accepted */
void host_cast_init(struct host *h);
/* False: everybody answers or is given up. True: @w (may be NULL) waits for contacts to come up. */
bool host_cast_wait(struct host *h, struct waiter *w);
bool host_cast_look(struct host *h); /* for processes that are new; false: not yet again */
void host_cast_resume(struct host *h); /* multicast that waited for contacts */
bool host_target_can_go_on(struct host *h, unsigned int slot); /* its waiters, if any */
