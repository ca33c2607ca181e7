// SPDX-License-Identifier: MIT
/* Mistakes explained: rings that the program writes itself, mkeys and signatures. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <string.h>
#include "verbs/mistake.h"

enum { SEG = 16, BLOCK = 64, ENTRIES = 4, ACCESS = 0x88 };
enum {
	INDIRECT = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	SIGNED = INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

#define DUO (&mistake.duo)

static void begin(void)
{
	mistake_begin((struct duo_opts){
		.qp = { .type = IBV_QPT_RC,
			.cap = { 16, 16, 4, 4, 512 },
			.send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE } });
}

/* --- rings --- */

static struct mlx5dv_qp ring;

static void open_ring(void)
{
	struct mlx5dv_obj obj = { .qp = { .out = &ring } };

	begin();
	obj.qp.in = DUO->near.ep.qp;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
}

/* The doorbell record says @n blocks; the doorbell is rung. */
static void announce(unsigned int n)
{
	__atomic_store_n(&ring.dbrec[MLX5_SND_DBR], htobe32(n), __ATOMIC_RELEASE);
	*(volatile uint64_t *)ring.bf.reg = (uint64_t)htobe32(mistake.near_qp << 8) << 32;
}

static void fails(enum ibv_wc_status status)
{
	want_eq(duo_wc(DUO).status, status);
}

struct bad {
	uint8_t opcode, ds;
	uint16_t index;
	uint32_t seg[4]; /* the second segment */
	enum ibv_wc_status status;
	const char *name, *says; /* behind "WQE ... on RC QP ..." */
};

