// SPDX-License-Identifier: MIT
/* Memory windows of type 1 and 2B: what they allow, how they end, and each way to use them wrongly.
 * The windows are the far side's, the near side tries their keys. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { TOGETHER, APART };
enum { REM_ACCESS = 0x88, MW_BIND = 0x78 };
enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
	RIGHTS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	OFF = 4096,
	LEN = 8192,
};

static struct duo duo;

static void begin(int where)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .rd_atomic = 4 },
			      .access = ALL,
			      .bytes = 4 << 20,
			      .together = where == TOGETHER };

	duo_open(&duo, &o);
}

static struct ibv_wc done(struct side *s)
{
	struct ibv_wc wc;

	want(peer_poll(s->ep.scq, &wc, 20000));
	return wc;
}

static struct ibv_mw *alloc(struct side *s, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->dev.pd, type);

	if (!mw)
		die("ibv_alloc_mw");
	want_eq(mw->type, type);
	want(mw->pd == s->dev.pd && mw->context == s->dev.ctx);
	return mw;
}

static struct ibv_mw_bind_info info(struct side *s, uint32_t off, uint32_t len, unsigned int access)
{
	return (struct ibv_mw_bind_info){ .mr = s->mr,
					  .addr = (uintptr_t)s->mem + off,
					  .length = len,
					  .mw_access_flags = access };
}

/* Returns the completion's status; wr_id 77. */
static enum ibv_wc_status bind1(struct side *s, struct ibv_mw *mw, struct ibv_mw_bind_info i)
{
	struct ibv_mw_bind b = { 77, IBV_SEND_SIGNALED, i };
	uint32_t before = mw->rkey;
	struct ibv_wc wc;

	want_eq(ibv_bind_mw(s->ep.qp, mw, &b), 0);
	want_eq(mw->rkey, ibv_inc_rkey(before));
	wc = done(s);
	want_eq(wc.wr_id, 77);
	if (wc.status == IBV_WC_SUCCESS)
		want_eq(wc.opcode, IBV_WC_BIND_MW);
	return wc.status;
}

static struct ibv_send_wr bind_wr(struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info i)
{
	return (struct ibv_send_wr){ .wr_id = 78,
				     .opcode = IBV_WR_BIND_MW,
				     .send_flags = IBV_SEND_SIGNALED,
				     .bind_mw = { mw, rkey, i } };
}

static struct ibv_wc post(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	want_eq(ibv_post_send(s->ep.qp, wr, &bad), 0);
	return done(s);
}

static enum ibv_wc_status bind2(struct side *s, struct ibv_mw *mw, uint32_t rkey,
				struct ibv_mw_bind_info i)
{
	struct ibv_send_wr wr = bind_wr(mw, rkey, i);
	struct ibv_wc wc = post(s, &wr);

	want_eq(wc.wr_id, 78);
	if (wc.status == IBV_WC_SUCCESS)
		want_eq(wc.opcode, IBV_WC_BIND_MW);
	else
		want_eq(wc.vendor_err, MW_BIND);
	return wc.status;
}

static enum ibv_wc_status invalidate(struct side *s, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV,
				  .invalidate_rkey = rkey,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc = post(s, &wr);

	if (wc.status == IBV_WC_SUCCESS)
		want_eq(wc.opcode, IBV_WC_LOCAL_INV);
	else
		want_eq(wc.vendor_err, MW_BIND);
	return wc.status;
}

/* --- orders to the far side: o->id says the type, o->key the access --- */

static struct duo_answer far_bind(struct side *s, const struct duo_order *o)
{
	enum ibv_mw_type type = o->id == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
	struct ibv_mw *mw = s->own[0] ? s->own[0] : alloc(s, type);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_mw_bind_info i = info(s, o->off, o->len, o->key);

	s->own[0] = mw;
	if (type == IBV_MW_TYPE_1)
		want_eq(bind1(s, mw, i), IBV_WC_SUCCESS);
	else
		want_eq(bind2(s, mw, rkey, i), IBV_WC_SUCCESS);
	return (struct duo_answer){ .value = rkey };
}

