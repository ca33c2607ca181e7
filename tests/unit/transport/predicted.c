// SPDX-License-Identifier: MIT
/* Header prediction: what goes the shorter way, and that all else goes as it did. */
#include "pair.h"

static const struct net_config host = { .same_host = true,
					.prediction = NET_PREDICTED,
					.max_seg = 4096,
					.max_ref = 1 << 16,
					.inline_max = 512,
					.delay = 100 };

/* A pair whose first message has gone: it never is a predicted one. */
static struct pair *open_pair(void)
{
	struct rig_attr attr = rig_rc;
	struct rig_wr w;
	struct pair *p;

	attr.mtu = IBV_MTU_1024;
	p = pair_open(&host, &attr);
	w = pair_send(p->a, 0, 8);
	pair_receive(p->b, 0x4000, 64);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_good(p->b, true);
	check_eq(p->rig.net.plain, 0);
	return p;
}

/* a's message of @len bytes has come to 0x4000. */
static void came(struct pair *p, uint32_t off, uint32_t len)
{
	struct cqe c;

	rig_run(&p->rig);
	pair_good(p->a, false);
	c = pair_good(p->b, true);
	check_eq(c.byte_cnt, len);
	assert_memory_equal(p->b->mem + 0x4000, p->a->mem + off, len);
}

TEST(a_short_send_goes_the_shorter_way)
{
	static const uint32_t len[] = { 1, 8, 88, 89, 96, 97, 400, 512 };
	struct pair *p = open_pair();

	for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct rig_wr w = pair_send(p->a, 64 * i, len[i]);

		w.inl = i % 2 && len[i] < 100;
		w.solicited = i == 1;
		pair_receive(p->b, 0x4000, 1024);
		rig_post(p->a, &w);
		check_eq(p->rig.net.plain, i + 1);
		check_eq(p->log[p->n - 1].flags & SEG_SOLICITED, i == 1 ? SEG_SOLICITED : 0);
		came(p, 64 * i, len[i]);
	}
	pair_close(p);
}

enum { LEN = 32 };

static void two_pieces(struct pair *p, struct rig_wr *w)
{
	w->nsge = 2;
	w->sge[0].len = LEN / 2;
	w->sge[1] = rig_sge(p->a, LEN / 2, LEN / 2);
}

static void immediate(struct pair *p, struct rig_wr *w)
{
	(void)p;
	w->op = MLX5_OPCODE_SEND_IMM;
}

static void fenced(struct pair *p, struct rig_wr *w)
{
	(void)p;
	w->fence = true;
}

static void paced(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.req.pace.kbps = 1000000;
}

static void arming(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.req.arming = SEG_ARMING;
}

static void long_for_a_record(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->end.d.inline_max = LEN - 1;
}

static void long_for_a_packet(struct pair *p, struct rig_wr *w)
{
	w->sge[0].len = 400;
	p->a->q.req.mtu = p->b->q.req.mtu = 256;
}

static void in_doubt(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.req.doubt = DOUBT_PEER;
}

static void laid_open(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.qp.laid_open = true;
}

TEST(what_is_not_as_predicted_goes_as_it_did)
{
	static void (*const otherwise[])(struct pair *, struct rig_wr *) = {
		two_pieces,	   immediate,	      fenced,	paced, arming, in_doubt,
		long_for_a_record, long_for_a_packet, laid_open
	};

	for (unsigned int i = 0; i < sizeof(otherwise) / sizeof(otherwise[0]); i++) {
		struct pair *p = open_pair();
		struct rig_wr w = pair_send(p->a, 0, LEN);

		otherwise[i](p, &w);
		pair_receive(p->b, 0x4000, 1024);
		rig_post(p->a, &w);
		check_eq(p->rig.net.plain, 0);
		came(p, 0, w.nsge == 1 ? w.sge[0].len : LEN);
		pair_close(p);
	}
}

TEST(a_link_without_room_gets_it_by_the_ordinary_way)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, LEN);

	p->rig.net.cfg.again = 1;
	pair_receive(p->b, 0x4000, 1024);
	rig_post(p->a, &w);
	check(p->a->q.req.blocked);
	p->rig.net.cfg.again = 0;
	came(p, 0, LEN);
	check_eq(p->rig.net.plain, 0);
	pair_close(p);
}

