// SPDX-License-Identifier: MIT
#include "verbs/handles_calls.h"
#include <errno.h>
#include <fcntl.h>

struct ibv_mr_init_attr;
struct ibv_buf;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

struct side near;
static uint8_t memory[4096];

static int result(const void *made) /* of a call that returns NULL and errno */
{
	return made ? 0 : errno;
}

/* --- how each kind is made and ended --- */

const struct handles_kind handles_kinds[] = {
// clang-format off
#define AT(type, member) offsetof(struct type, member)
	[PD] = { "PD", "deallocated", "PD 0x#", AT(ibv_pd, handle), AT(ibv_pd, context), ENOENT },
	[TD] = { "thread domain", "deallocated", "thread domain", 0, AT(ibv_td, context), ENOENT },
	[MR] = { "MR", "deregistered", "MR 0x#", AT(ibv_mr, handle), AT(ibv_mr, context), ENOENT },
	[MW] = { "MW", "deallocated", "MW 0x#", AT(ibv_mw, handle), AT(ibv_mw, context), ENOENT },
	[DM] = { "DM", "freed", "DM 0x#", AT(ibv_dm, handle), AT(ibv_dm, context), ENOENT },
	[AH] = { "AH", "destroyed", "AH", AT(ibv_ah, handle), AT(ibv_ah, context), ENOENT },
	[CHANNEL] = { "completion channel", "destroyed", "completion channel", 0,
		      AT(ibv_comp_channel, context), EBADF },
	[CQ] = { "CQ", "destroyed", "CQ 0x#", AT(ibv_cq, handle), AT(ibv_cq, context), ENOENT },
	[SRQ] = { "SRQ", "destroyed", "SRQ 0x#", AT(ibv_srq, handle), AT(ibv_srq, context),
		  ENOENT },
	[QP] = { "QP", "destroyed", "QP 0x#", AT(ibv_qp, handle), AT(ibv_qp, context), ENOENT },
	[WQ] = { "WQ", "destroyed", "WQ 0x#", AT(ibv_wq, handle), AT(ibv_wq, context), ENOENT },
	[TABLE] = { "indirection table", "destroyed", "indirection table 0x#",
		    AT(ibv_rwq_ind_table, ind_tbl_handle), AT(ibv_rwq_ind_table, context), ENOENT },
	[XRCD] = { "XRC domain", "closed", "XRC domain", 0, AT(ibv_xrcd, context), ENOENT },
	[FLOW] = { "flow rule", "destroyed", "flow rule", AT(ibv_flow, handle),
		   AT(ibv_flow, context), ENOENT },
	[COUNTERS] = { "counters", "destroyed", "counters", 0, AT(ibv_counters, context), ENOENT },
	[CONTEXT] = { "device context", "closed", "device context", 0, 0, ENOENT },
	// clang-format on
};

static struct ibv_srq *make_srq(struct side *s)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(s->dev.pd, &a);
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv,
			      struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC,
				      .send_cq = send,
				      .recv_cq = recv,
				      .srq = srq,
				      .cap = { 4, 4, 1, 1, 0 } };

	return ibv_create_qp(pd, &a);
}

static struct ibv_wq *make_wq(struct side *s, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq
	};

	return s->ops->create_wq(s->dev.ctx, &a);
}

static struct ibv_rwq_ind_table *make_table(struct side *s, struct ibv_wq *wq)
{
	struct ibv_rwq_ind_table_init_attr a = { .ind_tbl = &wq };

	return ibv_create_rwq_ind_table(s->dev.ctx, &a);
}

