// SPDX-License-Identifier: MIT
/* What an entry of 64 bytes becomes in struct ibv_wc and in the ibv_cq_ex readers. */
#include "completions.h"
#include "driver/cq_readers.h"

struct bench {
	struct completions c;
	struct queue q;
};

static void open_bench(struct bench *b, enum ibv_qp_type type)
{
	open_queue(&b->q, type);
	open_completions(&b->c);
	for (unsigned int i = 0; i < BLOCKS_IN_RING; i++)
		b->q.qp->sq.slot[i] = (struct sq_slot){ 100 + i, i, IBV_WC_RDMA_READ };
	for (unsigned int i = 0; i < RECEIVES; i++)
		b->q.receive_ids[i] = 200 + i;
	check_eq(objects_add(OBJECT_QP, b->q.qp, &b->q.qp->uidx), 0);
}

static void close_bench(struct bench *b)
{
	objects_del(b->q.qp->uidx);
	close_completions(&b->c);
	close_queue(&b->q);
}

static struct ibv_wc one(struct bench *b, struct cqe e)
{
	struct ibv_wc wc[2];

	e.uidx = b->q.qp->uidx;
	write_cqe(&b->c, &e);
	check_eq(poll_cq(&b->c, wc, 2), 1);
	check_eq(be32toh(b->c.cq->dbrec[0]), b->c.dev.pi);
	return wc[0];
}

TEST(a_send_has_the_wr_id_and_the_verb_of_its_block)
{
	struct bench b;

	open_bench(&b, IBV_QPT_RC);
	for (uint16_t i = 0; i < 3 * BLOCKS_IN_RING; i++) {
		struct ibv_wc wc = one(
			&b,
			(struct cqe){ .opcode = MLX5_CQE_REQ, .wqe_counter = i, .byte_cnt = 77 });

		check_eq(wc.wr_id, 100 + i % BLOCKS_IN_RING);
		check_eq(wc.opcode, IBV_WC_RDMA_READ);
		check_eq(wc.status, IBV_WC_SUCCESS);
		check_eq(wc.qp_num, 0x123456);
		check_eq(wc.byte_len, 77);
		check_eq(wc.wc_flags, 0);
		check_eq(wc.vendor_err, 0);
	}
	close_bench(&b);
}

TEST(receives_say_what_came)
{
	static const struct {
		uint8_t opcode;
		enum ibv_wc_opcode op;
		unsigned int flags;
	} map[] = {
		{ MLX5_CQE_RESP_SEND, IBV_WC_RECV, 0 },
		{ MLX5_CQE_RESP_SEND_IMM, IBV_WC_RECV, IBV_WC_WITH_IMM },
		{ MLX5_CQE_RESP_SEND_INV, IBV_WC_RECV, IBV_WC_WITH_INV },
		{ MLX5_CQE_RESP_WR_IMM, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM },
	};
	struct bench b;

	open_bench(&b, IBV_QPT_UD);
	for (unsigned int i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
		struct ibv_wc wc = one(&b, (struct cqe){ .opcode = map[i].opcode,
							 .wqe_counter = (uint16_t)(i + RECEIVES),
							 .byte_cnt = 1000 + i,
							 .imm = htobe32(0x01020304),
							 .grh = i & 1,
							 .sl = 2,
							 .l3 = 2,
							 .src_qp = 0xabcdef });

		check_eq(wc.wr_id, 200 + i);
		check_eq(wc.opcode, map[i].op);
		check_eq(wc.wc_flags, map[i].flags | (i & 1 ? IBV_WC_GRH : 0));
		check_eq(wc.byte_len, 1000 + i);
		check_eq(wc.src_qp, 0xabcdef);
		check_eq(wc.sl, 2);
		check_eq(wc.pkey_index, 0);
		check_eq(wc.slid, 0);
		check_eq(wc.dlid_path_bits, 0);
		if (map[i].flags & IBV_WC_WITH_INV)
			check_eq(wc.invalidated_rkey, 0x01020304);
		else
			check_eq(wc.imm_data, htobe32(0x01020304));
	}
	close_bench(&b);
}

TEST(errors_have_a_status_and_the_vendor_s_number)
{
	static const struct {
		uint8_t syndrome;
		enum ibv_wc_status status;
	} map[] = {
		{ MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, IBV_WC_LOC_LEN_ERR },
		{ MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, IBV_WC_LOC_QP_OP_ERR },
		{ MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, IBV_WC_LOC_PROT_ERR },
		{ MLX5_CQE_SYNDROME_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR },
		{ MLX5_CQE_SYNDROME_MW_BIND_ERR, IBV_WC_MW_BIND_ERR },
		{ MLX5_CQE_SYNDROME_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR },
		{ MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR },
		{ MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, IBV_WC_REM_INV_REQ_ERR },
		{ MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR },
		{ MLX5_CQE_SYNDROME_REMOTE_OP_ERR, IBV_WC_REM_OP_ERR },
		{ MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR },
		{ MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR },
		{ MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR, IBV_WC_REM_ABORT_ERR },
		{ 0xee, IBV_WC_GENERAL_ERR },
	};
	struct bench b;

	open_bench(&b, IBV_QPT_RC);
	for (unsigned int i = 0; i < 2 * sizeof(map) / sizeof(map[0]); i++) {
		bool send = i & 1;
		struct ibv_wc wc =
			one(&b, (struct cqe){ .opcode = send ? MLX5_CQE_REQ_ERR : MLX5_CQE_RESP_ERR,
					      .syndrome = map[i / 2].syndrome,
					      .vendor_err = (uint8_t)(i + 1),
					      .wqe_counter = 1 });

		check_eq(wc.status, map[i / 2].status);
		check_eq(wc.vendor_err, i + 1);
		check_eq(wc.wr_id, send ? 101 : 201);
		check_eq(wc.opcode, send ? IBV_WC_RDMA_READ : IBV_WC_RECV);
		check_eq(wc.qp_num, 0x123456);
	}
	close_bench(&b);
}

