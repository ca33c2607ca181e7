// SPDX-License-Identifier: MIT
/* Streams of a DC initiator (mlx5dv_create_qp(3), mlx5dv_dci_stream_id_reset(3)): what an error
 * ends and what goes on, in which order, and each message once. The targets are as dc.c's. */
#include <errno.h>
#include <string.h>
#include "mlx5dv/dc_duo.h"

enum { ONE_OTHER = 1 };

static struct dc_duo d;
static struct dc_peer s;

static void begin(int processes, uint8_t errored)
{
	dc_open(&d, (unsigned int)processes);
	dc_initiator_streams(&d, &s, errored);
}

static void end(void)
{
	want_eq(ibv_destroy_qp(s.qp), 0);
	want_eq(ibv_destroy_cq(s.cq), 0);
	dc_close(&d);
}

static void receives(uint32_t target, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		want(dc_tell(&d, (struct dc_order){ DC_RECV, target, 64, i }).found);
}

/* The message @imm arrives next. */
static void arrived(uint32_t target, uint32_t imm)
{
	struct dc_answer a = dc_tell(&d, (struct dc_order){ DC_POLL, .target = target });

	want(a.found);
	want_eq(a.wc.status, IBV_WC_SUCCESS);
	want_eq(be32toh(a.wc.imm_data), imm);
}

static void on(uint16_t stream, enum ibv_wr_opcode op, uint32_t target, uint64_t id)
{
	s.stream = stream;
	dc_post(&d, &s, op, target, 8, id);
}

/* The peer refuses it: the key is nobody's. */
static void wrong(uint16_t stream, uint32_t target, uint64_t id)
{
	uint32_t rkey = d.to[target].rkey;

	d.to[target].rkey = PEER_NO_KEY;
	on(stream, IBV_WR_RDMA_WRITE, target, id);
	d.to[target].rkey = rkey;
}

static void ends_as(uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = dc_wc(&s);

	want_eq(wc.wr_id, id);
	want_eq(wc.status, status);
}

static void state_is(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	want_eq(ibv_query_qp(s.qp, &attr, IBV_QP_STATE, &init), 0);
	want_eq(attr.qp_state, state);
}

/* Posted at once, so that what follows the error is under way when it comes. */
static void one_fails(int processes)
{
	begin(processes, 2);
	receives(0, 4);
	on(1, IBV_WR_SEND_WITH_IMM, 0, 1);
	wrong(1, 0, 2);
	on(1, IBV_WR_SEND_WITH_IMM, 0, 3);
	on(2, IBV_WR_SEND_WITH_IMM, 0, 4);
	on(1, IBV_WR_RDMA_READ, 0, 5);
	on(0, IBV_WR_SEND_WITH_IMM, 0, 6);
	ends_as(1, IBV_WC_SUCCESS);
	ends_as(2, IBV_WC_REM_ACCESS_ERR);
	ends_as(3, IBV_WC_WR_FLUSH_ERR);
	ends_as(4, IBV_WC_SUCCESS);
	ends_as(5, IBV_WC_WR_FLUSH_ERR);
	ends_as(6, IBV_WC_SUCCESS);
	state_is(IBV_QPS_RTS);
	on(1, IBV_WR_SEND_WITH_IMM, 0, 7); /* posted behind the error */
	ends_as(7, IBV_WC_WR_FLUSH_ERR);
	want_eq(mlx5dv_dci_stream_id_reset(s.qp, 1), 0);
	on(1, IBV_WR_SEND_WITH_IMM, 0, 8);
	ends_as(8, IBV_WC_SUCCESS);
	arrived(0, 1);
	arrived(0, 4);
	arrived(0, 6);
	arrived(0, 8);
	want(dc_tell(&d, (struct dc_order){ DC_NONE_CAME, .target = 0 }).found);
	end();
}

/* The error is this side's, in the middle of messages to two targets. */
static void own_memory(int processes)
{
	uint32_t lkey;

	begin(processes, 2);
	lkey = d.mr->lkey;
	receives(0, 8);
	receives(1, 8);
	for (uint32_t i = 0; i < 15; i++) {
		d.mr->lkey = i == 6 ? PEER_NO_KEY : lkey;
		on((uint16_t)(1 + i % 3), IBV_WR_SEND_WITH_IMM, i % 2, i);
	}
	d.mr->lkey = lkey;
	for (uint32_t i = 0; i < 15; i++)
		ends_as(i, i == 6		     ? IBV_WC_LOC_PROT_ERR
			   : i > 6 && i % 3 == 6 % 3 ? IBV_WC_WR_FLUSH_ERR
						     : IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 15; i++)
		if (i < 6 || i % 3 != 6 % 3)
			arrived(i % 2, i);
	end();
}

