// SPDX-License-Identifier: MIT
/* The edge of every advertised limit: what ibv_query_device(_ex) and ibv_query_port say is reached
 * exactly, and one more is refused with the right errno. A new limit of a kind of object: a row in
 * `objects`; of anything else: a case. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

static struct peer_dev dev;
static struct ibv_device_attr limit;
static struct ibv_device_attr_ex more;
static int max_wq, max_table; /* of `more` */
static struct ibv_cq *cq;

static void begin(void)
{
	peer_open(&dev);
	want_eq(ibv_query_device(dev.ctx, &limit), 0);
	want_eq(ibv_query_device_ex(dev.ctx, NULL, &more), 0);
	max_wq = (int)more.max_wq_type_rq;
	max_table = (int)more.rss_caps.max_rwq_indirection_tables;
	cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	want(cq);
}

/* --- objects --- */

static void *make_pd(void)
{
	return ibv_alloc_pd(dev.ctx);
}

static void *make_cq(void)
{
	return ibv_create_cq(dev.ctx, 1, NULL, NULL, 0);
}

static char byte[64];

static void *make_mr(void)
{
	return ibv_reg_mr(dev.pd, byte, sizeof(byte), 0);
}

static void *make_ah(void)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };

	a.grh.dgid = dev.gid;
	a.grh.sgid_index = PEER_GID_INDEX;
	return ibv_create_ah(dev.pd, &a);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(dev.pd, &a);
}

static void *make_qp_of(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.qp_type = type, .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 }
	};

	return ibv_create_qp(dev.pd, &a);
}

static void *make_qp(void)
{
	return make_qp_of(IBV_QPT_RC);
}

static void *make_mw(void)
{
	static int made;

	return ibv_alloc_mw(dev.pd, made++ & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
}

static void *make_wq(void)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = dev.pd, .cq = cq
	};

	return ibv_create_wq(dev.ctx, &a);
}

static struct ibv_rwq_ind_table *table_of(struct ibv_wq **wqs, uint32_t log)
{
	struct ibv_rwq_ind_table_init_attr a = { .log_ind_tbl_size = log, .ind_tbl = wqs };

	return ibv_create_rwq_ind_table(dev.ctx, &a);
}

static void *make_table(void)
{
	static struct ibv_wq *wq;

	wq = wq ? wq : make_wq();
	return table_of(&wq, 0);
}

static int free_mw(void *p)
{
	return ibv_dealloc_mw(p);
}

static int free_wq(void *p)
{
	return ibv_destroy_wq(p);
}

static int free_table(void *p)
{
	return ibv_destroy_rwq_ind_table(p);
}

static int free_pd(void *p)
{
	return ibv_dealloc_pd(p);
}

static int free_cq(void *p)
{
	return ibv_destroy_cq(p);
}

static int free_mr(void *p)
{
	return ibv_dereg_mr(p);
}

static int free_ah(void *p)
{
	return ibv_destroy_ah(p);
}

static int free_srq(void *p)
{
	return ibv_destroy_srq(p);
}

static int free_qp(void *p)
{
	return ibv_destroy_qp(p);
}

/* @used: how many begin() has made already. */
static const struct {
	const char *call;
	const int *max;
	int used;
	void *(*make)(void);
	int (*free)(void *p);
} objects[] = {
	{ "ibv_alloc_pd", &limit.max_pd, 1, make_pd, free_pd },
	{ "ibv_create_cq", &limit.max_cq, 1, make_cq, free_cq },
	{ "ibv_reg_mr", &limit.max_mr, 0, make_mr, free_mr },
	{ "ibv_create_ah", &limit.max_ah, 0, make_ah, free_ah },
	{ "ibv_create_srq", &limit.max_srq, 0, make_srq, free_srq },
	{ "ibv_create_qp", &limit.max_qp, 0, make_qp, free_qp },
	{ "ibv_alloc_mw", &limit.max_mw, 0, make_mw, free_mw },
	{ "ibv_create_wq", &max_wq, 0, make_wq, free_wq },
	{ "ibv_create_rwq_ind_table", &max_table, 0, make_table, free_table },
};

