// SPDX-License-Identifier: MIT
/* The responder's rules: sequence, rights, lengths, and what each refusal does to both
 * sides. Requests are made by hand where a requester would not send them. */
#include "hca/mw.h"
#include "pair.h"
#include "util/quiesce.h"

static uint64_t word(const struct pair *p)
{
	uint64_t x;

	memcpy(&x, p->b->mem, 8);
	return x;
}

/* Its bytes must come with it, eight of them. */
TEST(an_atomic_write_of_another_form_is_refused)
{
	static const struct {
		uint32_t len, dma_len;
		uint8_t flags;
	} forms[] = { { 4, 4, 0 }, { 8, 16, 0 }, { 16, 16, 0 }, { 0, 8, 0 }, { 8, 8, SEG_BYREF } };

	for (unsigned int i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		struct seg s = pair_request(p, OP_ATOMIC_WRITE, 0);
		uint64_t value[2] = { 1, 2 }, before = word(p);

		s.data = (const uint8_t *)value;
		s.len = forms[i].len;
		s.dma_len = forms[i].dma_len;
		s.flags |= forms[i].flags;
		pair_input(p, &s);
		check_eq(word(p), before);
		check_eq(p->b->q.qp.state, IBV_QPS_ERR);
		check_eq(p->log[1].syndrome, aeth_nak(NAK_INVALID_REQUEST));
		pair_close(p);
	}
}

TEST(compare_and_swap_swaps_only_equals)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_COMPARE_SWAP, 0);
	uint64_t before = word(p);

	s.compare = before + 1;
	s.swap_add = 7;
	pair_input(p, &s);
	check_eq(word(p), before);
	s.psn = 1;
	s.compare = before;
	pair_input(p, &s);
	check_eq(word(p), 7);
	pair_close(p);
}

TEST(no_plain_ack_carries_the_psn_of_a_read_or_an_atomic)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg write = pair_request(p, OP_WRITE_ONLY, 0),
		   read = pair_request(p, OP_READ_REQUEST, 1);
	struct seg add = pair_request(p, OP_FETCH_ADD, 3);

	read.dma_len = 300;
	read.npsn = 2;
	pair_input(p, &write);
	pair_input(p, &read);
	pair_input(p, &add);
	pair_input(p, &write);
	check_eq(p->n, 5);
	check_eq(p->log[4].op, OP_ACKNOWLEDGE);
	check_eq(p->log[4].psn, 0);
	write.psn = 4;
	pair_input(p, &write);
	write.psn = 0;
	pair_input(p, &write);
	check_eq(p->n, 7);
	check_eq(p->log[6].psn, 4);
	pair_close(p);
}

TEST(a_gap_is_told_once)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_WRITE_ONLY, 3);

	pair_input(p, &s);
	s.psn = 4;
	pair_input(p, &s);
	check_eq(p->n, 1);
	check_eq(p->log[0].syndrome, aeth_nak(NAK_PSN_SEQUENCE));
	check_eq(p->log[0].psn, 0);
	s.psn = 0;
	pair_input(p, &s);
	s.psn = 2;
	pair_input(p, &s);
	check_eq(p->n, 3);
	check_eq(p->log[2].psn, 1);
	pair_close(p);
}

TEST(packets_of_strangers_are_dropped)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_WRITE_ONLY, 0);

	s.sqpn ^= 1;
	pair_input(p, &s);
	s.sqpn ^= 1;
	s.pkey = 0x1234;
	pair_input(p, &s);
	s.pkey = 0xffff;
	s.op |= SVC_UC;
	pair_input(p, &s);
	check_eq(p->n, 0);
	check_eq(p->b->q.rsp.epsn, 0);
	check_eq(p->rig.counters.v[COUNTER_PORT_RCV_ERRORS], 3);
	pair_close(p);
}

TEST(the_first_packet_in_rtr_says_that_communication_is_established)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg s = pair_request(p, OP_WRITE_ONLY, 0);

	p->b->q.qp.state = IBV_QPS_RTR;
	pair_input(p, &s);
	s.psn = 1;
	pair_input(p, &s);
	pair_event(p->b, IBV_EVENT_COMM_EST);
	pair_no_event(p->b);
	pair_close(p);
}

