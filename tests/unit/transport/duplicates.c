// SPDX-License-Identifier: MIT
/* Requests that come again: each is executed once, and answered from what was saved. */
#include "pair.h"

static uint64_t word(const struct pair *p)
{
	uint64_t x;

	memcpy(&x, p->b->mem, 8);
	return x;
}

TEST(a_duplicate_atomic_is_executed_once)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_FETCH_ADD, 0);
	uint64_t before = word(p);

	s.swap_add = 5;
	pair_input(p, &s);
	pair_input(p, &s);
	check_eq(word(p), before + 5);
	check_eq(p->n, 2);
	check_eq(p->log[0].swap_add, before);
	check_eq(p->log[1].swap_add, before);
	pair_close(p);
}

/* Its answer is an empty READ response; the second time there is nothing but that. */
TEST(a_duplicate_atomic_write_is_executed_once)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_ATOMIC_WRITE, 0);
	uint64_t value = 0x0102030405060708, other = 99;

	s.data = (const uint8_t *)&value;
	s.len = s.dma_len = 8;
	pair_input(p, &s);
	check_eq(word(p), value);
	memcpy(p->b->mem, &other, 8); /* somebody has written since */
	pair_input(p, &s);
	check_eq(word(p), other);
	check_eq(p->n, 2);
	for (int i = 0; i < 2; i++) {
		check_eq(p->log[i].op, OP_READ_RESP_ONLY);
		check_eq(p->log[i].len, 0);
		check_eq(p->log[i].psn, 0);
	}
	pair_close(p);
}

/* The oldest of max_dest_rd_atomic atomics still has its answer. */
TEST(all_outstanding_atomics_can_be_answered_again)
{
	struct rig_attr attr = rig_rc;

	attr.dest_rd_atomic = 16;
	struct pair *p = pair_open(&pair_lossy, &attr);
	uint64_t before = word(p);

	for (uint32_t i = 0; i < 16; i++) {
		struct seg s = pair_request(p, OP_FETCH_ADD, i);

		s.swap_add = 1;
		pair_input(p, &s);
	}
	for (uint32_t i = 0; i < 16; i++) {
		struct seg s = pair_request(p, OP_FETCH_ADD, i);

		s.swap_add = 1;
		pair_input(p, &s);
		check_eq(p->log[16 + i].swap_add, before + i);
	}
	check_eq(word(p), before + 16);
	pair_close(p);
}

TEST(a_duplicate_read_is_read_again)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_READ_REQUEST, 0);

	s.dma_len = 300;
	s.npsn = 2;
	pair_input(p, &s);
	check_eq(p->n, 2);
	s.psn = 1; /* its second half alone */
	s.npsn = 1;
	s.va += 256;
	s.dma_len = 44;
	pair_input(p, &s);
	check_eq(p->n, 3);
	check_eq(p->log[2].op, OP_READ_RESP_ONLY);
	check_eq(p->log[2].psn, 1);
	check_eq(p->log[2].len, 44);
	check_eq(p->b->q.rsp.epsn, 2);
	pair_close(p);
}

/* By va, dma_len: within [RIG_IOVA, RIG_IOVA + 768). */
TEST(a_duplicate_read_names_memory_that_was_granted)
{
	static const struct {
		uint64_t va;
		uint32_t psn, npsn, len;
		bool other_key, answered;
	} asks[] = {
		{ 0, 0, 3, 768, false, true },	   { 512, 2, 1, 256, false, true },
		{ 256, 1, 1, 256, false, true },   { 512, 2, 1, 257, false, false },
		{ 768, 2, 1, 1, false, false },	   { 0x1000, 0, 3, 768, false, false },
		{ -1UL, 0, 1, 256, false, false }, { 256, 0, 3, 768, false, false },
		{ 0, 0, 3, 768, true, false },
	};

	for (unsigned int i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		struct seg s = pair_request(p, OP_READ_REQUEST, 0);
		struct mr_attr a = { p->b->mem, RIG_MEM, RIG_IOVA, rig_rc.access };
		struct mr *other;

		check_eq(mr_create(p->b->pd, &a, &other), 0);
		s.dma_len = 768;
		s.npsn = 3;
		pair_input(p, &s);
		check_eq(p->n, 3);
		s.va += asks[i].va;
		s.psn = asks[i].psn;
		s.npsn = asks[i].npsn;
		s.dma_len = asks[i].len;
		if (asks[i].other_key)
			s.rkey = other->ib.rkey;
		pair_input(p, &s);
		check_eq(p->n, asks[i].answered ? 3 + s.npsn : 3);
		check_eq(p->b->q.qp.state, IBV_QPS_RTS);
		check_eq(mr_destroy(other), 0);
		pair_close(p);
	}
}

/* A second region of b's, whose key the program withdraws when a READ by it is done. */
static struct mr *short_lived(struct pair *p)
{
	struct mr_attr a = { p->b->mem, RIG_MEM, RIG_IOVA, rig_rc.access };
	struct mr *mr;

	check_eq(mr_create(p->b->pd, &a, &mr), 0);
	return mr;
}

static void read_again_without_key(struct pair *p)
{
	struct mr *mr = short_lived(p);
	struct seg s = pair_request(p, OP_READ_REQUEST, 0);

	s.rkey = mr->ib.rkey;
	s.dma_len = 8;
	pair_input(p, &s);
	check_eq(p->n, 1);
	check_eq(mr_destroy(mr), 0);
	pair_input(p, &s);
}

/* It was late on its way, and the requester has had the answer: no mistake of anybody's. */
TEST(a_duplicate_read_of_withdrawn_memory_is_dropped)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg add = pair_request(p, OP_FETCH_ADD, 1);

	read_again_without_key(p);
	check_eq(p->n, 1);
	check_eq(p->b->q.qp.state, IBV_QPS_RTS);
	pair_no_event(p->b);
	pair_input(p, &add);
	check_eq(p->log[p->n - 1].op, OP_ATOMIC_ACK);
	pair_close(p);
}