/* All of them at once; the one after is refused, and one that goes makes room for one. */
static void objects_of_a_kind(int kind)
{
	int n;
	void **all;

	said_begin();
	begin();
	n = *objects[kind].max - objects[kind].used;
	want(n > 0);
	all = calloc((size_t)n, sizeof(*all));
	want(all);
	for (int i = 0; i < n; i++) {
		all[i] = objects[kind].make();
		if (!all[i])
			fail("%s %d of %d: %s", objects[kind].call, i + 1, n, strerror(errno));
	}
	want_null(objects[kind].make(), ENOMEM);
	said_want(SAID_NEAR, "%s: all %d that the device allows are in use; destroy some first",
		  objects[kind].call, *objects[kind].max);
	want_eq(objects[kind].free(all[n / 2]), 0);
	all[n / 2] = objects[kind].make();
	want(all[n / 2]);
	want_null(objects[kind].make(), ENOMEM);
	for (int i = 0; i < n; i++)
		want_eq(objects[kind].free(all[i]), 0);
	free(all);
}

/* --- queues --- */

static void completion_queue_entries(int arg)
{
	struct ibv_cq *big;

	(void)arg;
	begin();
	big = ibv_create_cq(dev.ctx, limit.max_cqe, NULL, NULL, 0);
	want(big && big->cqe >= limit.max_cqe);
	want_eq(ibv_destroy_cq(big), 0);
	want_null(ibv_create_cq(dev.ctx, limit.max_cqe + 1, NULL, NULL, 0), EINVAL);
	want_null(ibv_create_cq(dev.ctx, 0, NULL, NULL, 0), EINVAL);
	want_eq(ibv_resize_cq(cq, limit.max_cqe), 0);
	want_errno(ibv_resize_cq(cq, limit.max_cqe + 1), EINVAL);
}

static void completion_vectors(int arg)
{
	int n;

	(void)arg;
	begin();
	n = dev.ctx->num_comp_vectors;
	want(n >= 1);
	for (int i = 0; i < n; i++)
		want_eq(ibv_destroy_cq(ibv_create_cq(dev.ctx, 1, NULL, NULL, i)), 0);
	want_null(ibv_create_cq(dev.ctx, 1, NULL, NULL, n), EINVAL);
	want_null(ibv_create_cq(dev.ctx, 1, NULL, NULL, -1), EINVAL);
}

static struct ibv_qp *qp_with(struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = cap
	};
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &a);

	if (qp) {
		want(a.cap.max_send_wr >= cap.max_send_wr);
		want(a.cap.max_recv_wr >= cap.max_recv_wr);
		want(a.cap.max_send_sge >= cap.max_send_sge);
		want(a.cap.max_recv_sge >= cap.max_recv_sge);
		want(a.cap.max_inline_data >= cap.max_inline_data);
	}
	return qp;
}

static void fits(struct ibv_qp_cap cap)
{
	struct ibv_qp *qp = qp_with(cap);

	want(qp);
	want_eq(ibv_destroy_qp(qp), 0);
}

static void queue_capacities(int arg)
{
	uint32_t wr, sge;

	(void)arg;
	begin();
	wr = (uint32_t)limit.max_qp_wr;
	sge = (uint32_t)limit.max_sge;
	fits((struct ibv_qp_cap){ wr, wr, 1, 1, 0 });
	want_null(qp_with((struct ibv_qp_cap){ wr + 1, 1, 1, 1, 0 }), EINVAL);
	want_null(qp_with((struct ibv_qp_cap){ 1, wr + 1, 1, 1, 0 }), EINVAL);
	fits((struct ibv_qp_cap){ 1, 1, sge, sge, 0 });
	want_null(qp_with((struct ibv_qp_cap){ 1, 1, sge + 1, 1, 0 }), EINVAL);
	want_null(qp_with((struct ibv_qp_cap){ 1, 1, 1, sge + 1, 0 }), EINVAL);
	want_null(qp_with((struct ibv_qp_cap){ UINT32_MAX, 1, 1, 1, 0 }), EINVAL);
	want_null(qp_with((struct ibv_qp_cap){ 1, UINT32_MAX, 1, 1, 0 }), EINVAL);
	want_null(qp_with((struct ibv_qp_cap){ 1, 1, 1, 1, UINT32_MAX }), EINVAL);
	fits((struct ibv_qp_cap){ wr / 8, wr / 8, sge / 2, sge / 2, 0 });
}

/* The deepest queue is one of a block for each work request. */
static void inline_bytes_of_the_deepest_queue(int arg)
{
	(void)arg;
	said_begin();
	begin();
	want_eq(limit.max_qp_wr, 32768);
	fits((struct ibv_qp_cap){ 32768, 1, 1, 1, 28 });
	want_null(qp_with((struct ibv_qp_cap){ 32768, 1, 1, 1, 36 }), EINVAL);
	said_want(SAID_NEAR,
		  "ibv_create_qp: 32768 send work requests of 2 blocks (1 SGEs, 36 bytes inline) "
		  "exceed the queue's 32768 blocks; ask for fewer");
}

