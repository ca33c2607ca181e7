// SPDX-License-Identifier: MIT
/* Loss between an XRC sender and two members of a domain, both of which report: what a member keeps
 * is its own, and neither the death of a member nor another one's work leaves a message out. */
#include "pair.h"
#include "transport/hold.h"
#include "transport/xrc.h"

enum { MTU = 256, WINDOW = 32, LEN = 64 << 10, PACKETS = LEN / MTU, SRQS = 3, SLOTS = 8 };
enum { BUFFERS = 0x10000, BUFFER = 0x100 }; /* of an SRQ, in its member's memory */

struct member {
	struct rig_qp *p;
	unsigned int deaths; /* that are to come, each when it has heard @dies_with segments */
	unsigned int dies_with, heard;
};

struct domain {
	struct pair pair; /* a: the sender; b: member 0 */
	struct member member[2];
	struct member *last; /* who had the turn */
	struct xrc_state state;
	struct srq *srq[SRQS]; /* 0 and 1 are member 0's, 2 is member 1's */
	uint8_t ring[SRQS][SLOTS * 32];
	uint32_t rec[SRQS];
};

static struct net_config both = {
	.max_seg = MTU, .delay = 1000, .window = WINDOW, .abilities = { DEST_REPORTS, DEST_REPORTS }
};

static struct domain *domain; /* of the test that runs */

static bool serve(struct tqp *q, uint32_t srqn)
{
	xrc_bind(q, srqn < SRQS ? domain->srq[srqn] : NULL);
	return q->qp.srq;
}

static struct tqp_env env;

/* It was killed, and another process has its SRQs' numbers now. */
static void die(struct member *m)
{
	m->deaths--;
	m->heard = 0;
	hold_forget(&m->p->q);
	domain->last = NULL;
}

/* As the engine: xrc/xrc_responder.c. */
static void work(struct member *m, struct seg *s, uint64_t now)
{
	struct tqp *q = &m->p->q;

	if (domain->last != m)
		check_eq(xrc_load(q, &domain->state, false, now), 0);
	domain->last = m;
	s->from = q->dest;
	serve(q, s->srqn);
	tqp_input(q, s, now);
	xrc_store(q, &domain->state);
	tqp_release(q);
	if (++m->heard == m->dies_with && m->deaths)
		die(m);
}

static void deliver(void *arg, uint32_t qpn, struct seg *s, uint64_t now)
{
	struct pair *p = &domain->pair;

	(void)arg;
	if (qpn == p->a->q.qp.qpn) {
		s->from = &p->a->end.d;
		tqp_input(&p->a->q, s, now);
	} else {
		work(&domain->member[s->srqn == SRQS - 1], s, now);
	}
}

static struct rig_qp *open_member(struct rig *r)
{
	struct rig_qp *p = rig_qp_open(r, &rig_rc, 0x77);

	p->q.qp.service = &services[SERVICE_XRC_RECV];
	p->q.env = &env;
	return p;
}

/* Its receives: from BUFFERS on, SRQ after SRQ. */
static void open_srq(struct domain *d, unsigned int i, struct rig_qp *p)
{
	struct srq_attr attr = { .ring = { d->ring[i], SLOTS, 32, &d->rec[i] },
				 .max_wr = SLOTS,
				 .max_sge = 1 };

	for (unsigned int k = 0; k < SLOTS; k++) {
		struct sge s = rig_sge(p, BUFFERS + (i * SLOTS + k) * BUFFER, BUFFER);

		d->ring[i][k * 32 + 3] = (uint8_t)((k + 1) % SLOTS); /* next_wqe_index */
		rig_put_sge((struct rig_ds *)&d->ring[i][k * 32 + 16], &s);
	}
	d->rec[i] = htobe32(SLOTS);
	check_eq(srq_create(p->pd, &attr, &d->srq[i]), 0);
	d->srq[i]->cq = p->cqs[1];
}

static struct domain *open_domain(const struct net_config *cfg, uint64_t seed)
{
	struct domain *d = domain = calloc(1, sizeof(*d));
	struct pair *p = &d->pair;
	struct rig_attr attr = rig_rc;

