// SPDX-License-Identifier: MIT
/* The small calls of mlx5dv: what each answers, and one row for each thing that it refuses. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/peer.h"
#include "verbs/said.h"

/* What a header after rdma-core 54 declares. */
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);

enum { DATA_DIRECT = 1 };

static struct peer_dev dev;

static void begin(void)
{
	said_begin();
	peer_open(&dev);
}

static struct ibv_qp *some_qp(void)
{
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RC,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .pd = dev.pd };
	struct ibv_qp *qp = mlx5dv_create_qp(dev.ctx, &a, NULL);

	want(cq && qp);
	return qp;
}

/* A call whose result alone says whether it worked: its errno, or 0. */
static int null_or(const void *p)
{
	return p ? 0 : errno;
}

static void nothing_given(int arg)
{
	struct ibv_qp_init_attr_ex qp = { 0 };
	struct ibv_wq_init_attr wq = { 0 };
	struct mlx5dv_clock_info clock;
	struct mlx5dv_context query = { 0 };
	struct mlx5dv_context_attr open = { 0 };
	struct mlx5dv_port port;
	uint32_t qpn;
	uint8_t p;

	(void)arg;
	begin();
	want_eq(null_or(mlx5dv_open_device(NULL, &open)), EINVAL);
	want_eq(null_or(mlx5dv_open_device(dev.ctx->device, NULL)), EINVAL);
	want_eq(null_or(mlx5dv_create_qp(NULL, &qp, NULL)), EINVAL);
	want_eq(null_or(mlx5dv_create_qp(dev.ctx, NULL, NULL)), EINVAL);
	want_eq(mlx5dv_query_device(NULL, &query), EINVAL);
	want_eq(mlx5dv_query_device(dev.ctx, NULL), EINVAL);
	want_eq(mlx5dv_get_clock_info(NULL, &clock), EINVAL);
	want_eq(mlx5dv_get_clock_info(dev.ctx, NULL), EINVAL);
	want_eq(mlx5dv_query_port(NULL, 1, &port), EINVAL);
	want_eq(mlx5dv_query_port(dev.ctx, 1, NULL), EINVAL);
	want_eq(mlx5dv_set_context_attr(NULL, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &p), EINVAL);
	want_eq(mlx5dv_set_context_attr(dev.ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, NULL), EINVAL);
	want_eq(mlx5dv_reserved_qpn_alloc(NULL, &qpn), EINVAL);
	want_eq(mlx5dv_reserved_qpn_alloc(dev.ctx, NULL), EINVAL);
	want_eq(mlx5dv_reserved_qpn_dealloc(NULL, 1), EINVAL);
	want_eq(mlx5dv_query_qp_lag_port(NULL, &p, &p), EINVAL);
	want_eq(mlx5dv_modify_qp_lag_port(NULL, 1), EINVAL);
	want_eq(mlx5dv_dci_stream_id_reset(NULL, 1), EINVAL);
	want_eq(mlx5dv_modify_qp_udp_sport(NULL, 1), EINVAL);
	want_eq(null_or(mlx5dv_create_wq(NULL, &wq, NULL)), EINVAL);
	want_eq(null_or(mlx5dv_create_wq(dev.ctx, NULL, NULL)), EINVAL);
	want_eq(null_or(mlx5dv_create_mkey(NULL)), EINVAL);
	want_eq(mlx5dv_destroy_mkey(NULL), EINVAL);
	want_eq(mlx5dv_init_obj(NULL, MLX5DV_OBJ_QP), EINVAL);
	want_eq(mlx5dv_map_ah_to_qp(NULL, 1), EINVAL);
	said_want(SAID_NEAR, "mlx5dv_map_ah_to_qp: the address handle is NULL; give one");
	peer_close(&dev);
}

