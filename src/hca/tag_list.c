// SPDX-License-Identifier: MIT
#include "hca/tag_list.h"
#include <errno.h>
#include <stdlib.h>
#include "util/clock.h"

int tag_list_create(struct cq *cq, uint32_t n, struct tag_list **out)
{
	struct tag_list *t = calloc(1, sizeof(*t) + n * sizeof(t->e[0]));

	if (!t)
		return ENOMEM;
	t->cq = cq;
	t->n = n;
	list_init(&t->listed);
	cq_get(cq);
	*out = t;
	return 0;
}

void tag_list_destroy(struct tag_list *t)
{
	if (t)
		cq_put(t->cq);
	free(t);
}

/* Under the lock. */
static void sync_to(struct tag_list *t, uint16_t count)
{
	struct list *at;

	t->synced = count;
	if (t->synced != t->unexpected)
		return;
	list_for_each(at, &t->listed) container_of(at, struct tag_entry, node)->active = true;
}

/* Under the lock. */
static void add(struct tag_list *t, const struct tag_ask *ask)
{
	struct tag_entry *e = &t->e[ask->slot];

	e->tag = ask->tag;
	e->mask = ask->mask;
	e->nsge = ask->nsge;
	for (unsigned int i = 0; i < ask->nsge; i++)
		e->sge[i] = ask->sge[i];
	e->listed = true;
	e->active = t->synced == t->unexpected;
	list_add_tail(&t->listed, &e->node);
}

/* Under the lock. */
static bool del(struct tag_list *t, uint16_t slot)
{
	struct tag_entry *e = &t->e[slot];

	if (!e->listed)
		return false;
	list_del(&e->node);
	e->listed = false;
	return true;
}

int tag_list_push(struct srq *srq, const struct cqe *c)
{
	int err = cq_push(srq->tags->cq, c);

	if (err == EOVERFLOW && !xchg_acq_rel(&srq->tags->failed, true))
		async_push(srq->pd->ctx, IBV_EVENT_SRQ_ERR, srq->user);
	return err;
}

static void tell(struct srq *srq, const struct tag_ask *ask, bool done)
{
	static const uint8_t what[] = { TAG_CQE_ADD, TAG_CQE_DEL, TAG_CQE_SYNC };
	struct cqe c = { .opcode = MLX5_CQE_NO_PACKET,
			 .app_op = what[ask->op],
			 .app_info = ask->slot,
			 .wqe_counter = ask->op_index,
			 .uidx = srq->uidx,
			 .tm_success = done,
			 .tm_phase = load_relaxed(&srq->tags->unexpected),
			 .timestamp = clock_now() };

	if (ask->signaled)
		tag_list_push(srq, &c); /* an overrun CQ loses it as hardware's would */
}

bool tag_list_do(struct srq *srq, const struct tag_ask *ask)
{
	struct tag_list *t = srq->tags;
	bool done = true;

	if (ask->op == TAG_ADD) /* before a message can take it */
		tell(srq, ask, true);
	spin_lock(&srq->lock);
	if (ask->sync)
		sync_to(t, ask->count);
	if (ask->op == TAG_ADD)
		add(t, ask);
	else if (ask->op == TAG_DEL)
		done = del(t, ask->slot);
	spin_unlock(&srq->lock);
	if (ask->op != TAG_ADD)
		tell(srq, ask, done);
	return done;
}

/* Under the lock. */
static bool match(struct tag_list *t, uint64_t tag, struct rwqe *out)
{
	struct list *at;

	list_for_each(at, &t->listed)
	{
		struct tag_entry *e = container_of(at, struct tag_entry, node);

		if (!e->active || (tag & e->mask) != e->tag)
			continue;
		list_del(&e->node);
		e->listed = false;
		out->idx = (uint16_t)(e - t->e);
		out->nsge = e->nsge;
		out->len = 0;
		for (unsigned int i = 0; i < e->nsge; i++) {
			out->sge[i] = e->sge[i];
			out->len += e->sge[i].len;
		}
		return true;
	}
	return false;
}

/* One step under the lock: a message that is unexpected is counted before a buffer can be added for
 * it. */
int tag_list_take(struct srq *srq, uint64_t tag, struct rwqe *out, bool *matched)
{
	struct tag_list *t = srq->tags;
	bool low = false;
	int err = 0;

	spin_lock(&srq->lock);
	*matched = match(t, tag, out);
	if (!*matched)
		err = srq_take_locked(srq, out, &low);
	if (!*matched && !err)
		store_relaxed(&t->unexpected, t->unexpected + 1); /* tell() */
	spin_unlock(&srq->lock);
	if (low)
		srq_low(srq);
	return err;
}
