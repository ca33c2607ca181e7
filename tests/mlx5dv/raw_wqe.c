// SPDX-License-Identifier: MIT
/* mlx5dv_wr_raw_wqe(): WQEs that the program writes itself, mixed with the verbs' own, over both
 * links. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { OTHER_PROCESS, THIS_PROCESS };
enum { LEN = 96, SEGS = 16 };

static struct duo duo;
static struct ibv_qp_ex *ex;
static struct mlx5dv_qp_ex *dv;

static void begin(int where, struct ibv_qp_cap cap)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC,
				      .cap = cap,
				      .send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE },
			      .together = where == THIS_PROCESS };

	said_begin();
	duo_open(&duo, &o);
	ex = ibv_qp_to_qp_ex(duo.near.ep.qp);
	want(ex);
	dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
	want(dv);
}

/* A WRITE of @n pieces of the near side's memory to the same place of the far side's. Index and
 * number are wrong on purpose: the library sets them. */
static void write_wqe(uint8_t *wqe, unsigned int n, uint8_t flags)
{
	struct mlx5_wqe_ctrl_seg *ctrl = (void *)wqe;
	struct mlx5_wqe_raddr_seg *to = (void *)(ctrl + 1);
	struct mlx5_wqe_data_seg *from = (void *)(to + 1);

	memset(wqe, 0, (size_t)(2 + n) * SEGS);
	mlx5dv_set_ctrl_seg(ctrl, 0x7777, MLX5_OPCODE_RDMA_WRITE, 0, 0x777777, flags,
			    (uint8_t)(2 + n), 0, 0);
	to->raddr = htobe64(duo.near.ep.theirs.va);
	to->rkey = htobe32(duo.near.ep.theirs.rkey);
	for (unsigned int i = 0; i < n; i++)
		mlx5dv_set_data_seg(&from[i], LEN, duo.near.mr->lkey,
				    (uintptr_t)duo.near.mem + (size_t)i * LEN);
}

static void post_raw(uint64_t id, unsigned int n, uint8_t flags)
{
	uint8_t wqe[64 * SEGS] __attribute__((aligned(64)));

	write_wqe(wqe, n, flags);
	ex->wr_id = id;
	ex->wr_flags = 0; /* not read */
	mlx5dv_wr_raw_wqe(dv, wqe);
}

static void done(uint64_t id, enum ibv_wc_opcode op)
{
	struct ibv_wc wc = duo_wc(&duo);

	want_eq(wc.wr_id, id);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.opcode, op);
}

static void far_has(uint32_t len, uint64_t seed)
{
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = len, .id = seed }).found);
}

/* One WQE at a time in a queue of one, as raw and as usual in turn. */
static void alternating(int where)
{
	begin(where, (struct ibv_qp_cap){ 1, 16, 1, 1, 0 });
	for (uint64_t i = 0; i < 40; i++) {
		pattern_fill(duo.near.mem, LEN, i, 0);
		ibv_wr_start(ex);
		if (i % 2) {
			post_raw(i, 1, MLX5_WQE_CTRL_CQ_UPDATE);
		} else {
			ex->wr_id = i;
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(ex, duo.near.ep.theirs.rkey, duo.near.ep.theirs.va);
			ibv_wr_set_sge(ex, duo.near.mr->lkey, (uintptr_t)duo.near.mem, LEN);
		}
		want_eq(ibv_wr_complete(ex), 0);
		done(i, i % 2 ? IBV_WC_DRIVER2 : IBV_WC_RDMA_WRITE);
		far_has(LEN, i);
	}
}

/* WQEs of two and three blocks come to lie across the ring's end. */
static void around_the_end(int where)
{
	begin(where, (struct ibv_qp_cap){ 4, 4, 9, 1, 0 });
	for (uint64_t i = 0; i < 50; i++) {
		unsigned int n = 3 + i % 7; /* 5 to 11 segments */

		pattern_fill(duo.near.mem, (size_t)n * LEN, i, 0);
		ibv_wr_start(ex);
		post_raw(i, n, MLX5_WQE_CTRL_CQ_UPDATE);
		want_eq(ibv_wr_complete(ex), 0);
		done(i, IBV_WC_DRIVER2);
		far_has(n * LEN, i);
	}
}

