// SPDX-License-Identifier: MIT
/* Mistakes explained, first half: calls that are refused. Each case makes one mistake, and the
 * library answers with the errno and with one sentence that names call, object, numbers and
 * remedy. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

#define SAYS(...) said_want(SAID_NEAR, __VA_ARGS__)

static struct duo duo; /* both sides in this process: the mistakes are the near side's */
static struct ibv_qp *qp;
static struct ibv_context *ctx;
static struct ibv_pd *pd;

static void begin(const struct duo_opts *o)
{
	said_begin();
	duo_open(&duo, o);
	qp = duo.near.ep.qp;
	ctx = duo.near.dev.ctx;
	pd = duo.near.dev.pd;
}

static void begin_type(enum ibv_qp_type type)
{
	struct duo_opts o = { .qp.type = type, .together = true };

	if (type == IBV_QPT_UC)
		o.qp.access = o.far_access = IBV_ACCESS_REMOTE_WRITE;
	begin(&o);
}

static struct ibv_qp *fresh_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = { .send_cq = duo.near.ep.scq,
				      .recv_cq = duo.near.ep.scq,
				      .qp_type = type,
				      .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp *q = ibv_create_qp(pd, &a);

	if (!q)
		die("ibv_create_qp");
	return q;
}

static int post_flags(struct ibv_qp *to, enum ibv_wr_opcode op, int num_sge, unsigned int flags)
{
	static struct ibv_sge sg[40];
	struct ibv_send_wr wr = { 7, NULL, sg, num_sge, op, flags }, *bad = NULL;
	int err;

	for (int i = 0; i < 40; i++)
		sg[i] = (struct ibv_sge){ (uintptr_t)duo.near.mem, 200, duo.near.mr->lkey };
	err = ibv_post_send(to, &wr, &bad);
	want(!err == !bad && (!bad || bad == &wr));
	return err;
}

static int post(struct ibv_qp *to, int num_sge)
{
	return post_flags(to, IBV_WR_SEND, num_sge, IBV_SEND_SIGNALED);
}

static int post_receives(struct ibv_qp *to, int n, int num_sge)
{
	struct ibv_sge sg[40] = { { (uintptr_t)duo.near.mem, 8, duo.near.mr->lkey } };
	struct ibv_recv_wr wr = { 8, NULL, sg, num_sge }, *bad;
	int err = 0;

	for (int i = 0; i < n && !err; i++)
		err = ibv_post_recv(to, &wr, &bad);
	return err;
}

/* --- posting --- */

static void send_in_reset(int arg)
{
	struct ibv_qp *q;

	(void)arg;
	begin_type(IBV_QPT_RC);
	q = fresh_qp(IBV_QPT_RC);
	want_eq(post(q, 1), EINVAL);
	SAYS("ibv_post_send: QP 0x%x is in RESET; sending needs RTS (ibv_modify_qp)", q->qp_num);
	peer_init(&(struct peer_ep){ .qp = q }, &(struct peer_opts){ .type = IBV_QPT_RC });
	want_eq(post(q, 1), EINVAL);
	SAYS("ibv_post_send: QP 0x%x is in INIT; sending needs RTS (ibv_modify_qp)", q->qp_num);
}

static void receive_in_reset(int arg)
{
	struct ibv_qp *q;

	(void)arg;
	begin_type(IBV_QPT_UD);
	q = fresh_qp(IBV_QPT_UD);
	want_eq(post_receives(q, 1, 1), EINVAL);
	SAYS("ibv_post_recv: QP 0x%x is in RESET; receiving needs INIT (ibv_modify_qp)", q->qp_num);
}

static struct ibv_qp_cap granted(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	want_eq(ibv_query_qp(qp, &a, IBV_QP_CAP, &init), 0);
	return init.cap;
}