/* A queue of one block for each work request: what is granted inline fits into it, behind the
 * segments that the type of queue pair has before the data. */
static void inline_bytes_without_sges(int type)
{
	struct ibv_qp_init_attr a = { .qp_type = (enum ibv_qp_type)type, .cap = { 1, 1, 0, 1, 0 } };
	struct ibv_qp *qp;

	begin();
	a.send_cq = a.recv_cq = cq;
	qp = ibv_create_qp(dev.pd, &a);
	want(qp);
	want(a.cap.max_inline_data + 4 + 16 <= 64 || a.cap.max_send_sge);
	want(type != IBV_QPT_UD || a.cap.max_send_sge || !a.cap.max_inline_data);
	want_eq(ibv_destroy_qp(qp), 0);
}

/* The whole send queue and the whole receive queue are there: so many, and not one more. */
static void whole_queues(int arg)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true };
	struct ibv_recv_wr rwr = { .wr_id = 1 }, *bad;
	struct ibv_send_wr wr;
	struct ibv_sge sg;
	struct ibv_wc wc;
	static struct duo d;
	uint32_t n;

	(void)arg;
	begin();
	n = (uint32_t)limit.max_qp_wr;
	o.qp.cap = (struct ibv_qp_cap){ n, n, 1, 1, 0 };
	duo_open(&d, &o);
	for (uint32_t i = 0; i < n; i++)
		want_eq(ibv_post_recv(d.far.ep.qp, &rwr, &bad), 0);
	want_eq(ibv_post_recv(d.far.ep.qp, &rwr, &bad), ENOMEM);
	wr = duo_wr(&d, IBV_WR_SEND, &sg, 0);
	for (uint32_t i = 0; i < n; i++)
		want_eq(duo_post(&d, &wr), 0);
	want_eq(duo_post(&d, &wr), ENOMEM);
	for (uint32_t i = 0; i < n; i++)
		peer_poll_ok(d.near.ep.scq, &wc);
	for (uint32_t i = 0; i < n; i++)
		peer_poll_ok(d.far.ep.rcq, &wc);
	want_eq(duo_post(&d, &wr), 0);
	duo_close(&d);
}

/* All SGEs of a SEND, a WRITE and a READ, one byte each. */
static void scatter_gather_entries(int op)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true };
	struct ibv_sge sg, list[256];
	struct ibv_recv_wr rwr = { .sg_list = list }, *bad;
	struct ibv_send_wr wr;
	static struct duo d;
	int n;

	begin();
	n = op == IBV_WR_RDMA_READ ? limit.max_sge_rd : limit.max_sge;
	want(n > 0 && n < 255);
	o.qp.cap = (struct ibv_qp_cap){ 4, 4, (uint32_t)limit.max_sge, (uint32_t)limit.max_sge, 0 };
	duo_open(&d, &o);
	if (op == IBV_WR_SEND) {
		for (int i = 0; i < n + 1; i++)
			list[i] = (struct ibv_sge){ (uintptr_t)d.far.mem + (unsigned int)i * 2, 1,
						    d.far.mr->lkey };
		rwr.num_sge = n + 1;
		want_eq(ibv_post_recv(d.far.ep.qp, &rwr, &bad), EINVAL);
		rwr.num_sge = n;
		want_eq(ibv_post_recv(d.far.ep.qp, &rwr, &bad), 0);
	}
	wr = duo_wr(&d, (enum ibv_wr_opcode)op, &sg, 1);
	for (int i = 0; i < n + 1; i++)
		list[i] = (struct ibv_sge){ (uintptr_t)d.near.mem + (unsigned int)i * 2, 1,
					    d.near.mr->lkey };
	wr.sg_list = list;
	wr.num_sge = n + 1;
	want_eq(duo_post(&d, &wr), EINVAL);
	wr.num_sge = n;
	want_eq(duo_post(&d, &wr), 0);
	want_eq(duo_wc(&d).status, IBV_WC_SUCCESS);
	duo_close(&d);
}