/* Atomics that were under way behind the error are executed once. */
static void each_once(int processes)
{
	enum { N = 24 };
	uint64_t was;

	begin(processes, 1);
	for (uint32_t round = 0; round < 3; round++) {
		wrong(1, 0, 1000);
		for (uint32_t i = 0; i < N; i++)
			on(2, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1);
		ends_as(1000, IBV_WC_REM_ACCESS_ERR);
		for (uint32_t i = 0; i < N; i++)
			ends_as(1, IBV_WC_SUCCESS);
		memcpy(&was, d.mem, sizeof(was));
		want_eq(was, (round + 1) * N - 1);
		want_eq(mlx5dv_dci_stream_id_reset(s.qp, 1), 0);
	}
	end();
}

/* 2^2 streams in error are one too many; RESET forgets them all. */
static void too_many(int processes)
{
	begin(processes, 2);
	for (int round = 0; round < 2; round++) {
		for (uint16_t i = 1; i < 4; i++) {
			wrong(i, 0, i);
			ends_as(i, IBV_WC_REM_ACCESS_ERR);
			state_is(IBV_QPS_RTS);
		}
		on(4, IBV_WR_RDMA_WRITE, 0, 10);
		ends_as(10, IBV_WC_SUCCESS);
		wrong(4, 0, 11);
		on(5, IBV_WR_RDMA_WRITE, 0, 12);
		ends_as(11, IBV_WC_REM_ACCESS_ERR);
		ends_as(12, IBV_WC_WR_FLUSH_ERR);
		state_is(IBV_QPS_ERR);
		want_eq(mlx5dv_dci_stream_id_reset(s.qp, 1), EOPNOTSUPP);
		dc_connect(&s);
		on(1, IBV_WR_RDMA_WRITE, 0, 13);
		ends_as(13, IBV_WC_SUCCESS);
	}
	end();
}

/* A stream that was reset no longer counts. */
static void reset_counts(int processes)
{
	begin(processes, 1);
	for (uint16_t i = 1; i < 20; i++) {
		wrong(i, 0, i);
		ends_as(i, IBV_WC_REM_ACCESS_ERR);
		want_eq(mlx5dv_dci_stream_id_reset(s.qp, (uint16_t)(i + 1)), EINVAL);
		want_eq(mlx5dv_dci_stream_id_reset(s.qp, i), 0);
	}
	state_is(IBV_QPS_RTS);
	end();
}

/* The key of a target, and a target that is gone: work requests to others go on. */
static void targets(int processes)
{
	begin(processes, 3);
	receives(1, 4);
	d.key = DC_KEY + 1;
	on(1, IBV_WR_SEND_WITH_IMM, 0, 1);
	d.key = DC_KEY;
	on(2, IBV_WR_SEND_WITH_IMM, 1, 2);
	ends_as(1, IBV_WC_REM_ACCESS_ERR);
	ends_as(2, IBV_WC_SUCCESS);
	want(dc_tell(&d, (struct dc_order){ DC_DESTROY, .target = 2 }).found);
	on(3, IBV_WR_SEND_WITH_IMM, 2, 3);
	on(3, IBV_WR_SEND_WITH_IMM, 1, 4);
	on(4, IBV_WR_SEND_WITH_IMM, 1, 5);
	ends_as(3, IBV_WC_RETRY_EXC_ERR);
	ends_as(4, IBV_WC_WR_FLUSH_ERR);
	ends_as(5, IBV_WC_SUCCESS);
	arrived(1, 2);
	arrived(1, 5);
	end();
}

static void refusals(int arg)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	(void)arg;
	begin(THIS_PROCESS, 1);
	want_eq(mlx5dv_dci_stream_id_reset(NULL, 1), EINVAL);
	want_eq(mlx5dv_dci_stream_id_reset(s.qp, 65535), EINVAL); /* not in error */
	want_eq(mlx5dv_dci_stream_id_reset(d.i.qp, 1), EINVAL);
	want_eq(ibv_modify_qp(s.qp, &reset, IBV_QP_STATE), 0);
	want_eq(mlx5dv_dci_stream_id_reset(s.qp, 1), EOPNOTSUPP);
	end();
}

#define EVERYWHERE(f) CASE_ARG(f, THIS_PROCESS), CASE_ARG(f, ONE_OTHER)

static const struct test_case cases[] = {
	EVERYWHERE(one_fails), EVERYWHERE(own_memory),	 EVERYWHERE(each_once),
	EVERYWHERE(too_many),  EVERYWHERE(reset_counts), EVERYWHERE(targets),
	CASE(refusals),
};

int main(int argc, char **argv)
{
	dc_far = argc > 1 ? argv[1] : NULL;
	return CASES_RUN(cases);
}
