// SPDX-License-Identifier: MIT
/* Header prediction of datagrams: what goes the shorter way, and that all else goes as it did. */
#include "pair.h"
#include "transport/predicted/kept_path.h"

static const struct net_config host = { .same_host = true,
					.prediction = NET_PREDICTED,
					.max_seg = 4096,
					.inline_max = 512,
					.delay = 100 };

enum { LEN = 32, QKEY = 0x11111111, HOPS = 64 };

static struct kept_path kept;

static struct rig_wr datagram(const struct pair *p, uint32_t off, uint32_t len)
{
	struct rig_wr w = pair_send(p->a, off, len);

	w.dqpn = p->b->q.qp.qpn;
	w.qkey = QKEY;
	return w;
}

/* A pair whose first datagram has gone: it finds the path, which the engine keeps. */
static struct pair *open_pair(void)
{
	const struct grh header = { .sgid = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
				    .dgid = { [10] = 0xff, 0xff, 127, 0, 0, 2 },
				    .hop_limit = HOPS,
				    .next_hdr = GRH_NEXT_UDP };
	struct rig_attr attr = rig_rc;
	struct rig_wr w;
	struct pair *p;

	attr.type = IBV_QPT_UD;
	attr.mtu = IBV_MTU_1024;
	attr.sig_all = false;
	p = pair_open(&host, &attr);
	w = datagram(p, 0, 8);
	pair_receive(p->b, 0x4000, 64);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_good(p->b, true);
	check_eq(p->rig.net.plain, 0);
	kept = (struct kept_path){ .dqpn = w.dqpn,
				   .dest = &p->a->end.d,
				   .until = p->rig.net.now + 1000000,
				   .l3 = GRH_L3_IPV4,
				   .has_grh = true };
	grh_build(&header, kept.grh);
	p->a->q.req.ud.kept = &kept;
	return p;
}

static void done(struct pair *p)
{
	p->a->q.req.ud.kept = NULL;
	pair_close(p);
}

/* a's datagram of @len bytes has come to 0x4000, behind a header that says its length. */
static struct cqe came(struct pair *p, uint32_t off, uint32_t len)
{
	struct grh grh;
	struct cqe c;

	rig_run(&p->rig);
	c = pair_good(p->b, true);
	check_eq(c.opcode, MLX5_CQE_RESP_SEND);
	check_eq(c.byte_cnt, GRH_LEN + len);
	check_eq(c.src_qp, p->a->q.qp.qpn);
	check(c.grh);
	assert_memory_equal(p->b->mem + 0x4000 + GRH_LEN, p->a->mem + off, len);
	if (!p->rig.net.plain)
		return c;
	check_eq(c.l3, GRH_L3_IPV4);
	check_eq(grh_parse(p->b->mem + 0x4000, &grh), 0);
	check_eq(grh.payload_len, len + 32); /* UDP, BTH, DETH, ICRC */
	check_eq(grh.hop_limit, HOPS);
	return c;
}

TEST(a_short_datagram_goes_the_shorter_way)
{
	static const uint32_t len[] = { 1, 8, 64, 12, 44, 97, 400, 512 };
	struct pair *p = open_pair();

	for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct rig_wr w = datagram(p, 64 * i, len[i]);

		w.inl = i % 2 && len[i] < 100;
		w.solicited = i == 1;
		w.signaled = i % 3;
		pair_receive(p->b, 0x4000, 1024);
		rig_post(p->a, &w);
		check_eq(p->rig.net.plain, i + 1);
		check_eq(p->log[p->n - 1].psn, p->log[p->n - 2].psn + 1);
		if (w.signaled)
			pair_good(p->a, false); /* before it has arrived */
		else
			pair_none(p->a, false);
		check_eq(came(p, 64 * i, len[i]).solicited, i == 1);
	}
	done(p);
}

/* Around the ring, where inline data wraps and a list stands in its first block. */
TEST(datagrams_go_around_the_ring)
{
	struct pair *p = open_pair();

	for (unsigned int i = 0; i < 3 * RIG_SQ; i++) {
		struct rig_wr w = datagram(p, i, 1 + i % 150);

		w.inl = i % 3 == 0;
		pair_receive(p->b, 0x4000, 1024);
		rig_post(p->a, &w);
		pair_good(p->a, false);
		came(p, i, 1 + i % 150);
	}
	check(p->rig.net.plain > 2 * RIG_SQ);
	done(p);
}