static struct duo_answer far_unbind(struct side *s, const struct duo_order *o)
{
	if (o->id == 1)
		want_eq(bind1(s, s->own[0], (struct ibv_mw_bind_info){ 0 }), IBV_WC_SUCCESS);
	else
		want_eq(invalidate(s, o->key), IBV_WC_SUCCESS);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_dealloc(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_eq(ibv_dereg_mr(s->mr), s->own[1] ? EBUSY : 0); /* own[1]: it is bound */
	if (!s->own[1])
		s->mr = NULL;
	want_eq(ibv_dealloc_mw(s->own[0]), 0);
	s->own[0] = NULL;
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_dealloc_bound(struct side *s, const struct duo_order *o)
{
	s->own[1] = s;
	return far_dealloc(s, o);
}

static uint32_t far_window(int type, unsigned int access)
{
	struct duo_order o = {
		.op = DUO_DO, .off = OFF, .len = LEN, .key = access, .id = type, .fn = far_bind
	};

	return (uint32_t)duo_tell(&duo, o).value;
}

static void far_do(duo_fn fn, int type, uint32_t rkey)
{
	duo_tell(&duo, (struct duo_order){ .op = DUO_DO, .id = type, .key = rkey, .fn = fn });
}

static enum ibv_wc_status access_by(enum ibv_wr_opcode op, uint32_t rkey, uint64_t va, uint32_t len)
{
	bool atomic = op == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, op, &sg, len);
	struct ibv_wc wc;

	if (atomic) {
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.remote_addr = va;
		wr.wr.atomic.compare_add = 0;
	} else {
		wr.wr.rdma.rkey = rkey;
		wr.wr.rdma.remote_addr = va;
	}
	wc = post(&duo.near, &wr);
	if (wc.status == IBV_WC_REM_ACCESS_ERR) {
		want_eq(wc.vendor_err, REM_ACCESS);
		duo_reconnect(&duo);
	}
	return wc.status;
}

static uint64_t far_va(uint32_t off)
{
	return duo.near.ep.theirs.va + off;
}

static void all_is_open(uint32_t rkey, uint64_t va)
{
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, va, LEN), IBV_WC_SUCCESS);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, va + LEN - 1, 1), IBV_WC_SUCCESS);
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, va, LEN), IBV_WC_SUCCESS);
	want_eq(access_by(IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, va + 8, 8), IBV_WC_SUCCESS);
}

static void all_is_closed(uint32_t rkey, uint64_t va)
{
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, va, 8), IBV_WC_REM_ACCESS_ERR);
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, va, 8), IBV_WC_REM_ACCESS_ERR);
	want_eq(access_by(IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, va, 8), IBV_WC_REM_ACCESS_ERR);
}

/* A window lets in what it covers and nothing else, of either type. */
static void window_covers(int where, int type)
{
	uint32_t rkey;

	begin(where);
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 5 });
	pattern_fill(duo.near.mem, duo.near.bytes, 9, OFF);
	rkey = far_window(type, RIGHTS);
	all_is_open(rkey, far_va(OFF));
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = OFF, .id = 5 }).found);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .off = OFF + LEN, .len = OFF, .id = 5 })
		     .found);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, far_va(OFF - 1), 8), IBV_WC_REM_ACCESS_ERR);
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, far_va(OFF + LEN - 7), 8), IBV_WC_REM_ACCESS_ERR);
	all_is_closed(rkey + 1, far_va(OFF));
	far_do(far_unbind, type, rkey);
	all_is_closed(rkey, far_va(OFF));
	far_do(far_dealloc, type, 0);
	duo_close(&duo);
}

static void type_1_covers(int where)
{
	window_covers(where, 1);
}

static void type_2_covers(int where)
{
	window_covers(where, 2);
}

static void rights_are_the_windows(int where)
{
	uint32_t rkey;

	begin(where);
	rkey = far_window(1, IBV_ACCESS_REMOTE_READ);
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, far_va(OFF), 8), IBV_WC_SUCCESS);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, far_va(OFF), 8), IBV_WC_REM_ACCESS_ERR);
	rkey = far_window(1, IBV_ACCESS_REMOTE_WRITE);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, far_va(OFF), 8), IBV_WC_SUCCESS);
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, far_va(OFF), 8), IBV_WC_REM_ACCESS_ERR);
	want_eq(access_by(IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, far_va(OFF), 8),
		IBV_WC_REM_ACCESS_ERR);
	far_do(far_dealloc_bound, 1, 0);
	duo_close(&duo);
}

