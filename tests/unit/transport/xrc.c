// SPDX-License-Identifier: MIT
/* What members of an XRC domain hand over to each other. */
#include "pair.h"
#include "transport/xrc.h"

/* b as the half that this process has of a target QP, at work for some SRQ. */
static struct pair *open_pair(const struct net_config *cfg)
{
	static char some_srq[1];
	struct pair *p = pair_open(cfg, &rig_rc);

	p->b->q.qp.service = &services[SERVICE_XRC_RECV];
	p->b->q.qp.srq = (void *)some_srq; /* nothing here takes a receive */
	return p;
}

static void close_pair(struct pair *p)
{
	p->b->q.qp.srq = NULL;
	pair_close(p);
}

static void arrive(struct pair *p, struct seg *s)
{
	s->op |= SVC_XRC;
	s->flags = SEG_ACKREQ;
	s->pkey = 0xffff;
	s->npsn = 1;
	s->from = &p->b->end.d;
	s->rkey = p->b->mr->ib.rkey;
	s->va = RIG_IOVA;
	tqp_input(&p->b->q, s, p->rig.net.now);
}

static void check_held(const struct net_config *cfg)
{
	struct pair *p = open_pair(cfg);
	struct seg write = { .op = OP_WRITE_ONLY };
	struct seg read = { .op = OP_READ_REQUEST, .psn = 1, .dma_len = 16 };
	struct seg bad = { .op = OP_WRITE_MIDDLE, .psn = 2 };
	const uint8_t answers[] = { OP_ACKNOWLEDGE, OP_READ_RESP_ONLY, OP_ACKNOWLEDGE };
	struct seg *request[] = { &write, &read, &bad };
	const struct seg *last;

	for (unsigned int i = 0; i < 3; i++) {
		arrive(p, request[i]);
		check_eq(p->n, i);
		tqp_release(&p->b->q);
		check_eq(p->n, i < 2 ? i + 1 : i + 2); /* the grounds of the NAK, too */
		last = &p->log[p->n - 1];
		check_eq(last->op, answers[i] | SVC_XRC);
		check_eq(last->psn, i);
		check_eq(last->syndrome,
			 i < 2 ? AETH_ACK | AETH_UNLIMITED : aeth_nak(NAK_INVALID_REQUEST));
	}
	check_eq(p->log[2].op, OP_GROUNDS);
	check_eq(p->b->ack_later, 0);
	close_pair(p);
}

TEST(no_answer_leaves_before_the_state_is_given_back)
{
	check_held(&pair_host);
	check_held(&pair_lossy);
}

TEST(an_answer_that_the_link_does_not_take_goes_later)
{
	struct pair *p = open_pair(&pair_host);
	struct seg write = { .op = OP_WRITE_ONLY };

	arrive(p, &write);
	p->b->end.refuse = EAGAIN;
	tqp_release(&p->b->q);
	check_eq(p->n, 0);
	p->b->end.refuse = 0;
	tqp_resume(&p->b->q, p->rig.net.now);
	check_eq(p->n, 1);
	close_pair(p);
}

/* What a peer may send: the first half of a message to one SRQ, the second to another. */
TEST(a_message_keeps_the_SRQ_of_its_receive)
{
	struct pair *p = open_pair(&pair_host);
	struct tqp *q = &p->b->q;
	struct srq other = { .pd = q->qp.pd, .cq = q->qp.rcq };
	struct seg again = { .op = OP_SEND_LAST | SVC_XRC }, rc;
	const struct srq *first = q->qp.srq;

	q->rsp.have_rwqe = true;
	xrc_bind(q, &other);
	check(q->qp.srq == first && q->rsp.strayed);
	again.psn = (q->rsp.epsn - 1) & 0xffffff; /* of a message before, which named another SRQ */
	check(xrc_admit(q, &again, &rc, 0));
	q->rsp.have_rwqe = false;
	xrc_bind(q, &other);
	check(q->qp.srq == &other && !q->rsp.strayed);
	close_pair(p);
}

RUN_TESTS(unit_test(no_answer_leaves_before_the_state_is_given_back),
	  unit_test(an_answer_that_the_link_does_not_take_goes_later),
	  unit_test(a_message_keeps_the_SRQ_of_its_receive))