TEST(entries_of_objects_that_are_gone_are_skipped)
{
	struct cqe e = { .opcode = MLX5_CQE_REQ, .uidx = 0xfffffe };
	struct ibv_wc wc[4];
	struct bench b;

	open_bench(&b, IBV_QPT_RC);
	write_cqe(&b.c, &e);
	check_eq(poll_cq(&b.c, wc, 4), 0);
	write_cqe(&b.c, &e);
	e.uidx = b.q.qp->uidx;
	write_cqe(&b.c, &e);
	check_eq(poll_cq(&b.c, wc, 4), 1);
	check_eq(wc[0].wr_id, 100);
	check_eq(b.c.cq->ci, 3);
	close_bench(&b);
}

/* As many as asked for, in the order written, over many passes of the ring. */
TEST(polls_take_entries_in_order)
{
	struct ibv_wc wc[CQES];
	uint16_t next = 0, read = 0;
	struct bench b;

	open_bench(&b, IBV_QPT_RC);
	for (unsigned int round = 0; round < 60; round++) {
		unsigned int n = round % CQES;

		for (unsigned int i = 0; i < n; i++)
			write_cqe(&b.c, &(struct cqe){ .opcode = MLX5_CQE_REQ,
						       .uidx = b.q.qp->uidx,
						       .wqe_counter = next++ });
		for (unsigned int left = n; left; left -= left < 3 ? left : 3) {
			int got = poll_cq(&b.c, wc, 3);

			check_eq(got, left < 3 ? left : 3);
			for (int i = 0; i < got; i++)
				check_eq(wc[i].wr_id, 100 + read++ % BLOCKS_IN_RING);
		}
		check_eq(poll_cq(&b.c, wc, 3), 0);
	}
	close_bench(&b);
}

/* Progress is asked of the device only when nothing waits. */
TEST(entries_that_wait_come_before_more_are_let_in)
{
	struct ibv_wc wc[1];
	struct bench b;

	open_bench(&b, IBV_QPT_RC);
	check_eq(poll_cq(&b.c, wc, 1), 0);
	check_eq(rung.progress, 1);
	one(&b, (struct cqe){ .opcode = MLX5_CQE_REQ });
	check_eq(rung.progress, 1);
	close_bench(&b);
}

TEST(frames_carry_a_flow_tag_where_others_have_a_number)
{
	struct bench b;

	open_bench(&b, IBV_QPT_RAW_PACKET);
	cq_readers_attach(b.c.cq);
	struct ibv_cq_ex *ex = &b.c.cq->ib;

	write_cqe(&b.c, &(struct cqe){ .opcode = MLX5_CQE_RESP_SEND,
				       .uidx = b.q.qp->uidx,
				       .qpn = 0x777,
				       .vlan = 0x2064,
				       .csum_ok = true });
	check_eq(ibv_start_poll(ex, &(struct ibv_poll_cq_attr){ 0 }), 0);
	check_eq(ibv_wc_read_flow_tag(ex), 0x777);
	check_eq(ibv_wc_read_qp_num(ex), 0x123456);
	check_eq(ibv_wc_read_cvlan(ex), 0x2064);
	check_eq(ibv_wc_read_wc_flags(ex), IBV_WC_IP_CSUM_OK);
	ibv_end_poll(ex);
	close_bench(&b);
}