static void shared_receive_queue(int arg)
{
	struct ibv_srq_init_attr a = { .attr = { .max_sge = 1 } };
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_srq *srq;

	(void)arg;
	begin();
	a.attr.max_wr = (uint32_t)limit.max_srq_wr;
	srq = ibv_create_srq(dev.pd, &a);
	want(srq && a.attr.max_wr >= (uint32_t)limit.max_srq_wr);
	for (uint32_t i = 0; i < a.attr.max_wr; i++)
		want_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	want_eq(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	want_eq(ibv_destroy_srq(srq), 0);
	a.attr.max_wr = (uint32_t)limit.max_srq_wr + 1;
	want_null(ibv_create_srq(dev.pd, &a), EINVAL);
	a.attr = (struct ibv_srq_attr){ .max_wr = 1, .max_sge = (uint32_t)limit.max_srq_sge };
	srq = ibv_create_srq(dev.pd, &a);
	want(srq && a.attr.max_sge >= (uint32_t)limit.max_srq_sge);
	want_eq(ibv_destroy_srq(srq), 0);
	a.attr.max_sge = (uint32_t)limit.max_srq_sge + 1;
	want_null(ibv_create_srq(dev.pd, &a), EINVAL);
}

/* Outstanding READs of a QP, both ways; all QPs may have them at once. */
static void outstanding_reads(int arg)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD };
	struct ibv_qp_init_attr init;
	static struct duo d;

	(void)arg;
	begin();
	want_eq(limit.max_res_rd_atom, limit.max_qp * limit.max_qp_rd_atom);
	o.qp.rd_atomic = (uint8_t)limit.max_qp_rd_atom;
	duo_open(&d, &o);
	for (int i = 0; i < 16; i++)
		duo_send(&d, IBV_WR_RDMA_READ, 4096);
	for (int i = 0; i < 16; i++)
		want_eq(duo_wc(&d).status, IBV_WC_SUCCESS);
	want_eq(ibv_modify_qp(d.near.ep.qp, &a, IBV_QP_STATE), 0);
	a.max_rd_atomic = (uint8_t)(limit.max_qp_init_rd_atom + 1);
	want_errno(ibv_modify_qp(d.near.ep.qp, &a, IBV_QP_MAX_QP_RD_ATOMIC), EINVAL);
	a.max_dest_rd_atomic = (uint8_t)(limit.max_qp_rd_atom + 1);
	want_errno(ibv_modify_qp(d.near.ep.qp, &a, IBV_QP_MAX_DEST_RD_ATOMIC), EINVAL);
	want_eq(ibv_query_qp(d.near.ep.qp, &a, IBV_QP_MAX_QP_RD_ATOMIC, &init), 0);
	want_eq(a.max_rd_atomic, limit.max_qp_init_rd_atom);
	want_eq(a.max_dest_rd_atomic, limit.max_qp_rd_atom);
	duo_close(&d);
}

/* --- memory --- */

/* The same pages again and again, @piece bytes of them: room to write to that costs no more. The
 * kernel allows a process 65,530 mappings. */
static uint8_t *wide_area(size_t n, size_t piece)
{
	int fd = memfd_create("wide", MFD_CLOEXEC);
	uint8_t *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	want(fd >= 0 && p != MAP_FAILED && !ftruncate(fd, (off_t)piece));
	for (size_t at = 0; at < n; at += piece)
		want(mmap(p + at, n - at < piece ? n - at : piece, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_FIXED, fd, 0) == p + at);
	close(fd);
	return p;
}

/* Pinned, its page tables alone take 512 MiB and some seconds. On demand it costs nothing. (Private
 * memory that nobody has written to would not do: some kernels give it real pages when it is read.)
 */
static void memory_region_size(int arg)
{
	unsigned int access = cases_full() ? 0 : IBV_ACCESS_ON_DEMAND;
	struct ibv_mr *mr;
	uint8_t *p;
	size_t n;

	(void)arg;
	if (cases_sanitized())
		case_skip("address space belongs to the sanitizer");
	begin();
	n = limit.max_mr_size;
	p = wide_area(n + 4096, 64 << 20);
	mr = ibv_reg_mr(dev.pd, p, n, access);
	want(mr && mr->length == n);
	want_eq(ibv_dereg_mr(mr), 0);
	want_null(ibv_reg_mr(dev.pd, p, n + 1, access), EINVAL);
	munmap(p, n + 4096);
}

