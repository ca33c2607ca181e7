// SPDX-License-Identifier: MIT
/* A target's ends of connections: which requests begin and end one. The target is on a node without
 * threads; initiators are numbers of other processes, whose answers are counted. */
#include "dc/dc_responder.h"
#include "engine/delivery.h"
#include "engine/node_self.h"
#include "hca/mcast.h"
#include "hca/pd.h"
#include "peers/host_target.h"
#include "unit/engine/stand.h"
#include "util/clock.h"
#include "util/fork.h"
#include "wire/aeth.h"

enum { KEY = 77, MTU = 1024, SESSION = 1000, PSN = 5, SLOT = STAND_SLOT + 1 };

static struct pd pd;
static struct cq cq;
static struct srq srq;
static struct dc_target *target;

static void open_target(void)
{
	const struct qp_attr attr = {
		.service = &services[SERVICE_DCT], .scq = &cq, .rcq = &cq, .srq = &srq
	};
	struct tqp *q;

	check_eq(fork_init(), 0);
	stand_open();
	stand->n.epoch = stand->ctx.epoch = cq.epoch = srq.epoch = fork_epoch();
	stand->ctx.root = &stand->ctx;
	cq.ctx = &stand->ctx;
	srq.pd = &pd;
	pd = (struct pd){ .ctx = &stand->ctx, .base = &pd, .epoch = fork_epoch(), .holders = 1 };
	check_eq(mcast_table_create(&stand->n.mcast), 0);
	node_current = &stand->n;
	check_eq(dc_target_create(&pd, &attr, KEY, &q), 0);
	target = (struct dc_target *)to_eqp(q);
	q->qp.state = target->terms.state = IBV_QPS_RTR;
}

static void close_target(void)
{
	delivery_release();
	check_eq(qp_life_destroy(&target->e.q), 0);
	check_eq(pd.refs, 0);
	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++)
		free(stand->host.target[slot]);
	node_current = NULL;
	mcast_table_destroy(stand->n.mcast);
	stand_close();
}

/* The way to the process that has @slot, by which its segments come, too. */
static struct dest *process(unsigned int slot)
{
	struct target *t = stand->host.target[slot];

	if (t)
		return &t->d;
	check_eq(host_target(&stand->host, slot, false, &t), 0);
	t->d.ops = stand->peer.ops;
	t->d.process = slot;
	return &t->d;
}

static uint32_t initiator(uint32_t i)
{
	return number_make(SLOT, 100 + i);
}

static struct seg request(uint32_t from, uint32_t session)
{
	return (struct seg){ .op = OP_DC_CONNECT,
			     .flags = SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = target->e.q.qp.qpn,
			     .sqpn = from,
			     .psn = PSN,
			     .npsn = 1,
			     .va = KEY,
			     .rkey = session,
			     .dma_len = MTU,
			     .from = process(number_slot(from)) };
}

static void arrive(const struct seg *s)
{
	delivery_to_qp(&stand->n, s->dqpn, s);
	delivery_release();
}

static struct dc_responder *responder(uint32_t from)
{
	struct dc_entry *e = dc_table_find(&target->table, &(struct dc_from){ .qpn = from });

	assert_non_null(e);
	return container_of(e, struct dc_responder, entry);
}

/* From initiator @from, which hears that it is connected. */
static struct dc_responder *connect_from(uint32_t from, uint32_t session)
{
	struct seg s = request(from, session);
	unsigned int sent = stand->sent;

	arrive(&s);
	check_eq(stand->sent, sent + 1);
	check_eq(aeth_kind(stand->syndrome[sent]), AETH_ACK);
	check_eq(responder(from)->e.q.qp.state, IBV_QPS_RTR);
	check_eq(responder(from)->session, session);
	return responder(from);
}

/* Another thread, whose clock is a little ahead, has taken the last request. */
TEST(a_request_of_a_moment_later_is_no_silence)
{
	struct dc_responder *r;
	struct seg s;
	uint64_t now;

	open_target();
	r = connect_from(initiator(0), SESSION);
	now = r->e.q.rsp.now - 1;
	check(!dc_responder_idle(r, now));
	s = request(initiator(0), SESSION - 1); /* of an earlier connection: late */
	r->e.ops->input(&r->e, &s, now);
	check_eq(r->session, SESSION);
	check_eq(stand->sent, 1);
	close_target();
}

RUN_TESTS(unit_test(a_request_of_a_moment_later_is_no_silence))