TEST(readers_describe_the_entry_also_after_the_end)
{
	struct ibv_poll_cq_attr none = { 0 };
	struct bench b;

	open_bench(&b, IBV_QPT_UD);
	b.c.cq->wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	cq_readers_attach(b.c.cq);
	struct ibv_cq_ex *ex = &b.c.cq->ib;

	check_eq(ibv_start_poll(ex, &none), ENOENT);
	for (uint16_t i = 0; i < 2; i++)
		write_cqe(&b.c, &(struct cqe){ .opcode = MLX5_CQE_RESP_SEND_INV,
					       .uidx = b.q.qp->uidx,
					       .wqe_counter = i,
					       .byte_cnt = 50 + i,
					       .imm = htobe32(0x1234),
					       .src_qp = 9,
					       .timestamp = 1000 + i });
	check_eq(ibv_start_poll(ex, &none), 0);
	check_eq(ibv_next_poll(ex), 0);
	check_eq(ibv_next_poll(ex), ENOENT);
	check_eq(b.c.cq->dbrec[0], 0); /* not before the end */
	ibv_end_poll(ex);
	check_eq(be32toh(b.c.cq->dbrec[0]), 2);
	check_eq(ex->wr_id, 201);
	check_eq(ex->status, IBV_WC_SUCCESS);
	check_eq(ibv_wc_read_opcode(ex), IBV_WC_RECV);
	check_eq(ibv_wc_read_byte_len(ex), 51);
	check_eq(ibv_wc_read_invalidated_rkey(ex), 0x1234);
	check_eq(ibv_wc_read_src_qp(ex), 9);
	check_eq(ibv_wc_read_completion_ts(ex), 1001);
	check_eq(ibv_wc_read_completion_wallclock_ns(ex), 0); /* was not asked for */
	check_reason("IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK");
	close_bench(&b);
}

TEST(readers_out_of_order_are_refused)
{
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_wc wc[1];
	struct bench b;

	open_bench(&b, IBV_QPT_RC);
	cq_readers_attach(b.c.cq);
	struct ibv_cq_ex *ex = &b.c.cq->ib;

	check_eq(ibv_next_poll(ex), EINVAL);
	ibv_end_poll(ex); /* harmless */
	check_eq(ibv_start_poll(ex, &(struct ibv_poll_cq_attr){ 1 }), EINVAL);
	for (int i = 0; i < 2; i++)
		write_cqe(&b.c, &(struct cqe){ .opcode = MLX5_CQE_REQ, .uidx = b.q.qp->uidx });
	check_eq(ibv_start_poll(ex, &none), 0);
	check_eq(ibv_start_poll(ex, &none), EINVAL);
	check_eq(poll_cq(&b.c, wc, 1), 1); /* the thread's own lock does not stop it */
	ibv_end_poll(ex);
	check(spin_trylock(&b.c.cq->lock)); /* it is free */
	close_bench(&b);
}

TEST(an_inherited_queue_gives_nothing)
{
	struct ibv_wc wc[1];
	struct bench b;

	open_bench(&b, IBV_QPT_RC);
	b.c.cq->epoch = fork_epoch() + 1;
	check_eq(poll_cq(&b.c, wc, 1), -EIO);
	check_reason("ibv_poll_cq: CQ 0x0 was made before fork()");
	close_bench(&b);
}

/* Sessions between other entries, polled by @n; also what a poll leaves for the next. */
static void poll_sessions(struct bench *b, int n)
{
	struct cqe_session s = { .format = MLX5DV_CQE_RES_FORMAT_HASH };
	struct ibv_wc wc[CQES];
	uint32_t end = b->c.dev.pi, at = 0;

	for (uint16_t i = 0; i < 5; i++)
		cqe_session_add(&s, &(struct cqe){ .opcode = MLX5_CQE_RESP_SEND,
						   .uidx = b->q.qp->uidx,
						   .byte_cnt = 10U + i,
						   .wqe_counter = i });
	cqe_session_write(&s, &(struct cqe_ring){ (uint8_t *)b->c.ring, CQES, 64 }, end);
	b->c.dev.pi += 5;
	write_cqe(&b->c, &(struct cqe){ .opcode = MLX5_CQE_REQ, .uidx = b->q.qp->uidx });
	for (int got; (got = poll_cq(&b->c, wc, n)) > 0;) {
		for (int i = 0; i < got; i++, at++) {
			check_eq(wc[i].opcode, at < 5 ? IBV_WC_RECV : IBV_WC_RDMA_READ);
			if (at < 5)
				check_eq(wc[i].wr_id, 200 + at % RECEIVES);
			if (at < 5)
				check_eq(wc[i].byte_len, 10 + at);
		}
		check_eq(be32toh(b->c.cq->dbrec[0]), (end + at) & 0xffffff);
	}
	check_eq(at, 6);
}

TEST(compressed_receives_are_as_ordinary_ones)
{
	struct bench b;

	open_bench(&b, IBV_QPT_RC);
	b.c.cq->compressed = MLX5DV_CQE_RES_FORMAT_HASH;
	for (int round = 0; round < 40; round++)
		poll_sessions(&b, round % 7 + 1);
	close_bench(&b);
}

RUN_TESTS(unit_test(compressed_receives_are_as_ordinary_ones),
	  unit_test(a_send_has_the_wr_id_and_the_verb_of_its_block),
	  unit_test(receives_say_what_came),
	  unit_test(errors_have_a_status_and_the_vendor_s_number),
	  unit_test(entries_of_objects_that_are_gone_are_skipped),
	  unit_test(polls_take_entries_in_order),
	  unit_test(entries_that_wait_come_before_more_are_let_in),
	  unit_test(frames_carry_a_flow_tag_where_others_have_a_number),
	  unit_test(readers_describe_the_entry_also_after_the_end),
	  unit_test(readers_out_of_order_are_refused), unit_test(an_inherited_queue_gives_nothing))