static void message_size(int arg)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true };
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_port_attr port;
	struct ibv_sge sg[2];
	struct ibv_send_wr wr;
	struct ibv_mr *from, *to;
	static struct duo d;
	uint8_t *p;
	size_t n;

	(void)arg;
	if (cases_sanitized())
		case_skip("2 GiB take too long");
	said_begin();
	begin();
	want_eq(ibv_query_port(dev.ctx, 1, &port), 0);
	n = port.max_msg_sz;
	duo_open(&d, &o);
	p = wide_area(n + 4096, 4 << 20);
	from = ibv_reg_mr(d.near.dev.pd, p, n + 4096, all);
	to = ibv_reg_mr(d.far.dev.pd, p, n + 4096, all);
	want(from && to);
	wr = duo_wr(&d, IBV_WR_RDMA_WRITE, &sg[0], 0);
	sg[0] = (struct ibv_sge){ (uintptr_t)p, (uint32_t)n, from->lkey };
	sg[1] = (struct ibv_sge){ (uintptr_t)p, 1, from->lkey };
	wr.sg_list = sg;
	wr.num_sge = 2;
	wr.wr.rdma.remote_addr = (uintptr_t)p;
	wr.wr.rdma.rkey = to->rkey;
	want_eq(duo_post(&d, &wr), 0);
	want_eq(duo_wc(&d).status, IBV_WC_LOC_LEN_ERR);
	said_want(SAID_NEAR,
		  "ibv_post_send: the SGEs of the RDMA WRITE on QP 0x%x add up to more than 2^31 "
		  "B, a "
		  "message's most; split it",
		  d.near.ep.qp->qp_num);
	duo_reconnect(&d);
	wr.num_sge = 1;
	want_eq(duo_post(&d, &wr), 0);
	want_eq(duo_wc(&d).status, IBV_WC_SUCCESS);
	want_eq(ibv_dereg_mr(from), 0);
	want_eq(ibv_dereg_mr(to), 0);
	duo_close(&d);
	munmap(p, n + 4096);
}

static void inline_bytes(int arg)
{
	static const uint32_t largest = 828; /* ibv_create_qp(3): no attribute tells it */

	(void)arg;
	begin();
	fits((struct ibv_qp_cap){ 4, 4, 1, 1, largest });
	want_null(qp_with((struct ibv_qp_cap){ 4, 4, 1, 1, largest + 1 }), EINVAL);
}

/* --- tables --- */

static void port_tables(int arg)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	(void)arg;
	begin();
	want_eq(limit.phys_port_cnt, 1);
	want_eq(ibv_query_port(dev.ctx, limit.phys_port_cnt, &port), 0);
	want_eq(limit.max_pkeys, port.pkey_tbl_len);
	want_eq(ibv_query_gid(dev.ctx, 1, port.gid_tbl_len - 1, &gid), 0);
	want(ibv_query_gid(dev.ctx, 1, port.gid_tbl_len, &gid) != 0);
	want_eq(ibv_query_pkey(dev.ctx, 1, port.pkey_tbl_len - 1, &pkey), 0);
	want(ibv_query_pkey(dev.ctx, 1, port.pkey_tbl_len, &pkey) != 0);
	want_errno(ibv_query_port(dev.ctx, (uint8_t)(limit.phys_port_cnt + 1), &port), EINVAL);
}

/* --- multicast --- */

static union ibv_gid group(int i)
{
	union ibv_gid g = { .raw = { 0xff, 0x0e, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i } };

	return g;
}

static void multicast(int arg)
{
	struct ibv_qp **qp;
	union ibv_gid g;
	int n;

	(void)arg;
	begin();
	n = limit.max_mcast_qp_attach;
	want_eq(limit.max_total_mcast_qp_attach, n * limit.max_mcast_grp);
	qp = calloc((size_t)n + 1, sizeof(struct ibv_qp *));
	want(qp);
	for (int i = 0; i <= n; i++) {
		qp[i] = make_qp_of(IBV_QPT_UD);
		want(qp[i]);
	}
	for (int k = 0; k < limit.max_mcast_grp; k++) {
		g = group(k);
		for (int i = 0; i < n; i++)
			want_eq(ibv_attach_mcast(qp[i], &g, 0), 0);
		want_errno(ibv_attach_mcast(qp[n], &g, 0), ENOMEM);
		want_eq(ibv_attach_mcast(qp[0], &g, 0), 0); /* it is in already */
	}
	g = group(limit.max_mcast_grp);
	want_errno(ibv_attach_mcast(qp[n], &g, 0), ENOMEM);
	want_errno(ibv_destroy_qp(qp[0]), EBUSY);
	for (int k = 0; k < limit.max_mcast_grp; k++) {
		g = group(k);
		for (int i = 0; i < n; i++)
			want_eq(ibv_detach_mcast(qp[i], &g, 0), 0);
	}
	for (int i = 0; i <= n; i++)
		want_eq(ibv_destroy_qp(qp[i]), 0);
	free(qp);
}