/* Binding anew ends the old key. */
static void type_1_changes_its_key(int where)
{
	uint32_t old, rkey;

	begin(where);
	old = far_window(1, RIGHTS);
	rkey = far_window(1, RIGHTS);
	want_eq(rkey, ibv_inc_rkey(old));
	all_is_open(rkey, far_va(OFF));
	all_is_closed(old, far_va(OFF));
	far_do(far_dealloc_bound, 1, 0);
	all_is_closed(rkey, far_va(OFF));
	duo_close(&duo);
}

static void zero_based(int where)
{
	uint32_t rkey;

	begin(where);
	rkey = far_window(2, RIGHTS | IBV_ACCESS_ZERO_BASED);
	all_is_open(rkey, 0);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, far_va(OFF), 8), IBV_WC_REM_ACCESS_ERR);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, LEN, 8), IBV_WC_REM_ACCESS_ERR);
	far_do(far_dealloc_bound, 2, 0);
	duo_close(&duo);
}

/* Larger than any segment: READs by a window come by value. */
static void large_transfers(int where)
{
	const uint32_t big = 3 << 20;
	uint32_t rkey;
	struct duo_order o = {
		.op = DUO_DO, .off = OFF, .len = big, .key = RIGHTS, .id = 2, .fn = far_bind
	};

	begin(where);
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 5 });
	rkey = (uint32_t)duo_tell(&duo, o).value;
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, far_va(OFF), big), IBV_WC_SUCCESS);
	want_eq(pattern_check(duo.near.mem, big, 5, OFF), big);
	pattern_fill(duo.near.mem, big, 6, OFF);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, far_va(OFF), big), IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .off = OFF, .len = big, .id = 6 })
		     .found);
	far_do(far_dealloc_bound, 2, 0);
	duo_close(&duo);
}

static enum ibv_wc_status send_inv(uint32_t rkey)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, IBV_WR_SEND_WITH_INV, &sg, 8);

	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64, .id = 3 });
	wr.invalidate_rkey = rkey;
	return post(&duo.near, &wr).status;
}

static void peer_invalidates(int where)
{
	uint32_t rkey;
	struct ibv_wc wc;

	begin(where);
	rkey = far_window(2, RIGHTS);
	all_is_open(rkey, far_va(OFF));
	want_eq(send_inv(rkey), IBV_WC_SUCCESS);
	wc = duo_far_wc(&duo);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want(wc.wc_flags & IBV_WC_WITH_INV);
	want_eq(wc.invalidated_rkey, rkey);
	all_is_closed(rkey, far_va(OFF));
	/* a window that is not bound cannot be invalidated, a region never: class J, no NAK */
	want_eq(send_inv(rkey), IBV_WC_RETRY_EXC_ERR);
	want_eq(duo_far_wc(&duo).status, IBV_WC_REM_INV_REQ_ERR);
	duo_reconnect(&duo);
	want_eq(send_inv(duo.near.ep.theirs.rkey), IBV_WC_RETRY_EXC_ERR);
	duo_reconnect(&duo);
	far_do(far_dealloc, 2, 0);
	duo_close(&duo);
}

static void peer_cannot_invalidate_type_1(int where)
{
	uint32_t rkey;

	begin(where);
	rkey = far_window(1, RIGHTS);
	want_eq(send_inv(rkey), IBV_WC_RETRY_EXC_ERR);
	duo_reconnect(&duo);
	all_is_open(rkey, far_va(OFF));
	far_do(far_dealloc_bound, 1, 0);
	duo_close(&duo);
}