TEST(a_write_of_no_bytes_needs_no_key)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 0);

	w.rkey = 0xdead;
	w.nsge = 0;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

/* What a request looks like, and how it ends: a's completion, b's event. */
static const struct refusal_case {
	const char *what;
	uint8_t op;
	uint32_t len;
	uint32_t access; /* of b's QP; 0: all */
	uint64_t off; /* remote, in b's MR */
	bool bad_key;
	uint8_t syndrome, vendor;
	enum ibv_event_type event;
} refusals[] = {
	/* clang-format off */
	{ "write not enabled", MLX5_OPCODE_RDMA_WRITE, 8, IBV_ACCESS_REMOTE_READ, 0, false,
	  MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, VENDOR_REM_INV_REQ, IBV_EVENT_QP_REQ_ERR },
	{ "read not enabled", MLX5_OPCODE_RDMA_READ, 8, IBV_ACCESS_REMOTE_WRITE, 0, false,
	  MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, VENDOR_REM_INV_REQ, IBV_EVENT_QP_REQ_ERR },
	{ "atomic not enabled", MLX5_OPCODE_ATOMIC_FA, 8, IBV_ACCESS_REMOTE_WRITE, 0, false,
	  MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, VENDOR_REM_INV_REQ, IBV_EVENT_QP_REQ_ERR },
	{ "atomic misaligned", MLX5_OPCODE_ATOMIC_CS, 8, 0, 4, false,
	  MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, VENDOR_REM_INV_REQ, IBV_EVENT_QP_REQ_ERR },
	{ "write, wrong key", MLX5_OPCODE_RDMA_WRITE, 8, 0, 0, true,
	  MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, VENDOR_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR },
	{ "write, a byte too far", MLX5_OPCODE_RDMA_WRITE, 1000, 0, RIG_MEM - 999, false,
	  MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, VENDOR_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR },
	{ "read, a byte too far", MLX5_OPCODE_RDMA_READ, 1000, 0, RIG_MEM - 999, false,
	  MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, VENDOR_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR },
	{ "atomic, wrong key", MLX5_OPCODE_ATOMIC_FA, 8, 0, 0, true,
	  MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, VENDOR_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR },
	/* clang-format on */
};

static void check_refusal(const struct refusal_case *c, const struct net_config *cfg)
{
	struct pair *p = pair_open(cfg, &rig_rc);
	struct rig_wr w = pair_remote(p, c->op, 0, c->len);
	uint8_t *before = rig_alloc(RIG_MEM);

	memcpy(before, p->b->mem, RIG_MEM);
	if (c->access)
		p->b->q.qp.attr.qp_access_flags = c->access;
	w.raddr = RIG_IOVA + c->off;
	w.rkey ^= c->bad_key;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_ne(pair_bad(p->a, false, c->syndrome, c->vendor).reason, 0);
	pair_event(p->b, c->event);
	check_eq(p->a->q.qp.state, IBV_QPS_ERR);
	check_eq(p->b->q.qp.state, IBV_QPS_ERR);
	check_ne(p->b->q.cause, 0);
	check_mem(before, p->b->mem, RIG_MEM);
	free(before);
	pair_close(p);
}

TEST(requests_without_right_are_refused)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		check_refusal(&refusals[i], &pair_lossy);
		check_refusal(&refusals[i], &pair_host);
	}
}

