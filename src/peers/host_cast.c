// SPDX-License-Identifier: MIT
/* Who everybody is, inside the host, is read from the names; a segment for all waits until the
 * contacts that are being made are up, so that the first one arrives too. */
#include <errno.h>
#include "peers/host_cast.h"
#include "peers/host_names.h"
#include "peers/host_slots.h"
#include "peers/host_state.h"
#include "peers/host_target.h"
#include "util/clock.h"
#include "util/quiesce.h"

/* How old a look at the names may be; how long one that did not answer is left alone. */
#define NAMES_NS  UINT64_C(2000000)
#define SILENT_NS UINT64_C(10000000000)

static bool is_pending(const struct target *t)
{
	uint32_t state = t ? load_relaxed(&t->state) : TARGET_DEAD;

	return state == TARGET_WANTED || state == TARGET_ASKING;
}

static bool any_pending(struct host *h)
{
	bool yes = false;

	spin_lock(&h->table_lock);
	for (unsigned int i = 0; i < NUMBER_SLOTS && !yes; i++)
		yes = is_pending(h->target[i]);
	spin_unlock(&h->table_lock);
	return yes;
}

void host_cast_resume(struct host *h)
{
	uint32_t n = host_wait_count(&h->cast_waiters);

	while (n && !any_pending(h) && host_wait_call(&h->cast_waiters))
		n--;
}

bool host_cast_wait(struct host *h, struct waiter *w)
{
	if (!any_pending(h))
		return false;
	if (!w)
		return true;
	host_wait_add(&h->cast_waiters, w);
	full_fence(); /* the last contact may have come up before we stood on the list */
	return any_pending(h) || !host_wait_remove(&h->cast_waiters, w);
}

/* host_cast_send() sends to the destinations one by one: on this one senders only wait. */
static int cast_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	(void)d;
	(void)s;
	(void)w;
	return ENETUNREACH;
}

static void cast_cancel(struct dest *d, struct waiter *w)
{
	host_wait_cancel(&container_of(d, struct host, all)->cast_waiters, w);
}

static void cast_put(struct dest *d)
{
	fetch_sub_acq_rel(&d->refs, 1); /* it is the host's, which keeps one */
}

static const struct link_ops cast_ops = {
	.name = "multicast",
	.send = cast_send,
	.cancel = cast_cancel,
	.put = cast_put,
};

void host_cast_init(struct host *h)
{
	h->all = (struct dest){ .ops = &cast_ops,
				.refs = 1,
				.max_seg = HOST_MAX_SEG,
				.inline_max = HOST_MAX_SEG,
				.same_host = true };
	host_wait_init(&h->cast_waiters);
}

/* It has a name, and did not answer not long ago: stopped, or of another mind. */
static bool is_silent(struct host *h, unsigned int slot)
{
	struct target *t = host_target_now(h, slot);
	bool yes = t && load_acquire(&t->state) == TARGET_DEAD && t->deadline &&
		   clock_now() < t->deadline + SILENT_NS;

	host_target_put(t);
	return yes;
}

static void want(struct host *h, unsigned int slot)
{
	struct target *t;

	if (!host_slot_is_ours(h, slot) && !is_silent(h, slot) && !host_target(h, slot, true, &t))
		host_target_put(t);
}

bool host_cast_look(struct host *h)
{
	uint64_t now = clock_now(), last = load_relaxed(&h->names_seen);
	uint64_t taken[NUMBER_SLOTS / 64];

	if (h->alone || now - last <= NAMES_NS || !cas_acq_rel(&h->names_seen, &last, now))
		return false;
	host_names_read(h->uid, taken);
	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++)
		if (taken[slot / 64] >> slot % 64 & 1)
			want(h, slot);
	return true;
}