static const struct bad bad[] = {
	{ MLX5_OPCODE_SEND,
	  0,
	  0,
	  { 0 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "ds of 0",
	  " has ds 0; count its segments of 16 B in ds, the control segment too" },
	{ MLX5_OPCODE_SEND,
	  63,
	  0,
	  { 0 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "ds of 63",
	  " has ds 63, that is 16 blocks of 64 B, and the doorbell record posts 1 from there on; "
	  "write its real size into ds, and count all its blocks in the doorbell record" },
	{ MLX5_OPCODE_RDMA_WRITE,
	  1,
	  0,
	  { 0 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "no remote address",
	  " has ds 1, its opcode needs 2 segments before the data; count all of them in ds" },
	{ MLX5_OPCODE_ATOMIC_CS,
	  2,
	  0,
	  { 0 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "no operands",
	  " has ds 2, its opcode needs 3 segments before the data; count all of them in ds" },
	{ 0x7f,
	  2,
	  0,
	  { 0 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "no opcode",
	  ": RC QPs have no operation of that opcode; use another opcode, or another type of QP" },
	{ MLX5_OPCODE_TSO,
	  2,
	  0,
	  { 0 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "an opcode of another service",
	  ": RC QPs have no operation of that opcode; use another opcode, or another type of QP" },
	{ MLX5_OPCODE_SET_PSV,
	  3,
	  0,
	  { 0 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "a PSV",
	  " sets a PSV, and this device has none: a signature's seeds and tags stand in the BSF of "
	  "the mkey; write them there by a UMR, or call mlx5dv_wr_set_mkey_sig_block" },
	{ MLX5_OPCODE_SEND,
	  2,
	  0,
	  { 0x80000000U | 100 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "inline data cut off",
	  " brings 100 B of inline data, and its ds of 2 ends before them; count them in ds, or "
	  "bring fewer" },
	{ MLX5_OPCODE_RDMA_READ,
	  3,
	  0,
	  { 0 },
	  IBV_WC_LOC_QP_OP_ERR,
	  "a READ into inline data",
	  " has inline data where its answer lands; give it data segments" },
};

static void wrong_wqe(int i)
{
	uint32_t seg[8] = { 0 };
	uint8_t *at;

	open_ring();
	at = ring.sq.buf;
	mlx5dv_set_ctrl_seg((void *)at, bad[i].index, bad[i].opcode, 0, mistake.near_qp,
			    MLX5_WQE_CTRL_CQ_UPDATE, bad[i].ds, 0, 0);
	for (int k = 0; k < 4; k++)
		seg[k] = htobe32(bad[i].seg[k]);
	if (bad[i].opcode == MLX5_OPCODE_RDMA_READ)
		seg[4] = htobe32(0x80000000U | 8);
	memcpy(at + SEG, seg, sizeof(seg));
	announce(1);
	fails(bad[i].status);
	NEAR("WQE 0x0 (opcode 0x%x) on RC QP 0x%x%s", bad[i].opcode, mistake.near_qp, bad[i].says);
}

static void wqe_of_another_place(int arg)
{
	(void)arg;
	open_ring();
	mlx5dv_set_ctrl_seg((void *)ring.sq.buf, 5, MLX5_OPCODE_NOP, 0, mistake.near_qp,
			    MLX5_WQE_CTRL_CQ_UPDATE, 1, 0, 0);
	announce(1);
	fails(IBV_WC_LOC_QP_OP_ERR);
	NEAR("WQE 0x5 of QP 0x%x at block 0x0 in the ring of QP 0x%x: it has not been written, or "
	     "is for another place; write index and number into each WQE, and then the doorbell "
	     "record",
	     mistake.near_qp, mistake.near_qp);
}

static void wqe_that_was_not_written(int arg)
{
	(void)arg;
	open_ring();
	announce(1);
	fails(IBV_WC_LOC_QP_OP_ERR);
	NEAR("WQE 0x0 of QP 0x0 at block 0x0 in the ring of QP 0x%x: it has not been written, or "
	     "is "
	     "for another place; write index and number into each WQE, and then the doorbell "
	     "record",
	     mistake.near_qp);
}

static void write_wqe(uint32_t lkey, uint32_t rkey)
{
	uint8_t *at = ring.sq.buf;
	struct mlx5_wqe_raddr_seg *to = (void *)(at + SEG);

	mlx5dv_set_ctrl_seg((void *)at, 0, MLX5_OPCODE_RDMA_WRITE, 0, mistake.near_qp,
			    MLX5_WQE_CTRL_CQ_UPDATE, 3, 0, 0);
	*to = (struct mlx5_wqe_raddr_seg){ .raddr = htobe64(mistake.far_va),
					   .rkey = htobe32(rkey) };
	mlx5dv_set_data_seg((void *)(at + 2 * SEG), 64, lkey, mistake.va);
	announce(1);
}

static void lkey_in_a_ring(int arg)
{
	(void)arg;
	open_ring();
	write_wqe(mistake.lkey ^ 0x5a, mistake.rkey);
	fails(IBV_WC_LOC_PROT_ERR);
	NEAR("WQE 0x0: RDMA WRITE of 64 B on QP 0x%x: sge[0]: lkey 0x%x names no memory region "
	     "(never registered, or deregistered); use a key of the QP's PD that covers the buffer",
	     mistake.near_qp, mistake.lkey ^ 0x5a);
}

static void rkey_in_a_ring(int arg)
{
	(void)arg;
	open_ring();
	write_wqe(mistake.lkey, mistake.rkey ^ 0x5a);
	fails(IBV_WC_REM_ACCESS_ERR);
	NEAR("RDMA WRITE of 64 B on QP 0x%x to 0x%llx, rkey 0x%x, refused by QP 0x%x (vendor_err "
	     "0x88): peer: the rkey names no memory region (never registered, or deregistered)",
	     mistake.near_qp, mistake.far_va, mistake.rkey ^ 0x5a, mistake.far_qp);
	mistake_far_says("RDMA WRITE", 64, mistake.far_va,
			 mistake_text("rkey 0x%x names no memory region (never registered, or "
				      "deregistered)" MISTAKE_GIVE,
				      mistake.rkey ^ 0x5a));
}

/* --- mkeys --- */

static struct mlx5dv_qp_ex *dv_of(struct ibv_qp *qp)
{
	return mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(qp));
}

static struct ibv_qp_ex *start(unsigned int flags)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(DUO->near.ep.qp);

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = flags;
	return ex;
}

static struct mlx5dv_mkey *mkey(struct ibv_pd *pd, uint32_t flags)
{
	struct mlx5dv_mkey_init_attr a = { pd, flags, ENTRIES };
	struct mlx5dv_mkey *m = mlx5dv_create_mkey(&a);

	want(m);
	return m;
}

static void pieces(struct ibv_sge *sg, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sg[i] = (struct ibv_sge){ mistake.va + i * 64, 64, mistake.lkey };
}

static void refused(struct ibv_qp_ex *ex, int err)
{
	want_eq(ibv_wr_complete(ex), err);
}

static void too_many_entries(int arg)
{
	struct ibv_sge sg[ENTRIES + 1];
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	pieces(sg, ENTRIES + 1);
	ex = start(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	mlx5dv_wr_mr_list(dv_of(DUO->near.ep.qp), mkey(DUO->near.dev.pd, INDIRECT), ALL,
			  ENTRIES + 1, sg);
	refused(ex, ENOMEM);
	NEAR("mlx5dv_wr_mr_list (wr_id 0x1): 5 entries for an mkey of max_entries 4; create it "
	     "with more");
}

static void list_not_inline(int arg)
{
	struct ibv_sge sg[1];
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	pieces(sg, 1);
	ex = start(IBV_SEND_SIGNALED);
	mlx5dv_wr_mr_list(dv_of(DUO->near.ep.qp), mkey(DUO->near.dev.pd, INDIRECT), ALL, 1, sg);
	refused(ex, EOPNOTSUPP);
	NEAR("mlx5dv_wr_mr_list (wr_id 0x1): wr_flags 0x2 on QP 0x%x; lists go inline, so set "
	     "IBV_SEND_INLINE",
	     mistake.near_qp);
}

static void no_mkey(int arg)
{
	struct ibv_sge sg[1];
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	pieces(sg, 1);
	ex = start(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	mlx5dv_wr_mr_list(dv_of(DUO->near.ep.qp), NULL, ALL, 1, sg);
	refused(ex, EINVAL);
	NEAR("mlx5dv_wr_mr_list (wr_id 0x1): mkey is NULL on QP 0x%x; pass what "
	     "mlx5dv_create_mkey() returned",
	     mistake.near_qp);
}

static void mkey_of_another_pd(int arg)
{
	struct ibv_pd *pd;
	struct mlx5dv_mkey *m;
	struct ibv_sge sg[1];
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	pd = ibv_alloc_pd(DUO->near.dev.ctx);
	want(pd);
	m = mkey(pd, INDIRECT);
	pieces(sg, 1);
	ex = start(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	mlx5dv_wr_mr_list(dv_of(DUO->near.ep.qp), m, ALL, 1, sg);
	refused(ex, 0);
	fails(IBV_WC_MW_BIND_ERR);
	NEAR("UMR of mkey 0x%x on QP 0x%x: the mkey belongs to another PD than the queue pair; "
	     "create it in that PD",
	     m->lkey, mistake.near_qp);
}

/* A UMR as a program writes it that knows the header alone: @n entries of 64 B, @len bytes. */
static void raw_umr(const struct mlx5dv_mkey *m, unsigned int n, uint64_t len)
{
	uint8_t wqe[(1 + 3 + 4 + 8) * SEG] __attribute__((aligned(64))) = { 0 };
	struct mlx5_wqe_umr_ctrl_seg *umr = (void *)(wqe + SEG);
	struct mlx5_wqe_mkey_context_seg *ctx = (void *)(umr + 1);
	struct ibv_qp_ex *ex = start(0);

	mlx5dv_set_ctrl_seg((void *)wqe, 0, MLX5_OPCODE_UMR, 0, 0, MLX5_WQE_CTRL_CQ_UPDATE, 16, 0,
			    htobe32(m->lkey));
	umr->flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	umr->klm_octowords = htobe16(8);
	umr->mkey_mask =
		htobe64(MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE);
	ctx->qpn_mkey = htobe32(0xffffff00 | (m->lkey & 0xff));
	ctx->len = htobe64(len);
	for (unsigned int i = 0; i < n; i++) {
		ctx->inseg[i].klm.byte_count = htobe32(64);
		ctx->inseg[i].klm.mkey = htobe32(mistake.lkey);
		ctx->inseg[i].klm.address = htobe64(mistake.va + i * 64);
	}
	mlx5dv_wr_raw_wqe(dv_of(DUO->near.ep.qp), wqe);
	refused(ex, 0);
	fails(IBV_WC_MW_BIND_ERR);
}

static void raw_list_of_too_many(int arg)
{
	struct mlx5dv_mkey *m;

	(void)arg;
	begin();
	m = mkey(DUO->near.dev.pd, INDIRECT);
	raw_umr(m, 8, 512);
	NEAR("UMR of mkey 0x%x on QP 0x%x: its list has 8 entries, the mkey's max_entries is 4; "
	     "create the mkey with more",
	     m->lkey, mistake.near_qp);
}

static void longer_than_its_list(int arg)
{
	struct mlx5dv_mkey_init_attr a = { .create_flags = INDIRECT, .max_entries = 8 };
	struct mlx5dv_mkey *m;

	(void)arg;
	begin();
	a.pd = DUO->near.dev.pd;
	m = mlx5dv_create_mkey(&a);
	want(m);
	raw_umr(m, 2, 129);
	NEAR("UMR of mkey 0x%x on QP 0x%x: its length of 129 B exceeds the 128 B of its list; list "
	     "more, or make it shorter",
	     m->lkey, mistake.near_qp);
}

/* The far side's mkey, without a list or with one whose key is nobody's. */
static struct duo_answer far_mkey(struct side *s, const struct duo_order *o)
{
	struct mlx5dv_mkey *m = mkey(s->dev.pd, INDIRECT);
	struct ibv_sge sg = { (uintptr_t)s->mem, 64, PEER_NO_KEY };
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->ep.qp);
	struct ibv_wc wc;

	if (o->len) {
		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
		mlx5dv_wr_mr_list(dv_of(s->ep.qp), m, ALL, 1, &sg);
		want_eq(ibv_wr_complete(ex), 0);
		want(peer_poll(s->ep.scq, &wc, 10000));
		want_eq(wc.status, IBV_WC_SUCCESS);
	}
	return (struct duo_answer){ .found = true, .value = m->rkey };
}

static void mkey_of_the_peer(int with_list)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	uint32_t rkey;

	begin();
	mistake_meet();
	rkey = (uint32_t)duo_do(DUO, far_mkey, 0, (uint32_t)with_list, 0).value;
	wr = mistake_write(64, &sg);
	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = 0;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	mistake_refused("RDMA WRITE", &wr, ACCESS,
			with_list
				? "a key in the mkey's list does not allow it; look at what the "
				  "UMR put there"
				: "the rkey is a window's or an mkey's that is not bound; bind it "
				  "first");
	if (with_list)
		FAR("RDMA WRITE of 64 B to 0x0 by QP 0x%x refused by QP 0x%x: 0x0 of mkey 0x%x is "
		    "another key's: lkey 0x%x names no memory region (never registered, or "
		    "deregistered)" MISTAKE_GIVE,
		    mistake.near_qp, mistake.far_qp, rkey, PEER_NO_KEY);
	else
		FAR("RDMA WRITE of 64 B to 0x0 by QP 0x%x refused by QP 0x%x: rkey 0x%x is an mkey "
		    "that no UMR has set up, or that was invalidated" MISTAKE_GIVE,
		    mistake.near_qp, mistake.far_qp, rkey);
}

/* --- signatures --- */

static const struct mlx5dv_mkey_conf_attr none;

static struct mlx5dv_sig_block_attr crc_attr(void)
{
	static struct mlx5dv_sig_crc crc = { .type = MLX5DV_SIG_CRC_TYPE_CRC64_XP10 };
	static struct mlx5dv_sig_block_domain wire = { .sig_type = MLX5DV_SIG_TYPE_CRC,
						       .sig.crc = &crc };

	return (struct mlx5dv_sig_block_attr){ .wire = &wire };
}

static void signature_out_of_place(int arg)
{
	struct mlx5dv_sig_block_attr sig = crc_attr();
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	ex = start(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	mlx5dv_wr_set_mkey_sig_block(dv_of(DUO->near.ep.qp), &sig);
	refused(ex, EINVAL);
	NEAR("mlx5dv_wr_set_mkey_sig_block: no mlx5dv_wr_mkey_configure on QP 0x%x waits for it; "
	     "count it in the num_setters of that call",
	     mistake.near_qp);
}

static void signature_twice(int arg)
{
	struct mlx5dv_sig_block_attr sig = crc_attr();
	struct mlx5dv_qp_ex *dv;
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	dv = dv_of(DUO->near.ep.qp);
	ex = start(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	mlx5dv_wr_mkey_configure(dv, mkey(DUO->near.dev.pd, SIGNED), 3,
				 (struct mlx5dv_mkey_conf_attr *)&none);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	refused(ex, EINVAL);
	NEAR("mlx5dv_wr_set_mkey_sig_block (wr_id 0x1): called twice for one mkey on QP 0x%x; call "
	     "each setter once between mlx5dv_wr_mkey_configure and the next operation",
	     mistake.near_qp);
}

static void setters_missing(int arg)
{
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	ex = start(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	mlx5dv_wr_mkey_configure(dv_of(DUO->near.ep.qp), mkey(DUO->near.dev.pd, SIGNED), 2,
				 (struct mlx5dv_mkey_conf_attr *)&none);
	refused(ex, EINVAL);
	NEAR("mlx5dv_wr_mkey_configure on QP 0x%x (wr_id 0x1): 2 setters are missing; call as many "
	     "as num_setters says",
	     mistake.near_qp);
}

static void signature_without_a_list(int arg)
{
	struct mlx5dv_sig_block_attr sig = crc_attr();
	struct mlx5dv_mkey *m;
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	m = mkey(DUO->near.dev.pd, SIGNED);
	ex = start(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	mlx5dv_wr_mkey_configure(dv_of(DUO->near.ep.qp), m, 1,
				 (struct mlx5dv_mkey_conf_attr *)&none);
	mlx5dv_wr_set_mkey_sig_block(dv_of(DUO->near.ep.qp), &sig);
	refused(ex, 0);
	fails(IBV_WC_MW_BIND_ERR);
	NEAR("UMR of mkey 0x%x on QP 0x%x: the mkey has no list yet; give it one first", m->lkey,
	     mistake.near_qp);
}

static void check_of_what_is_not_signed(int arg)
{
	struct mlx5dv_mkey_err e;
	struct mlx5dv_mkey *m;

	(void)arg;
	begin();
	m = mkey(DUO->near.dev.pd, INDIRECT);
	want_errno(mlx5dv_mkey_check(m, &e), EINVAL);
	NEAR("mlx5dv_mkey_check: mkey 0x%x was created without "
	     "MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE; create it with that",
	     m->lkey);
}

#define WQE(i)                                                                                     \
	{                                                                                          \
		"wrong_wqe (" #i ")", wrong_wqe, i                                                 \
	}

static const struct test_case cases[] = {
	WQE(0),
	WQE(1),
	WQE(2),
	WQE(3),
	WQE(4),
	WQE(5),
	WQE(6),
	WQE(7),
	WQE(8),
	CASE(wqe_of_another_place),
	CASE(wqe_that_was_not_written),
	CASE(lkey_in_a_ring),
	CASE(rkey_in_a_ring),
	CASE(too_many_entries),
	CASE(list_not_inline),
	CASE(no_mkey),
	CASE(mkey_of_another_pd),
	CASE(raw_list_of_too_many),
	CASE(longer_than_its_list),
	{ "mkey_of_the_peer (no list)", mkey_of_the_peer, 0 },
	{ "mkey_of_the_peer (a key of nobody's in it)", mkey_of_the_peer, 1 },
	CASE(signature_out_of_place),
	CASE(signature_twice),
	CASE(setters_missing),
	CASE(signature_without_a_list),
	CASE(check_of_what_is_not_signed),
};

int main(int argc, char **argv)
{
	return MISTAKES(argc, argv, cases);
}
