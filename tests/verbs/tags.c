// SPDX-License-Identifier: MIT
/* Tag matching (ibv_post_srq_ops(3), <infiniband/tm_types.h>): this process receives on a
 * tag-matching SRQ what a sender in this process, or in another one, sends it. */
#include <endian.h>
#include <errno.h>
#include <infiniband/tm_types.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/peer.h"

enum { TOGETHER, APART };
enum { DATA = 4096, BYTES = 1 << 20, TAGS = 16, OPS = 8, WRS = 32 };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

struct end {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint8_t *mem;
};

/* What the sender is to do; it answers with the completion of its send, and for a rendezvous with
 * that of the FIN. */
struct order {
	uint8_t op; /* enum ibv_tmh_op; 0xff: end */
	uint8_t wait_fin;
	uint32_t len, app_ctx;
	uint64_t tag;
	uint32_t wrong_rkey;
};

struct answer {
	struct ibv_wc wc, fin;
	struct ibv_tmh header; /* that the FIN has brought */
};

static const struct peer_opts opts = { .type = IBV_QPT_RC, .cap = { 8, 8, 2, 1, 0 }, .retry = 1 };

static void end_open(struct end *e)
{
	peer_open(&e->dev);
	e->mem = aligned_alloc(4096, BYTES);
	want(e->mem);
	memset(e->mem, 0, BYTES);
	e->mr = ibv_reg_mr(e->dev.pd, e->mem, BYTES, ALL);
	want(e->mr);
}

/* --- the sender --- */

static struct answer obey(struct end *e, const struct order *o)
{
	struct ibv_tmh *tmh = (struct ibv_tmh *)e->mem;
	struct ibv_rvh *rvh = (struct ibv_rvh *)(tmh + 1);
	struct ibv_sge sg[2] = { { (uintptr_t)tmh, sizeof(*tmh), e->mr->lkey },
				 { (uintptr_t)e->mem + DATA, o->len, e->mr->lkey } };
	struct ibv_sge fin = { (uintptr_t)e->mem + 64, 64, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 5,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = sg,
				  .num_sge = 2 },
			   *bad;
	struct answer a = { .wc.status = IBV_WC_GENERAL_ERR };

	*tmh = (struct ibv_tmh){ .opcode = o->op,
				 .app_ctx = htobe32(o->app_ctx),
				 .tag = htobe64(o->tag) };
	*rvh = (struct ibv_rvh){ .va = htobe64((uintptr_t)e->mem + DATA),
				 .rkey = htobe32(e->mr->rkey ^ o->wrong_rkey),
				 .len = htobe32(o->len) };
	pattern_fill(e->mem + DATA, o->len, o->tag, 0);
	if (o->op == IBV_TMH_RNDV) {
		sg[0].length = sizeof(*tmh) + sizeof(*rvh);
		wr.num_sge = 1;
		peer_recv(&e->ep, 6, &fin, 1);
	}
	want_eq(ibv_post_send(e->ep.qp, &wr, &bad), 0);
	want(peer_poll(e->ep.scq, &a.wc, 10000));
	if (o->wait_fin)
		want(peer_poll(e->ep.scq, &a.fin, 10000));
	memcpy(&a.header, e->mem + 64, sizeof(a.header));
	return a;
}

static int sender(int fd, void *arg)
{
	static struct end e;
	struct order o;
	struct answer a;

	(void)arg;
	end_open(&e);
	peer_ep_create(&e.dev, &opts, &e.ep);
	peer_ep_swap(fd, &e.ep);
	peer_connect(&e.ep, &opts);
	peer_sync(fd);
	while (read(fd, &o, sizeof(o)) == sizeof(o) && o.op != 0xff) {
		a = obey(&e, &o);
		want_eq(write(fd, &a, sizeof(a)), sizeof(a));
	}
	return 0;
}

/* --- the receiver --- */