void *handles_make(struct side *s, enum kind kind)
{
	struct ibv_xrcd_init_attr xrcd = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					   O_CREAT };
	struct ether_rule rule = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct ibv_td_init_attr td = { 0 };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_context *ctx = s->dev.ctx;

	switch (kind) {
	case PD:
		return ibv_alloc_pd(ctx);
	case TD:
		return ibv_alloc_td(ctx, &td);
	case MR:
		return ibv_reg_mr(s->dev.pd, memory, sizeof(memory), IBV_ACCESS_MW_BIND);
	case MW:
		return ibv_alloc_mw(s->dev.pd, IBV_MW_TYPE_1);
	case DM:
		return ibv_alloc_dm(ctx, &dm);
	case AH:
		return peer_ah(&s->dev, &(struct peer_addr){ .gid = s->dev.gid });
	case CHANNEL:
		return ibv_create_comp_channel(ctx);
	case CQ:
		return ibv_create_cq(ctx, 4, NULL, NULL, 0);
	case SRQ:
		return make_srq(s);
	case QP:
		return make_qp(s->dev.pd, s->cq, s->cq, NULL);
	case WQ:
		return make_wq(s, s->dev.pd, s->cq);
	case TABLE:
		return make_table(s, s->wq);
	case XRCD:
		return ibv_open_xrcd(ctx, &xrcd);
	case FLOW:
		return ibv_create_flow(s->ether.qp, &rule.attr);
	case COUNTERS:
		return ibv_create_counters(ctx, &counters);
	default:
		return ibv_open_device(ctx->device);
	}
}

/* What ends one. */
static int dealloc_pd(void *obj)
{
	return ibv_dealloc_pd(obj);
}

static int dealloc_td(void *obj)
{
	return near.ops->dealloc_td(obj);
}

static int dereg_mr(void *obj)
{
	return ibv_dereg_mr(obj);
}

static int dealloc_mw(void *obj)
{
	return near.dev.ctx->ops.dealloc_mw(obj);
}

static int free_dm(void *obj)
{
	return near.ops->free_dm(obj);
}

static int destroy_ah(void *obj)
{
	return ibv_destroy_ah(obj);
}

static int destroy_channel(void *obj)
{
	return ibv_destroy_comp_channel(obj);
}

static int destroy_cq(void *obj)
{
	return ibv_destroy_cq(obj);
}

static int destroy_srq(void *obj)
{
	return ibv_destroy_srq(obj);
}

static int destroy_qp(void *obj)
{
	return ibv_destroy_qp(obj);
}

static int destroy_wq(void *obj)
{
	return near.ops->destroy_wq(obj);
}

static int destroy_table(void *obj)
{
	return near.ops->destroy_rwq_ind_table(obj);
}

static int close_xrcd(void *obj)
{
	return near.ops->close_xrcd(obj);
}

static int destroy_flow(void *obj)
{
	return near.ops->ibv_destroy_flow(obj);
}

static int destroy_counters(void *obj)
{
	return near.ops->destroy_counters(obj);
}

static int close_device(void *obj)
{
	return ibv_close_device(obj) ? errno : 0;
}

int (*const handles_end[])(void *obj) = {
	[PD] = dealloc_pd,	     [TD] = dealloc_td,	    [MR] = dereg_mr,
	[MW] = dealloc_mw,	     [DM] = free_dm,	    [AH] = destroy_ah,
	[CHANNEL] = destroy_channel, [CQ] = destroy_cq,	    [SRQ] = destroy_srq,
	[QP] = destroy_qp,	     [WQ] = destroy_wq,	    [TABLE] = destroy_table,
	[XRCD] = close_xrcd,	     [FLOW] = destroy_flow, [COUNTERS] = destroy_counters,
	[CONTEXT] = close_device,
};

/* --- the calls, each with the object in one of its places --- */

static int reg_mr(void *pd)
{
	return result(ibv_reg_mr(pd, memory, sizeof(memory), 0));
}

static int reg_mr_ex(void *pd)
{
	uint64_t attr[16] = { 0 };

	return result(ibv_reg_mr_ex(pd, (struct ibv_mr_init_attr *)attr));
}

static int alloc_buf(void *pd)
{
	struct ibv_buf *buf;

	return result(ibv_alloc_buf(pd, 64, &buf));
}

static int reg_dmabuf_mr(void *pd)
{
	return result(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0));
}

static int import_mr(void *pd)
{
	return result(ibv_import_mr(pd, near.mr->handle));
}

static int rereg_to_pd(void *pd)
{
	return ibv_rereg_mr(near.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) ? errno : 0;
}

static int rereg_mr(void *mr)
{
	return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ? errno : 0;
}

static int alloc_mw(void *pd)
{
	return result(near.dev.ctx->ops.alloc_mw(pd, IBV_MW_TYPE_1));
}

static int alloc_null_mr(void *pd)
{
	return result(near.ops->alloc_null_mr(pd));
}

