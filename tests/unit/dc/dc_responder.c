// SPDX-License-Identifier: MIT
/* A target's ends of connections: which requests begin and end one. The target is on a node without
 * threads; initiators are numbers of other processes, whose answers are counted. */
#include "dc/dc_responder.h"
#include <errno.h>
#include "engine/delivery.h"
#include "engine/node_self.h"
#include "engine/path.h"
#include "engine/unanswered.h"
#include "hca/limits.h"
#include "hca/mcast.h"
#include "hca/pd.h"
#include "peers/host_target.h"
#include "unit/engine/stand.h"
#include "util/clock.h"
#include "util/fork.h"
#include "wire/aeth.h"
#include "wire/grh.h"

enum { KEY = 77, MTU = 1024, SESSION = 1000, PSN = 5, SLOT = STAND_SLOT + 1, PORT = 50000 };

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
			     .dc_session = session,
			     .dc_mtu = MTU,
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

static void end(uint32_t session, uint32_t to, uint32_t from, struct dest *by)
{
	struct seg s = request(from, session);

	s.dqpn = to;
	s.dc_mtu = 0;
	s.from = by;
	arrive(&s);
}

/* --- who begins and ends connections --- */

TEST(only_its_initiator_ends_a_connection)
{
	struct dc_responder *r;
	uint32_t from = initiator(0), qpn;

	open_target();
	r = connect_from(from, SESSION);
	qpn = r->e.q.qp.qpn;
	end(SESSION, qpn, from, process(SLOT + 1)); /* it lies */
	end(SESSION, qpn, initiator(1), process(SLOT)); /* another QP of the initiator's process */
	end(SESSION - 1, qpn, from, process(SLOT)); /* an earlier connection */
	check_eq(r->e.q.qp.state, IBV_QPS_RTR);
	end(SESSION, qpn, from, process(SLOT));
	check_eq(r->e.q.qp.state, IBV_QPS_RESET);
	end(SESSION, qpn, from, process(SLOT));
	connect_from(from, SESSION + 1);
	close_target();
}

/* By the number of a responder, which is no secret. */
TEST(a_connection_does_not_begin_without_the_access_key)
{
	struct dc_responder *r;
	struct seg s;

	open_target();
	r = connect_from(initiator(0), SESSION);
	s = request(initiator(0), SESSION + 1);
	s.dqpn = r->e.q.qp.qpn;
	s.psn = PSN + 100;
	s.va = KEY + 1;
	arrive(&s);
	check_eq(r->session, SESSION);
	check_eq(r->e.q.rsp.epsn, PSN);
	close_target();
}

/* Of a packet from the host at the other end of @path and UDP port @port */
static void through_network(struct seg *s, const struct dest_net *path, uint16_t port)
{
	static uint8_t area[GRH_LEN];
	struct grh g = { .next_hdr = GRH_NEXT_UDP };

	memcpy(g.sgid, path->remote.raw, sizeof(g.sgid));
	memcpy(g.dgid, path->local.raw, sizeof(g.dgid));
	grh_build(&g, area);
	s->flags |= SEG_NET;
	s->l3 = GRH_L3_IPV4;
	s->grh = area;
	s->sport = port;
}

/* The connection stands as if it had come by a network, from a host that is one of ours. */
TEST(another_user_of_the_initiators_host_ends_no_connection)
{
	static const struct dest_net path = {
		.local.raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
		.remote.raw = { [10] = 0xff, 0xff, 10, 0, 0, 2 },
	};
	struct dc_responder *r;
	struct seg s;

	open_target();
	r = connect_from(initiator(0), SESSION);
	stand->peer.net = &path;
	stand->peer.same_host = false;
	stand->peer.abilities = DEST_ONE_PORT;
	stand->peer.refs++;
	path_swap(&r->e, &stand->peer);
	s = request(initiator(0), SESSION);
	s.dqpn = r->e.q.qp.qpn;
	s.dc_mtu = 0;
	through_network(&s, &path, PORT);
	check(sender_admits(&r->e.q, &s, r->e.q.rsp.now));
	s.sport = PORT + 1;
	arrive(&s);
	check_eq(r->e.q.qp.state, IBV_QPS_RTR);
	s.sport = PORT;
	arrive(&s);
	check_eq(r->e.q.qp.state, IBV_QPS_RESET);
	close_target();
}

/* --- no request is dropped in silence: its sender on this host runs no timer --- */

/* Between the look-up and the responder's turn: the responder gets @s now. */
static void get(struct eqp *e, const struct seg *s)
{
	e->ops->input(e, s, clock_now());
}

static void told(unsigned int sent)
{
	check_eq(stand->sent, sent);
	check_eq(stand->syndrome[sent - 1], SYN_NO_RESPONDER);
}

TEST(a_target_that_leaves_RTR_meanwhile_tells_the_initiator)
{
	struct seg s = { 0 };
	struct eqp *e;

	open_target();
	s = request(initiator(0), SESSION);
	e = target->e.ops->find(&target->e, &s);
	check_eq(target->table.count, 1);
	target->terms.state = IBV_QPS_RESET;
	get(e, &s);
	told(1);
	stand->refuse = EAGAIN;
	get(e, &s);
	stand->refuse = 0;
	unanswered_tell(&stand->n);
	told(2);
	target->terms.state = IBV_QPS_RTR;
	connect_from(initiator(0), SESSION);
	close_target();
}

/* The table of a target that has all its connections. */
static void fill(void)
{
	target->table.count += LIMIT_DC_RESPONDERS - 1;
}

static void empty(void)
{
	target->table.count -= LIMIT_DC_RESPONDERS - 1;
}

TEST(an_initiator_whose_place_was_given_away_meanwhile_is_told)
{
	struct eqp *e;
	struct seg s;

	open_target();
	s = request(initiator(0), SESSION);
	e = target->e.ops->find(&target->e, &s);
	fill();
	check(to_eqp(&connect_from(initiator(1), SESSION)->e.q) == e);
	get(e, &s);
	told(2);
	empty();
	close_target();
}

/* The kernel refuses a contact, or the sender lies. */
TEST(an_initiator_to_which_no_path_leads_back_is_told)
{
	struct seg s;

	open_target();
	s = request(initiator(0), SESSION);
	s.from = process(SLOT + 1);
	arrive(&s); /* to a responder */
	told(1);
	s.va = KEY + 1;
	arrive(&s); /* to the target itself */
	told(2);
	close_target();
}

/* A connection that has ended, of another initiator that counts further, was in its place. */
TEST(the_sessions_of_two_initiators_are_not_compared)
{
	struct dc_responder *r;

	open_target();
	r = connect_from(initiator(1), 2 * SESSION);
	r->e.q.qp.state = IBV_QPS_ERR;
	fill();
	check(connect_from(initiator(0), SESSION) == r);
	empty();
	close_target();
}

/* --- time --- */

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
	told(2);
	close_target();
}

RUN_TESTS(unit_test(only_its_initiator_ends_a_connection),
	  unit_test(a_connection_does_not_begin_without_the_access_key),
	  unit_test(another_user_of_the_initiators_host_ends_no_connection),
	  unit_test(a_target_that_leaves_RTR_meanwhile_tells_the_initiator),
	  unit_test(an_initiator_whose_place_was_given_away_meanwhile_is_told),
	  unit_test(an_initiator_to_which_no_path_leads_back_is_told),
	  unit_test(the_sessions_of_two_initiators_are_not_compared),
	  unit_test(a_request_of_a_moment_later_is_no_silence))