/* The QP enables everything; the region lacks the one right. */
TEST(the_region_must_have_the_right_too)
{
	static const struct {
		uint8_t op;
		unsigned int rights;
	} cases[] = {
		{ MLX5_OPCODE_RDMA_WRITE, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC },
		{ MLX5_OPCODE_RDMA_READ, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC },
		{ MLX5_OPCODE_ATOMIC_FA, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		struct mr_attr attr = { .access = IBV_ACCESS_LOCAL_WRITE | cases[i].rights };
		struct rig_wr w = pair_remote(p, cases[i].op, 0, 8);

		check_eq(mr_rereg(p->b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, &attr), 0);
		rig_post(p->a, &w);
		rig_run(&p->rig);
		pair_bad(p->a, false, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, VENDOR_REM_ACCESS);
		pair_close(p);
	}
}

/* Three packets are one message; an atomic is one, too. */
TEST(answers_count_messages_not_packets)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 600);
	uint32_t msn = 0;

	for (int i = 0; i < 3; i++) {
		rig_post(p->a, &w);
		rig_run(&p->rig);
		msn++;
		check_eq(p->log[p->n - 1].op, OP_ACKNOWLEDGE);
		check_eq(p->log[p->n - 1].msn, msn);
	}
	w = pair_remote(p, MLX5_OPCODE_ATOMIC_FA, 0, 8);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_eq(p->log[p->n - 1].msn, msn + 1);
	pair_close(p);
}

TEST(more_reads_than_max_dest_rd_atomic_are_refused)
{
	struct rig_attr attr = rig_rc;

	attr.dest_rd_atomic = 2;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct seg s = pair_request(p, OP_READ_REQUEST, 0);

	p->b->end.refuse = EAGAIN; /* its answers wait */
	s.dma_len = 8;
	for (s.psn = 0; s.psn < 3; s.psn++)
		pair_input(p, &s);
	check_eq(p->b->q.qp.state, IBV_QPS_ERR);
	p->b->end.refuse = 0;
	tqp_resume(&p->b->q, 0);
	check_eq(p->n, 4); /* both answers, then the NAK behind its grounds */
	check_eq(p->log[2].op, OP_GROUNDS);
	check_eq(p->log[2].psn, 2);
	check_eq(p->log[3].syndrome, aeth_nak(NAK_INVALID_REQUEST));
	check_eq(p->log[3].psn, 2);
	pair_close(p);
}

TEST(an_ack_does_not_overtake_a_read_response)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct seg read = pair_request(p, OP_READ_REQUEST, 0),
		   write = pair_request(p, OP_WRITE_ONLY, 1);

	p->b->end.refuse = EAGAIN;
	read.dma_len = 8;
	pair_input(p, &read);
	pair_input(p, &write);
	p->b->end.refuse = 0;
	tqp_resume(&p->b->q, 0);
	check_eq(p->n, 2);
	check_eq(p->log[0].op, OP_READ_RESP_ONLY);
	check_eq(p->log[1].op, OP_ACKNOWLEDGE);
	check_eq(p->log[1].psn, 1);
	pair_close(p);
}

TEST(a_receive_that_is_too_small_fails_on_both_sides)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_send(p->a, 0, 1001);

	pair_receive(p->b, 0x4000, 1000);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->b, true, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, VENDOR_LOC_LEN);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, VENDOR_REM_INV_REQ);
	pair_close(p);
}

TEST(a_receive_with_a_bad_key_fails_on_both_sides)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_send(p->a, 0, 8);
	struct sge s = rig_sge(p->b, 0x4000, 8);

	s.key ^= 1;
	rig_receive(p->b, &s, 1);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->b, true, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_REMOTE_OP_ERR, VENDOR_REM_OP);
	pair_close(p);
}

TEST(a_region_cannot_be_invalidated_by_the_peer)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_send(p->a, 0, 8);

	w.op = MLX5_OPCODE_SEND_INVAL;
	w.imm = htobe32(p->b->mr->ib.rkey);
	pair_receive(p->b, 0x4000, 8);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->b, true, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, VENDOR_REM_INV_REQ);
	check_eq(p->b->q.qp.state, IBV_QPS_ERR);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 0); /* class J: no NAK */
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, VENDOR_TRANSPORT_RETRY);
	pair_close(p);
}

/* Operations we do not offer, middles that are not full, a LAST of nothing, a message in a
 * message, lengths that do not add up. */