static void too_many_send_sges(int arg)
{
	unsigned int n;

	(void)arg;
	begin_type(IBV_QPT_RC);
	n = granted().max_send_sge;
	want_eq(post(qp, (int)n + 1), EINVAL);
	SAYS("ibv_post_send (wr_id 0x7): num_sge %u, QP 0x%x was created with max_send_sge %u; use "
	     "fewer, or create it with more",
	     n + 1, qp->qp_num, n);
}

static void too_many_receive_sges(int arg)
{
	unsigned int n;

	(void)arg;
	begin_type(IBV_QPT_RC);
	n = granted().max_recv_sge;
	want_eq(post_receives(qp, 1, (int)n + 1), EINVAL);
	SAYS("ibv_post_recv (wr_id 0x8): num_sge %u, QP 0x%x was created with max_recv_sge %u; use "
	     "fewer, or create it with more",
	     n + 1, qp->qp_num, n);
}

static void negative_sges(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_RC);
	want_eq(post(qp, -1), EINVAL);
	SAYS("ibv_post_send (wr_id 0x7): num_sge -1 on QP 0x%x is negative; give the length of "
	     "sg_list",
	     qp->qp_num);
}

static void too_much_inline(int arg)
{
	unsigned int n;

	(void)arg;
	begin_type(IBV_QPT_RC);
	n = granted().max_inline_data;
	want(n >= 64 && n < 800);
	want_eq(post_flags(qp, IBV_WR_SEND, 4, IBV_SEND_INLINE), EINVAL);
	SAYS("ibv_post_send (wr_id 0x7): 800 bytes inline, QP 0x%x was created with "
	     "max_inline_data %u; leave IBV_SEND_INLINE out, or create it with more",
	     qp->qp_num, n);
}

static void message_too_long(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_type(IBV_QPT_RC);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 0x80000001);
	want_eq(duo_post(&duo, &wr), EINVAL);
	SAYS("ibv_post_send (wr_id 0x1): SGE 0 on QP 0x%x has 2147483649 bytes, a message at most "
	     "2^31; split it",
	     qp->qp_num);
}

static void send_queue_full(int arg)
{
	unsigned int n;

	(void)arg;
	begin_type(IBV_QPT_RC);
	n = granted().max_send_wr;
	for (unsigned int i = 0; i < n; i++)
		want_eq(post_flags(qp, IBV_WR_SEND, 0, 0), 0);
	want_eq(post(qp, 1), ENOMEM);
	SAYS("ibv_post_send (wr_id 0x7): all %u send work requests of QP 0x%x are outstanding; "
	     "poll completions first",
	     n, qp->qp_num);
}

static void receive_queue_full(int arg)
{
	int n;

	(void)arg;
	begin_type(IBV_QPT_RC);
	n = (int)granted().max_recv_wr;
	want_eq(post_receives(qp, n, 1), 0);
	want_eq(post_receives(qp, 1, 1), ENOMEM);
	SAYS("ibv_post_recv (wr_id 0x8): all %d receive work requests of QP 0x%x are posted; poll "
	     "completions first",
	     n, qp->qp_num);
}

static void opcode_of_another_service(int type)
{
	(void)type;
	begin_type(type);
	want_eq(post_flags(qp, IBV_WR_RDMA_READ, 1, 0), EINVAL);
	SAYS("ibv_post_send (wr_id 0x7): opcode %d (RDMA_READ) is not one of %s QPs, as QP 0x%x "
	     "is; use one that is, or another type of QP",
	     IBV_WR_RDMA_READ, type == IBV_QPT_UC ? "UC" : "UD", qp->qp_num);
}

static void datagram_to_nowhere(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_UD);
	want_eq(post(qp, 1), EINVAL);
	SAYS("ibv_post_send (wr_id 0x7): the AH of a UD send on QP 0x%x is NULL; set wr.ud.ah",
	     qp->qp_num);
}

static struct ibv_srq *new_srq(uint32_t wr)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = wr, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	if (!srq)
		die("ibv_create_srq");
	return srq;
}

