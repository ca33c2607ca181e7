// SPDX-License-Identifier: MIT
/* Every call of mlx5dv.h with an object that has ended, and with a pointer to no memory: each is
 * an error, and nothing is read there (tests/verbs/handles: the same of the verbs). */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>
#include "verbs/cases.h"
#include "verbs/peer.h"
#include "verbs/said.h"

struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);

static struct peer_dev dev;
static struct ibv_cq *cq;

static int result(const void *made) /* of a call that returns NULL and errno */
{
	return made ? 0 : errno;
}

/* --- the kinds --- */

static void *make_pd(void)
{
	return ibv_alloc_pd(dev.ctx);
}

static int end_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *make_cq(void)
{
	return ibv_create_cq(dev.ctx, 4, NULL, NULL, 0);
}

static int end_cq(void *obj)
{
	return ibv_destroy_cq(obj);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(dev.pd, &a);
}

static int end_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }
	};

	return ibv_create_qp(dev.pd, &a);
}

static int end_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static void *make_wq(void)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = dev.pd, .cq = cq
	};

	return ibv_create_wq(dev.ctx, &a);
}

static int end_wq(void *wq)
{
	return ibv_destroy_wq(wq);
}

static void *make_dm(void)
{
	struct ibv_alloc_dm_attr a = { .length = 64 };

	return ibv_alloc_dm(dev.ctx, &a);
}

static int end_dm(void *dm)
{
	return ibv_free_dm(dm);
}

static void *make_ah(void)
{
	return peer_ah(&dev, &(struct peer_addr){ .gid = dev.gid });
}

static int end_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

static struct mlx5dv_mkey *mkey_in(struct ibv_pd *pd)
{
	struct mlx5dv_mkey_init_attr a = { .pd = pd,
					   .max_entries = 1,
					   .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT };

	return mlx5dv_create_mkey(&a);
}

static void *make_mkey(void)
{
	return mkey_in(dev.pd);
}

static int end_mkey(void *mkey)
{
	return mlx5dv_destroy_mkey(mkey);
}

static void *make_context(void)
{
	return ibv_open_device(dev.ctx->device);
}

static int end_context(void *ctx)
{
	return ibv_close_device(ctx);
}

enum kind { PD, CQ, SRQ, QP, WQ, DM, AH, MKEY, CONTEXT };

static const struct {
	const char *name, *ended, *number;
	void *(*make)(void);
	int (*end)(void *obj);
} kinds[] = {
	[PD] = { "PD", "deallocated", "PD 0x#", make_pd, end_pd },
	[CQ] = { "CQ", "destroyed", "CQ 0x#", make_cq, end_cq },
	[SRQ] = { "SRQ", "destroyed", "SRQ 0x#", make_srq, end_srq },
	[QP] = { "QP", "destroyed", "QP 0x#", make_qp, end_qp },
	[WQ] = { "WQ", "destroyed", "WQ 0x#", make_wq, end_wq },
	[DM] = { "DM", "freed", "DM 0x#", make_dm, end_dm },
	[AH] = { "AH", "destroyed", "AH", make_ah, end_ah },
	[MKEY] = { "mkey", "destroyed", "mkey 0x#", make_mkey, end_mkey },
	[CONTEXT] = { "device context", "closed", "device context", make_context, end_context },
};

/* --- the calls --- */

#define INIT_OBJ(member, type, out_type)                                                           \
	static int init_##member(void *obj)                                                        \
	{                                                                                          \
		struct out_type out = { 0 };                                                       \
		struct mlx5dv_obj o = { .member = { obj, &out } };                                 \
                                                                                                   \
		return mlx5dv_init_obj(&o, type);                                                  \
	}
INIT_OBJ(pd, MLX5DV_OBJ_PD, mlx5dv_pd)
INIT_OBJ(cq, MLX5DV_OBJ_CQ, mlx5dv_cq)
INIT_OBJ(srq, MLX5DV_OBJ_SRQ, mlx5dv_srq)
INIT_OBJ(qp, MLX5DV_OBJ_QP, mlx5dv_qp)
INIT_OBJ(rwq, MLX5DV_OBJ_RWQ, mlx5dv_rwq)
INIT_OBJ(dm, MLX5DV_OBJ_DM, mlx5dv_dm)
INIT_OBJ(ah, MLX5DV_OBJ_AH, mlx5dv_ah)

static int reg_dmabuf(void *pd)
{
	return result(mlx5dv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0, 0));
}

static int create_mkey(void *pd)
{
	return result(mkey_in(pd));
}

