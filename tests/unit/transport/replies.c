// SPDX-License-Identifier: MIT
/* Through a network, the ACK of a message waits for the program's reply where message after
 * message was replied to, and leaves with it; where none comes it waits no longer than it may. */
#include "pair.h"

enum { LEARNT = 3 /* replies */ };

static const struct net_config network = { .max_seg = 256, .delay = 1000, .window = 16 };

static void send(struct rig_qp *from, uint32_t len)
{
	struct rig_wr w = pair_send(from, 0, len);

	rig_post(from, &w);
}

/* One message there and one back, each when the other has come. */
static void exchange(struct pair *p)
{
	pair_receive(p->a, 0x1000, 512);
	pair_receive(p->b, 0x1000, 512);
	send(p->a, 8);
	while (rig_step(&p->rig, TQP_NEVER - 1) && !p->b->q.rsp.unreplied)
		;
	pair_good(p->b, true);
	send(p->b, 8);
	while (rig_step(&p->rig, TQP_NEVER - 1) && !p->a->q.rsp.unreplied)
		;
	pair_good(p->a, true);
}

static struct pair *open_learnt(void)
{
	struct pair *p = pair_open(&network, &rig_rc);

	for (int i = 0; i < LEARNT; i++)
		exchange(p);
	return p;
}

/* The place in the record of the newest segment of the kind from @from; PAIR_LOG: none. */
static unsigned int newest(const struct pair *p, const struct rig_qp *to, uint8_t op)
{
	for (unsigned int i = p->n; i-- > 0;)
		if (p->log[i].dqpn == to->q.qp.qpn && opcode_operation(p->log[i].op) == op)
			return i;
	return PAIR_LOG;
}

/* Who gets the reply may take its own message for complete. */
TEST(it_leaves_before_a_reply_that_completes)
{
	struct pair *p = open_learnt();

	check_eq(p->b->ack_delay, 0);
	rig_run(&p->rig);
	p->n = 0;
	exchange(p);
	check_eq(p->b->ack_delay, 1);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 1);
	check_eq(newest(p, p->a, OP_ACKNOWLEDGE) + 1, newest(p, p->a, OP_SEND_ONLY));
	check_eq(p->at[newest(p, p->a, OP_ACKNOWLEDGE)], p->at[newest(p, p->a, OP_SEND_ONLY)]);
	rig_run(&p->rig);
	for (int i = 0; i < LEARNT + 1; i++) {
		pair_good(p->a, false);
		pair_good(p->b, false);
	}
	pair_none(p->a, false);
	pair_none(p->b, false);
	pair_close(p);
}

/* Nothing tells of a WRITE: whoever looks for it polls for its own message until then. */
TEST(it_leaves_behind_a_write)
{
	struct pair *p = open_learnt();
	struct rig_wr w = { .op = MLX5_OPCODE_RDMA_WRITE,
			    .nsge = 1,
			    .sge = { rig_sge(p->b, 0, 8) },
			    .signaled = true,
			    .rkey = p->a->mr->ib.rkey,
			    .raddr = RIG_IOVA + 0x8000 };

	rig_run(&p->rig);
	p->n = 0;
	pair_receive(p->b, 0x1000, 512);
	send(p->a, 8);
	while (rig_step(&p->rig, TQP_NEVER - 1) && !p->b->q.rsp.unreplied)
		;
	rig_post(p->b, &w);
	check_eq(p->b->ack_delay, 1);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 1);
	check_eq(newest(p, p->a, OP_ACKNOWLEDGE), newest(p, p->a, OP_WRITE_ONLY) + 1);
	check_eq(p->at[newest(p, p->a, OP_ACKNOWLEDGE)], p->at[newest(p, p->a, OP_WRITE_ONLY)]);
	pair_close(p);
}

TEST(without_a_reply_it_leaves_in_time_and_the_next_at_once)
{
	struct pair *p = open_learnt();
	uint64_t came;

	rig_run(&p->rig);
	p->n = 0;
	for (int i = 0; i < 2; i++)
		pair_receive(p->b, 0x1000, 512);
	send(p->a, 8);
	while (rig_step(&p->rig, TQP_NEVER - 1) && !p->b->q.rsp.unreplied)
		;
	came = p->rig.net.now;
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 0);
	rig_run(&p->rig);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 1);
	check_eq(p->at[newest(p, p->a, OP_ACKNOWLEDGE)], came + RIG_HOLD);
	for (int i = 0; i < LEARNT + 1; i++)
		pair_good(p->a, false);
	check_eq(pair_count(p, p->b, OP_SEND_ONLY), 1); /* nothing was repeated */

	p->b->ack_delay = 0;
	send(p->a, 8);
	rig_run(&p->rig);
	check_eq(p->b->ack_delay, 0);
	pair_good(p->a, false);
	pair_close(p);
}

/* Who always takes longer to reply has nothing of the waiting. */
TEST(a_reply_that_comes_late_is_not_waited_for_again)
{
	struct pair *p = open_learnt();

	for (int i = 0; i < 2; i++) {
		rig_run(&p->rig);
		pair_receive(p->a, 0x1000, 512);
		pair_receive(p->b, 0x1000, 512);
		send(p->a, 8);
		rig_run(&p->rig);
		send(p->b, 8);
	}
	rig_run(&p->rig);
	check_eq(p->b->ack_delay, 1);
	pair_close(p);
}

TEST(one_way_it_never_waits)
{
	struct pair *p = open_learnt();

	rig_run(&p->rig);
	p->b->ack_delay = 0;
	for (int i = 0; i < 8; i++) {
		pair_receive(p->b, 0x1000, 512);
		send(p->a, i & 1 ? 8 : 512);
	}
	rig_run(&p->rig);
	check_eq(p->b->ack_delay, 1); /* the first might have been replied to */
	for (int i = 0; i < LEARNT + 8; i++)
		pair_good(p->a, false);
	pair_close(p);
}

/* Its answer is the newest acknowledgement, and what waited before does not wait on. */
TEST(a_read_behind_it_takes_it_along)
{
	struct pair *p = open_learnt();
	struct rig_wr r = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 64);

	rig_run(&p->rig);
	p->n = 0;
	pair_receive(p->b, 0x1000, 512);
	send(p->a, 8);
	rig_post(p->a, &r);
	rig_run_until(&p->rig, p->rig.net.now + RIG_HOLD / 2);
	for (int i = 0; i < LEARNT + 2; i++)
		pair_good(p->a, false);
	rig_run(&p->rig);
	check_eq(pair_count(p, p->a, OP_READ_RESP_ONLY), 1);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 0);
	pair_close(p);
}

/* A copy of what was replied to is not a new message. */
TEST(a_duplicate_is_answered_at_once)
{
	struct pair *p = open_learnt();
	struct seg again;

	rig_run(&p->rig);
	again = p->log[newest(p, p->b, OP_SEND_ONLY)];
	again.psn = psn_add(again.psn, PSN_MASK); /* the one before */
	again.from = &p->b->end.d;
	p->n = 0;
	p->b->ack_delay = 0;
	tqp_input(&p->b->q, &again, p->rig.net.now);
	check_eq(p->b->ack_delay, 0);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 1);
	pair_close(p);
}

RUN_TESTS(unit_test(it_leaves_before_a_reply_that_completes), unit_test(it_leaves_behind_a_write),
	  unit_test(without_a_reply_it_leaves_in_time_and_the_next_at_once),
	  unit_test(a_reply_that_comes_late_is_not_waited_for_again),
	  unit_test(one_way_it_never_waits), unit_test(a_read_behind_it_takes_it_along),
	  unit_test(a_duplicate_is_answered_at_once))
