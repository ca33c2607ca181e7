// SPDX-License-Identifier: MIT
/* mlx5dv_create_qp(): one row for each attribute that is refused, with its errno; what is taken;
 * the builder's entries that are not built; the switch. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

#define MASK(name) MLX5DV_QP_INIT_ATTR_MASK_##name
#define FLAG(name) MLX5DV_QP_CREATE_##name
#define WITH(name) MLX5DV_QP_EX_WITH_##name

static struct peer_dev dev;
static struct ibv_cq *cq;
static struct ibv_srq *srq;

static void begin(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };

	said_begin();
	peer_open(&dev);
	cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	srq = ibv_create_srq(dev.pd, &a);
	want(cq && srq);
}

static struct ibv_qp_init_attr_ex of_type(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){ .qp_type = type,
					     .send_cq = cq,
					     .recv_cq = cq,
					     .cap = { 4, 4, 1, 1, 0 },
					     .comp_mask = IBV_QP_INIT_ATTR_PD,
					     .pd = dev.pd };
}

static const struct row {
	enum ibv_qp_type type;
	struct mlx5dv_qp_init_attr dv;
	int err;
	bool srq;
	uint32_t more; /* of the verbs' comp_mask */
} rows[] = {
#define FLAGS(f)                                                                                   \
	{                                                                                          \
		.comp_mask = MASK(QP_CREATE_FLAGS), .create_flags = (f)                            \
	}
#define OPS(o)                                                                                     \
	{                                                                                          \
		.comp_mask = MASK(SEND_OPS_FLAGS), .send_ops_flags = (o)                           \
	}
#define STREAMS(concurrent, errored)                                                               \
	{                                                                                          \
		.comp_mask = MASK(DC) | MASK(DCI_STREAMS), .dc_init_attr = {                       \
			.dc_type = MLX5DV_DCTYPE_DCI,                                              \
			.dci_streams = { concurrent, errored }                                     \
		}                                                                                  \
	}
#define DC(mask, type, f)                                                                          \
	{                                                                                          \
		.comp_mask = MASK(DC) | (mask), .dc_init_attr = { .dc_type = (type) },             \
		.create_flags = (f)                                                                \
	}
	/* clang-format off */
	{ IBV_QPT_RC, { .comp_mask = 16 }, EINVAL, 0, 0 },
	{ IBV_QPT_RC, { .comp_mask = 1ULL << 63 }, EINVAL, 0, 0 },
	{ IBV_QPT_DRIVER, { 0 }, EINVAL, 0, 0 },
	{ IBV_QPT_RC, DC(0, MLX5DV_DCTYPE_DCI, 0), EINVAL, 0, 0 },
	{ IBV_QPT_DRIVER, DC(0, 0, 0), EINVAL, 0, 0 },
	{ IBV_QPT_DRIVER, DC(0, 3, 0), EINVAL, 1, 0 },
	{ IBV_QPT_RC, FLAGS(1U << 7), EINVAL, 0, 0 },
	{ IBV_QPT_RC, FLAGS(1U << 31), EINVAL, 0, 0 },
	{ IBV_QPT_RC, FLAGS(FLAG(DISABLE_SCATTER_TO_CQE) | FLAG(ALLOW_SCATTER_TO_CQE)), EINVAL,
	  0, 0 },
	{ IBV_QPT_RC, { .comp_mask = MASK(DCI_STREAMS) }, EINVAL, 0, 0 },
	{ IBV_QPT_DRIVER, DC(MASK(DCI_STREAMS), MLX5DV_DCTYPE_DCT, 0), EINVAL, 1, 0 },
	{ IBV_QPT_DRIVER, DC(0, MLX5DV_DCTYPE_DCT, 0), EINVAL, 0, 0 }, /* no SRQ */
	{ IBV_QPT_DRIVER, DC(MASK(SEND_OPS_FLAGS), MLX5DV_DCTYPE_DCT, 0), EINVAL, 1, 0 },
	{ IBV_QPT_DRIVER, DC(0, MLX5DV_DCTYPE_DCT, 0), EINVAL, 1,
	  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS },
	{ IBV_QPT_DRIVER, DC(MASK(QP_CREATE_FLAGS), MLX5DV_DCTYPE_DCT, FLAG(TUNNEL_OFFLOADS)),
	  EINVAL, 1, 0 },
	{ IBV_QPT_RC, OPS(1U << 5), EOPNOTSUPP, 0, 0 },
	{ IBV_QPT_UC, OPS(WITH(MR_INTERLEAVED)), EOPNOTSUPP, 0, 0 },
	{ IBV_QPT_UD, OPS(WITH(MR_LIST)), EOPNOTSUPP, 0, 0 },
	{ IBV_QPT_XRC_SEND, OPS(WITH(MKEY_CONFIGURE)), EOPNOTSUPP, 0, 0 },
	{ IBV_QPT_RAW_PACKET, OPS(WITH(MR_LIST)), EOPNOTSUPP, 0, 0 },
	{ IBV_QPT_DRIVER,
	  { .comp_mask = MASK(DC) | MASK(SEND_OPS_FLAGS),
	    .dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCI },
	    .send_ops_flags = WITH(MKEY_CONFIGURE) }, EOPNOTSUPP, 0, 0 },
	{ IBV_QPT_DRIVER, STREAMS(7, 0), EINVAL, 0, 0 },
	{ IBV_QPT_DRIVER, STREAMS(0, 7), EINVAL, 0, 0 },
	{ IBV_QPT_RC, FLAGS(FLAG(TUNNEL_OFFLOADS)), EINVAL, 0, 0 },
	{ IBV_QPT_UD, FLAGS(FLAG(TIR_ALLOW_SELF_LOOPBACK_UC)), EINVAL, 0, 0 },
	/* not built */
	{ IBV_QPT_UC, FLAGS(FLAG(SIG_PIPELINING)), EOPNOTSUPP, 0, 0 },
	{ IBV_QPT_UC, OPS(WITH(MEMCPY)), EOPNOTSUPP, 0, 0 },
	/* clang-format on */
};