TEST(each_has_the_key_that_it_names)
{
	static const uint32_t keys[] = { 7, QKEY, 0x80000001, 8 };
	static const uint32_t sent[] = { 7, QKEY, QKEY, 8 };
	struct pair *p = open_pair();

	for (unsigned int i = 0; i < 4; i++) {
		struct rig_wr w = datagram(p, 0, LEN);

		w.qkey = keys[i];
		rig_post(p->a, &w);
		check_eq(p->rig.net.plain, i + 1);
		check_eq(p->log[p->n - 1].qkey, sent[i]);
	}
	done(p);
}

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

static void paced(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.req.pace.kbps = 1000000;
}

static void long_for_a_record(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->end.d.inline_max = LEN - 1;
}

static void elsewhere(struct pair *p, struct rig_wr *w)
{
	(void)p, (void)w;
	kept.dqpn++;
}

static void by_another_address(struct pair *p, struct rig_wr *w)
{
	(void)p, (void)w;
	kept.av.hop_limit++;
}

static void long_ago(struct pair *p, struct rig_wr *w)
{
	(void)w;
	kept.until = p->rig.net.now;
}

static void to_a_network(struct pair *p, struct rig_wr *w)
{
	(void)p, (void)w;
	kept.has_grh = false;
}

static void to_the_dead(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->end.d.dead = true;
}

static void laid_open(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.qp.laid_open = true;
}

TEST(what_is_not_as_predicted_goes_as_it_did)
{
	static void (*const otherwise[])(struct pair *, struct rig_wr *) = {
		two_pieces,	    immediate, paced,	  long_for_a_record, elsewhere,
		by_another_address, long_ago,  laid_open, to_a_network,	     to_the_dead
	};

	for (unsigned int i = 0; i < sizeof(otherwise) / sizeof(otherwise[0]); i++) {
		struct pair *p = open_pair();
		struct rig_wr w = datagram(p, 0, LEN);
		struct cqe c;

		otherwise[i](p, &w);
		pair_receive(p->b, 0x4000, 1024);
		rig_post(p->a, &w);
		check_eq(p->rig.net.plain, 0);
		rig_run(&p->rig);
		pair_good(p->a, false);
		c = pair_good(p->b, true);
		check_eq(c.byte_cnt, GRH_LEN + LEN);
		assert_memory_equal(p->b->mem + 0x4000 + GRH_LEN, p->a->mem, LEN);
		done(p);
	}
}

TEST(a_link_without_room_gets_it_by_the_ordinary_way)
{
	struct pair *p = open_pair();
	struct rig_wr first = datagram(p, 0, LEN), second = datagram(p, 64, LEN / 2);

	p->rig.net.cfg.again = 1;
	pair_receive(p->b, 0x4000, 1024);
	pair_receive(p->b, 0x5000, 1024);
	rig_post(p->a, &first);
	check(p->a->q.req.blocked);
	p->rig.net.cfg.again = 0;
	rig_post(p->a, &second); /* which does not overtake the first */
	check_eq(p->rig.net.plain, 0);
	came(p, 0, LEN);
	check_eq(pair_good(p->b, true).byte_cnt, GRH_LEN + LEN / 2);
	pair_good(p->a, false);
	pair_good(p->a, false);
	done(p);
}

TEST(a_foreign_key_is_refused)
{
	struct pair *p = open_pair();
	struct rig_wr w = datagram(p, 0, LEN);

	w.sge[0].key ^= 1;
	rig_post(p->a, &w);
	check_eq(p->rig.net.plain, 0);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	done(p);
}

/* The form of 16 bytes, which names no GID. No path has been compared with a WQE yet. */
TEST(an_address_vector_of_zeros_is_refused)
{
	struct pair *p = open_pair();
	struct rig_wr w = datagram(p, 0, LEN);
	uint16_t pi = rig_write(p->a, &w);

	memset(p->a->sq + pi * WQE_BB % (RIG_SQ * WQE_BB) + WQE_SINGLE_LIST, 0, WQE_SINGLE_AV);
	rig_ring(p->a);
	check_eq(p->rig.net.plain, 0);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, VENDOR_LOC_QP_OP);
	done(p);
}

/* It is the engine's, which gives it back when the queue pair ends. */
TEST(the_path_outlives_a_reset)
{
	struct pair *p = open_pair();

	rig_move(p->a, IBV_QPS_RESET);
	assert_ptr_equal(p->a->q.req.ud.kept, &kept);
	done(p);
}