static void receive_beside_an_srq(int arg)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true, .far_srq = true };

	(void)arg;
	begin(&o);
	want_eq(post_receives(duo.far.ep.qp, 1, 1), EINVAL);
	SAYS("ibv_post_recv: QP 0x%x has no receive queue of its own; post to its SRQ "
	     "(ibv_post_srq_recv)",
	     duo.far.ep.qp->qp_num);
}

static void srq_full(int arg)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_srq_attr a;
	struct ibv_srq *srq;

	(void)arg;
	begin_type(IBV_QPT_RC);
	srq = new_srq(4);
	want_eq(ibv_query_srq(srq, &a), 0);
	for (uint32_t i = 0; i < a.max_wr; i++)
		want_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	want_eq(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	SAYS("ibv_post_srq_recv (wr_id 0x1): all %u work requests of SRQ 0x%x are posted; poll "
	     "completions first",
	     a.max_wr, srq->handle);
	wr.num_sge = 31;
	want_eq(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	SAYS("ibv_post_srq_recv (wr_id 0x1): num_sge 31, SRQ 0x%x was created with max_sge %u; use "
	     "fewer, or create it with more",
	     srq->handle, a.max_sge);
}

static void srq_limit_above_size(int arg)
{
	struct ibv_srq_attr a;
	struct ibv_srq *srq;
	uint32_t n;

	(void)arg;
	begin_type(IBV_QPT_RC);
	srq = new_srq(4);
	want_eq(ibv_query_srq(srq, &a), 0);
	n = a.max_wr;
	a.srq_limit = n + 1;
	want_errno(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), EINVAL);
	SAYS("ibv_modify_srq: srq_limit %u is above max_wr %u of SRQ 0x%x; ask for less", n + 1, n,
	     srq->handle);
}

static void srq_too_large(int arg)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 40000, .max_sge = 1 } };

	(void)arg;
	begin_type(IBV_QPT_RC);
	want_null(ibv_create_srq(pd, &a), EINVAL);
	SAYS("ibv_create_srq: max_wr 40000 exceeds max_srq_wr 32767; ask for fewer");
}

/* --- completion queues --- */

static void cq_too_large(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_RC);
	want_null(ibv_create_cq(ctx, 1 << 20, NULL, NULL, 0), EINVAL);
	SAYS("ibv_create_cq: cqe 1048576 is not in 1..1048575 (max_cqe); ask for fewer");
}

static void cq_of_an_unknown_vector(int arg)
{
	int n;

	(void)arg;
	begin_type(IBV_QPT_RC);
	n = ctx->num_comp_vectors;
	want_null(ibv_create_cq(ctx, 1, NULL, NULL, n), EINVAL);
	SAYS("ibv_create_cq: comp_vector %d, the device has %d (num_comp_vectors); use 0..%d", n, n,
	     n - 1);
}

static void cq_too_small_for_what_it_holds(int arg)
{
	struct ibv_cq *cq;

	(void)arg;
	begin_type(IBV_QPT_RC);
	cq = duo.near.ep.scq;
	want_eq(post_receives(qp, 3, 1), 0);
	want_eq(ibv_modify_qp(qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE),
		0);
	want_errno(ibv_resize_cq(cq, 1), EINVAL);
	SAYS("ibv_resize_cq: cqe 1 is fewer than the 3 completions that wait to be polled on CQ "
	     "0x%x; poll them first",
	     cq->handle);
	want_errno(ibv_resize_cq(cq, 0), EINVAL);
	SAYS("ibv_resize_cq: cqe 0 is not in 1..1048575 (max_cqe); ask for a size in it");
}

/* --- moves of a QP --- */

