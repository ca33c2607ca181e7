// SPDX-License-Identifier: MIT
/* Mistakes explained: objects that are made, changed and ended wrongly, and work that is built
 * wrongly by the ibv_wr_ calls. One sentence each: call, object, numbers compared, what to do. */
#include <errno.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/said.h"

#define SAYS(...) said_want(SAID_NEAR, __VA_ARGS__)

static struct peer_dev dev;
static struct ibv_cq *cq;
static uint8_t memory[8192] __attribute__((aligned(4096)));

static void begin(int arg)
{
	(void)arg;
	said_begin();
	peer_open(&dev);
	cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	want(cq);
}

static struct ibv_qp *new_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &a);

	want(qp);
	return qp;
}

static struct ibv_mr *new_mr(int access)
{
	struct ibv_mr *mr = ibv_reg_mr(dev.pd, memory, 4096, access);

	want(mr);
	return mr;
}

static struct ibv_srq *new_srq(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(dev.pd, &a);

	want(srq);
	return srq;
}

/* --- regions and windows --- */

static void region_deregistered_twice(int arg)
{
	struct ibv_mr *mr;
	uint32_t key;

	begin(arg);
	mr = new_mr(0);
	key = mr->lkey;
	want_eq(ibv_dereg_mr(mr), 0);
	want_errno(ibv_dereg_mr(mr), ENOENT);
	SAYS("ibv_dereg_mr: the MR at 0x%llx is not alive: it was deregistered already (MR 0x%x); "
	     "forget the pointer when the object ends",
	     (unsigned long long)(uintptr_t)mr, key);
}

static void region_with_unknown_access(int arg)
{
	begin(arg);
	want_null(ibv_reg_mr(dev.pd, memory, 64, 1 << 18), EINVAL);
	SAYS("ibv_reg_mr: access 0x40000 has bits 0x40000 that are not known here; use "
	     "IBV_ACCESS_* flags of 0x#");
}

static void region_changed_by_unknown_flags(int arg)
{
	struct ibv_mr *mr;

	begin(arg);
	mr = new_mr(0);
	want(ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0));
	SAYS("ibv_rereg_mr: flags 0x8, defined are 0x7; leave the rest out");
}

static void region_changed_in_nothing(int arg)
{
	struct ibv_mr *mr;

	begin(arg);
	mr = new_mr(0);
	want(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0));
	SAYS("ibv_rereg_mr: flags 0 change nothing of MR 0x%x; at least one of 0x7 is needed",
	     mr->lkey);
}

static void window_of_no_type(int arg)
{
	begin(arg);
	want_null(ibv_alloc_mw(dev.pd, (enum ibv_mw_type)3), EINVAL);
	SAYS("ibv_alloc_mw: type 3 is neither IBV_MW_TYPE_1 nor IBV_MW_TYPE_2; use one of these");
}

static void window_bound_on_ud(int arg)
{
	struct ibv_mw_bind b = { .bind_info = { .length = 64 } };
	struct ibv_mw *mw;
	struct ibv_qp *qp;

	begin(arg);
	mw = ibv_alloc_mw(dev.pd, IBV_MW_TYPE_1);
	qp = new_qp(IBV_QPT_UD);
	b.bind_info.mr = new_mr(IBV_ACCESS_MW_BIND);
	want(ibv_bind_mw(qp, mw, &b));
	SAYS("ibv_bind_mw: QP 0x%x is of type UD; windows need RC, UC or XRC_SEND", qp->qp_num);
}

/* --- queue pairs --- */

static struct ibv_qp_init_attr init_of(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = { 1, 1, 1, 1, 0 }
	};
}

static void qp_of_an_unknown_type(int arg)
{
	struct ibv_qp_init_attr a;

	begin(arg);
	a = init_of((enum ibv_qp_type)77);
	want_null(ibv_create_qp(dev.pd, &a), EOPNOTSUPP);
	SAYS("ibv_create_qp: qp_type 77 is not built; RC, UC, UD, XRC and RAW_PACKET are");
}