static int advise_mr(void *pd)
{
	struct ibv_sge sg = { (uintptr_t)memory, 8, near.mr->lkey };

	return near.ops->advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sg, 1);
}

static int create_ah(void *pd)
{
	struct ibv_ah_attr a = { .is_global = 1,
				 .port_num = 1,
				 .grh = { .dgid = near.dev.gid, .sgid_index = PEER_GID_INDEX } };

	return result(ibv_create_ah(pd, &a));
}

static int create_ah_from_wc(void *pd)
{
	struct ibv_wc wc = { 0 };
	struct ibv_grh grh = { 0 };

	return result(ibv_create_ah_from_wc(pd, &wc, &grh, 1));
}

static int create_qp(void *pd)
{
	return result(make_qp(pd, near.cq, near.cq, NULL));
}

static int create_qp_send(void *cq)
{
	return result(make_qp(near.dev.pd, cq, near.cq, NULL));
}

static int create_qp_recv(void *cq)
{
	return result(make_qp(near.dev.pd, near.cq, cq, NULL));
}

static int create_qp_srq(void *srq)
{
	return result(make_qp(near.dev.pd, near.cq, near.cq, srq));
}

static int create_srq(void *pd)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return result(ibv_create_srq(pd, &a));
}

static int xrc_srq(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex a = { .attr = { .max_wr = 1, .max_sge = 1 },
					  .comp_mask =
						  IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						  IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					  .srq_type = IBV_SRQT_XRC,
					  .pd = pd,
					  .cq = cq,
					  .xrcd = xrcd };

	return result(near.ops->create_srq_ex(near.dev.ctx, &a));
}

static int create_srq_xrcd(void *xrcd)
{
	return xrc_srq(near.dev.pd, near.cq, xrcd);
}

static int with_xrcd(int (*fn)(struct ibv_xrcd *xrcd, void *obj), void *obj)
{
	struct ibv_xrcd *xrcd = handles_make(&near, XRCD);
	int err = fn(xrcd, obj);

	want_eq(ibv_close_xrcd(xrcd), 0);
	errno = err;
	return err;
}

static int srq_of_cq(struct ibv_xrcd *xrcd, void *cq)
{
	return xrc_srq(near.dev.pd, cq, xrcd);
}

static int create_srq_cq(void *cq)
{
	return with_xrcd(srq_of_cq, cq);
}

static int srq_of_pd(struct ibv_xrcd *xrcd, void *pd)
{
	return xrc_srq(pd, near.cq, xrcd);
}

static int create_srq_pd(void *pd)
{
	return with_xrcd(srq_of_pd, pd);
}

static int create_target(void *xrcd)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = xrcd };

	return result(near.ops->create_qp_ex(near.dev.ctx, &a));
}

static int open_qp(void *xrcd)
{
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						   IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = 1,
				      .xrcd = xrcd,
				      .qp_type = IBV_QPT_XRC_RECV };

	return result(near.ops->open_qp(near.dev.ctx, &a));
}

static int create_rss_qp(void *table)
{
	uint8_t key[40] = { 0 };
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = near.dev.pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
				  IBV_RX_HASH_SRC_IPV4 },
	};

	return result(near.ops->create_qp_ex(near.dev.ctx, &a));
}

static int create_wq(void *pd)
{
	return result(make_wq(&near, pd, near.cq));
}

static int create_wq_cq(void *cq)
{
	return result(make_wq(&near, near.dev.pd, cq));
}

static int create_table(void *wq)
{
	return result(make_table(&near, wq));
}

static int reg_dm_mr_pd(void *pd)
{
	return result(near.ops->reg_dm_mr(pd, near.dm, 0, 64, IBV_ACCESS_ZERO_BASED));
}

static int reg_dm_mr(void *dm)
{
	return result(near.ops->reg_dm_mr(near.dev.pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED));
}

static int parent_of_pd(void *pd)
{
	struct ibv_parent_domain_init_attr a = { .pd = pd };

	return result(near.ops->alloc_parent_domain(near.dev.ctx, &a));
}

static int parent_of_td(void *td)
{
	struct ibv_parent_domain_init_attr a = { .pd = near.dev.pd, .td = td };

	return result(near.ops->alloc_parent_domain(near.dev.ctx, &a));
}

static int create_cq_channel(void *channel)
{
	return result(ibv_create_cq(near.dev.ctx, 4, NULL, channel, 0));
}

