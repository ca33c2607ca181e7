// SPDX-License-Identifier: MIT
#include "transport/credit.h"
#include <infiniband/mlx5dv.h>
#include "transport/sent.h"
#include "wire/aeth.h"

uint8_t credit_syndrome(const struct tqp *q)
{
	const struct responder *r = &q->rsp;

	if (!q->qp.service->credits || q->qp.srq || !link_is_of_packets(q->dest))
		return AETH_ACK | AETH_UNLIMITED;
	/* the message in hand has its receive, and is not in the MSN yet */
	return aeth_ack(rq_posted(&q->qp.rq) + (r->have_rwqe && r->msg != MSG_NONE));
}

void credit_learn(struct tqp *q, uint8_t syndrome, uint32_t msn)
{
	struct credit *c = &q->req.credit;
	uint32_t n = aeth_credits(syndrome);

	if (!link_is_of_packets(q->dest) || aeth_kind(syndrome) != AETH_ACK ||
	    psn_before(msn, c->msn))
		return;
	c->msn = msn;
	c->limited = n != UINT32_MAX;
	c->last = psn_add(msn, n);
	c->left = n;
}

/* Have the packets that are on their way, and @more, taken all? */
static bool packets_took(const struct tqp *q, uint32_t more)
{
	return ((q->req.psn - q->req.una) & PSN_MASK) + more >= q->req.credit.left;
}

static bool counts(const struct tqp *q, const struct sent *e)
{
	return unlikely(q->req.credit.limited) && e->opcode != MLX5_OPCODE_RDMA_WRITE;
}

/* Has @e, a SEND or WRITE that is being sent, no credit? */
static bool is_short(const struct tqp *q, const struct sent *e)
{
	const struct credit *c = &q->req.credit;
	bool begins = q->req.psn == e->psn && q->req.psn == q->req.max_psn;

	if (!counts(q, e))
		return false;
	return q->qp.packet_credits ? packets_took(q, 0)
				    : psn_after(psn_add(c->sent, begins), c->last);
}

bool credit_asks(const struct tqp *q, const struct sent *e)
{
	return is_short(q, e) || (q->qp.packet_credits && counts(q, e) && packets_took(q, 1));
}

bool credit_allows(const struct tqp *q, const struct sent *e)
{
	const struct requester *r = &q->req;

	return !is_short(q, e) || r->psn == r->una || r->psn != r->max_psn;
}