static int create_qp(struct ibv_pd *pd, struct ibv_cq *with, struct ibv_srq *srq, bool dct)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = dct ? IBV_QPT_DRIVER : IBV_QPT_RC,
					 .send_cq = with,
					 .recv_cq = with,
					 .srq = srq,
					 .cap = { 4, dct ? 0 : 4, 1, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .pd = pd };
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = dct ? (uint64_t)MLX5DV_QP_INIT_ATTR_MASK_DC : 0,
		.dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = 1 }
	};

	return result(mlx5dv_create_qp(dev.ctx, &a, &dv));
}

static int create_on_pd(void *pd)
{
	return create_qp(pd, cq, NULL, false);
}

static int create_with_cq(void *with)
{
	return create_qp(dev.pd, with, NULL, false);
}

static int create_target(void *srq)
{
	return create_qp(dev.pd, cq, srq, true);
}

static int create_wq(void *with)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = dev.pd, .cq = with
	};

	return result(mlx5dv_create_wq(dev.ctx, &a, NULL));
}

static int create_striding_wq(void *with)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = dev.pd, .cq = with
	};
	struct mlx5dv_wq_init_attr dv = { MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ, { 6, 3, 0 } };

	return result(mlx5dv_create_wq(dev.ctx, &a, &dv));
}

static int create_cq(void *pd)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4,
					 .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					 .parent_domain = pd };

	return result(mlx5dv_create_cq(dev.ctx, &a, NULL));
}

static int source_port(void *qp)
{
	return mlx5dv_modify_qp_udp_sport(qp, 50000);
}

static int query_lag(void *qp)
{
	uint8_t port, active;

	return mlx5dv_query_qp_lag_port(qp, &port, &active);
}

static int modify_lag(void *qp)
{
	return mlx5dv_modify_qp_lag_port(qp, 1);
}

static int reset_stream(void *qp)
{
	return mlx5dv_dci_stream_id_reset(qp, 1);
}

static int map_ah(void *ah)
{
	return mlx5dv_map_ah_to_qp(ah, 1);
}

static int check_mkey(void *mkey)
{
	struct mlx5dv_mkey_err err;

	return mlx5dv_mkey_check(mkey, &err);
}

/* A number of work requests, or a negative errno. */
static int cancel(void *qp)
{
	return -mlx5dv_qp_cancel_posted_send_wrs(mlx5dv_qp_ex_from_ibv_qp_ex(qp), 1);
}

static int query_device(void *ctx)
{
	struct mlx5dv_context out = { .comp_mask = MLX5DV_CONTEXT_MASK_DC_ODP_CAPS };

	return mlx5dv_query_device(ctx, &out);
}

static int clock_of(void *ctx)
{
	struct mlx5dv_clock_info out;

	return mlx5dv_get_clock_info(ctx, &out);
}

static int query_port(void *ctx)
{
	struct mlx5dv_port out;

	return mlx5dv_query_port(ctx, 1, &out);
}

static void *no_memory(size_t size, void *data)
{
	(void)size;
	return data;
}

static void nothing(void *p, void *data)
{
	(void)p;
	(void)data;
}

static int set_allocators(void *ctx)
{
	struct mlx5dv_ctx_allocators a = { no_memory, nothing, NULL };

	return mlx5dv_set_context_attr(ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &a);
}

static int reserve(void *ctx)
{
	uint32_t qpn;

	return mlx5dv_reserved_qpn_alloc(ctx, &qpn);
}

static int give_back(void *ctx)
{
	return mlx5dv_reserved_qpn_dealloc(ctx, 1);
}

static int cq_of_context(void *ctx)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4 };

	return result(mlx5dv_create_cq(ctx, &a, NULL));
}

static int qp_of_context(void *ctx)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RC,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .pd = dev.pd };

	return result(mlx5dv_create_qp(ctx, &a, NULL));
}

static int wq_of_context(void *ctx)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = dev.pd, .cq = cq
	};

	return result(mlx5dv_create_wq(ctx, &a, NULL));
}

