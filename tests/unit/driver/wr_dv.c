// SPDX-License-Identifier: MIT
/* The mlx5dv_wr_* functions: a raw WQE's place in the ring and what is set in it; entries that are
 * not built. */
#include "queue.h"
#include "hca/alive.h"
#include "hca/mkey/mkey.h"

enum { SEG = 16, BYTES = 8 * SEG };

static struct mlx5dv_qp_ex *open_dv(struct queue *q)
{
	open_queue(q, IBV_QPT_RC);
	q->qp->sq.max_wr = 4; /* of two blocks each */
	check_eq(wr_builder_attach(q->qp, 0), 0);
	return &q->qp->dv;
}

static void fill(uint8_t wqe[BYTES], uint8_t ds)
{
	for (unsigned int i = 0; i < BYTES; i++)
		wqe[i] = (uint8_t)(i + 1);
	put_be32(wqe, 0x5a777700 | MLX5_OPCODE_SEND);
	put_be32(wqe + 4, 0x77777700 | ds);
}

/* Only index and number change, also where the WQE goes on at the ring's start. */
TEST(a_raw_wqe_is_copied_across_the_ring_s_end)
{
	struct queue q;
	struct mlx5dv_qp_ex *dv = open_dv(&q);
	struct ibv_qp_ex *ex = &q.qp->ib;
	uint8_t wqe[BYTES], there[BYTES];

	start_at(&q, BLOCKS_IN_RING - 1);
	fill(wqe, 7);
	ex->wr_start(ex);
	ex->wr_id = 99;
	dv->wr_raw_wqe(dv, wqe);
	check_eq(ex->wr_complete(ex), 0);
	check_eq(sq_record(&q), BLOCKS_IN_RING + 1);
	check_eq(q.qp->sq.head, 1);
	check_eq(q.qp->sq.slot[BLOCKS_IN_RING - 1].wr_id, 99);
	check_eq(q.qp->sq.slot[BLOCKS_IN_RING - 1].op, IBV_WC_DRIVER2);
	read_ring(&q, BLOCKS_IN_RING - 1, there, sizeof(there));
	put_be32(wqe, 0x5a000000 | (BLOCKS_IN_RING - 1) << 8 | MLX5_OPCODE_SEND);
	put_be32(wqe + 4, 0x12345607);
	check_mem(there, wqe, 7 * SEG);
	check_eq(there[7 * SEG], 0xee); /* nothing behind it */
	close_queue(&q);
}

/* It ends the operation before it, and takes no setter. */
TEST(a_raw_wqe_stands_alone)
{
	struct queue q;
	struct mlx5dv_qp_ex *dv = open_dv(&q);
	struct ibv_qp_ex *ex = &q.qp->ib;
	uint8_t wqe[BYTES];

	fill(wqe, 1);
	ex->wr_start(ex);
	ex->wr_send(ex);
	dv->wr_raw_wqe(dv, wqe);
	check_eq(q.qp->sq.head, 2);
	ex->wr_set_sge(ex, 1, 2, 3);
	check_eq(ex->wr_complete(ex), EINVAL);
	check_reason("ibv_wr_set_sge: no operation has begun on QP 0x123456");
	check_eq(q.qp->sq.head, 0);
	close_queue(&q);
}

TEST(its_size_and_opcode_are_checked)
{
	static const struct {
		uint8_t ds, opcode;
		const char *says;
	} bad[] = { { 0, MLX5_OPCODE_NOP, "ds 0 on QP 0x123456, whose WQEs have 1 to 8" },
		    { 9, MLX5_OPCODE_NOP, "ds 9 on QP 0x123456, whose WQEs have 1 to 8" },
		    { 4, WQE_OPCODE_BIND_MW, "opcode 0x3d on QP 0x123456 is none of mlx5's" },
		    { 4, WQE_OPCODE_ATOMIC_WRITE, "opcode 0x3f on QP 0x123456" } };
	struct queue q;
	struct mlx5dv_qp_ex *dv = open_dv(&q);
	struct ibv_qp_ex *ex = &q.qp->ib;
	uint8_t wqe[BYTES] = { 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put_be32(wqe, bad[i].opcode);
		put_be32(wqe + 4, bad[i].ds);
		ex->wr_start(ex);
		dv->wr_raw_wqe(dv, wqe);
		check_eq(ex->wr_complete(ex), EINVAL);
		check_reason(bad[i].says);
	}
	check_eq(q.qp->sq.buf[0], 0xee);
	check_eq(sq_record(&q), 0);
	close_queue(&q);
}

