// SPDX-License-Identifier: MIT
/* The requester's rules: order, fence, windows, keys, by value and by reference, direct access. */
#include "pair.h"
#include "transport/flush.h"

TEST(send_delivers_bytes_and_immediate)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_send(p->a, 100, 1000);
	struct cqe c;

	w.op = MLX5_OPCODE_SEND_IMM;
	w.imm = 0x04030201;
	pair_receive(p->b, 0x4000, 2000);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_eq(pair_good(p->a, false).wqe_opcode, MLX5_OPCODE_SEND_IMM);
	c = pair_good(p->b, true);
	check_eq(c.opcode, MLX5_CQE_RESP_SEND_IMM);
	check_eq(c.byte_cnt, 1000);
	check_eq(c.imm, 0x04030201);
	check_mem(p->b->mem + 0x4000, p->a->mem + 100, 1000);
	pair_close(p);
}

TEST(psns_wrap_at_24_bits)
{
	struct rig_attr attr = rig_rc;

	attr.sq_psn = attr.rq_psn = 0xfffffe;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 1024);

	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(p->log[0].psn, 0xfffffe);
	check_eq(p->log[2].psn, 0);
	check_eq(p->a->q.req.una, 2);
	check_mem(p->b->mem + 0x8000, p->a->mem, 1024);
	pair_close(p);
}

TEST(read_crosses_the_wrap)
{
	struct rig_attr attr = rig_rc;

	attr.sq_psn = attr.rq_psn = 0xffffff;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 700);

	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_eq(pair_good(p->a, false).byte_cnt, 700);
	check_mem(p->a->mem, p->b->mem + 0x8000, 700);
	check_eq(p->b->q.rsp.epsn, 2);
	pair_close(p);
}

TEST(unsignalled_sends_make_no_completion)
{
	struct rig_attr attr = rig_rc;

	attr.sig_all = false;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	w.signaled = false;
	rig_post(p->a, &w);
	w.signaled = true;
	uint16_t second = rig_post(p->a, &w);

	rig_run(&p->rig);
	check_eq(pair_good(p->a, false).wqe_counter, second);
	pair_none(p->a, false);
	pair_close(p);
}

TEST(fence_waits_for_reads)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr read = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 64);
	struct rig_wr write = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0x100, 64);

	rig_post(p->a, &read);
	rig_post(p->a, &write);
	write.fence = true;
	rig_post(p->a, &write);
	check_eq(pair_count(p, p->b, OP_WRITE_ONLY), 1); /* the unfenced one has gone */
	rig_run(&p->rig);
	check_eq(pair_count(p, p->b, OP_WRITE_ONLY), 2);
	pair_close(p);
}

TEST(no_more_reads_than_max_rd_atomic)
{
	struct rig_attr attr = rig_rc;

	attr.rd_atomic = 2;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 8);

	for (int i = 0; i < 5; i++)
		rig_post(p->a, &w);
	check_eq(pair_count(p, p->b, OP_READ_REQUEST), 2);
	rig_run(&p->rig);
	for (int i = 0; i < 5; i++)
		pair_good(p->a, false);
	pair_close(p);
}

TEST(read_with_max_rd_atomic_0_is_refused)
{
	struct rig_attr attr = rig_rc;

	attr.rd_atomic = 0;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 8);

	rig_post(p->a, &w);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, VENDOR_LOC_QP_OP);
	check_eq(p->n, 0);
	pair_close(p);
}

TEST(unknown_opcode_is_refused)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_send(p->a, 0, 8);

	w.op = 0x55;
	rig_post(p->a, &w);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, VENDOR_LOC_QP_OP);
	check_eq(p->a->q.qp.state, IBV_QPS_ERR);
	pair_close(p);
}

/* Our own opcodes are for WQEs that our own driver has written. */
TEST(opcodes_of_our_own_are_refused_unless_they_were_asked_for)
{
	for (uint8_t op = 0x3e; op <= WQE_OPCODE_ATOMIC_WRITE; op++) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		struct rig_wr w = pair_remote(p, WQE_OPCODE_ATOMIC_WRITE, 0, 8);

		w.op = op;
		p->a->q.qp.atomic_writes = false;
		rig_post(p->a, &w);
		pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, VENDOR_LOC_QP_OP);
		check_eq(p->n, 0);
		pair_close(p);
	}
}

