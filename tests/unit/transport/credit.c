// SPDX-License-Identifier: MIT
/* End-to-end credits: what an ACK says about posted receives, and who goes beyond it. */
#include "pair.h"
#include "transport/credit.h"

enum { MTU = 256, WINDOW = 32 };

static struct net_config net = { .max_seg = MTU, .delay = 1000, .window = WINDOW };

static struct pair *open_pair(uint32_t able, double loss)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;

	attr.timeout = 14;
	net.abilities[0] = net.abilities[1] = able;
	net.loss = loss;
	p = pair_open(&net, &attr);
	p->rig.net.now = 1;
	return p;
}

static void send(struct pair *p, uint32_t len)
{
	struct rig_wr w = pair_send(p->a, 0, len);

	rig_post(p->a, &w);
}

/* The last that was sent to a. */
static const struct seg *answer(const struct pair *p)
{
	unsigned int i = p->n;

	while (p->log[--i].dqpn != p->a->q.qp.qpn)
		;
	return &p->log[i];
}

TEST(an_ack_counts_the_posted_receives)
{
	struct pair *p = open_pair(0, 0);

	for (int i = 0; i < 5; i++)
		pair_receive(p->b, 0x4000, 64);
	send(p, 8);
	rig_run(&p->rig);
	check_eq(answer(p)->syndrome, aeth_ack(4));
	check_eq(answer(p)->msn, 1);
	check(!p->a->q.req.credit.limited || p->a->q.req.credit.last == 5);
	pair_close(p);
}

TEST(a_message_that_is_not_counted_has_its_receive)
{
	struct pair *p = open_pair(0, 0);
	unsigned int acks = 0;

	pair_receive(p->b, 0x4000, 16 * MTU);
	send(p, 16 * MTU);
	rig_run(&p->rig);
	for (unsigned int i = 0; i < p->n; i++) {
		if (p->log[i].op != OP_ACKNOWLEDGE)
			continue;
		acks++;
		check_eq(aeth_credits(p->log[i].syndrome), p->log[i].msn ? 0 : 1);
	}
	check(acks > 1);
	pair_close(p);
}

TEST(who_has_an_srq_gives_no_count)
{
	struct pair *p = open_pair(0, 0);
	struct srq *none = p->b->q.qp.srq;

	check_eq(credit_syndrome(&p->b->q), aeth_ack(0));
	p->b->q.qp.srq = (struct srq *)p;
	check_eq(credit_syndrome(&p->b->q), AETH_ACK | AETH_UNLIMITED);
	p->b->q.qp.srq = none;
	pair_close(p);
}

/* One packet asks whether receives were posted since; when they were, all go. */
TEST(beyond_the_credits_one_packet_goes)
{
	struct pair *p = open_pair(0, 0);
	struct rig_wr write = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	pair_receive(p->b, 0x4000, 64);
	send(p, 8);
	rig_run(&p->rig);
	pair_good(p->a, false);
	for (int i = 0; i < 4; i++)
		send(p, 4 * MTU);
	check_eq(pair_count(p, p->b, OP_SEND_FIRST), 1);
	check_eq(pair_count(p, p->b, OP_SEND_MIDDLE), 0);
	rig_run_until(&p->rig, p->rig.net.now + 5000);
	for (int i = 0; i < 4; i++)
		pair_receive(p->b, 0x4000, 4 * MTU);
	rig_run(&p->rig);
	for (int i = 0; i < 4; i++)
		pair_good(p->a, false);
	check_eq(pair_count(p, p->b, OP_SEND_FIRST), 5); /* RNR NAKed once */
	check_eq(pair_count(p, p->b, OP_SEND_LAST), 4);
	rig_post(p->a, &write); /* takes none */
	rig_post(p->a, &write);
	check_eq(pair_count(p, p->b, OP_WRITE_ONLY), 2);
	pair_close(p);
}

/* Each packet takes a receive at peers that are so: two are posted, so two packets go. */
TEST(packets_take_credits)
{
	struct pair *p = open_pair(0, 0);

	p->a->q.qp.packet_credits = true;
	for (int i = 0; i < 3; i++)
		pair_receive(p->b, 0x4000, 8 * MTU);
	send(p, 8);
	rig_run(&p->rig);
	send(p, 8 * MTU);
	check_eq(pair_count(p, p->b, OP_SEND_FIRST), 1);
	check_eq(pair_count(p, p->b, OP_SEND_MIDDLE), 1);
	rig_run(&p->rig);
	check_eq(pair_count(p, p->b, OP_SEND_MIDDLE), 6);
	pair_good(p->a, false);
	pair_good(p->a, false);
	pair_close(p);
}

/* An ACK that was overtaken takes nothing back. */
TEST(the_latest_count_is_valid)
{
	struct pair *p = open_pair(0, 0);

	credit_learn(&p->a->q, aeth_ack(8), 5);
	check_eq(p->a->q.req.credit.last, 13);
	credit_learn(&p->a->q, aeth_ack(0), 4);
	check_eq(p->a->q.req.credit.last, 13);
	credit_learn(&p->a->q, AETH_ACK | AETH_UNLIMITED, 6);
	check(!p->a->q.req.credit.limited);
	pair_close(p);
}

/* Both ends count the same messages, whatever was lost; each part of a READ is one. */
TEST(both_ends_count_alike)
{
	static const uint8_t ops[] = { MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_RDMA_WRITE,
				       MLX5_OPCODE_ATOMIC_FA, MLX5_OPCODE_SEND };

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct pair *p = open_pair(seed & 1 ? DEST_REPORTS : 0, 0.05);

		rand_init(&p->rig.net.rand, seed);
		for (int i = 0; i < 16; i++) {
			uint32_t len = ops[i % 4] == MLX5_OPCODE_ATOMIC_FA ? 8 : 100 * MTU;
			struct rig_wr w = pair_remote(p, ops[i % 4], 0, len);

			rig_post(p->a, &w);
		}
		for (int i = 0; i < 4; i++) {
			rig_run_until(&p->rig, p->rig.net.now + 200000);
			pair_receive(p->b, 0x20000, 100 * MTU);
		}
		rig_run(&p->rig);
		for (int i = 0; i < 16; i++)
			pair_good(p->a, false);
		check_eq(p->a->q.req.credit.sent, p->b->q.rsp.msn);
		pair_close(p);
	}
}

RUN_TESTS(unit_test(an_ack_counts_the_posted_receives),
	  unit_test(a_message_that_is_not_counted_has_its_receive),
	  unit_test(who_has_an_srq_gives_no_count), unit_test(beyond_the_credits_one_packet_goes),
	  unit_test(packets_take_credits), unit_test(the_latest_count_is_valid),
	  unit_test(both_ends_count_alike))