static void illegal_move(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp *q;

	(void)arg;
	begin_type(IBV_QPT_RC);
	q = fresh_qp(IBV_QPT_RC);
	want_errno(ibv_modify_qp(q, &a, IBV_QP_STATE), EINVAL);
	SAYS("ibv_modify_qp: QP 0x%x: RESET to RTR is not a move of RC QPs; from RESET they go to: "
	     "RESET, INIT",
	     q->qp_num);
}

static void missing_attributes(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *q;

	(void)arg;
	begin_type(IBV_QPT_RC);
	q = fresh_qp(IBV_QPT_RC);
	want_errno(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	SAYS("ibv_modify_qp: QP 0x%x: RESET to INIT of RC QPs needs IBV_QP_ACCESS_FLAGS, "
	     "IBV_QP_PKEY_INDEX; add it to attr_mask",
	     q->qp_num);
}

static void foreign_attributes(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .qkey = 1 };

	(void)arg;
	begin_type(IBV_QPT_RC);
	want_errno(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_QKEY), EINVAL);
	SAYS("ibv_modify_qp: QP 0x%x: RTS to RTS of RC QPs does not take IBV_QP_QKEY; leave it out "
	     "of attr_mask",
	     qp->qp_num);
}

static void wrong_current_state(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD };

	(void)arg;
	begin_type(IBV_QPT_RC);
	want_errno(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	SAYS("ibv_modify_qp: QP 0x%x is in RTS, cur_qp_state says SQD; leave IBV_QP_CUR_STATE out "
	     "or query it before",
	     qp->qp_num);
}

enum { BAD_PORT, BAD_PKEY };

static void port_or_pkey_out_of_range(int which)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = which == BAD_PORT ? 2 : 1,
				 .pkey_index = which == BAD_PKEY ? 5 : 0 };
	struct ibv_qp *q;

	begin_type(IBV_QPT_RC);
	q = fresh_qp(IBV_QPT_RC);
	want_errno(
		ibv_modify_qp(q, &a,
			      IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
		EINVAL);
	SAYS("ibv_modify_qp: QP 0x%x: %s, it must be %d", q->qp_num,
	     which == BAD_PORT ? "port_num is 2" : "pkey_index is 5", which == BAD_PORT);
}

/* In INIT, with everything that the move to RTR needs. */
static struct ibv_qp *before_rtr(struct ibv_qp_attr *a, int *mask)
{
	struct ibv_qp *q = fresh_qp(IBV_QPT_RC);

	peer_init(&(struct peer_ep){ .qp = q }, &(struct peer_opts){ .type = IBV_QPT_RC });
	*a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = qp->qp_num,
				   .ah_attr = { .is_global = 1,
						.port_num = 1,
						.grh = { .dgid = duo.near.dev.gid,
							 .sgid_index = PEER_GID_INDEX } } };
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return q;
}

static void too_many_reads_wanted(int arg)
{
	struct ibv_qp_attr a;
	struct ibv_qp *q;
	int mask;

	(void)arg;
	begin_type(IBV_QPT_RC);
	q = before_rtr(&a, &mask);
	a.max_dest_rd_atomic = 200;
	want_errno(ibv_modify_qp(q, &a, mask), EINVAL);
	SAYS("ibv_modify_qp: QP 0x%x: max_dest_rd_atomic is 200, outside 0..16; set it inside",
	     q->qp_num);
}

static void path_without_grh(int arg)
{
	struct ibv_qp_attr a;
	struct ibv_qp *q;
	int mask;

	(void)arg;
	begin_type(IBV_QPT_RC);
	q = before_rtr(&a, &mask);
	a.ah_attr.is_global = 0;
	want_errno(ibv_modify_qp(q, &a, mask), EINVAL);
	SAYS("ibv_modify_qp: the address vector has no GRH (is_global 0), which RoCE needs; set "
	     "is_global, grh.dgid and grh.sgid_index (-g of many programs)");
}

