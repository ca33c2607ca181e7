// SPDX-License-Identifier: MIT
/* UMR work requests as a program writes them whose list stands in memory: what is refused, lists
 * that are longer than a work request. That such an mkey works is mkey.c's. */
#include <infiniband/mlx5dv.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { SEG = 16, SEGS = 9 /* with one data segment */, BYTES = 32 /* of the mkey */ };

static struct duo duo;

static void begin(void)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC,
				      .cap = { 16, 16, 4, 4, 256 },
				      .send_ops = IBV_QP_EX_WITH_SEND } };

	said_begin();
	duo_open(&duo, &o);
}

static struct mlx5dv_mkey *create(uint16_t entries)
{
	struct mlx5dv_mkey_init_attr a = { duo.near.dev.pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					   entries };
	struct mlx5dv_mkey *m = mlx5dv_create_mkey(&a);

	want(m);
	return m;
}

/* Where lists stand: behind what the mkeys cover */
static struct mlx5_wqe_umr_klm_seg *away(void)
{
	return (void *)(duo.near.mem + 32768);
}

static void put(struct mlx5_wqe_umr_klm_seg *to, uint64_t addr, uint32_t len)
{
	*to = (struct mlx5_wqe_umr_klm_seg){ htobe32(len), htobe32(duo.near.mr->lkey),
					     htobe64(addr) };
}

/* Of @ds segments: @m gets the @klm entries that the data segment @at names, and @len bytes. */
static void post(const struct mlx5dv_mkey *m, uint8_t ds, uint16_t klm, uint64_t len,
		 const struct ibv_sge *at)
{
	uint8_t wqe[12 * SEG] __attribute__((aligned(64))) = { 0 };
	struct mlx5_wqe_umr_ctrl_seg *umr = (void *)(wqe + SEG);
	struct mlx5_wqe_mkey_context_seg *ctx = (void *)(umr + 1);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(duo.near.ep.qp);

	mlx5dv_set_ctrl_seg((void *)wqe, 0, MLX5_OPCODE_UMR, 0, 0, MLX5_WQE_CTRL_CQ_UPDATE, ds, 0,
			    htobe32(m->lkey));
	umr->klm_octowords = htobe16(klm);
	umr->mkey_mask =
		htobe64(MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE);
	ctx->len = htobe64(len);
	mlx5dv_set_data_seg((void *)(ctx + 1), at->length, at->lkey, at->addr);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	want_eq(ibv_wr_complete(ex), 0);
}

/* The far side gets @len bytes by @m: the pattern 3. */
static void sends(const struct mlx5dv_mkey *m, uint32_t len)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, IBV_WR_SEND, &sg, len);

	sg = (struct ibv_sge){ 0, len, m->lkey };
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = len });
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).byte_len, len);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = len, .id = 3 }).found);
}

static void refuses(const struct mlx5dv_mkey *m, uint8_t ds, uint16_t klm, struct ibv_sge at)
{
	put(away(), (uintptr_t)duo.near.mem, 8);
	post(m, ds, klm, 8, &at);
	want_eq(duo_wc(&duo).status, IBV_WC_MW_BIND_ERR);
	duo_reconnect(&duo);
}

/* Under a key that lives, of memory that is gone */
static void refuses_what_is_gone(const struct mlx5dv_mkey *m)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *gone =
		mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(duo.near.dev.pd, gone, page, IBV_ACCESS_LOCAL_WRITE);

	want(gone != MAP_FAILED && mr);
	peer_unmap(gone, page);
	refuses(m, SEGS, 4, (struct ibv_sge){ (uintptr_t)gone, 64, mr->lkey });
	said_want(
		SAID_NEAR,
		"UMR of mkey 0x%x on QP 0x%x: the memory of its list is not mapped any more; keep "
		"it mapped until the completion",
		m->lkey, duo.near.ep.qp->qp_num);
	want_eq(ibv_dereg_mr(mr), 0);
}

/* The mkey stays as it was. */
static void what_is_wrong(int arg)
{
	struct mlx5dv_mkey *m;
	struct ibv_sge at;

	(void)arg;
	begin();
	m = create(4);
	at = (struct ibv_sge){ (uintptr_t)away(), 64, duo.near.mr->lkey };
	pattern_fill(duo.near.mem, BYTES, 3, 0);
	put(away(), (uintptr_t)duo.near.mem, BYTES);
	post(m, SEGS, 4, BYTES, &at);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	refuses(m, SEGS - 1, 4, at); /* no data segment */
	refuses(m, SEGS + 1, 4, at); /* two of them */
	refuses(m, SEGS, 5, at); /* shorter than the list */
	refuses(m, SEGS, 1, (struct ibv_sge){ at.addr, 0x80000010U, at.lkey }); /* inline */
	refuses(m, SEGS, 8, (struct ibv_sge){ at.addr, 128, at.lkey }); /* more than max_entries */
	refuses(m, SEGS, 4, (struct ibv_sge){ at.addr, 64, m->lkey }); /* itself, and no place */
	refuses(m, SEGS, 4, (struct ibv_sge){ at.addr + duo.near.bytes, 64, at.lkey });
	refuses(m, SEGS, 4, (struct ibv_sge){ at.addr, 64, PEER_NO_KEY });
	said_want(SAID_NEAR,
		  "UMR of mkey 0x%x on QP 0x%x: its list: lkey 0x%x names no memory region (never "
		  "registered, or deregistered); use a key of the QP's PD that covers it",
		  m->lkey, duo.near.ep.qp->qp_num, PEER_NO_KEY);
	refuses_what_is_gone(m);
	sends(m, BYTES);
	want_eq(mlx5dv_destroy_mkey(m), 0);
}

/* More entries than any work request has room for: every third byte, in turn */
static void a_long_list(int arg)
{
	enum { N = 1000 };
	struct mlx5dv_mkey *m;
	uint8_t sent[N];

	(void)arg;
	begin();
	m = create(N);
	pattern_fill(sent, N, 3, 0);
	for (unsigned int i = 0; i < N; i++) {
		put(&away()[i], (uintptr_t)duo.near.mem + 3UL * i, 1);
		duo.near.mem[3 * i] = sent[i];
	}
	post(m, SEGS, N, N,
	     &(struct ibv_sge){ (uintptr_t)away(), N * sizeof(*away()), duo.near.mr->lkey });
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	sends(m, N);
	want_eq(mlx5dv_destroy_mkey(m), 0);
}

static const struct test_case cases[] = { CASE(what_is_wrong), CASE(a_long_list) };

int main(void)
{
	return CASES_RUN(cases);
}
