// SPDX-License-Identifier: MIT
/* What a QP keeps on its way through a network that is lossy, crowded, or both. */
#include "pair.h"
#include "link/seg_pkt.h"

enum { MTU = 256, LEN = 64 << 10, SENDERS = 4, SLOT = 1000 };
#define SPAN 50000000UL /* ns */

static const struct net_config wide = { .max_seg = MTU,
					.delay = 20000,
					.window = 128,
					.slot = 100,
					.queue = 1 << 20,
					.abilities = { DEST_REPORTS, DEST_REPORTS } };

static struct rig_attr attributes(void)
{
	struct rig_attr attr = rig_rc;

	attr.timeout = 14;
	return attr;
}

/* ns for 32 messages. */
static uint64_t takes(uint8_t op, double loss, uint64_t seed)
{
	struct net_config cfg = wide;
	struct rig_attr attr = attributes();
	struct pair *p;
	uint64_t ns = 0;

	cfg.loss = loss;
	p = pair_open(&cfg, &attr);
	rand_init(&p->rig.net.rand, seed);
	p->rig.net.now = 1;
	for (int i = 0; i < 32; i++) {
		struct rig_wr w = pair_remote(p, op, 0, LEN);

		rig_post(p->a, &w);
	}
	for (unsigned int done = 0; done < 32;) {
		struct cqe c;

		check(rig_step(&p->rig, TQP_NEVER - 1));
		while (rig_poll(p->a, false, &c)) {
			check_eq(c.opcode, MLX5_CQE_REQ);
			done++;
		}
		ns = p->rig.net.now;
	}
	pair_close(p);
	return ns;
}

TEST(random_loss_keeps_half_of_the_bandwidth)
{
	static const uint8_t ops[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ };

	for (int i = 0; i < 2; i++) {
		uint64_t without = takes(ops[i], 0, 1), with = 0;

		for (uint64_t seed = 1; seed <= 10; seed++)
			with += takes(ops[i], 0.01, seed);
		print_message("opcode %u: %lu ns, with 1 %% loss %lu ns\n", ops[i],
			      (unsigned long)without, (unsigned long)with / 10);
		check(with < 2 * 10 * without);
	}
}

struct crowd {
	struct rig rig;
	struct rig_qp *from[SENDERS], *to[SENDERS];
	uint64_t packets[SENDERS];
};

static void post(struct crowd *c, int i)
{
	struct rig_wr w = { .op = MLX5_OPCODE_RDMA_WRITE,
			    .nsge = 1,
			    .sge = { rig_sge(c->from[i], 0, LEN / 16) },
			    .signaled = true,
			    .rkey = c->to[i]->mr->ib.rkey,
			    .raddr = RIG_IOVA };

	rig_post(c->from[i], &w);
}

static struct crowd *gather_crowd(const struct net_config *cfg)
{
	struct crowd *c = calloc(1, sizeof(*c));
	struct rig_attr attr = attributes();

	assert_non_null(c);
	rig_open(&c->rig, cfg, 1);
	c->rig.net.now = 1;
	for (int i = 0; i < SENDERS; i++) {
		c->from[i] = rig_qp_open(&c->rig, &attr, 1);
		c->to[i] = rig_qp_open(&c->rig, &attr, 2);
		rig_connect(c->from[i], &attr, c->to[i]->q.qp.qpn);
		rig_connect(c->to[i], &attr, c->from[i]->q.qp.qpn);
	}
	return c;
}

/* All send as much as they can; the one after the other begins. */
static void run(struct crowd *c)
{
	for (int i = 0; i < SENDERS; i++) {
		for (int k = 0; k < 16; k++)
			post(c, i);
		rig_run_until(&c->rig, c->rig.net.now + 1000000);
	}
	while (rig_step(&c->rig, SPAN))
		for (int i = 0; i < SENDERS; i++) {
			struct cqe done;

			while (rig_poll(c->from[i], false, &done)) {
				check_eq(done.opcode, MLX5_CQE_REQ);
				c->packets[i] += c->rig.net.now > SPAN / 5 ? LEN / 16 / MTU : 0;
				post(c, i);
			}
		}
}

static void shares(uint32_t queue, uint32_t mark)
{
	struct net_config cfg = wide;
	uint64_t all = 0, most = 0, least = UINT64_MAX;
	struct crowd *c;

	cfg.slot = SLOT;
	cfg.queue = queue;
	cfg.mark = mark;
	c = gather_crowd(&cfg);
	run(c);
	for (int i = 0; i < SENDERS; i++) {
		all += c->packets[i];
		most = c->packets[i] > most ? c->packets[i] : most;
		least = c->packets[i] < least ? c->packets[i] : least;
	}
	print_message("queue %u, marked from %u: %lu of %lu packets, %lu to %lu each; %lu of %lu "
		      "found it full, %lu CNPs\n",
		      queue, mark, (unsigned long)all, SPAN / 5 * 4 / SLOT, (unsigned long)least,
		      (unsigned long)most, (unsigned long)c->rig.net.overflows,
		      (unsigned long)c->rig.net.payloads,
		      (unsigned long)c->rig.counters.v[COUNTER_RP_CNP_HANDLED]);
	check(all * SLOT > SPAN / 5 * 4 / 10 * 8);
	check(most * SENDERS * 10 < all * 12 && least * SENDERS * 10 > all * 8);
	check(c->rig.net.overflows * 5 < c->rig.net.payloads);
	rig_close(&c->rig);
	free(c);
}