/* A bad key, a range one byte too long, a READ into memory that may not be written. */
TEST(sge_keys_are_checked)
{
	for (int i = 0; i < 3; i++) {
		struct rig_attr attr = rig_rc;

		if (i == 2)
			attr.access = IBV_ACCESS_REMOTE_READ;
		struct pair *p = pair_open(&pair_lossy, &attr);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 64);

		if (i == 0)
			w.sge[0].key ^= 1;
		if (i == 1)
			w.sge[0].addr = RIG_IOVA + RIG_MEM - 63;
		rig_post(p->a, &w);
		check_ne(pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT)
				 .reason,
			 0);
		check_eq(p->n, 0);
		pair_close(p);
	}
}

TEST(errors_come_after_the_completions_before_them)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 600);

	rig_post(p->a, &w);
	w.sge[0].key ^= 1;
	rig_post(p->a, &w);
	w.sge[0].key ^= 1;
	rig_post(p->a, &w);
	pair_none(p->a, false);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_SEND_FLUSH);
	pair_close(p);
}

TEST(inline_data_needs_no_key)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 100);

	w.inl = true;
	w.sge[0].key = 0;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_mem(p->b->mem + 0x8000, p->a->mem, 100);
	pair_close(p);
}

/* A header inline, the payload behind it by a key: on one host it goes by value, whatever its size,
 * since the ring is the sender's own; to a network in packets. */
static void mixed(const struct net_config *cfg, uint32_t len)
{
	struct pair *p = pair_open(cfg, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 100);

	w.lead = 1;
	w.nsge = 2;
	w.sge[0].key = 0;
	w.sge[1] = rig_sge(p->a, 300, len);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_mem(p->b->mem + 0x8000, p->a->mem, 100);
	check_mem(p->b->mem + 0x8000 + 100, p->a->mem + 300, len);
	w.sge[1].key ^= 1;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	pair_close(p);
}

TEST(inline_data_and_data_segments_make_one_message)
{
	for (uint32_t len = 1; len <= 10000; len = len * 3 + 1) {
		mixed(&pair_host, len);
		mixed(&pair_lossy, len);
	}
}

TEST(large_messages_go_whole_and_by_reference_on_one_host)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 1, 10000);

	rig_post(p->a, &w);
	check_eq(p->n, 1);
	check_eq(p->log[0].npsn, 40);
	check_eq(p->log[0].op, OP_WRITE_ONLY);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_mem(p->b->mem + 0x8000, p->a->mem + 1, 10000);
	pair_close(p);
}

TEST(a_peer_that_cannot_fetch_gets_it_by_value)
{
	struct net_config cfg = pair_host;

	cfg.cannot_fetch = true;
	struct pair *p = pair_open(&cfg, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 1, 10000);

	rig_post(p->a, &w);
	rig_run(&p->rig);
	w.op = MLX5_OPCODE_RDMA_READ;
	w.sge[0] = rig_sge(p->a, 0x4000, 10000);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_good(p->a, false);
	check_mem(p->a->mem + 0x4000, p->a->mem + 1, 10000);
	check_eq(p->rig.net.no_reference, 2); /* one each way, then never again */
	pair_close(p);
}

TEST(acks_of_one_host_wait_until_the_input_runs_dry)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	for (int i = 0; i < 10; i++)
		rig_post(p->a, &w);
	while (net_next(&p->rig.net) != UINT64_MAX)
		net_step(&p->rig.net);
	check_eq(p->b->ack_later, 1);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 0);
	rig_run(&p->rig);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 1);
	for (int i = 0; i < 10; i++)
		pair_good(p->a, false);
	pair_close(p);
}

TEST(a_request_carries_the_ack_that_is_due)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	net_step(&p->rig.net);
	w.sge[0].key = p->b->mr->ib.lkey;
	w.rkey = p->a->mr->ib.rkey;
	rig_post(p->b, &w);
	check(p->log[1].flags & SEG_ACK);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 0);
	pair_close(p);
}