static void refusals(int arg)
{
	(void)arg;
	begin();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp_init_attr_ex a = of_type(rows[i].type);
		struct mlx5dv_qp_init_attr dv = rows[i].dv;

		peer_note("row %zu", i);
		a.comp_mask |= rows[i].more;
		a.srq = rows[i].srq ? srq : NULL;
		want_null(mlx5dv_create_qp(dev.ctx, &a, &dv), rows[i].err);
		want_eq(a.cap.max_send_wr, 4); /* as it was */
	}
}

/* What is wrong in the verbs' attribute, beside operations of mlx5 that are right. */
static void verbs_attribute(int arg)
{
	struct mlx5dv_qp_init_attr dv = OPS(WITH(MEMCPY));
	struct ibv_qp_init_attr_ex a;

	(void)arg;
	begin();
	a = of_type(IBV_QPT_RC);
	a.comp_mask = 0;
	want_null(mlx5dv_create_qp(dev.ctx, &a, &dv), EINVAL);
	said_want(SAID_NEAR,
		  "ibv_create_qp_ex: comp_mask 0x40 for a QP of type RC without a PD; set "
		  "IBV_QP_INIT_ATTR_PD");
	a = of_type(IBV_QPT_RC);
	a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = IBV_QP_EX_WITH_SEND | 1ULL << 63;
	want_null(mlx5dv_create_qp(dev.ctx, &a, &dv), EOPNOTSUPP);
	want_null(mlx5dv_create_qp(dev.ctx, &a, NULL), EOPNOTSUPP);
}

/* IBV_QPT_DRIVER says nothing without them. */
static void driver_without_attributes(int arg)
{
	struct ibv_qp_init_attr_ex a;

	(void)arg;
	begin();
	a = of_type(IBV_QPT_DRIVER);
	want_null(mlx5dv_create_qp(dev.ctx, &a, NULL), EINVAL);
	said_want(SAID_NEAR, "mlx5dv_create_qp: qp_type 255 without MLX5DV_QP_INIT_ATTR_MASK_DC; "
			     "IBV_QPT_DRIVER and a dc_type go together");
}

/* What has no bit is not looked at. */
static void members_without_bits(int arg)
{
	struct mlx5dv_qp_init_attr dv = { .create_flags = ~0U,
					  .dc_init_attr = { .dc_type = 77 },
					  .send_ops_flags = ~0ULL };
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	a = of_type(IBV_QPT_RC);
	qp = mlx5dv_create_qp(dev.ctx, &a, &dv);
	want(qp);
	want(!ibv_qp_to_qp_ex(qp));
	want_eq(ibv_destroy_qp(qp), 0);
}

static void plain_types(int arg)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_XRC_SEND };

	(void)arg;
	begin();
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp_init_attr_ex a = of_type(types[i]);
		struct ibv_qp *qp;

		a.cap.max_send_wr = 3; /* rounded up */
		qp = mlx5dv_create_qp(dev.ctx, &a, NULL);
		want(qp);
		want(a.cap.max_send_wr >= 3);
		want_eq(qp->qp_type, types[i]);
		want_eq(ibv_destroy_qp(qp), 0);
	}
}