TEST(misshapen_messages_are_refused)
{
	static const struct {
		uint8_t op[2];
		uint32_t len[2], dma_len;
	} cases[] = {
		{ { OP_FLUSH }, { 0 }, 0 },
		{ { OP_WRITE_FIRST }, { 255 }, 1000 },
		{ { OP_WRITE_LAST }, { 8 }, 8 },
		{ { OP_WRITE_FIRST, OP_WRITE_LAST }, { 256, 0 }, 256 },
		{ { OP_WRITE_FIRST, OP_WRITE_ONLY }, { 256, 8 }, 512 },
		{ { OP_WRITE_FIRST, OP_SEND_LAST }, { 256, 8 }, 264 },
		{ { OP_WRITE_FIRST, OP_WRITE_LAST }, { 256, 8 }, 265 },
		{ { OP_WRITE_ONLY }, { 9 }, 8 },
		{ { OP_WRITE_ONLY }, { 257 }, 257 },
		{ { OP_WRITE_FIRST, OP_READ_REQUEST }, { 256, 0 }, 512 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);

		pair_receive(p->b, 0x4000, 8);
		for (uint32_t k = 0; k < 2 && (!k || cases[i].op[1]); k++) {
			struct seg s = pair_request(p, cases[i].op[k], k);

			s.len = cases[i].len[k];
			s.dma_len = cases[i].dma_len;
			s.data = p->a->mem;
			pair_input(p, &s);
		}
		check_eq(p->b->q.qp.state, IBV_QPS_ERR);
		check_eq(p->log[p->n - 1].syndrome, aeth_nak(NAK_INVALID_REQUEST));
		pair_close(p);
	}
}

/* The window by which the WRITE comes whose payload is fetched; found free meanwhile? */
static struct mw *window;
static bool window_was_free;

static int fetch_beside_unbinding(struct dest *from, const struct seg *s, uint32_t skip,
				  const struct piece *dst, unsigned int ndst)
{
	(void)from, (void)s, (void)skip, (void)dst, (void)ndst;
	window_was_free = spin_trylock(&window->lock);
	if (window_was_free)
		spin_unlock(&window->lock);
	return 0;
}

static struct mw *bind_window(struct rig_qp *b)
{
	struct mw_bind how = { .lkey = b->mr->ib.lkey,
			       .access = IBV_ACCESS_REMOTE_WRITE,
			       .addr = RIG_IOVA,
			       .len = 64,
			       .pdn = b->pd->pdn,
			       .qpn = b->q.qp.qpn };
	struct mw *mw;

	check_eq(mw_create(b->pd, IBV_MW_TYPE_2, &mw), 0);
	how.window = how.rkey = mw->ib.rkey;
	quiesce_enter();
	check(!mw_bind(b->q.qp.ctx->hca->keys, &how));
	quiesce_exit();
	return mw;
}

TEST(a_window_stays_bound_while_a_write_goes_by_it)
{
	static const struct link_ops ops = { .name = "test", .fetch = fetch_beside_unbinding };
	struct rig_attr attr = rig_rc;
	struct dest from = { .ops = &ops, .process = 1 };
	struct pair *p;
	struct seg s;

	attr.access |= IBV_ACCESS_MW_BIND;
	p = pair_open(&pair_lossy, &attr);
	p->b->end.d.process = from.process;
	window = bind_window(p->b);
	s = pair_request(p, OP_WRITE_ONLY, 0);
	s.flags |= SEG_BYREF;
	s.from = &from;
	s.rkey = window->rkey;
	s.len = s.dma_len = 64;
	window_was_free = true;
	pair_input(p, &s);
	check_eq(p->log[p->n - 1].syndrome, AETH_ACK | AETH_UNLIMITED);
	check(!window_was_free);
	check(spin_trylock(&window->lock));
	spin_unlock(&window->lock);
	check_eq(mw_destroy(window), 0);
	pair_close(p);
}

enum { LONG = 512, TURN = 128 /* PSNs */ };

/* A READ of LONG PSNs, which other stacks ask for at once, has arrived. */
static struct pair *long_read(void)
{
	static const struct net_config net = { .max_seg = 256, .delay = 1000, .window = 64 };
	struct pair *p = pair_open(&net, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, LONG * 256);