TEST(sending_goes_on_when_the_link_has_space)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	p->a->end.refuse = EAGAIN;
	rig_post(p->a, &w);
	rig_post(p->a, &w);
	p->a->end.refuse = 0;
	rig_ring(p->a); /* still on the waiting list */
	check_eq(p->n, 0);
	tqp_resume(&p->a->q, p->rig.net.now);
	check_eq(p->n, 2);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_good(p->a, false);
	pair_close(p);
}

static int direct_calls, direct_answer;
static struct direct_ask direct_last;
static uint32_t direct_at_once;

static int fake_direct(struct dest *d, struct direct_ask *ask)
{
	uint32_t left = ask->len - ask->done;

	(void)d;
	direct_calls++;
	direct_last = *ask;
	check(ask->done < ask->len);
	ask->done += left < direct_at_once ? left : direct_at_once;
	return direct_answer;
}

/* @p's requester has a peer whose memory it can reach. */
static struct link_ops directly(struct pair *p, uint32_t at_once)
{
	struct link_ops ops = *p->a->end.d.ops;

	direct_calls = direct_answer = 0;
	direct_at_once = at_once;
	ops.direct = fake_direct;
	return ops;
}

TEST(direct_access_needs_one_exchange_and_takes_no_psn)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct link_ops ops = directly(p, 8);
	uint32_t psn;

	p->a->end.d.ops = &ops;
	rig_post(p->a, &w);
	check_eq(direct_calls, 0);
	rig_run(&p->rig);
	psn = p->a->q.req.psn;
	rig_post(p->a, &w);
	check_eq(direct_calls, 1);
	check_eq(p->a->q.req.psn, psn);
	pair_good(p->a, false);
	pair_good(p->a, false); /* without anybody else's help */
	direct_answer = EAGAIN;
	rig_post(p->a, &w);
	check_eq(direct_calls, 2);
	rig_post(p->a, &w); /* something is outstanding now */
	check_eq(direct_calls, 2);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_good(p->a, false);
	pair_close(p);
}

static struct pair *open_uc(void)
{
	struct rig_attr attr = rig_rc;

	attr.type = IBV_QPT_UC;
	return pair_open(&pair_host, &attr);
}

TEST(direct_access_of_UC_needs_one_message_and_names_its_psn)
{
	struct pair *p = open_uc();
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct link_ops ops = directly(p, 8);
	uint32_t psn;

	p->a->end.d.ops = &ops;
	rig_post(p->a, &w);
	check_eq(direct_calls, 0);
	psn = p->a->q.req.psn;
	rig_post(p->a, &w); /* whether the first was executed, the link finds out */
	check_eq(direct_calls, 1);
	check(direct_last.unanswered);
	check_eq(direct_last.psn, psn);
	check_eq(p->a->q.req.psn, psn);
	direct_answer = EAGAIN;
	rig_post(p->a, &w);
	check_eq(direct_calls, 2);
	rig_run(&p->rig);
	check_eq(p->a->q.req.psn, psn_add(psn, 1));
	check_eq(p->b->q.rsp.epsn, psn_add(psn, 1));
	for (int i = 0; i < 3; i++)
		pair_good(p->a, false);
	pair_close(p);
}

/* One exchange by the ring, so that direct access may follow. */
static void exchange(struct pair *p)
{
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
}

TEST(a_long_direct_access_goes_on_in_later_turns)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 20000);
	struct link_ops ops = directly(p, 8000);
	unsigned int sent;

	exchange(p);
	sent = p->n;
	p->a->end.d.ops = &ops;
	rig_post(p->a, &w);
	check_eq(direct_calls, 1);
	check(p->a->q.again);
	rig_post(p->a, &w); /* waits behind it, and a doorbell brings it on as well */
	check_eq(direct_calls, 2);
	check_eq(p->a->q.req.direct.done, 16000);
	tqp_resume(&p->a->q, p->rig.net.now);
	check_eq(direct_calls, 4);
	pair_good(p->a, false);
	tqp_resume(&p->a->q, p->rig.net.now);
	tqp_resume(&p->a->q, p->rig.net.now);
	pair_good(p->a, false);
	check_eq(direct_calls, 6);
	check_eq(p->n, sent); /* nothing by the ring */
	pair_close(p);
}