static void path_from_an_empty_gid(int arg)
{
	struct ibv_qp_attr a;
	struct ibv_qp *q;
	int mask;

	(void)arg;
	begin_type(IBV_QPT_RC);
	q = before_rtr(&a, &mask);
	a.ah_attr.grh.sgid_index = 15;
	want_errno(ibv_modify_qp(q, &a, mask), EINVAL);
	SAYS("ibv_modify_qp: sgid_index 15 is an empty entry of the GID table; use one that "
	     "ibv_query_gid() shows");
	a.ah_attr.grh.sgid_index = 16;
	want_errno(ibv_modify_qp(q, &a, mask), EINVAL);
	SAYS("ibv_modify_qp: sgid_index 16 is outside the GID table of 16 entries; use one that "
	     "ibv_query_gid() shows");
}

/* --- address handles --- */

static struct ibv_ah_attr path(void)
{
	return (struct ibv_ah_attr){ .is_global = 1,
				     .port_num = 1,
				     .grh = { .dgid = duo.near.dev.gid,
					      .sgid_index = PEER_GID_INDEX } };
}

static void ah_without_grh(int arg)
{
	struct ibv_ah_attr a;

	(void)arg;
	begin_type(IBV_QPT_UD);
	a = path();
	a.is_global = 0;
	want_null(ibv_create_ah(pd, &a), EINVAL);
	SAYS("ibv_create_ah: the address vector has no GRH (is_global 0), which RoCE needs; set "
	     "is_global, grh.dgid and grh.sgid_index (-g of many programs)");
}

static void ah_to_no_gid(int arg)
{
	struct ibv_ah_attr a;

	(void)arg;
	begin_type(IBV_QPT_UD);
	a = path();
	memset(&a.grh.dgid, 0, sizeof(a.grh.dgid));
	want_null(ibv_create_ah(pd, &a), EINVAL);
	SAYS("ibv_create_ah: the address vector's dgid is ::; set grh.dgid to the peer's GID");
}

static void ah_of_another_port(int arg)
{
	struct ibv_ah_attr a;

	(void)arg;
	begin_type(IBV_QPT_UD);
	a = path();
	a.port_num = 2;
	want_null(ibv_create_ah(pd, &a), EINVAL);
	SAYS("ibv_create_ah: the address vector's port_num is 2; mlx5_0 has one port, number 1");
}

/* --- creation --- */

static void queue_too_deep(int arg)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 40000, 1, 1, 1, 0 } };

	(void)arg;
	begin_type(IBV_QPT_RC);
	a.send_cq = a.recv_cq = duo.near.ep.scq;
	want_null(ibv_create_qp(pd, &a), EINVAL);
	SAYS("ibv_create_qp: cap.max_send_wr 40000 exceeds the device's 32768; ask for less");
}

static void sges_beyond_the_device(int arg)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 31, 0 } };

	(void)arg;
	begin_type(IBV_QPT_RC);
	a.send_cq = a.recv_cq = duo.near.ep.scq;
	want_null(ibv_create_qp(pd, &a), EINVAL);
	SAYS("ibv_create_qp: cap.max_recv_sge 31 exceeds the device's 30; ask for less");
}

static void qp_without_cq(int arg)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };

	(void)arg;
	begin_type(IBV_QPT_RC);
	a.send_cq = duo.near.ep.scq;
	want_null(ibv_create_qp(pd, &a), EINVAL);
	SAYS("ibv_create_qp: recv_cq is NULL; RC QPs need both CQs");
}

static void srq_on_uc(int arg)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_UC, .cap = { 1, 1, 1, 1, 0 } };

	(void)arg;
	begin_type(IBV_QPT_RC);
	a.send_cq = a.recv_cq = duo.near.ep.scq;
	a.srq = new_srq(4);
	want_null(ibv_create_qp(pd, &a), EINVAL);
	SAYS("ibv_create_qp: srq is set, and qp_type is UC; only RC and UD take one");
}

/* --- memory --- */