static void qp_of_the_drivers_type(int arg)
{
	struct ibv_qp_init_attr a;

	begin(arg);
	a = init_of(IBV_QPT_DRIVER);
	want_null(ibv_create_qp(dev.pd, &a), EOPNOTSUPP);
	SAYS("ibv_create_qp: qp_type IBV_QPT_DRIVER is mlx5dv_create_qp()'s; call that one");
}

static void qp_without_send_cq(int arg)
{
	struct ibv_qp_init_attr a;

	begin(arg);
	a = init_of(IBV_QPT_UD);
	a.send_cq = NULL;
	want_null(ibv_create_qp(dev.pd, &a), EINVAL);
	SAYS("ibv_create_qp: send_cq is NULL; UD QPs need both CQs");
}

static void qp_with_too_much_inline(int arg)
{
	struct ibv_qp_init_attr a;

	begin(arg);
	a = init_of(IBV_QPT_RC);
	a.cap.max_inline_data = 100000;
	want_null(ibv_create_qp(dev.pd, &a), EINVAL);
	SAYS("ibv_create_qp: cap.max_inline_data 100000 exceeds the device's 828; ask for less");
}

/* Who makes QPs to find the limit wants the answer; who makes one to work with, the reason. */
static void inline_limit_looked_for(int arg)
{
	static const char says[] =
		"ibv_create_qp: cap.max_inline_data 100000 exceeds the device's 828; ask for less";
	struct ibv_qp_init_attr a;

	begin(arg);
	want_eq(ibv_destroy_qp(new_qp(IBV_QPT_RC)), 0);
	a = init_of(IBV_QPT_RC);
	a.cap.max_inline_data = 100000;
	want_null(ibv_create_qp(dev.pd, &a), EINVAL);
	want(!said_yet(SAID_NEAR, "%s", says));
	new_qp(IBV_QPT_RC);
	want_null(ibv_create_qp(dev.pd, &a), EINVAL);
	SAYS("%s", says);
}

static void qp_in_no_pd(int arg)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };

	begin(arg);
	a.send_cq = a.recv_cq = cq;
	want_null(ibv_create_qp_ex(dev.ctx, &a), EINVAL);
	SAYS("ibv_create_qp_ex: comp_mask 0x0 for a QP of type RC without a PD; set "
	     "IBV_QP_INIT_ATTR_PD");
}

static void qp_destroyed_twice(int arg)
{
	struct ibv_qp *qp;
	uint32_t qpn;

	begin(arg);
	qp = new_qp(IBV_QPT_RC);
	qpn = qp->qp_num;
	want_eq(ibv_destroy_qp(qp), 0);
	want_errno(ibv_destroy_qp(qp), ENOENT);
	SAYS("ibv_destroy_qp: the QP at 0x%llx is not alive: it was destroyed already (QP 0x%x); "
	     "forget the pointer when the object ends",
	     (unsigned long long)(uintptr_t)qp, qpn);
}

/* --- moves --- */

enum { AT_INIT, AT_RTR, AT_RTS };

struct bad_attr {
	int at, bit;
	struct ibv_qp_attr set;
	const char *text;
};