/* UC goes on after an error, and the next one begins at its beginning. */
TEST(a_direct_access_that_ends_half_way_leaves_nothing_behind)
{
	struct pair *p = open_uc();
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 20000);
	struct link_ops ops = directly(p, 8000);

	exchange(p);
	p->a->end.d.ops = &ops;
	rig_post(p->a, &w);
	check_eq(p->a->q.req.direct.done, 8000);
	flush_to_sqe(&p->a->q, 0, p->rig.net.now);
	store_relaxed(&p->a->q.qp.state, IBV_QPS_RTS);
	rig_post(p->a, &w);
	check_eq(direct_calls, 2);
	check_eq(direct_last.done, 0);
	pair_close(p);
}

TEST(a_direct_access_that_fails_half_way_goes_by_the_ring_whole)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 20000);
	struct link_ops ops = directly(p, 8000);
	unsigned int sent;

	exchange(p);
	sent = p->n;
	p->a->end.d.ops = &ops;
	rig_post(p->a, &w);
	direct_answer = EAGAIN;
	tqp_resume(&p->a->q, p->rig.net.now);
	check_eq(p->n, sent + 1);
	check_eq(p->log[sent].dma_len, 20000);
	check_eq(p->a->q.req.direct.done, 0);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

TEST(a_read_waits_for_those_that_keep_it_from_direct_access)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 20000);
	struct link_ops ops = directly(p, 20000);
	unsigned int sent;

	exchange(p);
	sent = p->n;
	rig_post(p->a, &w); /* by the ring */
	p->a->end.d.ops = &ops;
	rig_post(p->a, &w);
	check_eq(p->n, sent + 1);
	check_eq(direct_calls, 0);
	rig_run(&p->rig);
	check_eq(direct_calls, 1);
	pair_good(p->a, false);
	pair_good(p->a, false);
	sent = p->n;
	direct_answer = EAGAIN;
	rig_post(p->a, &w);
	rig_post(p->a, &w);
	check_eq(p->n, sent + 1);
	rig_run(&p->rig);
	check_eq(direct_calls, 3);
	sent = p->n;
	rig_post(p->a, &w);
	rig_post(p->a, &w); /* no more waiting in vain */
	check_eq(p->n, sent + 2);
	rig_run(&p->rig);
	for (int i = 0; i < 4; i++)
		pair_good(p->a, false);
	pair_close(p);
}

static uint32_t polls_so_far = 1;

static uint32_t fake_polls(const struct tqp *q)
{
	(void)q;
	return polls_so_far;
}

static struct pair *streaming;
static uint64_t into_turn; /* ns that its turn has lasted */

static uint64_t fake_clock(const struct tqp *q)
{
	(void)q;
	return streaming->rig.net.now + into_turn;
}

/* Posts @w @n times, one each @ns, and returns how many were done directly. */
static int stream(struct pair *p, const struct rig_wr *w, int n, uint64_t ns)
{
	static struct tqp_env with_polls;
	int before = direct_calls;

	streaming = p;
	with_polls = *p->a->q.env;
	with_polls.polls = fake_polls;
	with_polls.clock = fake_clock;
	p->a->q.env = &with_polls;
	for (int i = 0; i < n; i++) {
		p->rig.net.now += ns;
		rig_post(p->a, w);
	}
	return direct_calls - before;
}

static void all_good(struct pair *p, int n)
{
	while (n--)
		pair_good(p->a, false);
}

enum { BEGINS = 16, JUDGED = 256 }; /* direct.c */

/* A pair whose WRITEs @w are done directly. */
static struct pair *stream_open(struct rig_wr *w)
{
	static struct link_ops ops;
	struct pair *p = pair_open(&pair_host, &rig_rc);

	*w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	ops = directly(p, 8);
	exchange(p);
	p->a->end.d.ops = &ops;
	return p;
}

TEST(a_stream_of_writes_leaves_direct_access_for_the_ring)
{
	struct rig_wr w;
	struct pair *p = stream_open(&w);

	check_eq(stream(p, &w, BEGINS + 4, 1000), BEGINS);
	rig_run(&p->rig);
	all_good(p, BEGINS + 4);
	polls_so_far++; /* the program has polled: a new stream */
	check_eq(stream(p, &w, BEGINS + 4, 1000), BEGINS);
	rig_run(&p->rig);
	all_good(p, BEGINS + 4);
	pair_close(p);
}