static int create_cq_domain(void *pd)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4,
					 .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					 .parent_domain = pd };

	return result(near.ops->create_cq_ex(near.dev.ctx, &a));
}

static int resize_cq(void *cq)
{
	return ibv_resize_cq(cq, 8);
}

static int modify_cq(void *cq)
{
	struct ibv_modify_cq_attr a = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	return near.ops->modify_cq(cq, &a);
}

static int modify_srq(void *srq)
{
	struct ibv_srq_attr a = { .srq_limit = 1 };

	return ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT);
}

static int query_srq(void *srq)
{
	struct ibv_srq_attr a;

	return ibv_query_srq(srq, &a);
}

static int get_srq_num(void *srq)
{
	uint32_t n;

	return near.ops->get_srq_num(srq, &n);
}

static int modify_qp(void *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

static int query_qp(void *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(qp, &a, IBV_QP_STATE, &init);
}

static int attach_mcast(void *qp)
{
	return ibv_attach_mcast(qp, &near.dev.gid, 0);
}

static int detach_mcast(void *qp)
{
	return ibv_detach_mcast(qp, &near.dev.gid, 0);
}

static int set_ece(void *qp)
{
	struct ibv_ece ece = { .vendor_id = 0x15b3 };

	return ibv_set_ece(qp, &ece);
}

static int query_ece(void *qp)
{
	struct ibv_ece ece;

	return ibv_query_ece(qp, &ece);
}

static int limit_rate(void *qp)
{
	struct ibv_qp_rate_limit_attr a = { .rate_limit = 1000 };

	return near.ops->modify_qp_rate_limit(qp, &a);
}

static int bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr)
{
	struct ibv_mw_bind b = { .bind_info = { .mr = mr } };

	return near.dev.ctx->ops.bind_mw(qp, mw, &b);
}

static int bind_qp(void *qp)
{
	return bind(qp, near.mw, near.mr);
}

static int bind_mw(void *mw)
{
	return bind(near.qp, mw, near.mr);
}

static int bind_mr(void *mr)
{
	return bind(near.qp, near.mw, mr);
}

static int create_flow(void *qp)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);

	return result(near.ops->ibv_create_flow(qp, &r.attr));
}

static int count_flow(void *counters)
{
	struct ibv_flow_spec_counter_action count = { .type = IBV_FLOW_SPEC_ACTION_COUNT,
						      .size = sizeof(count),
						      .counters = counters };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);

	ether_spec_dst(&r, 1);
	ether_spec(&r, &count, sizeof(count));
	return result(near.ops->ibv_create_flow(near.ether.qp, &r.attr));
}

static int attach(struct ibv_counters *counters, struct ibv_flow *flow)
{
	struct ibv_counter_attach_attr a = { .counter_desc = IBV_COUNTER_PACKETS };

	return near.ops->attach_counters_point_flow(counters, &a, flow);
}

static int attach_counters(void *counters)
{
	return attach(counters, NULL);
}

static int attach_flow(void *flow)
{
	return attach(near.counters, flow);
}

static int read_counters(void *counters)
{
	uint64_t value;

	return near.ops->read_counters(counters, &value, 1, 0);
}

static int modify_wq(void *wq)
{
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };

	return near.ops->modify_wq(wq, &a);
}

/* Of a context alone. */
#define MAKES(name, ...)                                                                           \
	static int name(void *ctx)                                                                 \
	{                                                                                          \
		return result(__VA_ARGS__);                                                        \
	}
#define SAYS(name, ...)                                                                            \
	static int name(void *ctx)                                                                 \
	{                                                                                          \
		return (__VA_ARGS__) ? errno : 0;                                                  \
	}
#define XRC_MASK                                                                                   \
	(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |                  \
	 IBV_SRQ_INIT_ATTR_CQ)
/* clang-format off */
MAKES(ctx_pd, ibv_alloc_pd(ctx))
MAKES(ctx_channel, ibv_create_comp_channel(ctx))
MAKES(ctx_cq, ibv_create_cq(ctx, 4, NULL, NULL, 0))
MAKES(ctx_import_pd, ibv_import_pd(ctx, near.dev.pd->handle))
MAKES(ctx_import_dm, ibv_import_dm(ctx, near.dm->handle))
MAKES(ctx_td, near.ops->alloc_td(ctx, &(struct ibv_td_init_attr){ 0 }))
MAKES(ctx_dm, near.ops->alloc_dm(ctx, &(struct ibv_alloc_dm_attr){ .length = 64 }))
MAKES(ctx_domain, near.ops->alloc_parent_domain(ctx, &(struct ibv_parent_domain_init_attr){
	.pd = near.dev.pd }))