static const struct bad_attr bad_attrs[] = {
	{ AT_INIT, IBV_QP_PKEY_INDEX, { .pkey_index = 3 }, "pkey_index is 3, it must be 0" },
	{ AT_INIT,
	  IBV_QP_ACCESS_FLAGS,
	  { .qp_access_flags = 1 << 17 },
	  "qp_access_flags 0x20000 has unknown bits 0x20000; use IBV_ACCESS_* flags" },
	{ AT_RTR,
	  IBV_QP_PATH_MTU,
	  { .path_mtu = 7 },
	  "path_mtu is 7, outside 1..5; set it inside" },
	{ AT_RTR,
	  IBV_QP_PATH_MTU,
	  { .path_mtu = 0 },
	  "path_mtu is 0, outside 1..5; set it inside" },
	{ AT_RTR,
	  IBV_QP_MIN_RNR_TIMER,
	  { .min_rnr_timer = 32 },
	  "min_rnr_timer is 32, outside 0..31; set it inside" },
	{ AT_RTR,
	  IBV_QP_MAX_DEST_RD_ATOMIC,
	  { .max_dest_rd_atomic = 17 },
	  "max_dest_rd_atomic is 17, outside 0..16; set it inside" },
	{ AT_RTR,
	  IBV_QP_DEST_QPN,
	  { .dest_qp_num = 1 << 24 },
	  "dest_qp_num is 16777216, outside 0..16777215; set it inside" },
	{ AT_RTR,
	  IBV_QP_RQ_PSN,
	  { .rq_psn = 1 << 24 },
	  "rq_psn is 16777216, outside 0..16777215; set it inside" },
	{ AT_RTS,
	  IBV_QP_TIMEOUT,
	  { .timeout = 32 },
	  "timeout is 32, outside 0..31; set it inside" },
	{ AT_RTS,
	  IBV_QP_RETRY_CNT,
	  { .retry_cnt = 8 },
	  "retry_cnt is 8, outside 0..7; set it inside" },
	{ AT_RTS,
	  IBV_QP_RNR_RETRY,
	  { .rnr_retry = 8 },
	  "rnr_retry is 8, outside 0..7; set it inside" },
	{ AT_RTS,
	  IBV_QP_MAX_QP_RD_ATOMIC,
	  { .max_rd_atomic = 17 },
	  "max_rd_atomic is 17, outside 0..16; set it inside" },
	{ AT_RTS,
	  IBV_QP_SQ_PSN,
	  { .sq_psn = 1 << 24 },
	  "sq_psn is 16777216, outside 0..16777215; set it inside" },
};

static struct ibv_qp_attr good_attr(int at, uint32_t qpn)
{
	if (at == AT_INIT)
		return (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	if (at == AT_RTS)
		return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14 };
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = qpn,
				     .ah_attr = { .is_global = 1,
						  .port_num = 1,
						  .grh = { .dgid = dev.gid,
							   .sgid_index = PEER_GID_INDEX } } };
}

static const int masks[] = {
	[AT_INIT] = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS,
	[AT_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	[AT_RTS] = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
};

static void put_bad(struct ibv_qp_attr *a, const struct bad_attr *bad)
{
	switch (bad->bit) {
	case IBV_QP_PKEY_INDEX:
		a->pkey_index = bad->set.pkey_index;
		break;
	case IBV_QP_ACCESS_FLAGS:
		a->qp_access_flags = bad->set.qp_access_flags;
		break;
	case IBV_QP_PATH_MTU:
		a->path_mtu = bad->set.path_mtu;
		break;
	case IBV_QP_MIN_RNR_TIMER:
		a->min_rnr_timer = bad->set.min_rnr_timer;
		break;
	case IBV_QP_MAX_DEST_RD_ATOMIC:
		a->max_dest_rd_atomic = bad->set.max_dest_rd_atomic;
		break;
	case IBV_QP_DEST_QPN:
		a->dest_qp_num = bad->set.dest_qp_num;
		break;
	case IBV_QP_RQ_PSN:
		a->rq_psn = bad->set.rq_psn;
		break;
	default: /* of the move to RTS: nothing else is set there */
		a->timeout = bad->set.timeout;
		a->retry_cnt = bad->set.retry_cnt;
		a->rnr_retry = bad->set.rnr_retry;
		a->max_rd_atomic = bad->set.max_rd_atomic;
		a->sq_psn = bad->set.sq_psn;
		break;
	}
}

static void attribute_out_of_range(int which)
{
	const struct bad_attr *bad = &bad_attrs[which];
	struct ibv_qp_attr a;
	struct ibv_qp *qp;

	begin(0);
	qp = new_qp(IBV_QPT_RC);
	for (int at = AT_INIT; at < bad->at; at++) {
		a = good_attr(at, qp->qp_num);
		want_eq(ibv_modify_qp(qp, &a, masks[at]), 0);
	}
	a = good_attr(bad->at, qp->qp_num);
	put_bad(&a, bad);
	want_errno(ibv_modify_qp(qp, &a, masks[bad->at]), EINVAL);
	SAYS("ibv_modify_qp: QP 0x%x: %s", qp->qp_num, bad->text);
}

static void rts_without_its_attributes(int arg)
{
	struct ibv_qp_attr a;
	struct ibv_qp *qp;

	begin(arg);
	qp = new_qp(IBV_QPT_RC);
	for (int at = AT_INIT; at < AT_RTS; at++) {
		a = good_attr(at, qp->qp_num);
		want_eq(ibv_modify_qp(qp, &a, masks[at]), 0);
	}
	a.qp_state = IBV_QPS_RTS;
	want_errno(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), EINVAL);
	SAYS("ibv_modify_qp: QP 0x%x: RTR to RTS of RC QPs needs IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, "
	     "IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC; add it to attr_mask",
	     qp->qp_num);
}