static void opening(int arg)
{
	static const struct {
		struct mlx5dv_context_attr attr;
		int err;
	} rows[] = {
		{ { 0 }, 0 },
		{ { .flags = MLX5DV_CONTEXT_FLAGS_DEVX }, EOPNOTSUPP },
		{ { .flags = 2 }, EINVAL },
		{ { .flags = MLX5DV_CONTEXT_FLAGS_DEVX | 1U << 31 }, EINVAL },
		{ { .comp_mask = 1 }, EINVAL },
		{ { .comp_mask = 1ULL << 63 }, EINVAL },
	};

	(void)arg;
	begin();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct mlx5dv_context_attr attr = rows[i].attr;
		struct ibv_context *ctx;

		peer_note("row %zu", i);
		errno = 0;
		ctx = mlx5dv_open_device(dev.ctx->device, &attr);
		want_eq(null_or(ctx), rows[i].err);
		if (ctx)
			want_eq(ibv_close_device(ctx), 0);
	}
	peer_close(&dev);
}

/* Objects of a context that was opened so are the verbs' own. */
static void opened(int arg)
{
	struct mlx5dv_context_attr attr = { 0 };
	struct ibv_context *ctx;
	struct ibv_cq *cq;

	(void)arg;
	begin();
	ctx = mlx5dv_open_device(dev.ctx->device, &attr);
	want(ctx && ctx != dev.ctx);
	cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	want(cq);
	want_eq(ibv_destroy_cq(cq), 0);
	want_eq(ibv_close_device(ctx), 0);
	peer_close(&dev);
}

/* RC and UC in RTS have a source port, until RESET; messages go on with it. */
static void source_ports(int type)
{
	struct duo_opts o = { .qp = { .type = (enum ibv_qp_type)type }, .together = true };
	bool has = type == IBV_QPT_RC || type == IBV_QPT_UC;
	static struct duo duo;
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	said_begin();
	duo_open(&duo, &o);
	want_eq(mlx5dv_modify_qp_udp_sport(duo.near.ep.qp, 0), EINVAL);
	want_eq(mlx5dv_modify_qp_udp_sport(duo.near.ep.qp, 55555), has ? 0 : EOPNOTSUPP);
	want_eq(mlx5dv_modify_qp_udp_sport(duo.near.ep.qp, 1), has ? 0 : EOPNOTSUPP);
	want_eq(ibv_modify_qp(duo.near.ep.qp, &reset, IBV_QP_STATE), 0);
	want_eq(mlx5dv_modify_qp_udp_sport(duo.near.ep.qp, 55555), EOPNOTSUPP);
	said_want(SAID_NEAR,
		  "mlx5dv_modify_qp_udp_sport: QP 0x%x (%s) in state 0; RC and UC have a source "
		  "port, in RTS (3)",
		  duo.near.ep.qp->qp_num,
		  type == IBV_QPT_RC   ? "RC"
		  : type == IBV_QPT_UC ? "UC"
				       : "UD");
}

static void context_attributes(int arg)
{
	struct mlx5dv_ctx_allocators a = { 0 };

	(void)arg;
	begin();
	want_eq(mlx5dv_set_context_attr(dev.ctx, 0, &a), ENOTSUP);
	want_eq(mlx5dv_set_context_attr(dev.ctx, 2, &a), ENOTSUP);
	said_want(SAID_NEAR, "mlx5dv_set_context_attr: type 2 is not known; "
			     "MLX5DV_CTX_ATTR_BUF_ALLOCATORS is the only one");
	want_eq(mlx5dv_set_context_attr(dev.ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &a), EINVAL);
	said_want(SAID_NEAR, "mlx5dv_set_context_attr: alloc or free is NULL; give both");
	peer_close(&dev);
}

/* The caller's structure may be of an older or a newer header: nothing behind its end is
 * touched. */
static void ports(int arg)
{
	struct {
		struct mlx5dv_port port;
		uint8_t behind[64];
	} s;

	(void)arg;
	begin();
	for (uint32_t p = 0; p < 4; p++)
		want_eq(mlx5dv_query_port(dev.ctx, p, &s.port), p == 1 ? 0 : EINVAL);
	for (size_t size = 0; size <= sizeof(s); size++) {
		const uint8_t *byte = (uint8_t *)&s;

		memset(&s, 0xa5, sizeof(s));
		want_eq(_mlx5dv_query_port(dev.ctx, 1, &s.port, size), size < 8 ? EINVAL : 0);
		for (size_t i = 0; i < sizeof(s); i++)
			want_eq(byte[i], size < 8 || i >= size ? 0xa5 : 0);
	}
	peer_close(&dev);
}

