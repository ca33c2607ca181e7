// SPDX-License-Identifier: MIT
/* On one host: a peer that takes what is sent and does not answer, and when that is the end. */
#include "obs/explain.h"
#include "pair.h"
#include "transport/apm.h"

#define TIMEOUT	 (4096UL << 18) /* 1 s */
#define SHORTEST 2000000000UL /* ns: all tries together, however short the timeout */

static struct pair *open_pair(uint8_t timeout, uint8_t retry_cnt)
{
	struct rig_attr attr = rig_rc;

	attr.timeout = timeout;
	attr.retry_cnt = retry_cnt;
	return pair_open(&pair_host, &attr);
}

/* The peer answers nothing from now on. */
static void mute(struct pair *p)
{
	p->rig.net.cut = true;
}

static void post(struct pair *p, uint8_t op)
{
	struct rig_wr w = pair_remote(p, op, 0, 8);

	if (op == MLX5_OPCODE_SEND)
		w = pair_send(p->a, 0, 8);
	rig_post(p->a, &w);
}

static void fails(struct pair *p)
{
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, VENDOR_TRANSPORT_RETRY);
	check_eq(p->a->q.qp.state, IBV_QPS_ERR);
}

/* A look finds what is outstanding, and each of retry_cnt + 1 that follow uses up a try. */
TEST(silence_ends_after_about_timeout_times_retries)
{
	static const uint8_t ops[] = { MLX5_OPCODE_SEND, MLX5_OPCODE_RDMA_WRITE,
				       MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_ATOMIC_FA };
	char text[EXPLAIN_TEXT];

	for (uint8_t i = 0; i < 4; i++)
		for (uint8_t retries = 0; retries < 8; retries++) {
			struct pair *p = open_pair(18, retries);

			mute(p);
			post(p, ops[i]);
			rig_run(&p->rig);
			fails(p);
			check_eq(p->rig.net.now, (retries + 2U) * 4 * TIMEOUT);
			check_eq(p->rig.counters.v[COUNTER_LOCAL_ACK_TIMEOUT_ERR], retries + 1);
			check_eq(explain_last(text, sizeof(text)), 0);
			check(strstr(text, "its process takes what is sent, and answers nothing"));
			pair_close(p);
		}
}

TEST(short_timeouts_leave_time_for_a_busy_core)
{
	for (uint8_t retries = 0; retries < 8; retries++) {
		struct pair *p = open_pair(1, retries);

		mute(p);
		post(p, MLX5_OPCODE_RDMA_WRITE);
		rig_run_until(&p->rig, SHORTEST);
		pair_none(p->a, false);
		rig_run_until(&p->rig, 3 * SHORTEST);
		fails(p);
		pair_close(p);
	}
}

TEST(timeout_0_is_for_ever)
{
	struct pair *p = open_pair(0, 0);

	mute(p);
	post(p, MLX5_OPCODE_RDMA_WRITE);
	check_eq(p->a->q.watch_at, TQP_NEVER);
	rig_run(&p->rig);
	pair_none(p->a, false);
	pair_close(p);
}

/* In a debugger, or after ^Z. Its time begins when it goes on. */
TEST(a_peer_that_is_stopped_ends_nothing)
{
	struct pair *p = open_pair(8, 1);

	mute(p);
	p->rig.net.stopped = true;
	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_run_until(&p->rig, 1000 * SHORTEST);
	pair_none(p->a, false);
	check_eq(p->rig.counters.v[COUNTER_LOCAL_ACK_TIMEOUT_ERR], 0);
	p->rig.net.stopped = false;
	rig_run_until(&p->rig, 1000 * SHORTEST + SHORTEST / 2);
	pair_none(p->a, false);
	rig_run(&p->rig);
	fails(p);
	pair_close(p);
}

/* This process was stopped, or the machine slept: one late look is one look. */
TEST(a_look_that_is_late_counts_once)
{
	struct pair *p = open_pair(8, 7);

	mute(p);
	post(p, MLX5_OPCODE_RDMA_WRITE);
	p->rig.net.now = 1000 * SHORTEST;
	tqp_timer(&p->a->q, p->rig.net.now);
	tqp_timer(&p->a->q, p->rig.net.now);
	pair_none(p->a, false);
	rig_run_until(&p->rig, p->rig.net.now + SHORTEST / 2);
	pair_none(p->a, false);
	rig_run(&p->rig);
	fails(p);
	pair_close(p);
}