static struct end me, there;
static struct ibv_cq_ex *cqx;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static int fd, together;
static pid_t pid;
static uint32_t unexpected;

static void make_srq(uint32_t max_wr)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 256,
					 .wc_flags =
						 IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO };
	struct ibv_srq_init_attr_ex s = { .attr = { .max_wr = max_wr, .max_sge = 1 },
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
						       IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
						       IBV_SRQ_INIT_ATTR_TM,
					  .srq_type = IBV_SRQT_TM,
					  .tm_cap = { TAGS, OPS } };

	a.wc_flags &= ~(uint64_t)IBV_WC_EX_WITH_CVLAN;
	cqx = ibv_create_cq_ex(me.dev.ctx, &a);
	want(cqx);
	cq = ibv_cq_ex_to_cq(cqx);
	s.pd = me.dev.pd;
	s.cq = cq;
	srq = ibv_create_srq_ex(me.dev.ctx, &s);
	want(srq);
}

static void begin(int where)
{
	struct ibv_qp_init_attr q = { .qp_type = IBV_QPT_RC };

	together = where == TOGETHER;
	if (!together)
		pid = peer_fork(sender, NULL, &fd);
	end_open(&me);
	make_srq(WRS);
	q.send_cq = q.recv_cq = cq;
	q.srq = srq;
	me.ep.qp = ibv_create_qp(me.dev.pd, &q); /* no send queue at all */
	want(me.ep.qp);
	me.ep.scq = me.ep.rcq = cq;
	me.ep.mine = (struct peer_addr){ me.ep.qp->qp_num, 77, me.dev.gid, 0, 0 };
	if (together) {
		end_open(&there);
		peer_ep_create(&there.dev, &opts, &there.ep);
		there.ep.theirs = me.ep.mine;
		me.ep.theirs = there.ep.mine;
		peer_connect(&there.ep, &opts);
		peer_connect(&me.ep, &opts);
		return;
	}
	peer_ep_swap(fd, &me.ep);
	peer_connect(&me.ep, &opts);
	peer_sync(fd);
}

static void finish(void)
{
	struct order o = { .op = 0xff };

	want_errno(ibv_destroy_srq(srq), EBUSY);
	want_errno(ibv_destroy_cq(cq), EBUSY);
	want_eq(ibv_destroy_qp(me.ep.qp), 0);
	want_errno(ibv_destroy_cq(cq), EBUSY); /* the SRQ's too */
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	if (together)
		return;
	want_eq(write(fd, &o, sizeof(o)), sizeof(o));
	want_eq(peer_wait(pid), 0);
}

/* The sender may have to wait for this side's polling: its answer is fetched later. */
static void tell(const struct order *o)
{
	if (!together)
		want_eq(write(fd, o, sizeof(*o)), sizeof(*o));
}

static struct answer answer(const struct order *o)
{
	struct answer a;

	if (together)
		return obey(&there, o);
	want_eq(read(fd, &a, sizeof(a)), sizeof(a));
	return a;
}

static struct answer sends(struct order o)
{
	tell(&o);
	return answer(&o);
}

static int ops(enum ibv_ops_wr_opcode op, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad = NULL;
	int err;

	wr->opcode = op;
	err = ibv_post_srq_ops(srq, wr, &bad);
	want(!err || bad == wr);
	return err;
}

static uint8_t *place(uint64_t id)
{
	return me.mem + DATA + id * 65536 % (BYTES - DATA - 65536);
}

static int add(uint64_t id, uint64_t tag, uint64_t mask, uint32_t len, uint32_t *handle)
{
	struct ibv_sge sg = { (uintptr_t)place(id), len, me.mr->lkey };
	struct ibv_ops_wr wr = { .wr_id = 1000 + id,
				 .tm = { .unexpected_cnt = unexpected,
					 .add = { id, &sg, 1, tag, mask } } };
	int err = ops(IBV_WR_TAG_ADD, &wr);

	if (handle)
		*handle = wr.tm.handle;
	return err;
}