/* --- XRC --- */

static struct ibv_xrcd *domain_open(void)
{
	struct ibv_xrcd_init_attr a = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					O_CREAT };
	struct ibv_xrcd *x = ibv_open_xrcd(dev.ctx, &a);

	want(x);
	return x;
}

static struct ibv_qp *target(struct ibv_xrcd *x)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = x };

	return ibv_create_qp_ex(dev.ctx, &a);
}

/* No attribute tells how many; another domain has as many again. */
static void targets_of_a_domain(int arg)
{
	enum { TARGETS = 4096 };
	static struct ibv_qp *qp[TARGETS];
	struct ibv_xrcd *x, *y;
	struct ibv_qp *other;

	(void)arg;
	said_begin();
	begin();
	x = domain_open();
	y = domain_open();
	for (int i = 0; i < TARGETS; i++)
		if (!(qp[i] = target(x)))
			fail("target %d of %d: %s", i + 1, TARGETS, strerror(errno));
	want_null(target(x), ENOMEM);
	said_want(SAID_NEAR,
		  "ibv_create_qp_ex: all %d target QPs of this XRC domain exist; "
		  "destroy some or use another domain",
		  TARGETS);
	other = target(y);
	want(other);
	want_eq(ibv_destroy_qp(other), 0);
	want_eq(ibv_destroy_qp(qp[TARGETS / 2]), 0);
	qp[TARGETS / 2] = target(x);
	want(qp[TARGETS / 2]);
	want_null(target(x), ENOMEM);
	for (int i = 0; i < TARGETS; i++)
		want_eq(ibv_destroy_qp(qp[i]), 0);
	want_eq(ibv_close_xrcd(x), 0);
	want_eq(ibv_close_xrcd(y), 0);
}

/* What is advertised as 0 or absent is refused. */
static void what_is_not_there(int arg)
{
	struct ibv_device_attr_ex ex;

	(void)arg;
	begin();
	want_eq(ibv_query_device_ex(dev.ctx, NULL, &ex), 0);
	want(!memcmp(&ex.orig_attr, &limit, sizeof(limit)));
	want_eq(ex.phys_port_cnt_ex, limit.phys_port_cnt);
	want_eq(limit.max_ee + limit.max_rdd + limit.max_ee_rd_atom + limit.max_ee_init_rd_atom, 0);
	want_eq(limit.max_raw_ipv6_qp + limit.max_raw_ethy_qp, 0);
	want_eq(limit.max_fmr + limit.max_map_per_fmr, 0);
}

static const struct test_case cases[] = {
	{ "as many PDs", objects_of_a_kind, 0 },
	{ "as many CQs", objects_of_a_kind, 1 },
	{ "as many MRs", objects_of_a_kind, 2 },
	{ "as many AHs", objects_of_a_kind, 3 },
	{ "as many SRQs", objects_of_a_kind, 4 },
	{ "as many QPs", objects_of_a_kind, 5 },
	{ "as many MWs", objects_of_a_kind, 6 },
	{ "as many WQs", objects_of_a_kind, 7 },
	{ "as many indirection tables", objects_of_a_kind, 8 },
	CASE(targets_of_a_domain),
	CASE(completion_queue_entries),
	CASE(completion_vectors),
	CASE(queue_capacities),
	CASE(inline_bytes_of_the_deepest_queue),
	CASE_ARG(inline_bytes_without_sges, IBV_QPT_RC),
	CASE_ARG(inline_bytes_without_sges, IBV_QPT_UC),
	CASE_ARG(inline_bytes_without_sges, IBV_QPT_UD),
	CASE(whole_queues),
	CASE_ARG(scatter_gather_entries, IBV_WR_SEND),
	CASE_ARG(scatter_gather_entries, IBV_WR_RDMA_WRITE),
	CASE_ARG(scatter_gather_entries, IBV_WR_RDMA_READ),
	CASE(shared_receive_queue),
	CASE(outstanding_reads),
	CASE(memory_region_size),
	CASE(message_size),
	CASE(inline_bytes),
	CASE(port_tables),
	CASE(multicast),
	CASE(what_is_not_there),
};

int main(void)
{
	return CASES_RUN(cases);
}