MAKES(ctx_wq, near.ops->create_wq(ctx, &(struct ibv_wq_init_attr){
	.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = near.dev.pd, .cq = near.cq }))
MAKES(ctx_table, near.ops->create_rwq_ind_table(ctx, &(struct ibv_rwq_ind_table_init_attr){
	.ind_tbl = &near.wq }))
MAKES(ctx_srq, near.ops->create_srq_ex(ctx, &(struct ibv_srq_init_attr_ex){
	.comp_mask = XRC_MASK, .srq_type = IBV_SRQT_XRC, .pd = near.dev.pd, .cq = near.cq,
	.xrcd = (void *)memory }))
MAKES(ctx_target, near.ops->create_qp_ex(ctx, &(struct ibv_qp_init_attr_ex){
	.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = (void *)memory }))
MAKES(ctx_open_qp, near.ops->open_qp(ctx, &(struct ibv_qp_open_attr){
	.comp_mask = IBV_QP_OPEN_ATTR_XRCD, .xrcd = (void *)memory }))
MAKES(ctx_xrcd, near.ops->open_xrcd(ctx, &(struct ibv_xrcd_init_attr){
	IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT }))
MAKES(ctx_counters, near.ops->create_counters(ctx, &(struct ibv_counters_init_attr){ 0 }))
SAYS(ctx_device, ibv_query_device(ctx, &(struct ibv_device_attr){ 0 }))
SAYS(ctx_device_ex, near.ops->query_device_ex(ctx, NULL, &(struct ibv_device_attr_ex){ 0 },
					      sizeof(struct ibv_device_attr_ex)))
SAYS(ctx_port, near.ops->query_port(ctx, 1, &(struct ibv_port_attr){ 0 },
				    sizeof(struct ibv_port_attr)))
SAYS(ctx_clock, near.ops->query_rt_values(ctx, &(struct ibv_values_ex){ 0 }))
SAYS(ctx_gid, ibv_query_gid(ctx, 1, 0, &(union ibv_gid){ 0 }))
SAYS(ctx_pkey, ibv_query_pkey(ctx, 1, 0, &(__be16){ 0 }))
SAYS(ctx_event, ibv_get_async_event(ctx, &(struct ibv_async_event){ 0 }))
SAYS(ctx_ah_attr, ibv_init_ah_from_wc(ctx, 1, &(struct ibv_wc){ .wc_flags = IBV_WC_GRH },
				      &(struct ibv_grh){ 0 }, &(struct ibv_ah_attr){ 0 }))
/* clang-format on */