/* A message that waits for room is not overtaken. */
TEST(nothing_overtakes_what_was_started)
{
	struct pair *p = open_pair();
	struct rig_wr first = pair_send(p->a, 0, 2000), second = pair_send(p->a, 4096, LEN);

	p->rig.net.cfg.again = 1;
	pair_receive(p->b, 0x4000, 2048);
	pair_receive(p->b, 0x5000, 2048);
	rig_post(p->a, &first);
	p->rig.net.cfg.again = 0;
	rig_post(p->a, &second);
	check_eq(p->rig.net.plain, 0);
	came(p, 0, 2000);
	pair_good(p->a, false);
	check_eq(pair_good(p->b, true).byte_cnt, LEN);
	pair_close(p);
}

/* Nor is one that waits for a READ. */
TEST(nothing_overtakes_a_fence)
{
	struct pair *p = open_pair();
	struct rig_wr read = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0x9000, 8);
	struct rig_wr fence = pair_send(p->a, 64, LEN), last = pair_send(p->a, 4096, LEN / 2);

	fence.fence = true;
	pair_receive(p->b, 0x4000, 64);
	pair_receive(p->b, 0x5000, 64);
	rig_post(p->a, &read);
	rig_post(p->a, &fence);
	rig_post(p->a, &last);
	check_eq(p->rig.net.plain, 0);
	rig_run(&p->rig);
	for (int i = 0; i < 3; i++)
		pair_good(p->a, false);
	check_eq(pair_good(p->b, true).byte_cnt, LEN);
	check_eq(pair_good(p->b, true).byte_cnt, LEN / 2);
	pair_close(p);
}

TEST(a_foreign_key_is_refused)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, LEN);

	w.sge[0].key ^= 1;
	rig_post(p->a, &w);
	check_eq(p->rig.net.plain, 0);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	pair_close(p);
}

/* A predicted request carries the ACK that is due, once. */
TEST(an_ack_rides_on_it)
{
	struct pair *p = open_pair();
	struct rig_wr ask = pair_send(p->a, 0, LEN), reply = pair_send(p->b, 0, LEN);

	pair_receive(p->a, 0x4000, 64);
	rig_post(p->b, &reply); /* b's first */
	rig_run(&p->rig);
	pair_good(p->a, true);
	pair_good(p->b, false);
	p->n = 0;
	for (int i = 0; i < 2; i++)
		pair_receive(p->a, 0x4000, 64);
	pair_receive(p->b, 0x4000, 64);
	rig_post(p->a, &ask);
	net_step(&p->rig.net);
	rig_post(p->b, &reply);
	rig_post(p->b, &reply);
	check_eq(p->rig.net.plain, 3);
	check(p->log[1].flags & SEG_ACK);
	check(!(p->log[2].flags & SEG_ACK));
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 0);
	pair_close(p);
}

TEST(in_sqd_nothing_is_started)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, LEN);

	pair_receive(p->b, 0x4000, 64);
	rig_move(p->a, IBV_QPS_SQD);
	rig_post(p->a, &w);
	check_eq(p->rig.net.plain, 0);
	check(net_next(&p->rig.net) == UINT64_MAX);
	rig_move(p->a, IBV_QPS_RTS);
	came(p, 0, LEN);
	pair_close(p);
}

/* --- receiving: the requests are as predicted, the receives are not --- */

TEST(a_receive_of_two_pieces_gets_its_bytes)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, LEN);
	struct sge s[] = { rig_sge(p->b, 0x4000, 10), rig_sge(p->b, 0x5000, 100) };

	rig_receive(p->b, s, 2);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_eq(pair_good(p->b, true).byte_cnt, LEN);
	assert_memory_equal(p->b->mem + 0x4000, p->a->mem, 10);
	assert_memory_equal(p->b->mem + 0x5000, p->a->mem + 10, LEN - 10);
	pair_close(p);
}

TEST(a_receive_that_is_too_short_fails)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, LEN);

	pair_receive(p->b, 0x4000, LEN - 1);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->b, true, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, VENDOR_LOC_LEN);
	pair_close(p);
}

TEST(a_receive_without_the_right_to_write_fails)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, LEN);
	uint8_t before[LEN];
	struct mr *mr;
	struct mr_attr ma = { .addr = p->b->mem, .len = RIG_MEM, .iova = RIG_IOVA };
	struct sge s = { RIG_IOVA + 0x4000, 64, 0 };

	check_eq(mr_create(p->b->pd, &ma, &mr), 0);
	s.key = mr->ib.lkey;
	memcpy(before, p->b->mem + 0x4000, LEN);
	rig_receive(p->b, &s, 1);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->b, true, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	assert_memory_equal(p->b->mem + 0x4000, before, LEN);
	check_eq(mr_destroy(mr), 0);
	pair_close(p);
}