/* Within the host nothing is late: the requester waits for it. */
TEST(a_read_that_is_asked_for_again_within_the_host_is_refused)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);

	read_again_without_key(p);
	check_eq(p->n, 3);
	check_eq(p->log[1].op, OP_GROUNDS);
	check_eq(p->log[2].syndrome, aeth_nak(NAK_REMOTE_ACCESS));
	check_eq(p->b->q.qp.state, IBV_QPS_ERR);
	pair_close(p);
}

/* What the program allows no more is not read again; the result of an atomic is nobody's memory. */
TEST(a_duplicate_read_needs_the_right_that_it_had)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg read = pair_request(p, OP_READ_REQUEST, 0),
		   add = pair_request(p, OP_FETCH_ADD, 1);

	read.dma_len = 8;
	pair_input(p, &read);
	pair_input(p, &add);
	check_eq(p->n, 2);
	p->b->q.qp.attr.qp_access_flags = 0;
	pair_input(p, &read);
	check_eq(p->n, 2);
	pair_input(p, &add);
	check_eq(p->n, 3);
	check_eq(p->log[2].op, OP_ATOMIC_ACK);
	pair_close(p);
}

/* No atomic came since, so what was saved of the last one names a PSN that is a WRITE's now. */
TEST(psns_come_again)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg add = pair_request(p, OP_FETCH_ADD, 0),
		   write = pair_request(p, OP_WRITE_ONLY, 1);

	pair_input(p, &add);
	pair_input(p, &write);
	tqp_flush_ack(&p->b->q);
	check_eq(p->log[p->n - 1].psn, 1);
	p->b->q.rsp.epsn = 0; /* 2^24 - 2 WRITEs later */
	write.psn = 0;
	pair_input(p, &write);
	tqp_flush_ack(&p->b->q);
	check_eq(p->log[p->n - 1].op, OP_ACKNOWLEDGE);
	check_eq(p->log[p->n - 1].psn, 0);
	pair_close(p);
}

TEST(a_read_that_was_never_granted_is_not_repeated)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_READ_REQUEST, PSN_MASK);

	s.dma_len = 8;
	pair_input(p, &s);
	check_eq(p->n, 0);
	pair_close(p);
}

TEST(a_duplicate_send_is_acknowledged_and_not_delivered)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_SEND_ONLY, 0);

	pair_receive(p->b, 0x4000, 8);
	pair_receive(p->b, 0x4100, 8);
	pair_input(p, &s);
	pair_input(p, &s);
	pair_good(p->b, true);
	pair_none(p->b, true);
	check_eq(p->n, 2);
	check_eq(p->log[1].syndrome, AETH_UNLIMITED);
	check_eq(p->log[1].psn, 0);
	pair_close(p);
}

TEST(a_duplicate_that_reaches_beyond_is_cut)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct seg s = pair_request(p, OP_WRITE_ONLY, PSN_MASK);

	s.len = s.dma_len = 512;
	s.npsn = 2;
	pair_input(p, &s);
	check_eq(p->log[0].syndrome, aeth_nak(NAK_PSN_SEQUENCE));
	check_eq(p->log[0].psn, 0);
	pair_close(p);
}

/* The same of one that has waited behind a long response, of which a turn sends a part; what is
 * behind it leaves. */
TEST(a_duplicate_that_waits_is_dropped_when_its_memory_goes)
{
	static const struct net_config net = { .max_seg = 256, .delay = 1000, .window = 64 };
	enum { LONG = 512 /* PSNs */ };
	struct pair *p = pair_open(&net, &rig_rc);
	struct mr *mr = short_lived(p);
	struct seg s = pair_request(p, OP_READ_REQUEST, 0), write, whole;

	write = pair_request(p, OP_WRITE_ONLY, 1 + LONG);
	whole = pair_request(p, OP_READ_REQUEST, 1);
	s.rkey = mr->ib.rkey;
	s.dma_len = 8;
	whole.npsn = LONG;
	whole.dma_len = LONG * 256;
	pair_input(p, &s);
	pair_input(p, &whole);
	pair_input(p, &s);
	pair_input(p, &write);
	check(p->b->q.again);
	check_eq(mr_destroy(mr), 0);
	while (rig_go_on(&p->rig))
		;
	check_eq(p->rig.net.sent, 1 + LONG + 1);
	check_eq(pair_count(p, p->a, OP_READ_RESP_ONLY), 1);
	check_eq(p->b->q.qp.state, IBV_QPS_RTS);
	pair_no_event(p->b);
	pair_close(p);
}

RUN_TESTS(unit_test(a_duplicate_atomic_is_executed_once),
	  unit_test(a_duplicate_atomic_write_is_executed_once),
	  unit_test(all_outstanding_atomics_can_be_answered_again),
	  unit_test(a_duplicate_read_is_read_again),
	  unit_test(a_duplicate_read_names_memory_that_was_granted),
	  unit_test(a_duplicate_read_of_withdrawn_memory_is_dropped),
	  unit_test(a_read_that_is_asked_for_again_within_the_host_is_refused),
	  unit_test(a_duplicate_read_needs_the_right_that_it_had), unit_test(psns_come_again),
	  unit_test(a_read_that_was_never_granted_is_not_repeated),
	  unit_test(a_duplicate_send_is_acknowledged_and_not_delivered),
	  unit_test(a_duplicate_that_reaches_beyond_is_cut),
	  unit_test(a_duplicate_that_waits_is_dropped_when_its_memory_goes))