/* Type 2B belongs to the QP that bound it; type 1 to the PD. */
static void another_qp(int type)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct peer_dev dev;
	struct peer_ep a, b, c, d;
	static uint8_t mem[8192] __attribute__((aligned(4096)));
	struct side s = { .mem = mem };
	struct ibv_sge sg = { (uintptr_t)mem + 4096, 8, 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mw *mw;

	peer_open(&dev);
	s.dev = dev;
	s.mr = ibv_reg_mr(dev.pd, mem, sizeof(mem), ALL);
	want(s.mr != NULL);
	peer_pair(&dev, &o, &a, &b);
	peer_pair(&dev, &o, &c, &d);
	s.ep = b;
	mw = alloc(&s, type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	wr.wr.rdma.rkey = ibv_inc_rkey(mw->rkey);
	wr.wr.rdma.remote_addr = (uintptr_t)mem;
	if (type == 1)
		want_eq(bind1(&s, mw, info(&s, 0, 4096, RIGHTS)), IBV_WC_SUCCESS);
	else
		want_eq(bind2(&s, mw, wr.wr.rdma.rkey, info(&s, 0, 4096, RIGHTS)), IBV_WC_SUCCESS);
	sg.lkey = s.mr->lkey;
	s.ep = a;
	want_eq(post(&s, &wr).status, IBV_WC_SUCCESS);
	s.ep = c;
	want_eq(post(&s, &wr).status, type == 1 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	if (type == 2)
		said_want(
			SAID_NEAR,
			"RDMA WRITE of 8 B to 0x%lx by QP 0x%x refused by QP 0x%x: rkey 0x%x is a "
			"type 2 window bound to QP 0x%x, not 0x%x; give the peer an rkey of this "
			"QP's PD that covers and allows it",
			(unsigned long)mem, c.mine.qpn, d.mine.qpn, wr.wr.rdma.rkey, b.mine.qpn,
			d.mine.qpn);
	want_eq(ibv_dealloc_mw(mw), 0);
}

static void type_2_is_of_one_qp(int arg)
{
	(void)arg;
	said_begin();
	another_qp(2);
}

static void type_1_is_of_the_pd(int arg)
{
	(void)arg;
	said_begin();
	another_qp(1);
}

/* --- binding wrongly --- */

enum wrong {
	NO_MW_BIND,
	NO_LOCAL_WRITE,
	RANGE,
	RANGE_BEFORE,
	TOO_LONG,
	OTHER_PD,
	TWICE,
	EMPTY,
	DEAD_REGION
};

static const char *const sentences[] = {
	[NO_MW_BIND] = "the region was registered without IBV_ACCESS_MW_BIND; add that flag",
	[NO_LOCAL_WRITE] = "rights to write need a region with IBV_ACCESS_LOCAL_WRITE",
	[RANGE] = "the window's range reaches out of the region; bind a part of the region",
	[RANGE_BEFORE] = "the window's range reaches out of the region; bind a part of the region",
	[TOO_LONG] = "the window's range reaches out of the region; bind a part of the region",
	[OTHER_PD] = "the region belongs to another PD than the queue pair; register it in that PD",
	[TWICE] = "a type 2 window must be invalidated before it is bound again",
	[EMPTY] = "a type 2 window cannot be bound to 0 bytes; invalidate it instead",
	[DEAD_REGION] = "the lkey names no memory region; use that of a living one",
};

static void bind_wrongly(int how)
{
	struct side *s = &duo.near;
	struct ibv_mw_bind_info i;
	struct ibv_mr copy;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint32_t rkey;

	said_begin();
	begin(TOGETHER);
	mw = alloc(s, IBV_MW_TYPE_2);
	i = info(s, 0, 64, RIGHTS);
	rkey = ibv_inc_rkey(mw->rkey);
	pd = how == OTHER_PD ? ibv_alloc_pd(s->dev.ctx) : s->dev.pd;
	mr = ibv_reg_mr(pd, s->mem, 4096,
			how == NO_LOCAL_WRITE ? IBV_ACCESS_MW_BIND
			: how == NO_MW_BIND   ? ALL & ~IBV_ACCESS_MW_BIND
					      : ALL);
	want(mr != NULL);
	i.mr = mr;
	if (how == RANGE)
		i.addr += 4096 - 63;
	if (how == TOO_LONG)
		i.length = 4097;
	if (how == RANGE_BEFORE)
		i.addr--;
	if (how == EMPTY)
		i.length = 0;
	if (how == TWICE) {
		want_eq(bind2(s, mw, rkey, i), IBV_WC_SUCCESS);
		rkey = ibv_inc_rkey(rkey);
	}
	if (how == DEAD_REGION) {
		copy = *mr;
		i.mr = &copy;
		want_eq(ibv_dereg_mr(mr), 0);
	}
	want_eq(bind2(s, mw, rkey, i), IBV_WC_MW_BIND_ERR);
	said_want(SAID_NEAR,
		  "ibv_bind_mw: window 0x%x on QP 0x%x, %lu B at 0x%lx under lkey 0x%x: %s", rkey,
		  s->ep.mine.qpn, (unsigned long)i.length, (unsigned long)i.addr, i.mr->lkey,
		  sentences[how]);
	want_eq(s->ep.qp->state, IBV_QPS_RTS); /* as modify left it; the device's is ERR */
	want_eq(ibv_dealloc_mw(mw), 0);
	if (how != DEAD_REGION)
		want_eq(ibv_dereg_mr(mr), 0);
	if (how == OTHER_PD)
		want_eq(ibv_dealloc_pd(pd), 0);
	duo_close(&duo);
}

static void invalidate_wrongly(int arg)
{
	struct side *s = &duo.near;
	struct ibv_mw *mw, *one;
	uint32_t rkey;

	(void)arg;
	begin(TOGETHER);
	mw = alloc(s, IBV_MW_TYPE_2);
	one = alloc(s, IBV_MW_TYPE_1);
	rkey = ibv_inc_rkey(mw->rkey);
	want_eq(invalidate(s, mw->rkey), IBV_WC_MW_BIND_ERR); /* not bound */
	duo_reconnect(&duo);
	want_eq(invalidate(s, s->mr->rkey), IBV_WC_MW_BIND_ERR);
	duo_reconnect(&duo);
	want_eq(bind1(s, one, info(s, 0, 64, RIGHTS)), IBV_WC_SUCCESS);
	want_eq(invalidate(s, one->rkey), IBV_WC_MW_BIND_ERR);
	duo_reconnect(&duo);
	want_eq(bind2(s, mw, rkey, info(s, 0, 64, RIGHTS)), IBV_WC_SUCCESS);
	want_eq(invalidate(s, rkey + 1), IBV_WC_MW_BIND_ERR); /* another tag */
	duo_reconnect(&duo);
	want_eq(invalidate(s, rkey), IBV_WC_SUCCESS);
	want_eq(invalidate(s, rkey), IBV_WC_MW_BIND_ERR);
	duo_reconnect(&duo);
	/* any tag will do for the next bind */
	want_eq(bind2(s, mw, rkey & ~0xffu, info(s, 0, 64, RIGHTS)), IBV_WC_SUCCESS);
	want_eq(ibv_dealloc_mw(mw), 0);
	want_eq(ibv_dealloc_mw(one), 0);
	duo_close(&duo);
}

/* As libmlx5 and rxe do it: a program may make the new key from any number. */
static void a_new_key_has_the_index_of_its_window(int arg)
{
	struct side *s = &duo.near;
	struct ibv_mw *mw;
	uint32_t rkey;

	(void)arg;
	begin(TOGETHER);
	mw = alloc(s, IBV_MW_TYPE_2);
	rkey = (mw->rkey & ~0xffU) | 0x5a;
	want_eq(bind2(s, mw, 0x12345a, info(s, 0, 64, RIGHTS)), IBV_WC_SUCCESS);
	want_eq(invalidate(s, rkey), IBV_WC_SUCCESS);
	want_eq(ibv_dealloc_mw(mw), 0);
	duo_close(&duo);
}

/* A SEND that has to be repeated (nothing is posted there yet) with a bind behind it. */
static void a_bind_is_executed_once(int where)
{
	struct side *s = &duo.near;
	struct ibv_send_wr wr[2], *bad;
	struct ibv_sge sg;
	struct ibv_mw *mw;
	struct ibv_wc wc;

	begin(where);
	mw = alloc(s, IBV_MW_TYPE_2);
	wr[0] = duo_wr(&duo, IBV_WR_SEND, &sg, 8);
	wr[1] = bind_wr(mw, ibv_inc_rkey(mw->rkey), info(s, 0, 64, RIGHTS));
	wr[0].next = &wr[1];
	want_eq(ibv_post_send(s->ep.qp, wr, &bad), 0);
	want(!peer_poll(s->ep.scq, &wc, 20));
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
	want_eq(done(s).status, IBV_WC_SUCCESS);
	want_eq(done(s).status, IBV_WC_SUCCESS);
	want_eq(ibv_dealloc_mw(mw), 0);
	duo_close(&duo);
}

static void errnos(int arg)
{
	struct side *s = &duo.near;
	struct ibv_send_wr wr, *bad;
	struct ibv_mw_bind b = { 0 };
	struct ibv_mw *one, *two;
	struct ibv_device_attr a;
	struct ibv_pd *pd;

	(void)arg;
	begin(TOGETHER);
	want_eq(ibv_query_device(s->dev.ctx, &a), 0);
	want(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	want(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	want(!(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A));
	want(a.max_mw > 0);
	want_null(ibv_alloc_mw(s->dev.pd, 3), EINVAL);
	want_null(ibv_alloc_mw(s->dev.pd, 0), EINVAL);
	one = alloc(s, IBV_MW_TYPE_1);
	two = alloc(s, IBV_MW_TYPE_2);
	b.bind_info = info(s, 0, 64, RIGHTS | IBV_ACCESS_MW_BIND);
	want_eq(ibv_bind_mw(s->ep.qp, one, &b), EINVAL);
	b.bind_info = info(s, 0, 64, RIGHTS);
	want_eq(ibv_bind_mw(s->ep.qp, two, &b), EINVAL);
	wr = bind_wr(one, ibv_inc_rkey(one->rkey), b.bind_info);
	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), EINVAL);
	want(bad == &wr);
	wr = bind_wr(two, ibv_inc_rkey(two->rkey), (struct ibv_mw_bind_info){ 0 });
	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), EINVAL);
	wr = bind_wr(NULL, 0, b.bind_info);
	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), EINVAL);
	want_eq(bind1(s, one, b.bind_info), IBV_WC_SUCCESS);
	want_errno(ibv_dereg_mr(s->mr), EBUSY);
	want_eq(ibv_rereg_mr(s->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL),
		IBV_REREG_MR_ERR_CMD);
	want_eq(errno, EBUSY);
	pd = ibv_alloc_pd(s->dev.ctx);
	want_eq(ibv_dealloc_mw(one), 0);
	one = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	want(one != NULL);
	want_errno(ibv_dealloc_pd(pd), EBUSY);
	want_eq(ibv_dealloc_mw(one), 0);
	want_eq(ibv_dealloc_pd(pd), 0);
	want_eq(ibv_dealloc_mw(two), 0);
	duo_close(&duo);
}