/* What is answered is what is so; bits that nobody knows come back clear. */
static void query(int arg)
{
	struct mlx5dv_context a;
	struct ibv_device_attr_ex verbs;

	(void)arg;
	begin();
	memset(&a, 0xa5, sizeof(a));
	a.comp_mask = ~0ULL;
	want_eq(mlx5dv_query_device(dev.ctx, &a), 0);
	want_eq(a.comp_mask,
		(MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD * 2 - 1) & ~MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK);
	want_eq(ibv_query_device_ex(dev.ctx, NULL, &verbs), 0);
	want_eq(a.dc_odp_caps, verbs.xrc_odp_caps);
	want_eq(a.num_lag_ports, 1);
	want_eq(a.max_clock_info_update_nsec, INT64_MAX);
	want_eq(a.dci_streams_caps.max_log_num_errored, 6);
	want_eq(a.striding_rq_caps.min_single_stride_log_num_of_bytes, 6);
	want_eq(a.striding_rq_caps.max_single_stride_log_num_of_bytes, 13);
	want_eq(a.striding_rq_caps.min_single_wqe_log_num_of_strides, 3);
	want_eq(a.striding_rq_caps.max_single_wqe_log_num_of_strides, 16);
	want_eq(a.striding_rq_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
	want_eq(a.cqe_comp_caps.max_num, 64);
	want_eq(a.cqe_comp_caps.supported_format, MLX5DV_CQE_RES_FORMAT_HASH |
							  MLX5DV_CQE_RES_FORMAT_CSUM |
							  MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX);
	want(a.flags & MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP);
	memset(&a, 0xa5, sizeof(a));
	a.comp_mask = 0;
	want_eq(mlx5dv_query_device(dev.ctx, &a), 0);
	want_eq(a.comp_mask, 0);
	want_eq(a.dc_odp_caps, 0xa5a5a5a5);
	want_eq(a.num_lag_ports, 0xa5);
	peer_close(&dev);
}

static void bonds(int arg)
{
	uint8_t port = 7, active = 7;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	qp = some_qp();
	want_eq(mlx5dv_query_qp_lag_port(qp, &port, &active), EOPNOTSUPP);
	want(port == 7 && active == 7);
	want_eq(mlx5dv_query_qp_lag_port(qp, NULL, &active), EINVAL);
	want_eq(mlx5dv_query_qp_lag_port(qp, &port, NULL), EINVAL);
	want_eq(mlx5dv_modify_qp_lag_port(qp, 1), EOPNOTSUPP);
}

static void addresses(int arg)
{
	struct peer_addr to;
	struct ibv_ah *ah;

	(void)arg;
	begin();
	to = (struct peer_addr){ .gid = dev.gid };
	ah = peer_ah(&dev, &to);
	want_eq(mlx5dv_map_ah_to_qp(ah, some_qp()->qp_num), 0);
	want_eq(mlx5dv_map_ah_to_qp(ah, 0xffffff), 0); /* again: ignored */
	want_eq(mlx5dv_map_ah_to_qp(ah, 0x1000000), EINVAL);
	want_eq(ibv_destroy_ah(ah), 0);
}

/* Striding work queues: mask, and strides within what is advertised. */
static const struct {
	uint64_t mask;
	uint32_t size, count;
	uint8_t shift;
	int err;
} striding[] = {
	{ 0, 0, 0, 0, 0 },
	{ 0, 99, 99, 99, 0 }, /* not asked for */
	{ 2, 6, 3, 0, EINVAL },
	{ 1ULL << 63, 6, 3, 0, EINVAL },
	{ 1ULL << 63 | 1, 6, 3, 0, EINVAL },
	{ 1, 6, 3, 0, 0 },
	{ 1, 6, 3, 1, 0 },
	{ 1, 6, 16, 1, 0 },
	{ 1, 13, 3, 0, 0 },
	{ 1, 13, 16, 1, 0 },
	{ 1, 0, 0, 0, EINVAL },
	{ 1, 5, 3, 0, EINVAL },
	{ 1, 14, 3, 0, EINVAL },
	{ 1, 6 + 256, 3, 0, EINVAL },
	{ 1, 6, 2, 0, EINVAL },
	{ 1, 6, 17, 0, EINVAL },
	{ 1, 6, 3 + 256, 0, EINVAL },
	{ 1, UINT32_MAX, UINT32_MAX, 0, EINVAL },
	{ 1, 6, 3, 2, EINVAL },
};

static void striding_work_queues(struct ibv_wq_init_attr *a)
{
	for (size_t i = 0; i < sizeof(striding) / sizeof(striding[0]); i++) {
		struct mlx5dv_wq_init_attr dv = {
			striding[i].mask, { striding[i].size, striding[i].count, striding[i].shift }
		};
		struct ibv_wq *wq;

		peer_note("row %zu", i);
		errno = 0;
		wq = mlx5dv_create_wq(dev.ctx, a, &dv);
		want_eq(null_or(wq), striding[i].err);
		if (wq)
			want_eq(ibv_destroy_wq(wq), 0);
	}
	want(said_yet(SAID_NEAR, "mlx5dv_create_wq: two_byte_shift_en 2; pass 0 or 1"));
	want(said_yet(SAID_NEAR, "mlx5dv_create_wq: single_stride_log_num_of_bytes 5 is not in "
				 "6..13 (striding_rq_caps); ask for a number in it"));
	said_want(SAID_NEAR, "mlx5dv_create_wq: single_wqe_log_num_of_strides 17 is not in 3..16 "
			     "(striding_rq_caps); ask for a number in it");
}

/* Without an attribute of its own it is ibv_create_wq(); with one it refuses what that refuses. */
static void work_queues(int arg)
{
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1 }, b;
	struct mlx5dv_wq_init_attr dv = { 1, { 6, 3, 0 } };
	struct ibv_wq *wq;

	(void)arg;
	begin();
	a.pd = dev.pd;
	a.cq = ibv_create_cq(dev.ctx, 4, NULL, NULL, 0);
	striding_work_queues(&a);
	b = a;
	b.pd = NULL;
	want_null(mlx5dv_create_wq(dev.ctx, &b, &dv), EINVAL);
	b = a;
	b.max_wr = 0;
	want_null(mlx5dv_create_wq(dev.ctx, &b, &dv), EINVAL);
	b = a;
	b.max_sge = 30; /* with the next segment in front one less than a power of two */
	wq = mlx5dv_create_wq(dev.ctx, &b, &dv);
	want(wq && b.max_sge == 30 && b.max_wr == 4);
	want_eq(ibv_destroy_wq(wq), 0);
	wq = mlx5dv_create_wq(dev.ctx, &a, NULL);
	want(wq);
	want_eq(ibv_destroy_wq(wq), 0);
	want_eq(ibv_destroy_cq(a.cq), 0);
	peer_close(&dev);
}