/* The answer was lost, as when the peer's own contact had ended: a try brings it. */
TEST(a_try_is_answered_and_all_tries_are_given_back)
{
	struct pair *p = open_pair(8, 2);

	for (int i = 0; i < 5; i++) {
		mute(p);
		post(p, i & 1 ? MLX5_OPCODE_RDMA_READ : MLX5_OPCODE_RDMA_WRITE);
		while (p->rig.counters.v[COUNTER_LOCAL_ACK_TIMEOUT_ERR] == (uint64_t)i)
			check(rig_step(&p->rig, TQP_NEVER - 1));
		pair_none(p->a, false);
		p->rig.net.cut = false;
		rig_run(&p->rig);
		pair_good(p->a, false);
	}
	pair_close(p);
}

/* Each look finds a message outstanding, but never the same: none uses up a try. */
TEST(progress_uses_up_no_try)
{
	struct pair *p = open_pair(8, 0);

	for (int i = 0; i < 100; i++) {
		post(p, MLX5_OPCODE_RDMA_WRITE);
		p->rig.net.now = p->a->q.watch_at; /* the look comes while it is on its way */
		tqp_timer(&p->a->q, p->rig.net.now);
		rig_run(&p->rig);
		pair_good(p->a, false);
		check_eq(p->rig.counters.v[COUNTER_LOCAL_ACK_TIMEOUT_ERR], 0);
	}
	pair_close(p);
}

TEST(without_work_it_sleeps)
{
	struct pair *p = open_pair(8, 7);
	unsigned int looks = 0;

	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_run(&p->rig);
	pair_good(p->a, false);
	for (; p->a->q.watch_at != TQP_NEVER; looks++) {
		p->rig.net.now = p->a->q.watch_at;
		tqp_timer(&p->a->q, p->rig.net.now);
	}
	check(looks > 1 && looks < 100);
	mute(p);
	post(p, MLX5_OPCODE_RDMA_WRITE);
	check_ne(p->a->q.watch_at, TQP_NEVER);
	rig_run(&p->rig);
	fails(p);
	pair_close(p);
}

/* A receiver that is not ready is there: its timer counts, and nothing else. */
TEST(rnr_uses_up_no_try_and_gives_them_back)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;

	attr.timeout = 8;
	attr.retry_cnt = 0;
	attr.min_rnr_timer = 0; /* 655 ms */
	p = pair_open(&pair_host, &attr);
	post(p, MLX5_OPCODE_SEND);
	rig_run_until(&p->rig, 100 * SHORTEST);
	pair_none(p->a, false);
	check_eq(p->rig.counters.v[COUNTER_LOCAL_ACK_TIMEOUT_ERR], 0);
	pair_receive(p->b, 0, 64);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

/* SQD waits for what is outstanding, and gets it. */
TEST(a_drain_ends_too)
{
	struct pair *p = open_pair(8, 1);

	mute(p);
	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_move(p->a, IBV_QPS_SQD);
	rig_run(&p->rig);
	fails(p);
	pair_close(p);
}

TEST(reset_ends_the_watch_and_a_new_life_begins_a_new_one)
{
	struct pair *p = open_pair(8, 0);
	struct rig_attr attr = rig_rc;

	attr.timeout = 8;
	attr.retry_cnt = 0;
	mute(p);
	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_run_until(&p->rig, SHORTEST + 1);
	rig_move(p->a, IBV_QPS_RESET);
	check_eq(p->a->q.watch_at, TQP_NEVER);
	rig_connect(p->a, &attr, p->b->q.qp.qpn);
	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_run_until(&p->rig, p->rig.net.now + 2 * SHORTEST - 1);
	pair_none(p->a, false);
	rig_run(&p->rig);
	fails(p);
	pair_close(p);
}

/* --- a way that is dead, and is there again --- */

static struct tqp_env with_again;
static struct net_end other_way; /* to the same peer */
static bool back; /* there is another way */

static bool again(struct tqp *q)
{
	check(q->dest->dead);
	if (!back)
		return false;
	q->dest->process = 7; /* the rig names it as the sender all the same */
	q->dest = &other_way.d;
	return true;
}

static struct pair *open_dead(uint8_t timeout)
{
	struct pair *p = open_pair(timeout, 7);

	back = false;
	with_again = *p->a->q.env;
	with_again.again = again;
	p->a->q.env = &with_again;
	other_way = p->a->end;
	other_way.d.process = 7;
	p->a->end.d.dead = true;
	p->a->end.refuse = ENETUNREACH;
	return p;
}

TEST(a_try_finds_the_way_that_is_there_again)
{
	struct pair *p = open_dead(18);

	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_run_until(&p->rig, TIMEOUT / 2);
	back = true;
	rig_run_until(&p->rig, 2 * TIMEOUT);
	pair_good(p->a, false);
	pair_close(p);
}