TEST(bursts_of_UC_stay_in_the_ring_while_they_are_long)
{
	struct pair *p = open_uc();
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct link_ops ops = directly(p, 8);

	exchange(p);
	p->a->end.d.ops = &ops;
	check_eq(stream(p, &w, BEGINS + 4, 1000), BEGINS);
	polls_so_far++;
	check_eq(stream(p, &w, 4, 1000), 4); /* the burst had few in the ring */
	polls_so_far++;
	check_eq(stream(p, &w, 3 * BEGINS, 1000), BEGINS);
	polls_so_far++;
	check_eq(stream(p, &w, BEGINS, 1000), 0);
	check_eq(stream(p, &w, BEGINS, 50000), BEGINS); /* far apart */
	rig_run(&p->rig);
	pair_close(p);
}

TEST(writes_that_are_polled_for_or_far_apart_are_no_stream)
{
	struct rig_wr w;
	struct pair *p = stream_open(&w);

	for (int i = 0; i < 3 * BEGINS; i++) {
		polls_so_far++;
		check_eq(stream(p, &w, 1, 1000), 1);
		pair_good(p->a, false);
	}
	check_eq(stream(p, &w, 3 * BEGINS, 50000), 3 * BEGINS);
	all_good(p, 3 * BEGINS);
	w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 16000);
	direct_at_once = 16000;
	check_eq(stream(p, &w, 3 * BEGINS, 1000), 3 * BEGINS); /* too long for the ring to pay */
	all_good(p, 3 * BEGINS);
	pair_close(p);
}

TEST(a_list_of_writes_is_timed_within_its_turn)
{
	struct rig_wr w;
	struct pair *p = stream_open(&w);

	check_eq(stream(p, &w, 1, 1000), 1);
	into_turn = BEGINS * 1000;
	check_eq(stream(p, &w, BEGINS, 0), BEGINS - 1);
	p->rig.net.now += into_turn + 500;
	into_turn = 0;
	check_eq(stream(p, &w, 1, 0), 0);
	check_eq(p->a->q.req.tail, p->a->q.req.cur); /* by the ring: it has been no slower */
	rig_run(&p->rig);
	all_good(p, BEGINS + 2);
	pair_close(p);
}

TEST(a_ring_that_does_not_answer_is_left_before_it_has_done_all_it_is_judged_by)
{
	struct rig_wr w;
	struct pair *p = stream_open(&w);

	check_eq(stream(p, &w, BEGINS + 1, 1000), BEGINS);
	p->rig.net.now += (JUDGED + 1) * 1000;
	check_eq(stream(p, &w, 1, 1000), 0); /* waits for the ring's to end */
	check_eq(p->a->q.req.tail - p->a->q.req.cur, 1);
	rig_run(&p->rig);
	check_eq(direct_calls, BEGINS + 1);
	all_good(p, BEGINS + 2);
	pair_close(p);
}

TEST(a_ring_that_is_slower_than_direct_access_is_left)
{
	struct rig_wr w;
	struct pair *p = stream_open(&w);

	check_eq(stream(p, &w, BEGINS + 1, 1000), BEGINS);
	p->rig.net.now += 100000; /* the peer's process had no processor */
	rig_run(&p->rig);
	all_good(p, BEGINS + 1);
	check_eq(stream(p, &w, 64, 1000), 64); /* the next ones stay where it was faster */
	all_good(p, 64);
	polls_so_far++;
	check_eq(stream(p, &w, BEGINS + 1, 1000), BEGINS);
	rig_run(&p->rig);
	all_good(p, BEGINS + 1);
	pair_close(p);
}