static const struct call {
	const char *name, *said;
	enum kind kind;
	int (*fn)(void *obj);
} calls[] = {
	// clang-format off
	{ "init_obj of a PD", "mlx5dv_init_obj", PD, init_pd },
	{ "init_obj of a CQ", "mlx5dv_init_obj", CQ, init_cq },
	{ "init_obj of an SRQ", "mlx5dv_init_obj", SRQ, init_srq },
	{ "init_obj of a QP", "mlx5dv_init_obj", QP, init_qp },
	{ "init_obj of a WQ", "mlx5dv_init_obj", WQ, init_rwq },
	{ "init_obj of a DM", "mlx5dv_init_obj", DM, init_dm },
	{ "init_obj of an AH", "mlx5dv_init_obj", AH, init_ah },
	{ "reg_dmabuf_mr", "ibv_reg_dmabuf_mr", PD, reg_dmabuf },
	{ "create_mkey", "mlx5dv_create_mkey", PD, create_mkey },
	{ "create_qp on a PD", "ibv_create_qp", PD, create_on_pd },
	{ "create_qp with a CQ", "ibv_create_qp", CQ, create_with_cq },
	{ "create_qp of a target", "mlx5dv_create_qp", SRQ, create_target },
	{ "create_wq with a CQ", "ibv_create_wq", CQ, create_wq },
	{ "create_wq of strides with a CQ", "ibv_create_wq", CQ, create_striding_wq },
	{ "create_cq in a parent domain", "ibv_create_cq", PD, create_cq },
	{ "modify_qp_udp_sport", "mlx5dv_modify_qp_udp_sport", QP, source_port },
	{ "query_qp_lag_port", "mlx5dv_query_qp_lag_port", QP, query_lag },
	{ "modify_qp_lag_port", "mlx5dv_modify_qp_lag_port", QP, modify_lag },
	{ "dci_stream_id_reset", "mlx5dv_dci_stream_id_reset", QP, reset_stream },
	{ "qp_cancel_posted_send_wrs", "mlx5dv_qp_cancel_posted_send_wrs", QP, cancel },
	{ "map_ah_to_qp", "mlx5dv_map_ah_to_qp", AH, map_ah },
	{ "mkey_check", "mlx5dv_mkey_check", MKEY, check_mkey },
	{ "destroy_mkey", "mlx5dv_destroy_mkey", MKEY, end_mkey },
	{ "query_device", "mlx5dv_query_device", CONTEXT, query_device },
	{ "get_clock_info", "mlx5dv_get_clock_info", CONTEXT, clock_of },
	{ "query_port", "mlx5dv_query_port", CONTEXT, query_port },
	{ "set_context_attr", "mlx5dv_set_context_attr", CONTEXT, set_allocators },
	{ "reserved_qpn_alloc", "mlx5dv_reserved_qpn_alloc", CONTEXT, reserve },
	{ "reserved_qpn_dealloc", "mlx5dv_reserved_qpn_dealloc", CONTEXT, give_back },
	{ "create_cq", "mlx5dv_create_cq", CONTEXT, cq_of_context },
	{ "create_qp", "mlx5dv_create_qp", CONTEXT, qp_of_context },
	{ "create_wq", "mlx5dv_create_wq", CONTEXT, wq_of_context },
	// clang-format on
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static void refused(int arg)
{
	const struct call *c = &calls[arg];
	uint8_t *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *obj;

	want(page != MAP_FAILED);
	said_begin();
	peer_open(&dev);
	cq = make_cq();
	obj = kinds[c->kind].make();
	want(cq && obj);
	want_eq(kinds[c->kind].end(obj), 0);
	want_errno(c->fn(obj), ENOENT);
	said_want(SAID_NEAR,
		  "%s: the %s at %p is not alive: it was %s already (%s); forget the pointer "
		  "when the object ends",
		  c->said, kinds[c->kind].name, obj, kinds[c->kind].ended, kinds[c->kind].number);
	want_errno(c->fn(page + 64), ENOENT);
}

/* A device that no list has given, if by the name of one that is there, and a pointer to no
 * memory. */
static void foreign_device(int arg)
{
	uint8_t *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mlx5dv_context_attr attr = { 0 };
	struct ibv_device foreign;

	(void)arg;
	want(page != MAP_FAILED);
	said_begin();
	peer_open(&dev);
	foreign = *dev.ctx->device;
	want_null(mlx5dv_open_device(&foreign, &attr), ENODEV);
	said_want(SAID_NEAR,
		  "ibv_open_device: no device is at %p; pass one that ibv_get_device_list() gave",
		  (void *)&foreign);
	want_null(mlx5dv_open_device((void *)(page + 64), &attr), ENODEV);
}

int main(void)
{
	struct test_case all[CALLS + 1];

	for (int i = 0; i < CALLS; i++)
		all[i] = (struct test_case){ calls[i].name, refused, i };
	all[CALLS] = (struct test_case)CASE(foreign_device);
	return cases_run(all, CALLS + 1);
}