TEST(four_senders_share_what_they_have)
{
	shares(1 << 20, 0);
	shares(256, 0);
	shares(64, 0);
	shares(256, 32);
}

/* How many leave before the first answer of 100 packets that are posted after @pause. */
static unsigned int burst(struct pair *p, uint64_t pause)
{
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 100 * MTU);
	unsigned int n = 0;

	p->rig.net.now += pause;
	p->n = 0;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	while (n < p->n && p->at[n] == p->at[0])
		n++;
	return n;
}

/* The ACKs are the clock; after a pause there are none to pace what leaves. */
TEST(a_large_window_does_not_leave_at_once_after_a_pause)
{
	struct rig_attr attr = attributes();
	struct pair *p = pair_open(&wide, &attr);

	p->rig.net.now = 1;
	check_eq(burst(p, 0), 32);
	for (int i = 0; i < 4; i++)
		burst(p, 0);
	check_eq(p->a->q.req.cc.window, 128);
	check_eq(burst(p, 5000000), 100);
	check_eq(burst(p, 11000000), 32);
	check(p->a->q.req.cc.window > 64); /* slow start again */
	pair_close(p);
}

/* Marked packets make CNPs, one in 50 us; each halves the window, once in a round trip. */
TEST(marks_are_told_and_heeded)
{
	struct net_config cfg = wide;
	struct rig_attr attr = attributes();
	struct pair *p;
	struct rig_wr w;
	uint64_t last = 0;
	struct pkt pkt;

	cfg.mark = 1;
	p = pair_open(&cfg, &attr);
	p->rig.net.now = 1;
	w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 32 * MTU);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(p->rig.counters.v[COUNTER_NP_ECN_MARKED_ROCE_PACKETS], 31);
	check_eq(p->rig.counters.v[COUNTER_NP_CNP_SENT], 1);
	check_eq(p->rig.counters.v[COUNTER_RP_CNP_HANDLED], 1);
	check_eq(p->a->q.req.cc.window, 16);
	for (int i = 0; i < 8; i++)
		rig_post(p->a, &w);
	rig_run(&p->rig);
	for (unsigned int i = 0; i < p->n; i++) {
		if (p->log[i].op != OP_CNP)
			continue;
		seg_to_pkt(&p->log[i], &pkt);
		check(pkt.becn && pkt.payload_len == 16 && !pkt.psn);
		check_eq(p->log[i].dqpn, p->a->q.qp.qpn);
		check(!last || p->at[i] - last >= 50000);
		last = p->at[i];
	}
	check(p->a->q.req.cc.window >= 2 && p->a->q.req.cc.window < 32);
	pair_close(p);
}

/* A marked response was asked for by whoever gets it. */
TEST(marked_responses_shrink_what_is_asked_for)
{
	struct net_config cfg = wide;
	struct rig_attr attr = attributes();
	struct pair *p;
	struct rig_wr w;

	cfg.mark = 1;
	p = pair_open(&cfg, &attr);
	p->rig.net.now = 1;
	w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 8 * MTU);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check(p->a->q.req.cc.window < 32);
	check_eq(p->b->q.req.cc.window, 16); /* it has heard, too */
	pair_close(p);
}

/* Nobody else may slow a QP down, and a UD QP has nothing to slow down. */
TEST(a_cnp_for_a_datagram_qp_is_dropped)
{
	struct rig_attr attr = attributes();
	struct seg s = { .op = OP_CNP, .pkey = 0xffff, .npsn = 1, .len = 16 };
	struct pair *p;

	attr.type = IBV_QPT_UD;
	p = pair_open(&wide, &attr);
	s.dqpn = p->a->q.qp.qpn;
	tqp_input(&p->a->q, &s, 1);
	check_eq(p->rig.counters.v[COUNTER_RP_CNP_HANDLED], 0);
	check_eq(p->rig.counters.v[COUNTER_PORT_RCV_ERRORS], 1);
	pair_close(p);
}

RUN_TESTS(unit_test(random_loss_keeps_half_of_the_bandwidth),
	  unit_test(four_senders_share_what_they_have),
	  unit_test(a_large_window_does_not_leave_at_once_after_a_pause),
	  unit_test(marks_are_told_and_heeded),
	  unit_test(marked_responses_shrink_what_is_asked_for),
	  unit_test(a_cnp_for_a_datagram_qp_is_dropped))