TEST(without_a_receive_the_sender_waits_for_one)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, LEN);

	rig_post(p->a, &w);
	rig_run_until(&p->rig, p->rig.net.now + 1000);
	pair_none(p->a, false);
	check_eq(p->a->q.req.wait, WAIT_RNR);
	pair_receive(p->b, 0x4000, 64);
	came(p, 0, LEN);
	pair_close(p);
}

TEST(who_is_not_the_peer_is_not_heard)
{
	struct pair *p = open_pair();
	uint8_t bytes[LEN] = { 1 };
	struct seg s = { .op = OP_SEND_ONLY,
			 .flags = SEG_SQPN | SEG_ACKREQ,
			 .pkey = 0xffff,
			 .dqpn = p->b->q.qp.qpn,
			 .sqpn = p->a->q.qp.qpn,
			 .psn = p->b->q.rsp.epsn,
			 .npsn = 1,
			 .len = LEN,
			 .data = bytes,
			 .from = &p->a->end.d }; /* not the way to a's process, as b knows it */

	pair_receive(p->b, 0x4000, 64);
	tqp_input(&p->b->q, &s, p->rig.net.now);
	pair_none(p->b, true);
	s.from = &p->b->end.d;
	s.sqpn++;
	tqp_input(&p->b->q, &s, p->rig.net.now);
	pair_none(p->b, true);
	s.sqpn--;
	tqp_input(&p->b->q, &s, p->rig.net.now);
	check_eq(pair_good(p->b, true).byte_cnt, LEN);
	pair_close(p);
}

/* --- the ACK on a request moves the QP to ERR: the request is not executed --- */

/* b's CQ for sends is full, and @w brings the ACK of a message of b's. */
static void overrun(struct pair *p, const struct rig_wr *w)
{
	struct rig_wr reply = pair_send(p->b, 0, LEN);

	for (int i = 0; i < 2; i++)
		pair_receive(p->a, 0x4000, 64);
	rig_post(p->b, &reply);
	rig_run(&p->rig); /* its completion stays in the CQ */
	p->b->cqs[0]->cnt = 1;
	rig_post(p->b, &reply);
	net_step(&p->rig.net);
	p->n = 0;
	rig_post(p->a, w);
	check(p->log[0].flags & SEG_ACK);
	rig_run(&p->rig);
	check_eq(p->b->q.qp.state, IBV_QPS_ERR);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, VENDOR_TRANSPORT_RETRY);
}

TEST(receives_that_the_overrun_has_flushed_complete_once)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, LEN);

	for (int i = 0; i < 3; i++)
		pair_receive(p->b, 0x4000, 64);
	overrun(p, &w);
	check_eq(p->rig.net.plain, 2);
	for (int i = 0; i < 3; i++)
		pair_bad(p->b, true, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_RECV_FLUSH);
	pair_none(p->b, true);
	pair_close(p);
}

TEST(a_write_behind_the_overrun_changes_nothing)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, LEN);
	uint8_t before[LEN];

	memcpy(before, p->b->mem + 0x8000, LEN);
	overrun(p, &w);
	check_mem(p->b->mem + 0x8000, before, LEN);
	pair_close(p);
}

TEST(nothing_is_taken_from_an_srq_behind_the_overrun)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, 8);
	uint8_t ring[64];
	uint32_t rec;
	struct srq *srq = pair_srq_open(p->b, ring, &rec, 2);

	overrun(p, &w);
	check_eq(srq_posted(srq), 2);
	pair_none(p->b, true);
	pair_srq_close(p->b, srq);
	pair_close(p);
}

RUN_TESTS(unit_test(a_short_send_goes_the_shorter_way),
	  unit_test(what_is_not_as_predicted_goes_as_it_did),
	  unit_test(a_link_without_room_gets_it_by_the_ordinary_way),
	  unit_test(nothing_overtakes_what_was_started), unit_test(nothing_overtakes_a_fence),
	  unit_test(a_foreign_key_is_refused), unit_test(an_ack_rides_on_it),
	  unit_test(in_sqd_nothing_is_started), unit_test(a_receive_of_two_pieces_gets_its_bytes),
	  unit_test(a_receive_that_is_too_short_fails),
	  unit_test(a_receive_without_the_right_to_write_fails),
	  unit_test(without_a_receive_the_sender_waits_for_one),
	  unit_test(who_is_not_the_peer_is_not_heard),
	  unit_test(receives_that_the_overrun_has_flushed_complete_once),
	  unit_test(a_write_behind_the_overrun_changes_nothing),
	  unit_test(nothing_is_taken_from_an_srq_behind_the_overrun))