static int del(uint32_t handle, int flags)
{
	struct ibv_ops_wr wr = { .wr_id = 2000, .flags = flags, .tm.handle = handle };

	return ops(IBV_WR_TAG_DEL, &wr);
}

static void receives(int n)
{
	for (int i = 0; i < n; i++) {
		struct ibv_sge sg = { (uintptr_t)place(8), 60000, me.mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = 50, .sg_list = &sg, .num_sge = 1 }, *bad;

		want_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
}

struct seen {
	struct ibv_wc_tm_info tm;
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode op;
	unsigned int flags, len;
};

/* The next completion; tells the peer to go on meanwhile. */
static struct seen next(void)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct seen s = { .wr_id = 0 };
	int err = ENOENT;

	for (int i = 0; i < 100000000 && err == ENOENT; i++)
		err = ibv_start_poll(cqx, &attr);
	want_eq(err, 0);
	s.wr_id = cqx->wr_id;
	s.status = cqx->status;
	if (!s.status || s.status >= IBV_WC_TM_ERR) {
		s.op = ibv_wc_read_opcode(cqx);
		s.flags = ibv_wc_read_wc_flags(cqx);
		s.len = ibv_wc_read_byte_len(cqx);
		ibv_wc_read_tm_info(cqx, &s.tm);
	}
	ibv_end_poll(cqx);
	return s;
}

static void nothing_more(void)
{
	struct ibv_poll_cq_attr attr = { 0 };

	want_eq(ibv_start_poll(cqx, &attr), ENOENT);
}

static void is(const struct seen *s, uint64_t wr_id, enum ibv_wc_opcode op, unsigned int flags)
{
	want_eq(s->status, IBV_WC_SUCCESS);
	want_eq(s->wr_id, wr_id);
	want_eq(s->op, op);
	want_eq(s->flags, flags);
}

static void sync_counts(uint32_t known)
{
	struct ibv_ops_wr wr = { .wr_id = 27,
				 .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC,
				 .tm.unexpected_cnt = known };
	struct seen s;

	unexpected = known;
	want_eq(ops(IBV_WR_TAG_SYNC, &wr), 0);
	s = next();
	is(&s, 27, IBV_WC_TM_SYNC, 0);
}

/* --- eager --- */

static void eager(uint64_t tag, uint32_t len, uint64_t id)
{
	struct answer a =
		sends((struct order){ IBV_TMH_EAGER, .tag = tag, .len = len, .app_ctx = 99 });
	struct seen s = next();

	want_eq(a.wc.status, IBV_WC_SUCCESS);
	is(&s, id, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
	want_eq(s.tm.tag, tag);
	want_eq(s.tm.priv, 99);
	want_eq(s.len, len);
	want_eq(pattern_check(place(id), len, tag, 0), len);
}

/* In any order, of any size; no ordinary receive is used. */
static void each_tag_finds_its_buffer(int where)
{
	static const uint32_t sizes[] = { 0, 1, 15, 16, 17, 100, 4080, 4096, 4097, 10000, 60000 };
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };

	begin(where);
	for (unsigned int i = 0; i < N; i++)
		want_eq(add(i, 100 + i, UINT64_MAX, 60000, NULL), 0);
	for (unsigned int i = N; i--;)
		eager(100 + i, sizes[i], i);
	nothing_more();
	finish();
}

/* The first one added that matches: TMH.tag & mask == tag. */
static void masks_match_in_order(int where)
{
	begin(where);
	want_eq(add(1, 0x100, 0xff00, 64, NULL), 0);
	want_eq(add(2, 0x100, 0xff00, 64, NULL), 0);
	want_eq(add(3, 0x155, UINT64_MAX, 64, NULL), 0);
	want_eq(add(4, 0, 0, 64, NULL), 0); /* any tag */
	eager(0x155, 10, 1);
	eager(0xaa0000000000012a, 10, 2);
	eager(0x155, 10, 3);
	eager(0x155, 10, 4);
	nothing_more();
	finish();
}

