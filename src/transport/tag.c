// SPDX-License-Identifier: MIT
#include "transport/tag.h"
#include <errno.h>
#include <string.h>
#include <infiniband/tm_types.h>
#include "hca/srq_tags.h"
#include "transport/inner.h"
#include "util/be.h"
#include "wire/opcode.h"

enum { TMH = sizeof(struct ibv_tmh), HEADERS = TMH + sizeof(struct ibv_rvh) };

/* Reads the headers once: the peer may change its message meanwhile. */
static enum place peek(const struct seg *s, uint8_t head[HEADERS])
{
	struct piece to = { (uintptr_t)head, s->len < HEADERS ? s->len : HEADERS, 0 };

	memset(head, 0, HEADERS);
	if (!to.len)
		return PLACE_DONE;
	if (!(s->flags & SEG_BYREF)) {
		memcpy(head, s->data, to.len);
		return PLACE_DONE;
	}
	switch (s->from->ops->fetch(s->from, s, 0, &to, 1)) {
	case 0:
		return PLACE_DONE;
	case EPERM:
		return PLACE_NO_REF;
	default:
		return PLACE_GONE;
	}
}

static bool has_tag(const struct seg *s, const uint8_t *head)
{
	if (s->len < TMH)
		return false;
	if (head[0] == IBV_TMH_RNDV)
		return s->len >= HEADERS && opcode_has(s->op, WIRE_LAST);
	return head[0] == IBV_TMH_EAGER;
}

/* The completion of a message that matched (TAG_CQE_*); keeps its headers. */
static uint8_t matched(struct tqp *q, const uint8_t *head)
{
	struct responder_tag *t = &q->rsp.tag;

	t->ctx = get_be32(head + offsetof(struct ibv_tmh, app_ctx));
	t->tag = get_be64(head + offsetof(struct ibv_tmh, tag));
	if (head[0] == IBV_TMH_EAGER)
		return TAG_CQE_MESSAGE;
	t->va = get_be64(head + TMH + offsetof(struct ibv_rvh, va));
	t->rkey = get_be32(head + TMH + offsetof(struct ibv_rvh, rkey));
	t->len = get_be32(head + TMH + offsetof(struct ibv_rvh, len));
	if (t->len > q->rsp.rwqe.len || t->len > 1U << 31 || !q->qp.attr.max_rd_atomic ||
	    !inner_room(q, 2))
		return TAG_CQE_SOFTWARE;
	return TAG_CQE_CONSUMED;
}

static int take(struct tqp *q, const struct seg *s, const uint8_t *head)
{
	struct responder *r = &q->rsp;
	bool match = false;
	int err;

	if (has_tag(s, head))
		err = srq_tags_take(q->qp.srq, get_be64(head + offsetof(struct ibv_tmh, tag)),
				    &r->rwqe, &match);
	else
		err = srq_take(q->qp.srq, &r->rwqe);
	if (err)
		return err;
	r->have_rwqe = true;
	if (match)
		r->tag.what = matched(q, head);
	else
		r->tag.what = has_tag(s, head) ? TAG_CQE_UNEXPECTED : TAG_CQE_NO_TAG;
	return 0;
}

enum place tag_begin(struct tqp *q, const struct seg *s, uint32_t *skip)
{
	struct responder *r = &q->rsp;
	uint8_t head[HEADERS];
	enum place p;

	if (!r->have_rwqe) { /* taken already if the segment comes again, by value */
		p = peek(s, head);
		if (p != PLACE_DONE)
			return p;
		if (take(q, s, head))
			return PLACE_RNR;
	}
	*skip = r->tag.what == TAG_CQE_MESSAGE || r->tag.what == TAG_CQE_SOFTWARE ? TMH : 0;
	if (r->tag.what == TAG_CQE_CONSUMED || *skip > s->len) /* it may come again, shorter */
		*skip = s->len;
	return PLACE_DONE;
}

void tag_rendezvous(struct tqp *q)
{
	struct responder_tag *t = &q->rsp.tag;
	const struct rwqe *to = &q->rsp.rwqe;
	struct inner read = { .opcode = MLX5_OPCODE_RDMA_READ,
			      .slot = to->idx,
			      .len = t->len,
			      .rkey = t->rkey,
			      .raddr = t->va };
	struct inner fin = { .opcode = MLX5_OPCODE_SEND, .len = TMH };

	t->pending = false;
	if (q->qp.state == IBV_QPS_ERR)
		return;
	if (to->nsge)
		read.sge = (struct sge){ to->sge[0].addr, t->len, to->sge[0].key };
	fin.data[0] = IBV_TMH_FIN;
	put_be32(fin.data + offsetof(struct ibv_tmh, app_ctx), t->ctx);
	put_be64(fin.data + offsetof(struct ibv_tmh, tag), t->tag);
	inner_add(q, &read);
	inner_add(q, &fin);
}