/* Both flags are taken for every type, though RC alone scatters (scatter.c): perftest sets the one
 * on whatever it makes, and the other is a permission. */
static void scatter_to_cqe(int flag)
{
	struct mlx5dv_qp_init_attr dv = FLAGS((uint32_t)flag);
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	begin();
	a = of_type(IBV_QPT_RC);
	qp = mlx5dv_create_qp(dev.ctx, &a, &dv);
	want(qp);
	want_eq(ibv_destroy_qp(qp), 0);
}

/* mlx5's operations alone make it an extended queue pair, and the granted sizes are told. */
static void extended_by_mlx5_alone(int arg)
{
	struct mlx5dv_qp_init_attr dv = OPS(WITH(RAW_WQE));
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp_ex *ex;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	a = of_type(IBV_QPT_UC);
	a.cap.max_send_wr = 3;
	qp = mlx5dv_create_qp(dev.ctx, &a, &dv);
	want(qp);
	want_eq(a.comp_mask, IBV_QP_INIT_ATTR_PD);
	want_eq(a.cap.max_send_wr, 4);
	ex = ibv_qp_to_qp_ex(qp);
	want(ex);
	want(mlx5dv_qp_ex_from_ibv_qp_ex(ex)->wr_raw_wqe);
	want(!mlx5dv_qp_ex_from_ibv_qp_ex(NULL));
	want_eq(ibv_destroy_qp(qp), 0);
}

/* Lists of four entries go into each work request, and those that fit into the inline data. */
static void room_for_lists(int arg)
{
	struct mlx5dv_qp_init_attr dv = OPS(WITH(MR_LIST) | WITH(MR_INTERLEAVED));
	static const uint32_t asked[] = { 0, 64, 512, 828 };

	(void)arg;
	begin();
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		struct ibv_qp_init_attr_ex a = of_type(IBV_QPT_RC);
		struct ibv_qp *qp;

		a.cap.max_inline_data = asked[i];
		qp = mlx5dv_create_qp(dev.ctx, &a, &dv);
		want(qp);
		want(ibv_qp_to_qp_ex(qp));
		want(a.cap.max_inline_data >= (asked[i] < 64 ? 64 : asked[i]));
		want(a.cap.max_inline_data <= 828);
		want_eq(ibv_destroy_qp(qp), 0);
	}
}

/* An entry that is not built fails its batch, with its name. */
static void entries_that_are_not_built(int arg)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .send_ops = IBV_QP_EX_WITH_SEND },
			      .together = true };
	static struct duo duo;
	struct mlx5dv_qp_ex *dv;
	struct ibv_qp_ex *ex;

	(void)arg;
	said_begin();
	duo_open(&duo, &o);
	ex = ibv_qp_to_qp_ex(duo.near.ep.qp);
	dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
#define FAILS(call)                                                                                \
	do {                                                                                       \
		ibv_wr_start(ex);                                                                  \
		call;                                                                              \
		want_errno((errno = ibv_wr_complete(ex)), EOPNOTSUPP);                             \
	} while (0)
	FAILS(mlx5dv_wr_set_dc_addr(dv, NULL, 1, 2));
	FAILS(mlx5dv_wr_set_dc_addr_stream(dv, NULL, 1, 2, 3));
	FAILS(mlx5dv_wr_set_mkey_crypto(dv, NULL));
	said_want(SAID_NEAR, "mlx5dv_wr_set_mkey_crypto: QP 0x%x (RC) does not do it; leave it out",
		  duo.near.ep.qp->qp_num);
}

static void the_switch(int arg)
{
	static const struct {
		const char *value;
		bool supported;
	} is[] = { { NULL, false }, { "", false }, { "0", false }, { "1", true }, { "2", false } };

	(void)arg;
	begin();
	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
		if (is[i].value)
			setenv("SOFTHCA_MLX5DV", is[i].value, 1);
		else
			unsetenv("SOFTHCA_MLX5DV");
		want_eq(mlx5dv_is_supported(dev.ctx->device), is[i].supported);
	}
}

static const struct test_case cases[] = {
	CASE(refusals),
	CASE(verbs_attribute),
	CASE(driver_without_attributes),
	CASE(members_without_bits),
	CASE(plain_types),
	CASE_ARG(scatter_to_cqe, FLAG(DISABLE_SCATTER_TO_CQE)),
	CASE_ARG(scatter_to_cqe, FLAG(ALLOW_SCATTER_TO_CQE)),
	CASE(extended_by_mlx5_alone),
	CASE(room_for_lists),
	CASE(entries_that_are_not_built),
	CASE(the_switch),
};

int main(void)
{
	return CASES_RUN(cases);
}
