// SPDX-License-Identifier: MIT
/* When a requester on a network repeats, and when it gives up. */
#include "pair.h"

enum { DELAY = 100000 }; /* ns one way */
#define TIMEOUT (4096UL << 14) /* 67 ms */
#define QUICK	10000000UL /* ns: much longer than the path takes, much shorter than the timeout */

static const struct net_config ends[] = {
	{ .max_seg = 256, .delay = DELAY, .window = 32 },
	{ .max_seg = 256,
	  .delay = DELAY,
	  .window = 32,
	  .abilities = { DEST_REPORTS, DEST_REPORTS } },
};

static struct pair *open_pair(bool able, uint8_t timeout, uint8_t retry_cnt)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;

	attr.timeout = timeout;
	attr.retry_cnt = retry_cnt;
	p = pair_open(&ends[able], &attr);
	p->rig.net.now = 1; /* 0 is no time to a clock */
	return p;
}

/* One WRITE, so that the round trip is known. */
static void measure(struct pair *p)
{
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
}

TEST(what_is_lost_at_the_end_is_repeated_long_before_the_timeout)
{
	static const uint8_t ops[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ };

	for (int i = 0; i < 8; i++) {
		struct pair *p = open_pair(i & 1, 14, 0); /* not one try is used up */
		struct rig_wr w = pair_remote(p, ops[i >> 1 & 1], 0, 8);
		uint64_t from;

		measure(p);
		from = p->rig.net.now;
		p->rig.net.drop_at = p->rig.net.sent + (i & 4 ? 1 : 2); /* it, or its answer */
		rig_post(p->a, &w);
		rig_run_until(&p->rig, from + QUICK);
		pair_good(p->a, false);
		check_eq(p->rig.counters.v[COUNTER_ROCE_ADP_RETRANS], 1);
		check_eq(p->rig.counters.v[COUNTER_LOCAL_ACK_TIMEOUT_ERR], 0);
		pair_close(p);
	}
}

/* As long as the attributes say, whatever was repeated meanwhile: 1 + 2 + 4 + 4 … timeouts; 4 each
 * where the peer reports losses: with timeout 14 and retry_cnt 7 it may be stopped for 2 s. */
TEST(giving_up_takes_as_long_as_the_attributes_say)
{
	for (uint8_t retries = 0; retries < 8; retries++)
		for (int able = 0; able < 2; able++) {
			struct pair *p = open_pair(able, 14, retries);
			struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
			uint64_t from, tries = retries < 2 ? 1 + 2 * retries : 4 * retries - 1;

			if (able)
				tries = 4 * (retries + 1U);
			measure(p);
			from = p->rig.net.now;
			p->rig.net.cut = true;
			rig_post(p->a, &w);
			rig_run(&p->rig);
			pair_bad(p->a, false, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
				 VENDOR_TRANSPORT_RETRY);
			check_eq(p->rig.net.now - from, tries * TIMEOUT);
			check_eq(p->rig.counters.v[COUNTER_LOCAL_ACK_TIMEOUT_ERR], retries + 1);
			pair_close(p);
		}
}

/* Each wait is twice the one before, so that a jammed path is not jammed further. */
TEST(repeating_slows_down)
{
	struct pair *p = open_pair(true, 0, 7);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	unsigned int n;

	measure(p);
	n = p->n;
	p->rig.net.cut = true;
	rig_post(p->a, &w);
	rig_run_until(&p->rig, p->rig.net.now + 500000000);
	check(p->n - n > 5 && p->n - n < 12);
	for (unsigned int i = n + 2; i < p->n; i++)
		check_eq(p->at[i] - p->at[i - 1], 2 * (p->at[i - 1] - p->at[i - 2]));
	pair_close(p);
}

/* A timeout of 0 never gives up, but repeats. */
TEST(timeout_0_repeats_for_ever)
{
	for (int able = 0; able < 2; able++) {
		struct pair *p = open_pair(able, 0, 0);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

		p->rig.net.cut = true;
		rig_post(p->a, &w);
		rig_run_until(&p->rig, 100000000000);
		pair_none(p->a, false);
		p->rig.net.cut = false;
		rig_run(&p->rig);
		pair_good(p->a, false);
		pair_close(p);
	}
}

/* An RNR NAK is an answer: waiting for the receive uses up no try, however long it is. */
TEST(rnr_uses_up_no_try)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;
	struct rig_wr w;

	attr.timeout = 8;
	attr.retry_cnt = 0;
	attr.min_rnr_timer = 0; /* 655 ms */
	p = pair_open(&ends[1], &attr);
	w = pair_send(p->a, 0, 8);
	rig_post(p->a, &w);
	rig_run_until(&p->rig, 1000000);
	pair_receive(p->b, 0x4000, 8);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

/* A peer that is not ready is there: tries that were used up before it said so are given back. */
TEST(rnr_gives_the_tries_back)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;
	struct rig_wr w;

	attr.timeout = 8;
	attr.retry_cnt = 3;
	attr.min_rnr_timer = 0;
	p = pair_open(&ends[1], &attr);
	w = pair_send(p->a, 0, 8);
	p->rig.net.cut = true;
	rig_post(p->a, &w);
	while (p->a->q.req.tries.left > 1)
		rig_step(&p->rig, TQP_NEVER - 1);
	p->rig.net.cut = false;
	while (p->a->q.req.wait != WAIT_RNR)
		rig_step(&p->rig, TQP_NEVER - 1);
	check_eq(p->a->q.req.tries.left, 3);
	pair_receive(p->b, 0x4000, 8);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

/* Sequence NAKs are no tries either: the same packet may be lost many times in a row. */
TEST(a_packet_may_be_lost_more_often_than_retry_cnt)
{
	for (int able = 0; able < 2; able++) {
		struct pair *p = open_pair(able, 14, 0);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8 * 256);
		unsigned int first = 0;

		measure(p);
		for (int i = 0; i < 4; i++) {
			p->rig.net.drop_at = p->rig.net.sent + 1; /* the first that goes out next */
			if (!i)
				rig_post(p->a, &w);
			rig_run_until(&p->rig, p->rig.net.now + 2 * DELAY);
		}
		rig_run(&p->rig);
		pair_good(p->a, false);
		for (unsigned int i = 0; i < p->n; i++)
			first += p->log[i].psn == 1 && p->log[i].dqpn == p->b->q.qp.qpn;
		check(first > 1);
		pair_close(p);
	}
}

/* An answer to what was sent twice says nothing about the path (Karn). */
TEST(only_what_was_sent_once_is_measured)
{
	struct pair *p = open_pair(true, 14, 7);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	uint64_t mean;

	for (int i = 0; i < 50; i++)
		measure(p);
	mean = p->a->q.req.rtt.mean;
	check(mean >= 2 * DELAY - 8 && mean <= 2 * DELAY);
	p->rig.net.drop_at = p->rig.net.sent + 1;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(p->a->q.req.rtt.mean, mean);
	pair_close(p);
}

RUN_TESTS(unit_test(what_is_lost_at_the_end_is_repeated_long_before_the_timeout),
	  unit_test(giving_up_takes_as_long_as_the_attributes_say), unit_test(repeating_slows_down),
	  unit_test(timeout_0_repeats_for_ever), unit_test(rnr_uses_up_no_try),
	  unit_test(rnr_gives_the_tries_back),
	  unit_test(a_packet_may_be_lost_more_often_than_retry_cnt),
	  unit_test(only_what_was_sent_once_is_measured))
