// SPDX-License-Identifier: MIT
#include "hca/srq_tags.h"
#include <errno.h>
#include "hca/async.h"
#include "util/clock.h"

int srq_tags_push(struct srq *srq, const struct cqe *c)
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
		srq_tags_push(srq, &c); /* an overrun CQ loses it as hardware's would */
}

bool srq_tags_do(struct srq *srq, const struct tag_ask *ask)
{
	struct tag_list *t = srq->tags;
	bool done = true;

	if (ask->op == TAG_ADD) /* before a message can take it */
		tell(srq, ask, true);
	spin_lock(&srq->lock);
	if (ask->sync)
		tag_list_sync(t, ask->count);
	if (ask->op == TAG_ADD)
		tag_list_add(t, ask);
	else if (ask->op == TAG_DEL)
		done = tag_list_del(t, ask->slot);
	spin_unlock(&srq->lock);
	if (ask->op != TAG_ADD)
		tell(srq, ask, done);
	return done;
}

/* One step under the lock: a message that is unexpected is counted before a buffer can be added for
 * it. */
int srq_tags_take(struct srq *srq, uint64_t tag, struct rwqe *out, bool *matched)
{
	struct tag_list *t = srq->tags;
	bool low = false;
	int err = 0;

	spin_lock(&srq->lock);
	*matched = tag_list_match(t, tag, out);
	if (!*matched)
		err = srq_take_locked(srq, out, &low);
	if (!*matched && !err)
		store_relaxed(&t->unexpected, t->unexpected + 1); /* tell() */
	spin_unlock(&srq->lock);
	if (low)
		srq_low(srq);
	return err;
}
