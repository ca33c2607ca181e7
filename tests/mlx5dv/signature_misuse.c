// SPDX-License-Identifier: MIT
/* Signatures of mkeys: values that the setter refuses, setters out of place, and what
 * mlx5dv_query_device() tells of all that works. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum {
	SIGNED = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

static struct duo duo;

static void begin(void)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC,
				      .cap = { 16, 16, 4, 4, 512 },
				      .send_ops = IBV_QP_EX_WITH_SEND },
			      .together = true };

	said_begin();
	duo_open(&duo, &o);
}

static struct mlx5dv_qp_ex *dv_of(void)
{
	return mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(duo.near.ep.qp));
}

static void start(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(duo.near.ep.qp);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
}

static struct mlx5dv_mkey *create(uint32_t flags)
{
	struct mlx5dv_mkey_init_attr a = { duo.near.dev.pd, flags, 4 };
	struct mlx5dv_mkey *m = mlx5dv_create_mkey(&a);

	want(m);
	return m;
}

static void fails(int err)
{
	want_eq(ibv_wr_complete(ibv_qp_to_qp_ex(duo.near.ep.qp)), err);
}

/* What was refused has left nothing behind. */
static void set_up(struct mlx5dv_mkey *m)
{
	struct mlx5dv_sig_crc crc = { .type = MLX5DV_SIG_CRC_TYPE_CRC64_XP10 };
	struct mlx5dv_sig_block_domain wire = { .sig_type = MLX5DV_SIG_TYPE_CRC, .sig.crc = &crc };
	struct mlx5dv_sig_block_attr sig = { .wire = &wire };
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, 1024, duo.near.mr->lkey };
	struct mlx5dv_mkey_conf_attr none = { 0 };

	start();
	mlx5dv_wr_mkey_configure(dv_of(), m, 2, &none);
	mlx5dv_wr_set_mkey_sig_block(dv_of(), &sig);
	mlx5dv_wr_set_mkey_layout_list(dv_of(), 1, &sg);
	fails(0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
}

/* mlx5dv_wr_set_mkey_sig_block() with @sig fails the batch with EINVAL. */
static void bad(struct mlx5dv_mkey *m, const struct mlx5dv_sig_block_attr *sig)
{
	struct mlx5dv_mkey_conf_attr none = { 0 };

	start();
	mlx5dv_wr_mkey_configure(dv_of(), m, 1, &none);
	mlx5dv_wr_set_mkey_sig_block(dv_of(), sig);
	fails(EINVAL);
}

static void values_refused(int arg)
{
	struct mlx5dv_sig_t10dif dif = { 0 };
	struct mlx5dv_sig_crc crc = { 0 };
	struct mlx5dv_sig_block_domain d = { .sig_type = MLX5DV_SIG_TYPE_CRC, .sig.crc = &crc };
	struct mlx5dv_sig_block_domain e = { .sig_type = MLX5DV_SIG_TYPE_T10DIF, .sig.dif = &dif };
	struct mlx5dv_sig_block_attr sig = { .mem = &d, .wire = &e };
	struct mlx5dv_mkey *m;

#define BAD(member, value)                                                                         \
	do {                                                                                       \
		__typeof__(member) was = member;                                                   \
		peer_note(#member);                                                                \
		member = value;                                                                    \
		bad(m, &sig);                                                                      \
		member = was;                                                                      \
	} while (0)
	(void)arg;
	begin();
	m = create(SIGNED);
	bad(m, NULL);
	BAD(sig.comp_mask, 1);
	BAD(sig.flags, 2);
	BAD(sig.flags, MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK); /* of another type */
	BAD(d.comp_mask, 1);
	BAD(d.sig_type, 2);
	BAD(d.block_size, 5);
	BAD(d.sig.crc, NULL);
	BAD(crc.type, 3);
	BAD(crc.seed, 1);
	BAD(crc.seed, UINT32_MAX - 1);
	BAD(e.sig.dif, NULL);
	BAD(e.block_size, 99);
	BAD(dif.bg_type, 2);
	BAD(dif.bg, 1);
	BAD(dif.flags, 8);
	sig.flags = MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK;
	sig.wire = &d;
	BAD(sig.mem, NULL);
	e = d;
	sig.mem = &e;
	BAD(e.block_size, MLX5DV_BLOCK_SIZE_4096);
	crc.type = MLX5DV_SIG_CRC_TYPE_CRC64_XP10;
	BAD(crc.seed, UINT32_MAX);
	want_eq(mlx5dv_destroy_mkey(m), 0);
	m = create(MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT);
	bad(m, &sig);
	said_want(SAID_NEAR,
		  "mlx5dv_wr_set_mkey_sig_block: on QP 0x%x: its mkey was created without "
		  "MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE; create it with that",
		  duo.near.ep.qp->qp_num);
}

static void setters_misused(int arg)
{
	struct mlx5dv_mkey_conf_attr none = { 0 }, unknown = { .conf_flags = 2 };
	struct mlx5dv_sig_block_attr sig = { 0 };
	struct mlx5dv_mkey_err e;
	struct mlx5dv_qp_ex *dv;
	struct mlx5dv_mkey *m, *without;

	(void)arg;
	begin();
	dv = dv_of();
	m = create(SIGNED);
	start();
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	fails(EINVAL); /* without configure */
	start();
	mlx5dv_wr_mkey_configure(dv, m, 2, &none);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	fails(EINVAL); /* twice */
	start();
	mlx5dv_wr_mkey_configure(dv, m, 1, &none);
	mlx5dv_wr_set_mkey_access_flags(dv, ALL);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	fails(EINVAL); /* one more than was said */
	start();
	mlx5dv_wr_mkey_configure(dv, m, 2, &none);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	fails(EINVAL); /* one is missing */
	start();
	mlx5dv_wr_mkey_configure(dv, m, 0, &unknown);
	fails(EOPNOTSUPP);
	start();
	mlx5dv_wr_mkey_configure(dv, m, 1, &none);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	fails(0); /* the device finds that there is no list */
	want_eq(duo_wc(&duo).status, IBV_WC_MW_BIND_ERR);
	duo_reconnect(&duo);
	set_up(m);
	want_errno(mlx5dv_mkey_check(NULL, &e), EINVAL);
	want_errno(mlx5dv_mkey_check(m, NULL), EINVAL);
	without = create(MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT);
	want_errno(mlx5dv_mkey_check(without, &e), EINVAL);
}

static void what_works_is_told(int arg)
{
	struct mlx5dv_context c = { .comp_mask = MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD };

	(void)arg;
	begin();
	want_eq(mlx5dv_query_device(duo.near.dev.ctx, &c), 0);
	want_eq(c.comp_mask, MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD);
	want_eq(c.sig_caps.block_size, 0x1f);
	want_eq(c.sig_caps.block_prot, MLX5DV_SIG_PROT_CAP_T10DIF | MLX5DV_SIG_PROT_CAP_CRC);
	want_eq(c.sig_caps.t10dif_bg, MLX5DV_SIG_T10DIF_BG_CAP_CRC | MLX5DV_SIG_T10DIF_BG_CAP_CSUM);
	want_eq(c.sig_caps.crc_type, MLX5DV_SIG_CRC_TYPE_CAP_CRC32 |
					     MLX5DV_SIG_CRC_TYPE_CAP_CRC32C |
					     MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10);
}

static const struct test_case cases[] = {
	CASE(values_refused),
	CASE(setters_misused),
	CASE(what_works_is_told),
};

int main(void)
{
	return CASES_RUN(cases);
}