	p->a->q.req.part = LONG;
	rig_post(p->a, &w);
	net_step(&p->rig.net);
	return p;
}

/* The segments of one turn, behind which the next is due or not. */
static void check_turn(struct pair *p, uint64_t segments, bool goes_on)
{
	struct tqp *q = &p->b->q;
	uint64_t before = p->rig.net.sent;

	check(q->again);
	q->again = false;
	tqp_resume(q, p->rig.net.now);
	check_eq(p->rig.net.sent - before, segments);
	check_eq(q->again, goes_on);
}

/* What comes behind it waits, in its order, and a second long one has turns of its own. */
TEST(a_long_response_leaves_in_parts)
{
	struct pair *p = long_read();
	struct seg again = pair_request(p, OP_READ_REQUEST, 10),
		   write = pair_request(p, OP_WRITE_ONLY, LONG);

	check_eq(p->rig.net.sent, 1 + TURN);
	again.npsn = TURN + 1;
	again.dma_len = again.npsn * 256;
	again.va += 0x8000 + 10 * 256;
	pair_input(p, &again);
	write.flags |= SEG_ACKREQ;
	pair_input(p, &write);
	check_eq(p->rig.net.sent, 1 + TURN);
	check_turn(p, TURN, true);
	check_turn(p, TURN, true);
	check_turn(p, TURN, true);
	check_turn(p, TURN, true);
	check_turn(p, 2, false); /* and the ACK */
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_mem(p->a->mem, p->b->mem + 0x8000, LONG * 256);
	pair_close(p);
}

TEST(the_rest_of_a_response_ends_with_the_queue_pair)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_ERR, IBV_QPS_RESET };

	for (int i = 0; i < 2; i++) {
		struct pair *p = long_read();
		uint64_t sent;

		check(p->b->q.again);
		rig_move(p->b, states[i]);
		check_eq(p->b->q.rsp.silent, 0);
		sent = p->rig.net.sent;
		tqp_resume(&p->b->q, p->rig.net.now);
		check_eq(p->rig.net.sent, sent);
		pair_close(p);
	}
}

/* Its memory is gone between two turns. */
TEST(the_rest_of_a_response_is_checked_like_its_beginning)
{
	struct pair *p = long_read();
	struct mr_attr attr = { .access = IBV_ACCESS_LOCAL_WRITE };

	check_eq(mr_rereg(p->b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, &attr), 0);
	check_turn(p, 2, false); /* the reason and the NAK */
	rig_run(&p->rig);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, VENDOR_REM_ACCESS);
	pair_close(p);
}

RUN_TESTS(unit_test(a_long_response_leaves_in_parts),
	  unit_test(the_rest_of_a_response_ends_with_the_queue_pair),
	  unit_test(the_rest_of_a_response_is_checked_like_its_beginning),
	  unit_test(an_atomic_write_of_another_form_is_refused),
	  unit_test(compare_and_swap_swaps_only_equals),
	  unit_test(no_plain_ack_carries_the_psn_of_a_read_or_an_atomic),
	  unit_test(a_gap_is_told_once), unit_test(packets_of_strangers_are_dropped),
	  unit_test(the_first_packet_in_rtr_says_that_communication_is_established),
	  unit_test(a_write_of_no_bytes_needs_no_key),
	  unit_test(requests_without_right_are_refused),
	  unit_test(the_region_must_have_the_right_too),
	  unit_test(answers_count_messages_not_packets),
	  unit_test(more_reads_than_max_dest_rd_atomic_are_refused),
	  unit_test(an_ack_does_not_overtake_a_read_response),
	  unit_test(a_receive_that_is_too_small_fails_on_both_sides),
	  unit_test(a_receive_with_a_bad_key_fails_on_both_sides),
	  unit_test(a_region_cannot_be_invalidated_by_the_peer),
	  unit_test(misshapen_messages_are_refused),
	  unit_test(a_window_stays_bound_while_a_write_goes_by_it))