/* Whether there is a completion is the WQE's to say, not wr_flags'. */
static void the_wqe_says_whether_it_is_signaled(int where)
{
	begin(where, (struct ibv_qp_cap){ 8, 8, 1, 1, 0 });
	ibv_wr_start(ex);
	post_raw(1, 1, 0);
	post_raw(2, 1, MLX5_WQE_CTRL_CQ_UPDATE);
	want_eq(ibv_wr_complete(ex), 0);
	done(2, IBV_WC_DRIVER2);
}

/* @ds segments, or an opcode of softhca's own */
static void refused(uint8_t ds, uint8_t opcode)
{
	uint8_t wqe[64 * SEGS] __attribute__((aligned(64))) = { 0 };

	mlx5dv_set_ctrl_seg((void *)wqe, 0, opcode, 0, 0, 0, ds, 0, 0);
	ibv_wr_start(ex);
	mlx5dv_wr_raw_wqe(dv, wqe);
	want_eq(ibv_wr_complete(ex), EINVAL);
}

static void refusals(int where)
{
	uint32_t qpn;

	begin(where, (struct ibv_qp_cap){ 4, 4, 1, 1, 0 });
	qpn = duo.near.ep.qp->qp_num;
	refused(0, MLX5_OPCODE_NOP);
	said_want(SAID_NEAR,
		  "mlx5dv_wr_raw_wqe: ds 0 on QP 0x%x, whose WQEs have 1 to 4 segments of 16 B; "
		  "create it with more SGEs or inline data",
		  qpn);
	refused(5, MLX5_OPCODE_NOP);
	refused(63, MLX5_OPCODE_NOP);
	refused(4, 0x3d);
	refused(3, 0x3f);
	said_want(SAID_NEAR,
		  "mlx5dv_wr_raw_wqe: opcode 0x3f on QP 0x%x is none of mlx5's; call "
		  "ibv_wr_bind_mw or ibv_wr_atomic_write",
		  qpn);
	mlx5dv_wr_raw_wqe(dv, &qpn); /* outside of a batch nothing is read */
	said_want(SAID_NEAR,
		  "mlx5dv_wr_raw_wqe: this thread is not building work for QP 0x%x; ibv_wr_start "
		  "comes first",
		  qpn);
	/* nothing is left behind */
	ibv_wr_start(ex);
	post_raw(9, 1, MLX5_WQE_CTRL_CQ_UPDATE);
	want_eq(ibv_wr_complete(ex), 0);
	done(9, IBV_WC_DRIVER2);
}

/* A full queue refuses. */
static void full(int where)
{
	begin(where, (struct ibv_qp_cap){ 2, 2, 1, 1, 0 });
	ibv_wr_start(ex);
	for (uint64_t i = 0; i < 3; i++)
		post_raw(i, 1, MLX5_WQE_CTRL_CQ_UPDATE);
	want_eq(ibv_wr_complete(ex), ENOMEM);
	ibv_wr_start(ex);
	for (uint64_t i = 0; i < 2; i++)
		post_raw(i, 1, MLX5_WQE_CTRL_CQ_UPDATE);
	want_eq(ibv_wr_complete(ex), 0);
	done(0, IBV_WC_DRIVER2);
	done(1, IBV_WC_DRIVER2);
}

#define BOTH(f) CASE_ARG(f, OTHER_PROCESS), CASE_ARG(f, THIS_PROCESS)

static const struct test_case cases[] = {
	BOTH(alternating), BOTH(around_the_end), BOTH(the_wqe_says_whether_it_is_signaled),
	BOTH(refusals),	   BOTH(full),
};

int main(void)
{
	return CASES_RUN(cases);
}