TEST(a_way_that_stays_dead_ends_in_time)
{
	struct pair *p = open_dead(18);

	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_run(&p->rig);
	fails(p);
	check_eq(p->rig.net.now, 8 * TIMEOUT);
	pair_close(p);
}

/* Whoever hears of it: what was outstanding on the old way goes out again, with timeout 0, too. */
TEST(news_of_the_peer_and_a_post_and_a_segment_find_it_too)
{
	enum { NEWS, POST, ANSWER, REQUEST, HOWS };

	for (int how = 0; how < HOWS; how++) {
		struct pair *p = open_dead(0);
		struct seg s = { .op = how == ANSWER ? OP_ACKNOWLEDGE : OP_WRITE_ONLY,
				 .flags = SEG_SQPN,
				 .pkey = 0xffff,
				 .dqpn = p->a->q.qp.qpn,
				 .sqpn = p->b->q.qp.qpn,
				 .psn = PSN_MASK, /* of an earlier try */
				 .npsn = 1,
				 .from = &other_way.d };

		post(p, MLX5_OPCODE_RDMA_WRITE);
		tqp_peer_dead(&p->a->q, p->rig.net.now);
		rig_run(&p->rig);
		pair_none(p->a, false);
		back = true;
		if (how == NEWS)
			tqp_peer_dead(&p->a->q, p->rig.net.now);
		else if (how == POST)
			post(p, MLX5_OPCODE_RDMA_WRITE);
		else
			tqp_input(&p->a->q, &s, p->rig.net.now);
		rig_run(&p->rig);
		pair_good(p->a, false);
		if (how == POST)
			pair_good(p->a, false);
		pair_close(p);
	}
}

/* --- a timeout that was 0, and is no more --- */

static void drain(struct pair *p, uint8_t timeout)
{
	rig_move(p->a, IBV_QPS_SQD);
	p->a->q.qp.attr.timeout = timeout;
	rig_move(p->a, IBV_QPS_SQD);
}

TEST(a_new_timeout_counts_for_what_is_sent_then)
{
	struct pair *p = open_pair(0, 0);

	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_run(&p->rig);
	pair_good(p->a, false);
	drain(p, 8);
	rig_move(p->a, IBV_QPS_RTS);
	mute(p);
	post(p, MLX5_OPCODE_RDMA_WRITE);
	rig_run(&p->rig);
	fails(p);
	pair_close(p);
}

TEST(a_new_timeout_counts_for_what_is_outstanding)
{
	for (int dead = 0; dead < 2; dead++) {
		struct pair *p = dead ? open_dead(0) : open_pair(0, 0);

		mute(p);
		post(p, MLX5_OPCODE_RDMA_WRITE);
		rig_run(&p->rig);
		pair_none(p->a, false);
		drain(p, 8);
		rig_run(&p->rig);
		fails(p);
		pair_close(p);
	}
}

TEST(the_other_path_has_a_timeout_of_its_own)
{
	struct pair *p = open_pair(0, 0);
	struct net_end other = p->a->end;
	struct tqp *q = &p->a->q;

	mute(p);
	post(p, MLX5_OPCODE_RDMA_WRITE);
	q->alternate = &other.d;
	q->qp.attr.alt_timeout = 8;
	q->qp.attr.path_mig_state = IBV_MIG_MIGRATED;
	apm_modified(q, IBV_MIG_ARMED, p->rig.net.now);
	rig_run(&p->rig);
	fails(p);
	q->dest = &p->a->end.d;
	q->alternate = NULL;
	pair_close(p);
}

RUN_TESTS(unit_test(silence_ends_after_about_timeout_times_retries),
	  unit_test(short_timeouts_leave_time_for_a_busy_core), unit_test(timeout_0_is_for_ever),
	  unit_test(a_peer_that_is_stopped_ends_nothing),
	  unit_test(a_look_that_is_late_counts_once),
	  unit_test(a_try_is_answered_and_all_tries_are_given_back),
	  unit_test(progress_uses_up_no_try), unit_test(without_work_it_sleeps),
	  unit_test(rnr_uses_up_no_try_and_gives_them_back), unit_test(a_drain_ends_too),
	  unit_test(reset_ends_the_watch_and_a_new_life_begins_a_new_one),
	  unit_test(a_try_finds_the_way_that_is_there_again),
	  unit_test(a_way_that_stays_dead_ends_in_time),
	  unit_test(news_of_the_peer_and_a_post_and_a_segment_find_it_too),
	  unit_test(a_new_timeout_counts_for_what_is_sent_then),
	  unit_test(a_new_timeout_counts_for_what_is_outstanding),
	  unit_test(the_other_path_has_a_timeout_of_its_own))
