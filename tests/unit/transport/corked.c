// SPDX-License-Identifier: MIT
/* Posts to the network that wait for the posts behind them. */
#include "pair.h"

static const struct net_config corked = { .max_seg = 256, .window = 64, .delay = 1000, .cork = 1 };

static struct pair *open_as(enum ibv_qp_type type)
{
	struct rig_attr attr = rig_rc;

	attr.type = type;
	return pair_open(&corked, &attr);
}

static void post(struct pair *p, uint32_t len)
{
	struct rig_wr w = pair_send(p->a, 0, len);

	w.dqpn = p->b->q.qp.qpn;
	w.qkey = 0x11111111;
	rig_post(p->a, &w);
}

static bool on_its_way(const struct pair *p)
{
	return net_next(&p->rig.net) != UINT64_MAX;
}

static void leave_together(enum ibv_qp_type type)
{
	struct pair *p = open_as(type);

	for (unsigned int i = 0; i < 4; i++)
		pair_receive(p->b, 0x4000 + i * 0x400, 0x400);
	for (unsigned int i = 0; i < 4; i++)
		post(p, 100);
	check_eq(p->n, 4);
	check(!on_its_way(p));
	tqp_uncork(&p->a->q);
	check(on_its_way(p));
	rig_run(&p->rig);
	for (unsigned int i = 0; i < 4; i++) {
		pair_good(p->a, false);
		pair_good(p->b, true);
	}
	pair_close(p);
}

TEST(posts_that_wait_leave_together)
{
	leave_together(IBV_QPT_RC);
	leave_together(IBV_QPT_UC);
	leave_together(IBV_QPT_UD);
}

TEST(nothing_waits_while_the_window_keeps_something_back)
{
	struct pair *p = open_as(IBV_QPT_RC);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 64 * 256);

	rig_post(p->a, &w);
	check(on_its_way(p));
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

TEST(an_ACK_takes_along_what_waits)
{
	struct pair *p = open_as(IBV_QPT_RC);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	post(p, 100);
	check(!on_its_way(p));
	pair_receive(p->b, 0x4000, 0x400);
	w.rkey = p->a->mr->ib.rkey;
	w.sge[0] = rig_sge(p->b, 0, 8);
	rig_post(p->b, &w);
	tqp_uncork(&p->b->q);
	net_step(&p->rig.net);
	rig_acks(&p->rig);
	tqp_flush_ack(&p->a->q);
	check_eq(p->a->end.held == NULL, 1);
	rig_run(&p->rig);
	pair_good(p->b, true);
	pair_close(p);
}

static void deliver_alone(void *arg, uint32_t qpn, struct seg *s, uint64_t now)
{
	struct rig_qp *to = rig_find(arg, qpn);

	s->from = &to->end.d;
	tqp_input(&to->q, s, now);
}

static void turn_ends(struct rig_qp *q)
{
	check(q->end.held);
	check(!net_next(&q->rig->net) || net_next(&q->rig->net) == UINT64_MAX);
	tqp_settle(&q->q);
	check(!q->end.held);
}

TEST(the_answers_of_one_turn_leave_together)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;

	attr.dest_rd_atomic = 16;
	p = pair_open(&corked, &attr);

	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0x4000, 100);

	for (unsigned int i = 0; i < 6; i++) /* two more than may be outstanding */
		rig_post(p->a, &w);
	tqp_uncork(&p->a->q);
	p->rig.net.deliver = deliver_alone;
	for (unsigned int i = 0; i < 4; i++)
		net_step(&p->rig.net);
	turn_ends(p->b); /* four responses */
	for (unsigned int i = 0; i < 4; i++)
		net_step(&p->rig.net);
	turn_ends(p->a); /* the last two requests */
	p->rig.net.deliver = rig_deliver;
	rig_run(&p->rig);
	for (unsigned int i = 0; i < 6; i++)
		pair_good(p->a, false);
	pair_close(p);
}

/* Else the peer would wait for all its answers, and the responder for the next requests. */
static void half_of_the_answers_leave_at_once(uint8_t op, uint32_t len)
{
	struct rig_attr attr = rig_rc;
	struct rig_wr w;
	struct pair *p;

	attr.rd_atomic = attr.dest_rd_atomic = 8;
	p = pair_open(&corked, &attr);
	w = pair_remote(p, op, 0x4000, len);
	for (unsigned int i = 0; i < 8; i++)
		rig_post(p->a, &w);
	tqp_uncork(&p->a->q);
	p->rig.net.deliver = deliver_alone;
	for (unsigned int i = 1; i <= 8; i++) {
		net_step(&p->rig.net);
		check_eq(!p->b->end.held, i % 4 == 0);
	}
	tqp_settle(&p->b->q);
	p->rig.net.deliver = rig_deliver;
	rig_run(&p->rig);
	for (unsigned int i = 0; i < 8; i++)
		pair_good(p->a, false);
	pair_close(p);
}

TEST(half_of_what_the_peer_may_ask_for_leaves_at_once)
{
	half_of_the_answers_leave_at_once(MLX5_OPCODE_RDMA_READ, 100);
	half_of_the_answers_leave_at_once(MLX5_OPCODE_ATOMIC_FA, 8);
}

TEST(what_waits_leaves_before_the_QP_moves)
{
	static const enum ibv_qp_state to[] = { IBV_QPS_SQD, IBV_QPS_ERR, IBV_QPS_RESET };

	for (unsigned int i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
		struct pair *p = open_as(IBV_QPT_RC);

		post(p, 100);
		check(!on_its_way(p));
		rig_move(p->a, to[i]);
		check(on_its_way(p));
		pair_close(p);
	}
}

RUN_TESTS(unit_test(posts_that_wait_leave_together),
	  unit_test(nothing_waits_while_the_window_keeps_something_back),
	  unit_test(an_ACK_takes_along_what_waits),
	  unit_test(the_answers_of_one_turn_leave_together),
	  unit_test(half_of_what_the_peer_may_ask_for_leaves_at_once),
	  unit_test(what_waits_leaves_before_the_QP_moves))