static void on_uc(int arg)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_UC, .access = IBV_ACCESS_REMOTE_WRITE },
			      .access = ALL,
			      .together = true };
	struct ibv_mw *mw;
	uint32_t rkey;

	(void)arg;
	duo_open(&duo, &o);
	mw = alloc(&duo.far, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	want_eq(bind2(&duo.far, mw, rkey, info(&duo.far, OFF, LEN, RIGHTS)), IBV_WC_SUCCESS);
	pattern_fill(duo.near.mem, 64, 4, OFF);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, far_va(OFF), 64), IBV_WC_SUCCESS);
	/* the next SEND comes after the WRITE */
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64, .off = 1024 });
	duo_send(&duo, IBV_WR_SEND, 8);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(pattern_check(duo.far.mem + OFF, 64, 4, OFF), 64);
	want_eq(invalidate(&duo.far, rkey), IBV_WC_SUCCESS);
	want_eq(ibv_dealloc_mw(mw), 0);
	duo_close(&duo);
}

/* --- a bind against writers --- */

enum { BIG = 4 << 20 };

struct writer {
	struct peer_ep *ep;
	struct ibv_mr *from;
	uint64_t va;
	uint32_t rkey;
	enum ibv_wc_status status;
};

static void *write_once(void *arg)
{
	struct writer *w = arg;
	struct ibv_sge sg = { (uintptr_t)w->from->addr, BIG, w->from->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { w->va, w->rkey } };
	struct side s = { .ep = *w->ep };

	w->status = post(&s, &wr).status;
	return NULL;
}