TEST(over_the_mtu_it_is_refused)
{
	struct pair *p = open_pair();
	struct rig_wr w = datagram(p, 0, 400);

	p->a->q.req.mtu = 256;
	rig_post(p->a, &w);
	check_eq(p->rig.net.plain, 0);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, VENDOR_LOC_LEN);
	done(p);
}

/* --- receiving: the datagrams are as predicted, the receives are not --- */

static void post(struct pair *p)
{
	struct rig_wr w = datagram(p, 0, LEN);

	rig_post(p->a, &w);
	check_eq(p->rig.net.plain, 1);
	rig_run(&p->rig);
	pair_good(p->a, false);
}

TEST(a_receive_of_two_pieces_gets_its_bytes)
{
	struct pair *p = open_pair();
	struct sge s[] = { rig_sge(p->b, 0x4000, 50), rig_sge(p->b, 0x5000, 100) };

	rig_receive(p->b, s, 2);
	post(p);
	check_eq(pair_good(p->b, true).byte_cnt, GRH_LEN + LEN);
	assert_memory_equal(p->b->mem + 0x4000, kept.grh, GRH_LEN);
	assert_memory_equal(p->b->mem + 0x4000 + GRH_LEN, p->a->mem, 10);
	assert_memory_equal(p->b->mem + 0x5000, p->a->mem + 10, LEN - 10);
	done(p);
}

TEST(a_receive_without_room_for_the_grh_fails)
{
	struct pair *p = open_pair();

	pair_receive(p->b, 0x4000, GRH_LEN + LEN - 1);
	post(p);
	pair_bad(p->b, true, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, VENDOR_LOC_LEN);
	done(p);
}

TEST(a_receive_without_the_right_to_write_fails)
{
	struct pair *p = open_pair();
	struct mr_attr ma = { .addr = p->b->mem, .len = RIG_MEM, .iova = RIG_IOVA };
	struct sge s = { RIG_IOVA + 0x4000, 100, 0 };
	uint8_t before[100];
	struct mr *mr;

	check_eq(mr_create(p->b->pd, &ma, &mr), 0);
	s.key = mr->ib.lkey;
	memcpy(before, p->b->mem + 0x4000, sizeof(before));
	rig_receive(p->b, &s, 1);
	post(p);
	pair_bad(p->b, true, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	assert_memory_equal(p->b->mem + 0x4000, before, sizeof(before));
	check_eq(mr_destroy(mr), 0);
	done(p);
}

TEST(without_a_receive_it_is_dropped)
{
	struct pair *p = open_pair();

	post(p);
	pair_none(p->b, true);
	check_eq(p->rig.counters.v[COUNTER_OUT_OF_BUFFER], 1);
	check_eq(p->b->q.qp.state, IBV_QPS_RTS);
	done(p);
}

TEST(with_another_qkey_it_is_dropped)
{
	struct pair *p = open_pair();

	pair_receive(p->b, 0x4000, 100);
	p->b->q.qp.attr.qkey++;
	post(p);
	pair_none(p->b, true);
	check_eq(p->rig.counters.v[COUNTER_PORT_RCV_ERRORS], 1);
	done(p);
}

TEST(longer_than_the_receivers_mtu_it_is_dropped)
{
	struct pair *p = open_pair();

	pair_receive(p->b, 0x4000, 100);
	p->b->q.req.mtu = LEN - 1;
	post(p);
	pair_none(p->b, true);
	done(p);
}

RUN_TESTS(unit_test(a_short_datagram_goes_the_shorter_way), unit_test(datagrams_go_around_the_ring),
	  unit_test(each_has_the_key_that_it_names),
	  unit_test(what_is_not_as_predicted_goes_as_it_did),
	  unit_test(a_link_without_room_gets_it_by_the_ordinary_way),
	  unit_test(the_path_outlives_a_reset), unit_test(an_address_vector_of_zeros_is_refused),
	  unit_test(a_foreign_key_is_refused), unit_test(over_the_mtu_it_is_refused),
	  unit_test(a_receive_of_two_pieces_gets_its_bytes),
	  unit_test(a_receive_without_room_for_the_grh_fails),
	  unit_test(a_receive_without_the_right_to_write_fails),
	  unit_test(without_a_receive_it_is_dropped), unit_test(with_another_qkey_it_is_dropped),
	  unit_test(longer_than_the_receivers_mtu_it_is_dropped))