const struct handles_row handles_rows[] = {
	// clang-format off
	{ "dealloc_pd", "ibv_dealloc_pd", PD, dealloc_pd, false },
	{ "reg_mr", "ibv_reg_mr", PD, reg_mr, false },
	{ "reg_mr_ex", "ibv_reg_mr_ex", PD, reg_mr_ex, false },
	{ "alloc_buf", "ibv_alloc_buf", PD, alloc_buf, false },
	{ "reg_dmabuf_mr", "ibv_reg_dmabuf_mr", PD, reg_dmabuf_mr, false },
	{ "import_mr", "ibv_import_mr", PD, import_mr, false },
	{ "rereg_mr to a PD", "ibv_rereg_mr", PD, rereg_to_pd, true },
	{ "alloc_mw", "ibv_alloc_mw", PD, alloc_mw, false },
	{ "alloc_null_mr", "ibv_alloc_null_mr", PD, alloc_null_mr, false },
	{ "advise_mr", "ibv_advise_mr", PD, advise_mr, false },
	{ "create_ah", "ibv_create_ah", PD, create_ah, false },
	{ "create_ah_from_wc", "ibv_create_ah_from_wc", PD, create_ah_from_wc, false },
	{ "create_qp on a PD", "ibv_create_qp", PD, create_qp, true },
	{ "create_srq on a PD", "ibv_create_srq", PD, create_srq, false },
	{ "create_srq_ex on a PD", "ibv_create_srq_ex", PD, create_srq_pd, true },
	{ "create_wq on a PD", "ibv_create_wq", PD, create_wq, true },
	{ "reg_dm_mr on a PD", "ibv_reg_dm_mr", PD, reg_dm_mr_pd, true },
	{ "alloc_parent_domain of a PD", "ibv_alloc_parent_domain", PD, parent_of_pd, true },
	{ "create_cq_ex in a parent domain", "ibv_create_cq", PD, create_cq_domain, true },
	{ "dealloc_td", "ibv_dealloc_td", TD, dealloc_td, false },
	{ "alloc_parent_domain of a TD", "ibv_alloc_parent_domain", TD, parent_of_td, true },
	{ "dereg_mr", "ibv_dereg_mr", MR, dereg_mr, false },
	{ "rereg_mr", "ibv_rereg_mr", MR, rereg_mr, false },
	{ "bind_mw to an MR", "ibv_bind_mw", MR, bind_mr, true },
	{ "dealloc_mw", "ibv_dealloc_mw", MW, dealloc_mw, false },
	{ "bind_mw", "ibv_bind_mw", MW, bind_mw, true },
	{ "free_dm", "ibv_free_dm", DM, free_dm, false },
	{ "reg_dm_mr", "ibv_reg_dm_mr", DM, reg_dm_mr, true },
	{ "destroy_ah", "ibv_destroy_ah", AH, destroy_ah, false },
	{ "destroy_comp_channel", "ibv_destroy_comp_channel", CHANNEL, destroy_channel, false },
	{ "create_cq with a channel", "ibv_create_cq", CHANNEL, create_cq_channel, true },
	{ "destroy_cq", "ibv_destroy_cq", CQ, destroy_cq, false },
	{ "resize_cq", "ibv_resize_cq", CQ, resize_cq, false },
	{ "modify_cq", "ibv_modify_cq", CQ, modify_cq, false },
	{ "create_qp with a send CQ", "ibv_create_qp", CQ, create_qp_send, true },
	{ "create_qp with a receive CQ", "ibv_create_qp", CQ, create_qp_recv, true },
	{ "create_srq_ex with a CQ", "ibv_create_srq_ex", CQ, create_srq_cq, true },
	{ "create_wq with a CQ", "ibv_create_wq", CQ, create_wq_cq, true },
	{ "destroy_srq", "ibv_destroy_srq", SRQ, destroy_srq, false },
	{ "modify_srq", "ibv_modify_srq", SRQ, modify_srq, false },
	{ "query_srq", "ibv_query_srq", SRQ, query_srq, false },
	{ "get_srq_num", "ibv_get_srq_num", SRQ, get_srq_num, false },
	{ "create_qp with an SRQ", "ibv_create_qp", SRQ, create_qp_srq, true },
	{ "destroy_qp", "ibv_destroy_qp", QP, destroy_qp, false },
	{ "modify_qp", "ibv_modify_qp", QP, modify_qp, false },
	{ "query_qp", "ibv_query_qp", QP, query_qp, false },
	{ "attach_mcast", "ibv_attach_mcast", QP, attach_mcast, false },
	{ "detach_mcast", "ibv_detach_mcast", QP, detach_mcast, false },
	{ "set_ece", "ibv_set_ece", QP, set_ece, false },
	{ "query_ece", "ibv_query_ece", QP, query_ece, false },
	{ "modify_qp_rate_limit", "ibv_modify_qp_rate_limit", QP, limit_rate, false },
	{ "bind_mw on a QP", "ibv_bind_mw", QP, bind_qp, true },
	{ "create_flow", "ibv_create_flow", QP, create_flow, false },
	{ "destroy_wq", "ibv_destroy_wq", WQ, destroy_wq, false },
	{ "modify_wq", "ibv_modify_wq", WQ, modify_wq, false },
	{ "create_rwq_ind_table", "ibv_create_rwq_ind_table", WQ, create_table, true },
	{ "destroy_rwq_ind_table", "ibv_destroy_rwq_ind_table", TABLE, destroy_table, false },
	{ "create_qp_ex with a table", "ibv_create_qp", TABLE, create_rss_qp, true },
	{ "close_xrcd", "ibv_close_xrcd", XRCD, close_xrcd, false },
	{ "create_qp_ex in a domain", "ibv_create_qp_ex", XRCD, create_target, true },
	{ "open_qp", "ibv_open_qp", XRCD, open_qp, true },
	{ "create_srq_ex in a domain", "ibv_create_srq_ex", XRCD, create_srq_xrcd, true },
	{ "destroy_flow", "ibv_destroy_flow", FLOW, destroy_flow, false },
	{ "attach_counters of a rule", "ibv_attach_counters_point_flow", FLOW, attach_flow, true },
	{ "destroy_counters", "ibv_destroy_counters", COUNTERS, destroy_counters, false },
	{ "read_counters", "ibv_read_counters", COUNTERS, read_counters, false },
	{ "attach_counters", "ibv_attach_counters_point_flow", COUNTERS, attach_counters, false },
	{ "create_flow with counters", "ibv_create_flow", COUNTERS, count_flow, true },
	{ "close_device", "ibv_close_device", CONTEXT, close_device, false },
	{ "alloc_pd of a context", "ibv_alloc_pd", CONTEXT, ctx_pd, false },
	{ "create_comp_channel of a context", "ibv_create_comp_channel", CONTEXT,
	  ctx_channel, false },
	{ "create_cq of a context", "ibv_create_cq", CONTEXT, ctx_cq, false },
	{ "import_pd of a context", "ibv_import_pd", CONTEXT, ctx_import_pd, false },
	{ "import_dm of a context", "ibv_import_dm", CONTEXT, ctx_import_dm, false },
	{ "alloc_td of a context", "ibv_alloc_td", CONTEXT, ctx_td, false },
	{ "alloc_dm of a context", "ibv_alloc_dm", CONTEXT, ctx_dm, false },
	{ "alloc_parent_domain of a context", "ibv_alloc_parent_domain", CONTEXT,
	  ctx_domain, false },
	{ "create_wq of a context", "ibv_create_wq", CONTEXT, ctx_wq, false },
	{ "create_rwq_ind_table of a context", "ibv_create_rwq_ind_table", CONTEXT,
	  ctx_table, false },
	{ "create_srq_ex of a context", "ibv_create_srq_ex", CONTEXT, ctx_srq, false },
	{ "create_qp_ex of a context", "ibv_create_qp_ex", CONTEXT, ctx_target, false },
	{ "open_qp of a context", "ibv_open_qp", CONTEXT, ctx_open_qp, false },
	{ "open_xrcd of a context", "ibv_open_xrcd", CONTEXT, ctx_xrcd, false },
	{ "create_counters of a context", "ibv_create_counters", CONTEXT, ctx_counters, false },
	{ "query_device of a context", "ibv_query_device", CONTEXT, ctx_device, false },
	{ "query_device_ex of a context", "ibv_query_device_ex", CONTEXT, ctx_device_ex, false },
	{ "query_port of a context", "ibv_query_port", CONTEXT, ctx_port, false },
	{ "query_rt_values of a context", "ibv_query_rt_values_ex", CONTEXT, ctx_clock, false },
	{ "query_gid of a context", "GID query", CONTEXT, ctx_gid, false },
	{ "query_pkey of a context", "ibv_query_pkey", CONTEXT, ctx_pkey, false },
	{ "get_async_event of a context", "ibv_get_async_event", CONTEXT, ctx_event, false },
	{ "init_ah_from_wc of a context", "ibv_init_ah_from_wc", CONTEXT, ctx_ah_attr, false },
	// clang-format on
};
const unsigned int handles_n = sizeof(handles_rows) / sizeof(handles_rows[0]);

void handles_open(struct side *s)
{
	peer_open(&s->dev);
	s->ops = verbs_get_ctx(s->dev.ctx);
	s->cq = handles_make(s, CQ);
	s->qp = handles_make(s, QP);
	s->mr = handles_make(s, MR);
	s->mw = handles_make(s, MW);
	s->dm = handles_make(s, DM);
	s->wq = handles_make(s, WQ);
	s->counters = handles_make(s, COUNTERS);
	want(s->cq && s->qp && s->mr && s->mw && s->dm && s->wq && s->counters);
	ether_open(&s->dev, 0, &s->ether);
}