static void reconnect(struct peer_ep *ep, const struct peer_opts *o)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	want_eq(ibv_modify_qp(ep->qp, &reset, IBV_QP_STATE), 0);
	peer_connect(ep, o);
}

/* When a type 1 window's unbinding has completed, by whatever QP, its memory is touched no more. */
static void unbinding_waits_for_copies(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	static uint8_t from[BIG], to[BIG] __attribute__((aligned(4096)));
	struct peer_ep a, b, c, d;
	struct peer_dev dev;
	struct writer w;
	struct side s;

	(void)arg;
	peer_open(&dev);
	peer_pair(&dev, &o, &a, &b);
	peer_pair(&dev, &o, &c, &d);
	memset(from, 0xaa, BIG);
	s = (struct side){ .dev = dev, .mem = to, .ep = d };
	s.mr = ibv_reg_mr(dev.pd, to, BIG, ALL);
	w = (struct writer){ .ep = &a,
			     .from = ibv_reg_mr(dev.pd, from, BIG, 0),
			     .va = (uintptr_t)to };
	want(s.mr && w.from);
	struct ibv_mw *mw = alloc(&s, IBV_MW_TYPE_1);

	for (int i = 0; i < (cases_full() ? 1000 : 60); i++) {
		pthread_t t;

		peer_note("round %d", i);
		memset(to, 0x55, BIG);
		want_eq(bind1(&s, mw, info(&s, 0, BIG, RIGHTS)), IBV_WC_SUCCESS);
		w.rkey = mw->rkey;
		want_eq(pthread_create(&t, NULL, write_once, &w), 0);
		while (*(volatile uint8_t *)&to[(size_t)i * 65536 % BIG] != 0xaa)
			; /* the copy has come so far */
		want_eq(bind1(&s, mw, (struct ibv_mw_bind_info){ 0 }), IBV_WC_SUCCESS);
		memset(to, 0x55, BIG);
		pthread_join(t, NULL);
		for (size_t at = 0; at < BIG; at += 64)
			if (to[at] != 0x55)
				fail("byte %zu was written after the window was unbound", at);
		if (w.status == IBV_WC_SUCCESS)
			continue;
		want_eq(w.status, IBV_WC_REM_ACCESS_ERR);
		reconnect(&b, &o);
		reconnect(&a, &o);
	}
	want_eq(ibv_dealloc_mw(mw), 0);
	want_eq(ibv_dereg_mr(s.mr), 0);
	want_eq(ibv_dereg_mr(w.from), 0);
	peer_ep_destroy(&a);
	peer_ep_destroy(&b);
	peer_ep_destroy(&c);
	peer_ep_destroy(&d);
	peer_close(&dev);
}