TEST(a_full_queue_takes_none)
{
	struct queue q;
	struct mlx5dv_qp_ex *dv = open_dv(&q);
	struct ibv_qp_ex *ex = &q.qp->ib;
	uint8_t wqe[BYTES];

	fill(wqe, 8);
	ex->wr_start(ex);
	for (unsigned int i = 0; i < 5; i++)
		dv->wr_raw_wqe(dv, wqe);
	check_eq(ex->wr_complete(ex), ENOMEM);
	check_reason("all 4 send work requests of QP 0x123456 are outstanding");
	close_queue(&q);
}

/* A UMR has two blocks before its list. */
TEST(an_mkey_is_set_up_where_work_requests_have_two_blocks)
{
	struct mkey m = { .max_entries = 4 };
	struct queue q;
	struct mlx5dv_qp_ex *dv = open_dv(&q);
	struct ibv_qp_ex *ex = &q.qp->ib;
	struct alive_end end;

	alive_made_of(ALIVE_MKEY, &m.dv, NULL, NULL);
	ex->wr_flags = IBV_SEND_INLINE;
	for (uint32_t blocks = 2; blocks; blocks--) {
		q.qp->sq.max_wr = BLOCKS_IN_RING / blocks;
		start_at(&q, 0);
		ex->wr_start(ex);
		dv->wr_mkey_configure(dv, &m.dv, 1, NULL);
		dv->wr_set_mkey_access_flags(dv, IBV_ACCESS_LOCAL_WRITE);
		check_eq(ex->wr_complete(ex), blocks == 2 ? 0 : ENOMEM);
		check_eq(q.qp->sq.pi, blocks == 2 ? 2 : 0);
	}
	check_reason("mlx5dv_wr_mkey_configure: it takes 8 segments, and a work request of QP "
		     "0x123456 has 4");
	check_eq(alive_take(ALIVE_MKEY, &m.dv, "test", &end), 0);
	alive_left(&end, 0);
	free(q.qp->umr);
	close_queue(&q);
}

TEST(no_entry_is_empty_and_those_not_built_fail_the_batch)
{
	struct queue q;
	struct mlx5dv_qp_ex *dv = open_dv(&q);
	struct ibv_qp_ex *ex = &q.qp->ib;

	for (size_t at = offsetof(struct mlx5dv_qp_ex, wr_set_dc_addr); at < sizeof(*dv);
	     at += sizeof(void *)) {
		void *entry;

		memcpy(&entry, (char *)dv + at, sizeof(entry));
		if (!entry)
			fail_msg("entry at %zu", at);
	}
	ex->wr_start(ex);
	dv->wr_set_dc_addr(dv, NULL, 1, 2);
	check_eq(ex->wr_complete(ex), EOPNOTSUPP);
	check_reason("mlx5dv_wr_set_dc_addr: QP 0x123456 (RC) does not do it");
	close_queue(&q);
}

RUN_TESTS(unit_test(a_raw_wqe_is_copied_across_the_ring_s_end), unit_test(a_raw_wqe_stands_alone),
	  unit_test(its_size_and_opcode_are_checked), unit_test(a_full_queue_takes_none),
	  unit_test(an_mkey_is_set_up_where_work_requests_have_two_blocks),
	  unit_test(no_entry_is_empty_and_those_not_built_fail_the_batch))