	assert_non_null(d);
	attr.timeout = 10;
	env = rig_env;
	env.serve = serve;
	rig_open(&p->rig, cfg, seed);
	p->rig.net.deliver = deliver;
	p->rig.net.watch = pair_watch;
	p->rig.net.watch_arg = p;
	p->a = rig_qp_open(&p->rig, &attr, 0x11);
	p->a->q.qp.service = &services[SERVICE_XRC_SEND];
	for (unsigned int i = 0; i < 2; i++)
		d->member[i].p = open_member(&p->rig);
	p->b = d->member[0].p;
	d->member[1].p->q.qp.qpn = p->b->q.qp.qpn;
	rig_connect(p->a, &attr, p->b->q.qp.qpn);
	for (unsigned int i = 0; i < 2; i++)
		rig_connect(d->member[i].p, &attr, p->a->q.qp.qpn);
	for (unsigned int i = 0; i < SRQS; i++)
		open_srq(d, i, d->member[i == SRQS - 1].p);
	xrc_store_attr(&p->b->q, &d->state);
	return d;
}

static void close_domain(struct domain *d)
{
	for (unsigned int i = 0; i < SRQS; i++)
		if (d->srq[i])
			check_eq(srq_destroy(d->srq[i]), 0);
	for (unsigned int i = 0; i < 2; i++)
		d->member[i].p->q.qp.srq = NULL;
	rig_close(&d->pair.rig);
	free(d);
}

static void drop_next(struct domain *d, uint64_t n)
{
	d->pair.rig.net.drop_at = d->pair.rig.net.sent + n;
}

static unsigned int requests(const struct domain *d)
{
	const struct pair *p = &d->pair;
	unsigned int n = 0;

	for (unsigned int i = 0; i < p->n; i++)
		n += p->log[i].dqpn == p->b->q.qp.qpn;
	return n;
}

static unsigned int reports(const struct domain *d)
{
	const struct pair *p = &d->pair;
	unsigned int n = 0;

	for (unsigned int i = 0; i < p->n; i++)
		n += p->log[i].op == OP_REPORT;
	return n;
}

TEST(one_lost_packet_is_one_packet_again)
{
	for (unsigned int lost = 1; lost < 16; lost++) {
		struct domain *d = open_domain(&both, 1);
		struct pair *p = &d->pair;
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 16 * MTU);

		drop_next(d, lost);
		rig_post(p->a, &w);
		rig_run_until(&p->rig, 20000);
		pair_good(p->a, false);
		check_eq(requests(d), 17);
		check(reports(d) > 0);
		check_mem(p->b->mem + 0x8000, p->a->mem, 16 * MTU);
		check_eq(p->rig.counters.v[COUNTER_PACKET_SEQ_ERR], 0);
		close_domain(d);
	}
}

TEST(one_lost_response_is_one_response_again)
{
	for (unsigned int lost = 2; lost < 17; lost++) {
		struct domain *d = open_domain(&both, 1);
		struct pair *p = &d->pair;
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 16 * MTU);

		drop_next(d, lost);
		rig_post(p->a, &w);
		rig_run_until(&p->rig, 20000);
		pair_good(p->a, false);
		check_eq(p->n, 19);
		check_mem(p->a->mem, p->b->mem + 0x8000, 16 * MTU);
		close_domain(d);
	}
}

/* A SEND to each of two SRQs of one member in turn. */
static void post_sends(struct domain *d, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct rig_wr w = pair_send(d->pair.a, i * BUFFER, 32 + i);

		w.srqn = i % 2;
		rig_post(d->pair.a, &w);
	}
}

TEST(what_was_held_goes_to_the_srq_that_it_names)
{
	struct domain *d = open_domain(&both, 1);
	struct pair *p = &d->pair;

	drop_next(d, 1);
	post_sends(d, 8);
	rig_run_until(&p->rig, 20000);
	check_eq(requests(d), 9);
	for (unsigned int i = 0; i < 8; i++) {
		check_eq(pair_good(p->b, true).byte_cnt, 32 + i);
		check_mem(p->b->mem + BUFFERS + (i % 2 * SLOTS + i / 2) * BUFFER,
			  p->a->mem + i * BUFFER, 32 + i);
	}
	close_domain(d);
}

