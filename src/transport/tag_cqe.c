// SPDX-License-Identifier: MIT
#include "transport/tag_cqe.h"
#include "hca/srq_tags.h"
#include "transport/inner.h"

static bool in_tagged_buffer(uint8_t what)
{
	return what == TAG_CQE_MESSAGE || what == TAG_CQE_SOFTWARE || what == TAG_CQE_CONSUMED;
}

struct cq *tag_cqe_route(struct tqp *q, struct cqe *c)
{
	struct responder_tag *t = &q->rsp.tag;

	if (likely(!t->what))
		return q->qp.rcq;
	c->uidx = q->qp.srq->uidx;
	c->app_op = t->what;
	c->app_info = c->wqe_counter;
	if (in_tagged_buffer(t->what)) {
		c->tm_tag = t->tag;
		c->tm_ctx = t->ctx;
	}
	if (t->what == TAG_CQE_CONSUMED && !c->syndrome)
		c->opcode = MLX5_CQE_NO_PACKET;
	t->pending = t->what == TAG_CQE_CONSUMED && !c->syndrome;
	t->what = 0;
	return q->qp.srq->tags->cq;
}

int tag_cqe_arrived(struct tqp *q, const struct inner *in, const struct cqe *error, uint64_t now)
{
	struct cqe c = { .opcode = MLX5_CQE_RESP_SEND };

	if (error)
		c = *error;
	if (error)
		c.opcode = MLX5_CQE_RESP_ERR;
	c.app_op = TAG_CQE_EXPECTED;
	c.app_info = in->slot;
	c.byte_cnt = in->len;
	c.uidx = q->qp.srq->uidx;
	c.qpn = q->qp.qpn;
	c.timestamp = now;
	return srq_tags_push(q->qp.srq, &c);
}