static uint8_t *pages(int prot)
{
	uint8_t *p = mmap(NULL, 8192, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void register_unmapped(int arg)
{
	uint8_t *p = pages(PROT_READ | PROT_WRITE);

	(void)arg;
	begin_type(IBV_QPT_RC);
	munmap(p + 4096, 4096);
	want_null(ibv_reg_mr(pd, p, 8192, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	SAYS("ibv_reg_mr: 0x%llx+8192: 0x%llx is not mapped; register only memory that is there",
	     (unsigned long long)(uintptr_t)p, (unsigned long long)(uintptr_t)p + 4096);
}

static void register_read_only(int arg)
{
	uint8_t *p = pages(PROT_READ);

	(void)arg;
	begin_type(IBV_QPT_RC);
	want_null(ibv_reg_mr(pd, p, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	SAYS("ibv_reg_mr: 0x%llx+4096: 0x%llx is mapped r--, the access flags need rw; map it so "
	     "or ask for less",
	     (unsigned long long)(uintptr_t)p, (unsigned long long)(uintptr_t)p);
}

static void remote_write_without_local(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_RC);
	want_null(ibv_reg_mr(pd, duo.near.mem, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	SAYS("ibv_reg_mr: access 0x2 asks for REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE; "
	     "add IBV_ACCESS_LOCAL_WRITE");
}

static void register_round_the_end(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_RC);
	want_null(ibv_reg_mr(pd, (void *)~4095UL, 8192, 0), EINVAL);
	SAYS("ibv_reg_mr: 0xfffffffffffff000+8192 (iova 0xfffffffffffff000) wraps around the end "
	     "of "
	     "the address space; check addr and length");
}

static void register_nothing(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_RC);
	want_null(ibv_reg_mr(pd, duo.near.mem, 0, 0), EINVAL);
	SAYS("ibv_reg_mr: length 0 at 0x%lx, where a page begins, is no memory at all; register at "
	     "least one byte",
	     (unsigned long)duo.near.mem);
}

/* --- destruction --- */

static void busy_pd(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_RC);
	want_errno(ibv_dealloc_pd(pd), EBUSY);
	SAYS("ibv_dealloc_pd: PD 0x%x is in use by 2 objects (MR 0x%x, QP 0x%x); destroy them "
	     "first",
	     pd->handle, duo.near.mr->lkey, duo.near.ep.qp->qp_num);
}

static void busy_cq(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_RC);
	want_errno(ibv_destroy_cq(duo.near.ep.scq), EBUSY);
	SAYS("ibv_destroy_cq: CQ 0x%x is in use by 2 queues (QP 0x%x); destroy them first",
	     duo.near.ep.scq->handle, duo.near.ep.qp->qp_num);
}

static void busy_srq(int arg)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true, .far_srq = true };

	(void)arg;
	begin(&o);
	want_errno(ibv_destroy_srq(duo.far.srq), EBUSY);
	SAYS("ibv_destroy_srq: SRQ 0x%x is in use by 1 QP (QP 0x%x); destroy it first",
	     duo.far.srq->handle, duo.far.ep.qp->qp_num);
}

static void busy_channel(int arg)
{
	struct ibv_comp_channel *ch;

	(void)arg;
	begin_type(IBV_QPT_RC);
	ch = ibv_create_comp_channel(ctx);
	want(ch && ibv_create_cq(ctx, 1, NULL, ch, 0));
	want_errno(ibv_destroy_comp_channel(ch), EBUSY);
	SAYS("ibv_destroy_comp_channel: 1 CQ still uses the channel (CQ 0x#); destroy it first");
}

/* --- multicast --- */

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } };

static void multicast_on_rc(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_RC);
	want_errno(ibv_attach_mcast(qp, &group, 0), EINVAL);
	SAYS("ibv_attach_mcast: QP 0x%x is RC; only UD QPs receive multicast", qp->qp_num);
}