/* All of it leaves when the member has given the domain's turn back. */
TEST(a_gap_that_fills_is_one_answer)
{
	struct domain *d = open_domain(&both, 1);
	struct pair *p = &d->pair;
	unsigned int acks = 0;

	drop_next(d, 1);
	post_sends(d, 8);
	rig_run_until(&p->rig, 20000);
	for (unsigned int i = 0; i < p->n; i++)
		acks += p->log[i].op == (OP_ACKNOWLEDGE | SVC_XRC);
	check_eq(acks, 1);
	close_domain(d);
}

static uint64_t timeouts(const struct domain *d)
{
	const uint64_t *v = d->pair.rig.counters.v;

	return v[COUNTER_ROCE_ADP_RETRANS] + v[COUNTER_LOCAL_ACK_TIMEOUT_ERR];
}

/* It told that it holds what nobody has any more: that goes out again, once, and no time passes. */
TEST(what_a_dead_member_held_is_sent_again)
{
	for (unsigned int with = 9; with < 16; with++) {
		struct domain *d = open_domain(&both, 1);
		struct pair *p = &d->pair;
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 16 * MTU);

		d->member[0].deaths = 1;
		d->member[0].dies_with = with;
		drop_next(d, 1);
		rig_post(p->a, &w);
		rig_run(&p->rig);
		pair_good(p->a, false);
		check_mem(p->b->mem + 0x8000, p->a->mem, 16 * MTU);
		check_eq(requests(d), 1 + 16 + with);
		check_eq(timeouts(d), 0);
		close_domain(d);
	}
}

/* An ACK does not say whether a READ is missing: what it says is known when time has passed. */
TEST(what_a_dead_member_held_is_not_taken_for_held_for_ever)
{
	struct domain *d = open_domain(&both, 1);
	struct pair *p = &d->pair;
	struct rig_wr write = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct rig_wr read = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0x1000, 4 * MTU);

	d->member[0].deaths = 1;
	d->member[0].dies_with = 3;
	drop_next(d, 1);
	rig_post(p->a, &write);
	rig_post(p->a, &read);
	rig_post(p->a, &write);
	rig_post(p->a, &write);
	rig_run(&p->rig);
	for (unsigned int i = 0; i < 4; i++)
		pair_good(p->a, false);
	check(timeouts(d) > 0);
	check_mem(p->a->mem + 0x1000, p->b->mem + 0x8000, 4 * MTU);
	close_domain(d);
}

/* Whatever is lost, doubled or late, and however often what was held is lost, too. */
TEST(everything_gets_across_though_members_die)
{
	struct net_config cfg = both;

	cfg.loss = 0.05;
	cfg.late = cfg.dup = 0.02;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct domain *d = open_domain(&cfg, seed);
		struct pair *p = &d->pair;
		bool read = seed % 2;
		struct rig_wr w = pair_remote(
			p, read ? MLX5_OPCODE_RDMA_READ : MLX5_OPCODE_RDMA_WRITE, 0, LEN / 2);

		d->member[0].deaths = 100;
		d->member[0].dies_with = 5 + seed % 40;
		rig_post(p->a, &w);
		rig_post(p->a, &w);
		rig_run(&p->rig);
		pair_good(p->a, false);
		pair_good(p->a, false);
		check_mem(read ? p->a->mem : p->b->mem + 0x8000,
			  read ? p->b->mem + 0x8000 : p->a->mem, LEN / 2);
		close_domain(d);
	}
}

static void inject(struct domain *d, struct member *m, struct seg s)
{
	struct pair *p = &d->pair;

	s.op |= SVC_XRC;
	s.flags |= SEG_ACKREQ;
	s.pkey = 0xffff;
	s.dqpn = p->b->q.qp.qpn;
	s.npsn = 1;
	s.rkey = m->p->mr->ib.rkey;
	s.va = RIG_IOVA;
	work(m, &s, p->rig.net.now);
}

/* What only a wrong sender does: two members at once. The one that is behind has nothing left that
 * it could execute in the wrong place. */