static int by_value(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

enum { MANY = 1000 };

/* Each number once, and never that of a queue pair. */
static void reserved(int arg)
{
	static uint32_t qpn[MANY];
	struct ibv_context *other;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	other = ibv_open_device(dev.ctx->device);
	want(other);
	for (unsigned int i = 0; i < MANY - 1; i++)
		want_eq(mlx5dv_reserved_qpn_alloc(dev.ctx, &qpn[i]), 0);
	qp = some_qp();
	qpn[MANY - 1] = qp->qp_num;
	qsort(qpn, MANY, sizeof(qpn[0]), by_value);
	for (unsigned int i = 1; i < MANY; i++)
		want(qpn[i] != qpn[i - 1]);
	want_eq(mlx5dv_reserved_qpn_dealloc(dev.ctx, qp->qp_num), EINVAL);
	want_eq(mlx5dv_reserved_qpn_dealloc(dev.ctx, 0), EINVAL);
	want_eq(mlx5dv_reserved_qpn_dealloc(dev.ctx, ~0U), EINVAL);
	for (unsigned int i = 0; i < MANY; i++) {
		bool is = qpn[i] != qp->qp_num;

		want_eq(mlx5dv_reserved_qpn_dealloc(other, qpn[i]), EINVAL);
		want_eq(mlx5dv_reserved_qpn_dealloc(dev.ctx, qpn[i]), is ? 0 : EINVAL);
		want_eq(mlx5dv_reserved_qpn_dealloc(dev.ctx, qpn[i]), EINVAL);
	}
	said_want(SAID_NEAR,
		  "mlx5dv_reserved_qpn_dealloc: 0x%x is no number that mlx5dv_reserved_qpn_alloc "
		  "gave to this context and that is still reserved; give back each once",
		  qpn[qpn[MANY - 1] == qp->qp_num ? MANY - 2 : MANY - 1]); /* late in a long text */
}

/* A context that is closed keeps none, however many it had. */
static void reserved_until_closed(int arg)
{
	uint32_t qpn;

	(void)arg;
	begin();
	for (unsigned int round = 0; round < 80; round++) {
		struct ibv_context *ctx = ibv_open_device(dev.ctx->device);

		want(ctx);
		for (unsigned int i = 0; i < MANY; i++)
			want_eq(mlx5dv_reserved_qpn_alloc(ctx, &qpn), 0);
		want_eq(ibv_close_device(ctx), 0);
	}
}

/* As ibv_reg_dmabuf_mr(3), but for the flags of an adapter with a data direct device. */
static void buffers_of_devices(int arg)
{
	const int access = IBV_ACCESS_LOCAL_WRITE;
	int fd = memfd_create("buffer", 0); /* stands for a dma-buf */
	struct ibv_mr *mr;

	(void)arg;
	begin();
	want_eq(ftruncate(fd, 8192), 0);
	mr = mlx5dv_reg_dmabuf_mr(dev.pd, 4096, 4000, 0x7000, fd, access, 0);
	want(mr && mr->pd == dev.pd && mr->length == 4000);
	want_eq(ibv_dereg_mr(mr), 0);
	want_null(mlx5dv_reg_dmabuf_mr(dev.pd, 4096, 8192, 0x7000, fd, access, 0), EINVAL);
	want_null(mlx5dv_reg_dmabuf_mr(NULL, 0, 4096, 0, fd, access, 0), EINVAL);
	want_null(mlx5dv_reg_dmabuf_mr(dev.pd, 0, 4096, 0, fd, access, DATA_DIRECT), EOPNOTSUPP);
	said_want(SAID_NEAR, "mlx5dv_reg_dmabuf_mr: MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT: no data "
			     "direct device is beside this one; give mlx5_access 0");
	want_null(mlx5dv_reg_dmabuf_mr(dev.pd, 0, 4096, 0, fd, access, 6), EOPNOTSUPP);
	said_want(SAID_NEAR, "mlx5dv_reg_dmabuf_mr: mlx5_access 0x6 has unknown bits; the one that "
			     "there is is MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT (0x1)");
	close(fd);
	peer_close(&dev);
}

static const struct test_case cases[] = {
	CASE(nothing_given),
	CASE(opening),
	CASE(opened),
	CASE_ARG(source_ports, IBV_QPT_RC),
	CASE_ARG(source_ports, IBV_QPT_UC),
	CASE_ARG(source_ports, IBV_QPT_UD),
	CASE(context_attributes),
	CASE(ports),
	CASE(query),
	CASE(bonds),
	CASE(addresses),
	CASE(work_queues),
	CASE(reserved),
	CASE(reserved_until_closed),
	CASE(buffers_of_devices),
};

int main(void)
{
	return CASES_RUN(cases);
}
