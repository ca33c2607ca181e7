// SPDX-License-Identifier: MIT
/* Masked atomics, by WQEs that the program writes itself: which bits they change, what comes back,
 * and the forms that are refused. The first argument: the network namespace of the host where other
 * processes are. */
#include <infiniband/mlx5dv.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { OTHER_PROCESS, THIS_PROCESS };
enum { SEG = 16, EIGHT_BYTES = 9 /* opmod */, RESULT = 64 /* offset in the near memory */ };
#define ALL UINT64_MAX

static struct duo duo;
static const char *far_netns;

static void begin(int where)
{
	/* between hosts packets are lost */
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC,
				      .timeout = far_netns ? 17 : 0,
				      .cap = { 16, 16, 4, 4, 64 },
				      .send_ops = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP },
			      .together = where == THIS_PROCESS,
			      .far_netns = far_netns };

	said_begin();
	duo_open(&duo, &o);
}

static struct duo_answer far_set(struct side *s, const struct duo_order *o)
{
	memcpy(s->mem, &o->id, sizeof(o->id));
	return (struct duo_answer){ .found = true };
}

PEER_TOLD static struct duo_answer far_get(struct side *s, const struct duo_order *o)
{
	(void)o;
	return (struct duo_answer){ .value = *(volatile uint64_t *)s->mem };
}

struct masked {
	uint8_t opcode;
	uint64_t was, swap_add, compare, swap_mask, compare_mask, is;
};

#define CS MLX5_OPCODE_ATOMIC_MASKED_CS
#define FA MLX5_OPCODE_ATOMIC_MASKED_FA

static const struct masked masked[] = {
	{ CS, 0, 7, 0, ALL, ALL, 7 },
	{ CS, 5, 7, 0, ALL, ALL, 5 },
	{ CS, 0x1234, 0xabcd, 0x9934, 0xff00, 0x00ff, 0xab34 },
	{ CS, 0x1234, 0xabcd, 0x9935, 0xff00, 0x00ff, 0x1234 },
	{ CS, 0x0123456789abcdef, 0, 99, 0xffffffff, 0, 0x0123456700000000 }, /* a plain swap */
	{ FA, 5, 3, 0, 0, 0, 8 },
	{ FA, 0x00000001ffffffff, 0x0000000200000003, 0, 1ULL << 31, 0, 0x0000000300000002 },
	{ FA, 0xf0f0, 0xffff, 0, ALL, 0, 0x0f0f }, /* fields of a bit: an exclusive or */
};

static void put(uint8_t **at, uint64_t a, uint64_t b)
{
	const __be64 both[2] = { htobe64(a), htobe64(b) };

	memcpy(*at, both, sizeof(both));
	*at += sizeof(both);
}

static void post(const struct masked *m, uint8_t opmod)
{
	uint8_t wqe[6 * SEG] __attribute__((aligned(64))) = { 0 }, *at = wqe + SEG;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(duo.near.ep.qp);

	put(&at, duo.near.ep.theirs.va, (uint64_t)duo.near.ep.theirs.rkey << 32);
	put(&at, m->swap_add, m->opcode == CS ? m->compare : m->swap_mask);
	if (m->opcode == CS)
		put(&at, m->swap_mask, m->compare_mask);
	mlx5dv_set_data_seg((void *)at, 8, duo.near.mr->lkey, (uintptr_t)duo.near.mem + RESULT);
	mlx5dv_set_ctrl_seg((void *)wqe, 0, m->opcode, opmod, 0, MLX5_WQE_CTRL_CQ_UPDATE,
			    (uint8_t)((at + SEG - wqe) / SEG), 0, 0);
	ibv_wr_start(ex);
	ex->wr_id = 77;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	want_eq(ibv_wr_complete(ex), 0);
}

PEER_TOLD static uint64_t result(void)
{
	return *(volatile uint64_t *)(duo.near.mem + RESULT);
}

static void bits(int where)
{
	begin(where);
	for (unsigned int i = 0; i < sizeof(masked) / sizeof(masked[0]); i++) {
		const struct masked *m = &masked[i];
		struct ibv_wc wc;

		peer_note("row %u", i);
		duo_do(&duo, far_set, 0, 0, m->was);
		post(m, EIGHT_BYTES);
		wc = duo_wc(&duo);
		want_eq(wc.status, IBV_WC_SUCCESS);
		want_eq(wc.opcode, IBV_WC_DRIVER2);
		want_eq(wc.wr_id, 77);
		want_eq(result(), m->was);
		want_eq(duo_do(&duo, far_get, 0, 0, 0).value, m->is);
	}
}

/* Other sizes than 8 bytes, and a word that is not aligned. */
static void refused(int where)
{
	begin(where);
	duo_do(&duo, far_set, 0, 0, 5);
	for (uint8_t opmod = 0; opmod <= 11; opmod++) {
		if (opmod == EIGHT_BYTES)
			continue;
		post(&masked[0], opmod);
		want_eq(duo_wc(&duo).status, IBV_WC_LOC_QP_OP_ERR);
		said_want(
			SAID_NEAR,
			"WQE 0x0 (opcode 0x14) on RC QP 0x%x, a masked atomic, has opmod %u; this "
			"device has those on 8 bytes, whose opmod is 9",
			duo.near.ep.qp->qp_num, opmod);
		duo_reconnect(&duo);
	}
	duo.near.ep.theirs.va += 4;
	post(&masked[0], EIGHT_BYTES);
	want_eq(duo_wc(&duo).status, IBV_WC_REM_INV_REQ_ERR);
	duo.near.ep.theirs.va -= 4;
	want_eq(duo_do(&duo, far_get, 0, 0, 0).value, 5);
}

static const struct test_case cases[] = {
	CASE_ARG(bits, OTHER_PROCESS),
	CASE_ARG(bits, THIS_PROCESS),
	CASE_ARG(refused, OTHER_PROCESS),
	CASE_ARG(refused, THIS_PROCESS),
};

int main(int argc, char **argv)
{
	far_netns = argc > 1 ? argv[1] : NULL;
	return CASES_RUN(cases);
}