/* --- SRQs --- */

static void srq_with_too_many_sges(int arg)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 99 } };

	begin(arg);
	want_null(ibv_create_srq(dev.pd, &a), EINVAL);
	SAYS("ibv_create_srq: max_sge 99 exceeds max_srq_sge 30; ask for fewer");
}

static void srq_changed_by_an_unknown_mask(int arg)
{
	struct ibv_srq_attr a = { .max_wr = 4 };
	struct ibv_srq *srq;

	begin(arg);
	srq = new_srq();
	want_errno(ibv_modify_srq(srq, &a, 4), EINVAL);
	SAYS("ibv_modify_srq: mask 0x4 on SRQ 0x%x, known are IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT; "
	     "leave the rest out",
	     srq->handle);
}

static void srq_without_tags_gets_one(int arg)
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC }, *bad;
	struct ibv_srq *srq;

	begin(arg);
	srq = new_srq();
	want_eq(ibv_post_srq_ops(srq, &wr, &bad), EINVAL);
	SAYS("ibv_post_srq_ops: SRQ 0x%x matches no tags; create one of type IBV_SRQT_TM",
	     srq->handle);
}

/* --- completion queues --- */

static void cq_of_size_0(int arg)
{
	begin(arg);
	want_null(ibv_create_cq(dev.ctx, 0, NULL, NULL, 0), EINVAL);
	SAYS("ibv_create_cq: cqe 0 is not in 1..1048575 (max_cqe); ask for fewer");
}

static void cq_with_unknown_wc_flags(int arg)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4, .wc_flags = 1ULL << 40 };

	begin(arg);
	want_null(ibv_create_cq_ex(dev.ctx, &a), EOPNOTSUPP);
	SAYS("ibv_create_cq_ex: wc_flags 0x10000000000, of which 0x10000000000 do not work on this "
	     "device; leave them out");
}

static void cq_changed_in_nothing(int arg)
{
	struct ibv_modify_cq_attr a = { .attr_mask = 2 };

	begin(arg);
	want_errno(ibv_modify_cq(cq, &a), EINVAL);
	SAYS("ibv_modify_cq: attr_mask 0x2; IBV_CQ_ATTR_MODERATE (0x1) is all that can change");
}

static void extended_cq_read_without_a_start(int arg)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4 };
	struct ibv_cq_ex *ex;

	begin(arg);
	ex = ibv_create_cq_ex(dev.ctx, &a);
	want(ex);
	want_eq(ibv_next_poll(ex), EINVAL);
	SAYS("ibv_next_poll: this thread is not polling CQ 0x%x; ibv_start_poll comes first",
	     ex->handle);
}

/* --- building work --- */

static void work_without_a_start(int arg)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD |
						      IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					 .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_qp *qp;

	begin(arg);
	a.pd = dev.pd;
	a.send_cq = a.recv_cq = cq;
	qp = ibv_create_qp_ex(dev.ctx, &a);
	want(qp);
	want_eq(ibv_wr_complete(ibv_qp_to_qp_ex(qp)), EINVAL);
	SAYS("ibv_wr_complete: this thread is not building work for QP 0x%x; ibv_wr_start comes "
	     "first",
	     qp->qp_num);
}