static void list_operations_complete_when_asked(int where)
{
	struct ibv_sge sg = { (uintptr_t)place(1), 64, me.mr ? me.mr->lkey : 0 };
	struct ibv_ops_wr wr[2] = { { .wr_id = 7,
				      .opcode = IBV_WR_TAG_ADD,
				      .flags = IBV_OPS_SIGNALED,
				      .tm.add = { 1, &sg, 1, 1, UINT64_MAX } },
				    { .wr_id = 8,
				      .opcode = IBV_WR_TAG_ADD,
				      .flags = IBV_OPS_SIGNALED,
				      .tm.add = { 2, NULL, 0, 2, UINT64_MAX } } };
	struct ibv_ops_wr *bad;
	struct seen s;

	begin(where);
	sg.addr = (uintptr_t)place(1);
	sg.lkey = me.mr->lkey;
	wr[0].next = &wr[1];
	want_eq(ibv_post_srq_ops(srq, wr, &bad), 0);
	s = next();
	is(&s, 7, IBV_WC_TM_ADD, 0);
	s = next();
	is(&s, 8, IBV_WC_TM_ADD, 0);
	want(wr[0].tm.handle != wr[1].tm.handle);
	want_eq(del(wr[0].tm.handle, IBV_OPS_SIGNALED), 0);
	s = next();
	is(&s, 2000, IBV_WC_TM_DEL, 0);
	eager(2, 0, 2); /* a buffer may be empty */
	finish();
}