/* It waits for the completion before its own, and the verdict stays what it was. */
static void refused_behind_a_write(struct pair *p, uint8_t syndrome, uint8_t vendor)
{
	check_eq(p->n, 1);
	pair_none(p->a, false);
	rig_run(&p->rig);
	check_eq(pair_good(p->a, false).wqe_opcode, MLX5_OPCODE_RDMA_WRITE);
	pair_bad(p->a, false, syndrome, vendor);
	check_eq(pair_count(p, p->b, OP_WRITE_ONLY), 1);
	check_eq(p->a->q.qp.state, IBV_QPS_ERR);
	pair_close(p);
}

TEST(a_misplaced_wqe_behind_others_is_not_sent_and_fails)
{
	static const uint8_t ops[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ,
				       MLX5_OPCODE_NOP };

	for (size_t i = 0; i < sizeof(ops); i++) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
		uint16_t at;

		p->a->q.qp.laid_open = true;
		rig_post(p->a, &w);
		w.op = ops[i];
		at = rig_write(p->a, &w);
		put_be32(p->a->sq + at * WQE_BB, (uint32_t)(at + RIG_SQ) << 8 | w.op);
		rig_ring(p->a);
		refused_behind_a_write(p, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, VENDOR_LOC_QP_OP);
	}
}

TEST(a_wqe_longer_than_posted_behind_others_is_not_sent_and_fails)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	w.nsge = 4;
	w.sge[1] = w.sge[2] = w.sge[3] = w.sge[0];
	p->a->dbrec[1] = htobe32(rig_write(p->a, &w) + 1U);
	rig_ring(p->a);
	refused_behind_a_write(p, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, VENDOR_LOC_QP_OP);
}

TEST(a_message_that_is_too_long_behind_others_fails_for_its_length)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	w.nsge = 2;
	w.sge[0].len = 0; /* 2^31 */
	w.sge[1] = rig_sge(p->a, 0, 1);
	rig_post(p->a, &w);
	refused_behind_a_write(p, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, VENDOR_LOC_LEN);
}

RUN_TESTS(unit_test(send_delivers_bytes_and_immediate), unit_test(psns_wrap_at_24_bits),
	  unit_test(a_misplaced_wqe_behind_others_is_not_sent_and_fails),
	  unit_test(a_wqe_longer_than_posted_behind_others_is_not_sent_and_fails),
	  unit_test(a_message_that_is_too_long_behind_others_fails_for_its_length),
	  unit_test(read_crosses_the_wrap), unit_test(unsignalled_sends_make_no_completion),
	  unit_test(fence_waits_for_reads), unit_test(no_more_reads_than_max_rd_atomic),
	  unit_test(read_with_max_rd_atomic_0_is_refused), unit_test(unknown_opcode_is_refused),
	  unit_test(opcodes_of_our_own_are_refused_unless_they_were_asked_for),
	  unit_test(sge_keys_are_checked), unit_test(errors_come_after_the_completions_before_them),
	  unit_test(inline_data_needs_no_key),
	  unit_test(inline_data_and_data_segments_make_one_message),
	  unit_test(large_messages_go_whole_and_by_reference_on_one_host),
	  unit_test(a_peer_that_cannot_fetch_gets_it_by_value),
	  unit_test(acks_of_one_host_wait_until_the_input_runs_dry),
	  unit_test(a_request_carries_the_ack_that_is_due),
	  unit_test(sending_goes_on_when_the_link_has_space),
	  unit_test(direct_access_needs_one_exchange_and_takes_no_psn),
	  unit_test(direct_access_of_UC_needs_one_message_and_names_its_psn),
	  unit_test(a_long_direct_access_goes_on_in_later_turns),
	  unit_test(a_direct_access_that_ends_half_way_leaves_nothing_behind),
	  unit_test(a_direct_access_that_fails_half_way_goes_by_the_ring_whole),
	  unit_test(a_stream_of_writes_leaves_direct_access_for_the_ring),
	  unit_test(bursts_of_UC_stay_in_the_ring_while_they_are_long),
	  unit_test(writes_that_are_polled_for_or_far_apart_are_no_stream),
	  unit_test(a_list_of_writes_is_timed_within_its_turn),
	  unit_test(a_ring_that_does_not_answer_is_left_before_it_has_done_all_it_is_judged_by),
	  unit_test(a_ring_that_is_slower_than_direct_access_is_left),
	  unit_test(a_read_waits_for_those_that_keep_it_from_direct_access))