static void operations_of_another_service(int arg)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_UD,
					 .cap = { 4, 4, 1, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD |
						      IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					 .send_ops_flags = IBV_QP_EX_WITH_RDMA_READ };

	begin(arg);
	a.pd = dev.pd;
	a.send_cq = a.recv_cq = cq;
	want_null(ibv_create_qp_ex(dev.ctx, &a), EOPNOTSUPP);
	SAYS("ibv_create_qp_ex: send_ops_flags 0x10, of which 0x10 do not work on UD QPs; leave "
	     "them out");
}

/* --- others --- */

static void device_memory_too_large(int arg)
{
	struct ibv_device_attr_ex x;
	struct ibv_alloc_dm_attr a = { 0 };

	begin(arg);
	want_eq(ibv_query_device_ex(dev.ctx, NULL, &x), 0);
	a.length = x.max_dm_size + 1;
	want_null(ibv_alloc_dm(dev.ctx, &a), EINVAL);
	SAYS("ibv_alloc_dm: length %llu B is not in 1..%llu (max_dm_size); ask for less",
	     (unsigned long long)a.length, (unsigned long long)x.max_dm_size);
}

static void pd_freed_twice(int arg)
{
	struct ibv_pd *pd;
	uint32_t number;

	begin(arg);
	pd = ibv_alloc_pd(dev.ctx);
	number = pd->handle;
	want_eq(ibv_dealloc_pd(pd), 0);
	want_errno(ibv_dealloc_pd(pd), ENOENT);
	SAYS("ibv_dealloc_pd: the PD at 0x%llx is not alive: it was deallocated already (PD 0x%x); "
	     "forget the pointer when the object ends",
	     (unsigned long long)(uintptr_t)pd, number);
}

static void flow_on_rc(int arg)
{
	struct ibv_flow_attr a = { .size = sizeof(a), .port = 1 };
	struct ibv_qp *qp;

	begin(arg);
	qp = new_qp(IBV_QPT_RC);
	want_null(ibv_create_flow(qp, &a), EINVAL);
	SAYS("ibv_create_flow: QP 0x%x is RC; frames are steered to RAW_PACKET and UD QPs",
	     qp->qp_num);
}

static void pkey_of_nobody(int arg)
{
	begin(arg);
	want_eq(ibv_get_pkey_index(dev.ctx, 1, htobe16(0x1234)), -1);
	SAYS("ibv_get_pkey_index: no P_Key 0x1234, only 0xffff; ask for that");
}

#define ATTRIBUTE(n)                                                                               \
	{                                                                                          \
		"attribute_out_of_range (" #n ")", attribute_out_of_range, n                       \
	}

static const struct test_case cases[] = {
	CASE(region_deregistered_twice),
	CASE(region_with_unknown_access),
	CASE(region_changed_by_unknown_flags),
	CASE(region_changed_in_nothing),
	CASE(window_of_no_type),
	CASE(window_bound_on_ud),
	CASE(qp_of_an_unknown_type),
	CASE(qp_of_the_drivers_type),
	CASE(qp_without_send_cq),
	CASE(qp_with_too_much_inline),
	CASE(inline_limit_looked_for),
	CASE(qp_in_no_pd),
	CASE(qp_destroyed_twice),
	ATTRIBUTE(0),
	ATTRIBUTE(1),
	ATTRIBUTE(2),
	ATTRIBUTE(3),
	ATTRIBUTE(4),
	ATTRIBUTE(5),
	ATTRIBUTE(6),
	ATTRIBUTE(7),
	ATTRIBUTE(8),
	ATTRIBUTE(9),
	ATTRIBUTE(10),
	ATTRIBUTE(11),
	ATTRIBUTE(12),
	CASE(rts_without_its_attributes),
	CASE(srq_with_too_many_sges),
	CASE(srq_changed_by_an_unknown_mask),
	CASE(srq_without_tags_gets_one),
	CASE(cq_of_size_0),
	CASE(cq_with_unknown_wc_flags),
	CASE(cq_changed_in_nothing),
	CASE(extended_cq_read_without_a_start),
	CASE(work_without_a_start),
	CASE(operations_of_another_service),
	CASE(device_memory_too_large),
	CASE(pd_freed_twice),
	CASE(flow_on_rc),
	CASE(pkey_of_nobody),
};

int main(void)
{
	return CASES_RUN(cases);
}