/* What was deleted matches nothing; what was taken cannot be deleted. */
static void deleted_or_taken(int where)
{
	uint32_t first, second;
	struct seen s;

	begin(where);
	receives(1);
	want_eq(add(1, 1, UINT64_MAX, 64, &first), 0);
	want_eq(add(2, 2, UINT64_MAX, 64, &second), 0);
	want_eq(del(first, 0), 0);
	sends((struct order){ IBV_TMH_EAGER, .tag = 1, .len = 8 });
	s = next();
	is(&s, 50, IBV_WC_TM_RECV, 0);
	sync_counts(1);
	sends((struct order){ IBV_TMH_EAGER, .tag = 2, .len = 8 });
	want_eq(del(second, IBV_OPS_SIGNALED), 0);
	s = next();
	is(&s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
	s = next();
	want_eq(s.status, IBV_WC_TM_ERR);
	want_eq(s.wr_id, 2000);
	want_eq(s.op, IBV_WC_TM_DEL);
	want_eq(del(first, 0), EINVAL);
	want_eq(del(second, 0), EINVAL);
	want_eq(del(TAGS, 0), EINVAL);
	finish();
}

/* --- unexpected --- */

/* As a whole, header and all; a message without a tag is not counted. */
static void unexpected_and_untagged(int where)
{
	struct answer a;
	struct seen s;

	begin(where);
	receives(3);
	want_eq(add(1, 1, UINT64_MAX, 64, NULL), 0);
	a = sends((struct order){ IBV_TMH_EAGER, .tag = 9, .len = 5000 });
	want_eq(a.wc.status, IBV_WC_SUCCESS);
	s = next();
	is(&s, 50, IBV_WC_TM_RECV, 0);
	want_eq(s.len, 5000 + sizeof(struct ibv_tmh));
	want_eq(place(8)[0], IBV_TMH_EAGER);
	want_eq(pattern_check(place(8) + 16, 5000, 9, 0), 5000);
	sends((struct order){ IBV_TMH_NO_TAG, .tag = 1, .len = 10 });
	s = next();
	is(&s, 50, IBV_WC_TM_NO_TAG, 0);
	want_eq(s.len, 26);
	eager(1, 10, 1); /* added before: still matches */
	sync_counts(1);
	sends((struct order){ IBV_TMH_RNDV, .tag = 5, .len = 10 });
	s = next();
	is(&s, 50, IBV_WC_TM_RECV, 0);
	want_eq(s.len, 32);
	finish();
}

/* A buffer added by who does not know of an unexpected message yet waits for the counts to meet. */
static void counts_that_differ_hold_new_tags(int where)
{
	struct ibv_ops_wr wr = { .wr_id = 3,
				 .flags = IBV_OPS_SIGNALED,
				 .tm.add = { 6, NULL, 0, 6, UINT64_MAX } };
	struct seen s;

	begin(where);
	receives(3);
	want_eq(add(1, 1, UINT64_MAX, 64, NULL), 0);
	sends((struct order){ IBV_TMH_EAGER, .tag = 2, .len = 8 });
	want_eq(add(2, 2, UINT64_MAX, 64, NULL), 0);
	want_eq(ops(IBV_WR_TAG_ADD, &wr), 0); /* it says that the counts differ */
	s = next();
	is(&s, 50, IBV_WC_TM_RECV, 0);
	s = next();
	is(&s, 3, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
	sends((struct order){ IBV_TMH_EAGER, .tag = 2, .len = 8 });
	s = next();
	is(&s, 50, IBV_WC_TM_RECV, 0);
	eager(1, 8, 1);
	sync_counts(2);
	eager(2, 8, 2);
	finish();
}

/* --- rendezvous --- */

static void rendezvous(int where)
{
	static const uint32_t sizes[] = { 1, 4096, 60000, 0 };

	begin(where);
	for (unsigned int i = 0; i < 3 * TAGS; i++) { /* slots and the inner queue come round */
		struct order o = { IBV_TMH_RNDV, 1, sizes[i % 4], 7000 + i, 300 + i, 0 };
		struct answer a;
		struct seen s;

		want_eq(add(1, o.tag, UINT64_MAX, 60000, NULL), 0);
		memset(place(1), 0, 60000);
		a = sends(o);
		want_eq(a.wc.status, IBV_WC_SUCCESS);
		want(a.wc.opcode == IBV_WC_SEND && a.fin.opcode == IBV_WC_RECV);
		want_eq(a.fin.status, IBV_WC_SUCCESS);
		want_eq(a.fin.byte_len, sizeof(struct ibv_tmh));
		want_eq(a.header.opcode, IBV_TMH_FIN);
		want_eq(be32toh(a.header.app_ctx), o.app_ctx);
		want_eq(be64toh(a.header.tag), o.tag);
		s = next();
		is(&s, 1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
		want_eq(s.tm.tag, o.tag);
		want_eq(s.tm.priv, o.app_ctx);
		s = next();
		is(&s, 1, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
		want_eq(s.len, o.len);
		want_eq(pattern_check(place(1), o.len, o.tag, 0), o.len);
	}
	nothing_more();
	finish();
}

/* Too small a buffer: the program gets the headers and does it itself. */
static void rendezvous_for_software(int where)
{
	struct order o = { IBV_TMH_RNDV, 0, 5000, 3, 4, 0 };
	struct ibv_rvh rvh;
	struct seen s;

	begin(where);
	want_eq(add(1, 4, UINT64_MAX, 4999, NULL), 0);
	want_eq(sends(o).wc.status, IBV_WC_SUCCESS);
	s = next();
	want_eq(s.status, IBV_WC_TM_RNDV_INCOMPLETE);
	want_eq(s.wr_id, 1);
	want_eq(s.flags, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
	want_eq(s.tm.tag, 4);
	memcpy(&rvh, place(1), sizeof(rvh));
	want_eq(be32toh(rvh.len), 5000);
	want_eq(add(1, 4, UINT64_MAX, 4999, NULL), 0);
	finish();
}

static unsigned int state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	want_eq(ibv_query_qp(me.ep.qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

/* The sender's key is wrong: the READ fails on both sides, as any would. */
static void rendezvous_refused(int where)
{
	struct order o = { IBV_TMH_RNDV, 1, 5000, 3, 4, 0x11 };
	struct answer a;
	struct seen s;

	begin(where);
	want_eq(add(1, 4, UINT64_MAX, 5000, NULL), 0);
	a = sends(o);
	want_eq(a.wc.status, IBV_WC_SUCCESS);
	want_eq(a.fin.status, IBV_WC_WR_FLUSH_ERR);
	s = next();
	is(&s, 1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
	s = next();
	want_eq(s.status, IBV_WC_REM_ACCESS_ERR);
	want_eq(s.wr_id, 1);
	want_eq(state(), IBV_QPS_ERR);
	want_eq(add(1, 4, UINT64_MAX, 5000, NULL), 0); /* the list lives on */
	finish();
}

/* --- mistakes --- */

static void eager_that_is_too_long(int where)
{
	struct answer a;
	struct seen s;

	begin(where);
	want_eq(add(1, 4, UINT64_MAX, 99, NULL), 0);
	a = sends((struct order){ IBV_TMH_EAGER, .tag = 4, .len = 100 });
	want_eq(a.wc.status, IBV_WC_REM_INV_REQ_ERR);
	s = next();
	want_eq(s.status, IBV_WC_LOC_LEN_ERR);
	want_eq(s.wr_id, 1);
	want_eq(state(), IBV_QPS_ERR);
	finish();
}

static void full_list_and_full_operations(int where)
{
	struct ibv_ops_wr wr = { .wr_id = 3, .flags = IBV_OPS_SIGNALED };
	uint32_t handle = 0;

	begin(where);
	for (uint64_t i = 0; i < TAGS; i++)
		want_eq(add(i, i, UINT64_MAX, 8, &handle), 0);
	want_eq(add(1, 77, UINT64_MAX, 8, NULL), ENOMEM);
	want_eq(del(handle, 0), 0);
	want_eq(add(1, 77, UINT64_MAX, 8, NULL), 0);
	eager(3, 8, 3);
	want_eq(add(1, 78, UINT64_MAX, 8, NULL), 0); /* polled: its slot is free */
	want_eq(add(1, 79, UINT64_MAX, 8, NULL), ENOMEM);
	for (int i = 0; i < OPS; i++)
		want_eq(ops(IBV_WR_TAG_SYNC, &wr), 0);
	want_eq(ops(IBV_WR_TAG_SYNC, &wr), ENOMEM);
	next();
	want_eq(ops(IBV_WR_TAG_SYNC, &wr), 0);
	finish();
}

/* The SRQ's own CQ is full: that is an error of the SRQ, besides the CQ's and the QP's. */
static void overrun_of_its_cq(int where)
{
	struct ibv_ops_wr wr = { .wr_id = 3, .flags = IBV_OPS_SIGNALED };
	bool srq_err = false, cq_err = false, qp_err = false;
	struct ibv_async_event ev;

	begin(where);
	want_eq(add(1, 1, UINT64_MAX, 64, NULL), 0);
	want_eq(ibv_resize_cq(cq, OPS - 1), 0);
	want_eq(cq->cqe, OPS - 1); /* a ring of OPS entries, which nobody polls */
	for (int i = 0; i < OPS; i++)
		want_eq(ops(IBV_WR_TAG_SYNC, &wr), 0);
	sends((struct order){ IBV_TMH_EAGER, .tag = 1, .len = 8 });
	while (!(srq_err && cq_err && qp_err)) {
		want_eq(ibv_get_async_event(me.dev.ctx, &ev), 0);
		ibv_ack_async_event(&ev);
		srq_err |= ev.event_type == IBV_EVENT_SRQ_ERR && ev.element.srq == srq;
		cq_err |= ev.event_type == IBV_EVENT_CQ_ERR && ev.element.cq == cq;
		qp_err |= ev.event_type == IBV_EVENT_QP_FATAL && ev.element.qp == me.ep.qp;
	}
}

static struct ibv_srq *try_srq(uint32_t tags, uint32_t n_ops, uint32_t mask)
{
	struct ibv_srq_init_attr_ex s = { .attr = { .max_wr = 4, .max_sge = 1 },
					  .comp_mask = mask,
					  .srq_type = IBV_SRQT_TM,
					  .pd = me.dev.pd,
					  .cq = cq,
					  .tm_cap = { tags, n_ops } };

	return ibv_create_srq_ex(me.dev.ctx, &s);
}

static void refused(int where)
{
	uint32_t all = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
		       IBV_SRQ_INIT_ATTR_TM;
	struct ibv_sge sg[2] = { { (uintptr_t)me.mem, 8, 0 }, { (uintptr_t)me.mem, 8, 0 } };
	struct ibv_ops_wr wr = { .tm.add = { 1, sg, 2, 1, 1 } }, *bad = NULL;
	struct ibv_srq_init_attr plain = { .attr = { 4, 1, 0 } };
	struct ibv_qp_init_attr q = { .qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_device_attr_ex dev;
	struct ibv_srq *s;

	begin(where);
	want_eq(ops(IBV_WR_TAG_ADD, &wr), EINVAL); /* two SGEs */
	wr.tm.add.num_sge = -1;
	want_eq(ops(IBV_WR_TAG_ADD, &wr), EINVAL);
	wr.flags = 4;
	want_eq(ops(IBV_WR_TAG_SYNC, &wr), EINVAL);
	wr.flags = 0;
	want_eq(ops((enum ibv_ops_wr_opcode)9, &wr), EINVAL);
	s = ibv_create_srq(me.dev.pd, &plain);
	want(s);
	wr.opcode = IBV_WR_TAG_SYNC;
	want_eq(ibv_post_srq_ops(s, &wr, &bad), EINVAL);
	want(bad == &wr);
	want_eq(ibv_destroy_srq(s), 0);
	q.srq = srq;
	q.send_cq = q.recv_cq = cq;
	want_null(ibv_create_qp(me.dev.pd, &q), EINVAL);
	want_eq(ibv_query_device_ex(me.dev.ctx, NULL, &dev), 0);
	want(dev.tm_caps.flags & IBV_TM_CAP_RC);
	want_eq(dev.tm_caps.max_sge, 1);
	s = try_srq(dev.tm_caps.max_num_tags, dev.tm_caps.max_ops, all);
	want(s);
	want_eq(ibv_destroy_srq(s), 0);
	want_null(try_srq(dev.tm_caps.max_num_tags + 1, 1, all), EINVAL);
	want_null(try_srq(1, dev.tm_caps.max_ops + 1, all), EINVAL);
	want_null(try_srq(0, 1, all), EINVAL);
	want_null(try_srq(1, 1, all & ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ), EINVAL);
	want_null(try_srq(1, 1, all & ~(uint32_t)IBV_SRQ_INIT_ATTR_TM), EINVAL);
	finish();
}

#define BOTH(f)                                                                                    \
	{ #f " in one process", f, TOGETHER },                                                     \
	{                                                                                          \
#f " between two", f, APART                                                        \
	}

static const struct test_case cases[] = {
	BOTH(each_tag_finds_its_buffer),
	BOTH(masks_match_in_order),
	BOTH(list_operations_complete_when_asked),
	BOTH(deleted_or_taken),
	BOTH(unexpected_and_untagged),
	BOTH(counts_that_differ_hold_new_tags),
	BOTH(rendezvous),
	BOTH(rendezvous_for_software),
	BOTH(rendezvous_refused),
	BOTH(eager_that_is_too_long),
	BOTH(full_list_and_full_operations),
	CASE(overrun_of_its_cq),
	BOTH(refused),
};

int main(void)
{
	return CASES_RUN(cases);
}