TEST(what_another_member_has_passed_is_dropped)
{
	struct domain *d = open_domain(&both, 1);
	struct member *one = &d->member[0], *other = &d->member[1];
	uint8_t byte = 0xee, before = one->p->mem[0];

	inject(d, one,
	       (struct seg){
		       .op = OP_WRITE_ONLY, .psn = 1, .len = 1, .dma_len = 1, .data = &byte });
	check(hold_any(&one->p->q));
	inject(d, other, (struct seg){ .op = OP_WRITE_ONLY, .psn = 0, .srqn = 2 });
	inject(d, other, (struct seg){ .op = OP_WRITE_ONLY, .psn = 1, .srqn = 2 });
	check_eq(d->state.epsn, 2);
	inject(d, one, (struct seg){ .op = OP_WRITE_ONLY, .psn = 2 });
	check_eq(d->state.epsn, 3);
	check(!hold_any(&one->p->q));
	check_eq(one->p->mem[0], before);
	close_domain(d);
}

/* The SRQ is destroyed while a SEND to it waits for a gap: its sender hears what it would hear of
 * one that comes then. */
TEST(a_held_request_for_an_srq_that_is_gone_is_refused)
{
	struct domain *d = open_domain(&both, 1);
	struct pair *p = &d->pair;

	drop_next(d, 1);
	post_sends(d, 3);
	while (!hold_any(&p->b->q))
		check(rig_step(&p->rig, TQP_NEVER - 1));
	p->b->q.qp.srq = NULL;
	check_eq(srq_destroy(d->srq[1]), 0);
	d->srq[1] = NULL;
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, 0x8a);
	check_eq(pair_good(p->b, true).byte_cnt, 32);
	check_eq(d->state.state, IBV_QPS_ERR);
	close_domain(d);
}

TEST(a_target_takes_no_report)
{
	struct domain *d = open_domain(&both, 1);
	struct pair *p = &d->pair;
	uint8_t bits[REPORT_MAX];
	struct seg s = { .op = OP_REPORT,
			 .pkey = 0xffff,
			 .dqpn = p->b->q.qp.qpn,
			 .npsn = 1,
			 .len = sizeof(bits),
			 .data = bits };

	memset(bits, 0xff, sizeof(bits));
	work(&d->member[0], &s, p->rig.net.now);
	check_eq(p->rig.counters.v[COUNTER_PORT_RCV_ERRORS], 1);
	check_eq(p->n, 0);
	close_domain(d);
}

/* How many packets too many it costs, and how many were lost. */
static uint64_t extra(uint8_t op, double loss, uint64_t seed, uint64_t *lost)
{
	struct net_config cfg = both;
	bool read = op == MLX5_OPCODE_RDMA_READ;
	struct domain *d;
	struct pair *p;
	struct rig_wr w;
	uint64_t sent;

	cfg.loss = loss;
	d = open_domain(&cfg, seed);
	p = &d->pair;
	w = pair_remote(p, op, 0, LEN);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_mem(read ? p->a->mem : p->b->mem + 0x8000, read ? p->b->mem + 0x8000 : p->a->mem,
		  LEN);
	*lost += p->rig.net.lost_payloads;
	sent = p->rig.net.payloads;
	close_domain(d);
	return sent - PACKETS;
}

TEST(what_is_lost_costs_little_more_than_itself)
{
	static const uint8_t ops[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ };
	static const double rates[] = { 0.01, 0.05, 0.2 };

	for (unsigned int i = 0; i < 6; i++) {
		uint64_t lost = 0, more = 0;

		for (uint64_t seed = 1; seed <= 30; seed++)
			more += extra(ops[i % 2], rates[i / 2], seed, &lost);
		print_message("opcode %u, loss %.0f %%: %lu lost, %lu packets more\n", ops[i % 2],
			      rates[i / 2] * 100, (unsigned long)lost, (unsigned long)more);
		check(lost > 0 && more * 20 <= lost * 21);
	}
}

RUN_TESTS(unit_test(one_lost_packet_is_one_packet_again),
	  unit_test(one_lost_response_is_one_response_again),
	  unit_test(what_was_held_goes_to_the_srq_that_it_names),
	  unit_test(a_gap_that_fills_is_one_answer),
	  unit_test(what_a_dead_member_held_is_sent_again),
	  unit_test(what_a_dead_member_held_is_not_taken_for_held_for_ever),
	  unit_test(everything_gets_across_though_members_die),
	  unit_test(what_another_member_has_passed_is_dropped),
	  unit_test(a_held_request_for_an_srq_that_is_gone_is_refused),
	  unit_test(a_target_takes_no_report),
	  unit_test(what_is_lost_costs_little_more_than_itself))