#define BOTH(f)                                                                                    \
	{ #f " in one process", f, TOGETHER },                                                     \
	{                                                                                          \
#f " between two", f, APART                                                        \
	}

static const struct test_case cases[] = {
	BOTH(type_1_covers),
	BOTH(type_2_covers),
	BOTH(rights_are_the_windows),
	BOTH(type_1_changes_its_key),
	BOTH(zero_based),
	BOTH(large_transfers),
	BOTH(peer_invalidates),
	BOTH(peer_cannot_invalidate_type_1),
	CASE(type_2_is_of_one_qp),
	CASE(type_1_is_of_the_pd),
	CASE_ARG(bind_wrongly, NO_MW_BIND),
	CASE_ARG(bind_wrongly, NO_LOCAL_WRITE),
	CASE_ARG(bind_wrongly, RANGE),
	CASE_ARG(bind_wrongly, RANGE_BEFORE),
	CASE_ARG(bind_wrongly, TOO_LONG),
	CASE_ARG(bind_wrongly, OTHER_PD),
	CASE_ARG(bind_wrongly, TWICE),
	CASE_ARG(bind_wrongly, EMPTY),
	CASE_ARG(bind_wrongly, DEAD_REGION),
	CASE(invalidate_wrongly),
	CASE(a_new_key_has_the_index_of_its_window),
	BOTH(a_bind_is_executed_once),
	CASE(errnos),
	CASE(on_uc),
	CASE(unbinding_waits_for_copies),
};

int main(void)
{
	return CASES_RUN(cases);
}