static void multicast_to_a_unicast_gid(int arg)
{
	union ibv_gid gid = { .raw = { 0xfe, 0x80 } };

	(void)arg;
	begin_type(IBV_QPT_UD);
	want_errno(ibv_attach_mcast(qp, &gid, 0), EINVAL);
	SAYS("ibv_attach_mcast: QP 0x%x: fe80:: is no group; give a GID of ff00::/8, or an IPv4 "
	     "one, ::ffff:224.0.0.0 to ::ffff:239.255.255.255",
	     qp->qp_num);
}

static void detach_what_is_not_attached(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_UD);
	want_errno(ibv_detach_mcast(qp, &group, 0), EINVAL);
	SAYS("ibv_detach_mcast: QP 0x%x is not attached to that group; attach it first, or give "
	     "the GID it was attached with",
	     qp->qp_num);
}

static void destroy_an_attached_qp(int arg)
{
	(void)arg;
	begin_type(IBV_QPT_UD);
	want_eq(ibv_attach_mcast(qp, &group, 0), 0);
	want_errno(ibv_destroy_qp(qp), EBUSY);
	SAYS("ibv_destroy_qp: QP 0x%x is attached to a multicast group; ibv_detach_mcast first",
	     qp->qp_num);
}

/* --- queries --- */

static void query_outside_the_tables(int arg)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	(void)arg;
	begin_type(IBV_QPT_RC);
	want(ibv_query_port(ctx, 2, &port));
	SAYS("ibv_query_port: port 2; mlx5_0 has one port, number 1");
	want(ibv_query_gid(ctx, 1, 99, &gid));
	SAYS("GID query: index 99 is outside the table of 16; use 0..15");
	want(ibv_query_pkey(ctx, 1, 1, &pkey));
	SAYS("ibv_query_pkey: index is 1, it must be 0");
}

static const struct test_case cases[] = {
	CASE(send_in_reset),
	CASE(receive_in_reset),
	CASE(too_many_send_sges),
	CASE(too_many_receive_sges),
	CASE(negative_sges),
	CASE(too_much_inline),
	CASE(message_too_long),
	CASE(send_queue_full),
	CASE(receive_queue_full),
	CASE_ARG(opcode_of_another_service, IBV_QPT_UC),
	CASE_ARG(opcode_of_another_service, IBV_QPT_UD),
	CASE(datagram_to_nowhere),
	CASE(receive_beside_an_srq),
	CASE(srq_full),
	CASE(srq_limit_above_size),
	CASE(srq_too_large),
	CASE(cq_too_large),
	CASE(cq_of_an_unknown_vector),
	CASE(cq_too_small_for_what_it_holds),
	CASE(illegal_move),
	CASE(missing_attributes),
	CASE(foreign_attributes),
	CASE(wrong_current_state),
	CASE_ARG(port_or_pkey_out_of_range, BAD_PORT),
	CASE_ARG(port_or_pkey_out_of_range, BAD_PKEY),
	CASE(too_many_reads_wanted),
	CASE(path_without_grh),
	CASE(path_from_an_empty_gid),
	CASE(ah_without_grh),
	CASE(ah_to_no_gid),
	CASE(ah_of_another_port),
	CASE(queue_too_deep),
	CASE(sges_beyond_the_device),
	CASE(qp_without_cq),
	CASE(srq_on_uc),
	CASE(register_unmapped),
	CASE(register_read_only),
	CASE(remote_write_without_local),
	CASE(register_round_the_end),
	CASE(register_nothing),
	CASE(busy_pd),
	CASE(busy_cq),
	CASE(busy_srq),
	CASE(busy_channel),
	CASE(multicast_on_rc),
	CASE(multicast_to_a_unicast_gid),
	CASE(detach_what_is_not_attached),
	CASE(destroy_an_attached_qp),
	CASE(query_outside_the_tables),
};

int main(void)
{
	return CASES_RUN(cases);
}
