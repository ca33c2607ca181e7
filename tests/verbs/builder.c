// SPDX-License-Identifier: MIT
/* The ibv_wr_* API: every operation and setter over both links, what may not be combined, the order
 * of calls, errors that stick until ibv_wr_complete, and ibv_wr_abort. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

#define SAYS(...) said_want(SAID_NEAR, __VA_ARGS__)

enum { OTHER_PROCESS, THIS_PROCESS };
enum { LEN = 96, IMM = 0x12345678 };

#define SENDS  (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WRITES (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define ATOMICS                                                                                    \
	(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |                 \
	 IBV_QP_EX_WITH_ATOMIC_WRITE)
#define RC_OPS                                                                                     \
	(SENDS | WRITES | ATOMICS | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV |      \
	 IBV_QP_EX_WITH_BIND_MW)

static struct duo duo;
static struct ibv_qp *qp;
static struct ibv_qp_ex *qpx;

static void begin(int where, enum ibv_qp_type type)
{
	struct duo_opts o = { .qp = { .type = type, .cap = { 8, 8, 4, 4, 128 }, .send_ops = SENDS },
			      .together = where == THIS_PROCESS };

	if (type == IBV_QPT_RC)
		o.qp.send_ops = RC_OPS;
	if (type == IBV_QPT_UC) {
		o.qp.send_ops = SENDS | WRITES;
		o.qp.access = o.far_access = IBV_ACCESS_REMOTE_WRITE;
	}
	said_begin();
	duo_open(&duo, &o);
	qp = duo.near.ep.qp;
	qpx = ibv_qp_to_qp_ex(qp);
	want(qpx != NULL);
}

static void tag(uint64_t id)
{
	qpx->wr_id = id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
}

static uint64_t far_va(void)
{
	return duo.near.ep.theirs.va;
}

static uint32_t far_key(void)
{
	return duo.near.ep.theirs.rkey;
}

static void sge(uint32_t len)
{
	ibv_wr_set_sge(qpx, duo.near.mr->lkey, (uintptr_t)duo.near.mem, len);
}

static void far_receive(uint32_t off)
{
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .off = off, .len = 4096, .id = 7 });
}

static void done(uint64_t id, enum ibv_wc_opcode op)
{
	struct ibv_wc wc = duo_wc(&duo);

	want_eq(wc.wr_id, id);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.opcode, op);
}

static void far_has(uint32_t off, uint32_t len, uint64_t seed)
{
	struct duo_answer a =
		duo_tell(&duo, (struct duo_order){ DUO_CHECK, .off = off, .len = len, .id = seed });

	want(a.found);
}

/* --- what works --- */

static void sends(int where)
{
	struct ibv_wc wc;

	begin(where, IBV_QPT_RC);
	far_receive(0);
	far_receive(0);
	pattern_fill(duo.near.mem, LEN, 3, 0);
	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_send(qpx);
	sge(LEN);
	tag(2);
	ibv_wr_send_imm(qpx, htobe32(IMM));
	sge(LEN);
	want_eq(ibv_wr_complete(qpx), 0);
	done(1, IBV_WC_SEND);
	done(2, IBV_WC_SEND);
	wc = duo_far_wc(&duo);
	want(wc.byte_len == LEN && !wc.wc_flags);
	wc = duo_far_wc(&duo);
	want(wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == htobe32(IMM));
	far_has(0, LEN, 3);
}

/* Lists, inline lists, and nothing at all. */
static void data_forms(int where)
{
	uint8_t bytes[2 * LEN];
	struct ibv_data_buf bufs[3] = { { bytes, 20 },
					{ bytes + 20, 0 },
					{ bytes + 20, LEN - 20 } };

	begin(where, IBV_QPT_RC);
	pattern_fill(bytes, sizeof(bytes), 5, 8192);
	pattern_fill(duo.near.mem, LEN, 6, 4096);
	struct ibv_sge list[2] = { { (uintptr_t)duo.near.mem, 33, duo.near.mr->lkey },
				   { (uintptr_t)duo.near.mem + 33, LEN - 33, duo.near.mr->lkey } };

	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_rdma_write(qpx, far_key(), far_va() + 8192);
	ibv_wr_set_inline_data_list(qpx, 3, bufs);
	tag(2);
	ibv_wr_rdma_write(qpx, far_key(), far_va() + 4096);
	ibv_wr_set_sge_list(qpx, 2, list);
	tag(3);
	ibv_wr_rdma_write(qpx, far_key(), far_va());
	tag(4);
	ibv_wr_rdma_write(qpx, far_key(), far_va() + 8192 + LEN);
	ibv_wr_set_inline_data(qpx, bytes + LEN, LEN);
	want_eq(ibv_wr_complete(qpx), 0);
	memset(bytes, 0, sizeof(bytes)); /* inline data is the library's by now */
	for (uint64_t i = 1; i <= 4; i++)
		done(i, IBV_WC_RDMA_WRITE);
	far_has(4096, LEN, 6);
	far_has(8192, sizeof(bytes), 5);
}

static void one_sided(int where)
{
	begin(where, IBV_QPT_RC);
	far_receive(0);
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 9 });
	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_rdma_read(qpx, far_key(), far_va());
	sge(LEN);
	want_eq(ibv_wr_complete(qpx), 0);
	done(1, IBV_WC_RDMA_READ);
	want_eq(pattern_check(duo.near.mem, LEN, 9, 0), LEN);
	pattern_fill(duo.near.mem, LEN, 8, 4096);
	ibv_wr_start(qpx);
	tag(2);
	ibv_wr_rdma_write_imm(qpx, far_key(), far_va() + 4096, htobe32(IMM));
	sge(LEN);
	want_eq(ibv_wr_complete(qpx), 0);
	done(2, IBV_WC_RDMA_WRITE);
	want_eq(duo_far_wc(&duo).imm_data, htobe32(IMM));
	far_has(4096, LEN, 8);
}

static uint64_t read_far(void)
{
	ibv_wr_start(qpx);
	tag(99);
	ibv_wr_rdma_read(qpx, far_key(), far_va());
	ibv_wr_set_sge(qpx, duo.near.mr->lkey, (uintptr_t)duo.near.mem + 1024, 8);
	want_eq(ibv_wr_complete(qpx), 0);
	done(99, IBV_WC_RDMA_READ);
	return *(uint64_t *)(duo.near.mem + 1024);
}

static void atomics(int where)
{
	uint64_t value = 40, *found = (uint64_t *)duo.near.mem;

	begin(where, IBV_QPT_RC);
	found = (uint64_t *)duo.near.mem;
	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_atomic_write(qpx, far_key(), far_va(), &value);
	tag(2);
	ibv_wr_atomic_fetch_add(qpx, far_key(), far_va(), 2);
	sge(8);
	want_eq(ibv_wr_complete(qpx), 0);
	done(1, IBV_WC_ATOMIC_WRITE);
	done(2, IBV_WC_FETCH_ADD);
	want_eq(*found, 40);
	ibv_wr_start(qpx);
	tag(3);
	ibv_wr_atomic_cmp_swp(qpx, far_key(), far_va(), 42, 1000);
	sge(8);
	want_eq(ibv_wr_complete(qpx), 0);
	done(3, IBV_WC_COMP_SWAP);
	want_eq(*found, 42);
	want_eq(read_far(), 1000);
}

/* Atomic writes by ibv_post_send, from memory and inline. */
static void atomic_write_posted(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin(where, IBV_QPT_RC);
	for (unsigned int flags = IBV_SEND_SIGNALED;; flags |= IBV_SEND_INLINE) {
		wr = duo_wr(&duo, IBV_WR_ATOMIC_WRITE, &sg, 8);
		wr.send_flags = flags;
		*(uint64_t *)duo.near.mem = 0x1122334455667788 + flags;
		want_eq(duo_post(&duo, &wr), 0);
		done(1, IBV_WC_ATOMIC_WRITE);
		want_eq(read_far(), 0x1122334455667788 + flags);
		if (flags & IBV_SEND_INLINE)
			break;
	}
}

/* What the responder of an atomic write refuses, as of any other write. */
static void atomic_write_refused(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin(where, IBV_QPT_RC);
	wr = duo_wr(&duo, IBV_WR_ATOMIC_WRITE, &sg, 8);
	wr.wr.rdma.remote_addr += 4;
	wr.wr.rdma.rkey += 0x100; /* it is looked at later */
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_REM_INV_REQ_ERR);
	duo_reconnect(&duo);
	wr.wr.rdma.remote_addr -= 4;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_REM_ACCESS_ERR);
	duo_reconnect(&duo);
	wr.wr.rdma.rkey -= 0x100;
	sg.length = 16;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_LOC_LEN_ERR);
	SAYS("ibv_post_send: atomic write on QP 0x%x has a payload of 16 B, an atomic needs 8 B; "
	     "give it 8",
	     qp->qp_num);
}

static void datagrams(int where)
{
	struct ibv_ah *ah;

	begin(where, IBV_QPT_UD);
	far_receive(0);
	far_receive(0);
	pattern_fill(duo.near.mem, LEN, 4, 40); /* behind the GRH */
	ah = peer_ah(&duo.near.dev, &duo.near.ep.theirs);
	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_send(qpx);
	ibv_wr_set_ud_addr(qpx, ah, duo.near.ep.theirs.qpn, 0x11111111);
	sge(LEN);
	tag(2);
	ibv_wr_send_imm(qpx, IMM);
	sge(LEN); /* setters come in any order */
	ibv_wr_set_ud_addr(qpx, ah, duo.near.ep.theirs.qpn, 0x11111111);
	want_eq(ibv_wr_complete(qpx), 0);
	done(1, IBV_WC_SEND);
	done(2, IBV_WC_SEND);
	want_eq(duo_far_wc(&duo).wc_flags, IBV_WC_GRH);
	want_eq(duo_far_wc(&duo).wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	far_has(40, LEN, 4);
	want_eq(ibv_destroy_ah(ah), 0);
}

/* --- abort, and errors that stick --- */

static void nothing_came(void)
{
	struct ibv_wc wc;

	want(!peer_poll(duo.near.ep.scq, &wc, 0));
}

/* The ring is as it was: all its places can be used again, and what follows is what is sent. */
static void fill_ring(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	uint32_t n;

	want_eq(ibv_query_qp(qp, &a, IBV_QP_CAP, &init), 0);
	n = init.cap.max_send_wr;
	ibv_wr_start(qpx);
	for (uint32_t i = 0; i < n; i++) {
		tag(100 + i);
		ibv_wr_rdma_write(qpx, far_key(), far_va());
		sge(8);
	}
	want_eq(ibv_wr_complete(qpx), 0);
	for (uint32_t i = 0; i < n; i++)
		done(100 + i, IBV_WC_RDMA_WRITE);
}

static void aborted(int where)
{
	begin(where, IBV_QPT_RC);
	for (int i = 0; i < 3; i++) {
		ibv_wr_start(qpx);
		for (int k = 0; k < 5; k++) {
			tag(1);
			ibv_wr_send(qpx);
			sge(LEN);
		}
		ibv_wr_abort(qpx);
		nothing_came();
		fill_ring();
	}
}

static void overfull(int where)
{
	begin(where, IBV_QPT_RC);
	ibv_wr_start(qpx);
	for (int k = 0; k < 100; k++) {
		tag(1);
		ibv_wr_rdma_write(qpx, far_key(), far_va());
		sge(8);
	}
	want_eq(ibv_wr_complete(qpx), ENOMEM);
	nothing_came(); /* none of them, not just those behind the error */
	fill_ring();
}

enum mistake {
	SETTER_FIRST,
	TWO_SETTERS,
	INLINE_READ,
	INLINE_ATOMIC,
	TOO_MANY_SGES,
	TOO_MUCH_INLINE,
	START_TWICE,
	AH_ON_RC,
	BIND_NOTHING,
	BIND_TYPE_1,
};

static void bind_wrongly(enum mistake m)
{
	struct ibv_mw_bind_info info = { .mr = duo.near.mr,
					 .addr = (uintptr_t)duo.near.mem,
					 .length = LEN,
					 .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	struct ibv_mw *mw = NULL;

	if (m == BIND_TYPE_1) {
		mw = ibv_alloc_mw(duo.near.dev.pd, IBV_MW_TYPE_1);
		want(mw != NULL);
	}
	ibv_wr_bind_mw(qpx, mw, 0x100, &info);
	if (mw)
		want_eq(ibv_dealloc_mw(mw), 0);
}

enum { MISTAKEN = 0x22 }; /* wr_id */

static void make(enum mistake m)
{
	struct ibv_sge list[64];
	uint8_t bytes[1024] = { 0 };

	tag(MISTAKEN);
	if (m == BIND_NOTHING || m == BIND_TYPE_1) {
		bind_wrongly(m);
		return;
	}
	if (m == INLINE_READ)
		ibv_wr_rdma_read(qpx, far_key(), far_va());
	else if (m == INLINE_ATOMIC)
		ibv_wr_atomic_fetch_add(qpx, far_key(), far_va(), 1);
	else if (m != SETTER_FIRST)
		ibv_wr_send(qpx);
	if (m == START_TWICE)
		ibv_wr_start(qpx);
	if (m == TOO_MANY_SGES)
		ibv_wr_set_sge_list(qpx, 64, list);
	else if (m == TOO_MUCH_INLINE)
		ibv_wr_set_inline_data(qpx, bytes, sizeof(bytes));
	else if (m == INLINE_READ || m == INLINE_ATOMIC)
		ibv_wr_set_inline_data(qpx, bytes, 8);
	else if (m == AH_ON_RC)
		ibv_wr_set_ud_addr(qpx, NULL, 1, 1);
	else
		sge(LEN);
	if (m == TWO_SETTERS)
		ibv_wr_set_inline_data(qpx, bytes, 8);
}

static void said_of(enum mistake m, uint32_t max_sge, uint32_t max_inline)
{
	switch (m) {
	case SETTER_FIRST:
		SAYS("ibv_wr_set_sge: no operation has begun on QP 0x%x; a setter follows its "
		     "ibv_wr_ operation",
		     qp->qp_num);
		return;
	case TWO_SETTERS:
	case INLINE_READ:
	case INLINE_ATOMIC:
		SAYS("ibv_wr_set_inline_data (wr_id 0x22): the operation on QP 0x%x does not take "
		     "it, or has its data already; one such setter for each operation, and inline "
		     "data only for what sends data",
		     qp->qp_num);
		return;
	case TOO_MANY_SGES:
		SAYS("ibv_wr_complete (wr_id 0x22): num_sge 64, QP 0x%x was created with "
		     "max_send_sge %u; use fewer, or create it with more",
		     qp->qp_num, max_sge);
		return;
	case TOO_MUCH_INLINE:
		SAYS("ibv_wr_complete (wr_id 0x22): 1024 bytes inline, QP 0x%x was created with "
		     "max_inline_data %u; leave IBV_SEND_INLINE out, or create it with more",
		     qp->qp_num, max_inline);
		return;
	case START_TWICE:
		SAYS("ibv_wr_start: this thread is between ibv_wr_start and ibv_wr_complete on "
		     "QP 0x%x; end that first",
		     qp->qp_num);
		return;
	case AH_ON_RC:
		SAYS("ibv_wr_set_ud_addr (wr_id 0x22): RC QPs, as QP 0x%x is, do not do it; use a "
		     "type that does",
		     qp->qp_num);
		return;
	case BIND_NOTHING:
	case BIND_TYPE_1:
		SAYS("ibv_wr_complete (wr_id 0x22): IBV_WR_BIND_MW on QP 0x%x with %s; bind type 2 "
		     "windows so, type 1 windows by ibv_bind_mw()",
		     qp->qp_num, m == BIND_NOTHING ? "mw NULL" : "a type 1 window");
		return;
	}
}

/* A good operation before the mistake and one behind it: none of them is posted. */
static void mistake(int m)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	begin(THIS_PROCESS, IBV_QPT_RC);
	want_eq(ibv_query_qp(qp, &a, IBV_QP_CAP, &init), 0);
	ibv_wr_start(qpx);
	if (m != SETTER_FIRST) {
		tag(1);
		ibv_wr_rdma_write(qpx, far_key(), far_va());
		sge(LEN);
	}
	make((enum mistake)m);
	tag(1);
	ibv_wr_rdma_write(qpx, far_key(), far_va());
	sge(LEN);
	want_eq(ibv_wr_complete(qpx), EINVAL);
	said_of((enum mistake)m, init.cap.max_send_sge, init.cap.max_inline_data);
	nothing_came();
	fill_ring();
}

static void no_address(int arg)
{
	(void)arg;
	begin(THIS_PROCESS, IBV_QPT_UD);
	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_send(qpx);
	sge(LEN);
	want_eq(ibv_wr_complete(qpx), EINVAL);
	SAYS("ibv_wr_complete (wr_id 0x1): a UD send on QP 0x%x has no address; call "
	     "ibv_wr_set_ud_addr",
	     qp->qp_num);
	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_rdma_read(qpx, 1, 1);
	want_eq(ibv_wr_complete(qpx), EINVAL);
	SAYS("ibv_wr_rdma_read (wr_id 0x1): UD QPs, as QP 0x%x is, do not do it; use a type that "
	     "does",
	     qp->qp_num);
	nothing_came();
}

/* Calls outside of a region touch nothing. */
static void outside(int arg)
{
	(void)arg;
	begin(THIS_PROCESS, IBV_QPT_RC);
	ibv_wr_abort(qpx);
	tag(1);
	ibv_wr_send(qpx);
	SAYS("ibv_wr_*: this thread is not building work for QP 0x%x; ibv_wr_start comes first",
	     qp->qp_num);
	sge(LEN);
	want_eq(ibv_wr_complete(qpx), EINVAL);
	SAYS("ibv_wr_complete: this thread is not building work for QP 0x%x; ibv_wr_start comes "
	     "first",
	     qp->qp_num);
	nothing_came();
	fill_ring();
}

/* Other calls of the same thread that need the queue do not wait for themselves. */
static void inside(int arg)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin(THIS_PROCESS, IBV_QPT_RC);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 8);
	ibv_wr_start(qpx);
	want_eq(duo_post(&duo, &wr), EINVAL);
	SAYS("ibv_post_send: this thread is between ibv_wr_start and ibv_wr_complete on QP 0x%x; "
	     "end that first",
	     qp->qp_num);
	want_errno(ibv_modify_qp(qp, &reset, IBV_QP_STATE), EINVAL);
	SAYS("ibv_modify_qp: this thread is between ibv_wr_start and ibv_wr_complete on QP 0x%x; "
	     "end that first",
	     qp->qp_num);
	tag(5);
	ibv_wr_rdma_write(qpx, far_key(), far_va());
	sge(8);
	want_eq(ibv_wr_complete(qpx), 0);
	done(5, IBV_WC_RDMA_WRITE);
}

static void in_reset(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }, .send_ops = RC_OPS };
	struct peer_ep ep;

	(void)arg;
	begin(THIS_PROCESS, IBV_QPT_RC);
	peer_ep_create(&duo.near.dev, &o, &ep);
	qpx = ibv_qp_to_qp_ex(ep.qp);
	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_send(qpx);
	want_eq(ibv_wr_complete(qpx), EINVAL);
	SAYS("ibv_wr_complete: QP 0x%x is in RESET; sending needs RTS (ibv_modify_qp)",
	     ep.qp->qp_num);
	peer_ep_destroy(&ep);
}

/* A child that is forked inside a region has a copy of it, and of nothing that it could reach. */
static void forked(int arg)
{
	pid_t child;

	(void)arg;
	begin(OTHER_PROCESS, IBV_QPT_RC);
	ibv_wr_start(qpx);
	tag(1);
	ibv_wr_rdma_write(qpx, far_key(), far_va());
	sge(8);
	child = fork();
	want(child >= 0);
	if (!child) {
		want_eq(ibv_wr_complete(qpx), EIO);
		SAYS("ibv_wr_complete: QP 0x%x was made before fork(); make a new one", qp->qp_num);
		ibv_wr_start(qpx);
		ibv_wr_send(qpx);
		want_eq(ibv_wr_complete(qpx), EIO);
		_exit(0);
	}
	want_eq(peer_wait(child), 0);
	want_eq(ibv_wr_complete(qpx), 0);
	done(1, IBV_WC_RDMA_WRITE);
	fill_ring();
}

/* --- creation --- */

static struct ibv_qp *create(enum ibv_qp_type type, uint32_t mask, uint64_t ops, uint32_t flags)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = type,
					 .send_cq = duo.near.ep.scq,
					 .recv_cq = duo.near.ep.scq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .comp_mask = mask,
					 .pd = duo.near.dev.pd,
					 .send_ops_flags = ops,
					 .create_flags = flags };

	return ibv_create_qp_ex(duo.near.dev.ctx, &a);
}

static void created(int arg)
{
	static const struct {
		enum ibv_qp_type type;
		uint64_t ops;
		const char *name;
	} most[] = { { IBV_QPT_RC, RC_OPS, "RC" },
		     { IBV_QPT_UC, SENDS | WRITES, "UC" },
		     { IBV_QPT_UD, SENDS, "UD" } };
	const uint32_t mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const uint64_t tso = IBV_QP_EX_WITH_TSO;
	struct ibv_qp *q;

	(void)arg;
	begin(THIS_PROCESS, IBV_QPT_RC);
	for (int i = 0; i < 3; i++) {
		q = create(most[i].type, mask, most[i].ops, 0);
		want(q && ibv_qp_to_qp_ex(q));
		want_eq(ibv_destroy_qp(q), 0);
		if (most[i].type == IBV_QPT_UD)
			continue;
		want_null(create(most[i].type, mask, most[i].ops | tso, 0), EOPNOTSUPP);
		SAYS("ibv_create_qp_ex: send_ops_flags 0x%llx, of which 0x%llx do not work on %s "
		     "QPs; leave them out",
		     (unsigned long long)(most[i].ops | tso), (unsigned long long)tso,
		     most[i].name);
	}
	q = create(IBV_QPT_RC, IBV_QP_INIT_ATTR_PD, 0, 0);
	want(q && !ibv_qp_to_qp_ex(q));
	want_eq(ibv_destroy_qp(q), 0);
	want_null(create(IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, 0,
			 IBV_QP_CREATE_SOURCE_QPN),
		  EOPNOTSUPP);
	want_null(create(IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, 0,
			 IBV_QP_CREATE_BLOCK_SELF_MCAST_LB),
		  EOPNOTSUPP);
}

/* FLUSH (newer headers) is not there: nothing advertises it, everything that asks for it is
 * refused. */
static void flush_is_refused(int arg)
{
	const uint64_t with_flush = 1 << 11, caps = 1ULL << 38 | 1ULL << 39;
	const int wr_flush = 14, flush_global = 1 << 8, flush_persistent = 1 << 9;
	struct ibv_qp_init_attr init;
	struct ibv_device_attr_ex a;
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	void *entry;

	(void)arg;
	begin(THIS_PROCESS, IBV_QPT_RC);
	want_eq(ibv_query_device_ex(duo.near.dev.ctx, NULL, &a), 0);
	want(!(a.device_cap_flags_ex & caps));
	/* So librpma asks: ibv_qp_ex.wr_flush, the last one. */
	memcpy(&entry, (char *)qpx + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(entry),
	       sizeof(entry));
	want(!entry);
	want_null(create(IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			 RC_OPS | with_flush, 0),
		  EOPNOTSUPP);
	for (int access = flush_global; access <= flush_persistent; access *= 2) {
		struct ibv_qp_attr move = { .qp_access_flags = (unsigned int)access };

		want_null(ibv_reg_mr(duo.near.dev.pd, duo.near.mem, 64, access), EOPNOTSUPP);
		SAYS("ibv_reg_mr: access 0x%x has IBV_ACCESS_FLUSH_* (0x%x), and this device "
		     "flushes no memory (device_cap_flags_ex); leave them out",
		     access, access);
		want_null(ibv_reg_mr(duo.near.dev.pd, duo.near.mem, 64, access | 1 << 18), EINVAL);
		want_eq(ibv_modify_qp(qp, &move, IBV_QP_ACCESS_FLAGS), 0); /* an offer */
		want_eq(ibv_query_qp(qp, &move, IBV_QP_ACCESS_FLAGS, &init), 0);
		want_eq(move.qp_access_flags, (unsigned int)access);
	}
	wr = duo_wr(&duo, (enum ibv_wr_opcode)wr_flush, &sg, 0);
	want_eq(duo_post(&duo, &wr), EINVAL);
	SAYS("ibv_post_send (wr_id 0x1): opcode 14 (FLUSH) is not one of RC QPs, as QP 0x%x is; "
	     "use one that is, or another type of QP",
	     qp->qp_num);
}

static void ece(int arg)
{
	struct ibv_ece e = { .vendor_id = 0xdead };

	(void)arg;
	begin(THIS_PROCESS, IBV_QPT_RC);
	want_eq(ibv_query_ece(qp, &e), 0);
	want(e.vendor_id == 0x15b3 && !e.options && !e.comp_mask);
	e.options = 0x10000007; /* what a newer peer offers */
	want_eq(ibv_set_ece(qp, &e), 0);
	want_eq(e.options, 0); /* of which nothing is agreed on */
	e.comp_mask = 1;
	want_errno(ibv_set_ece(qp, &e), EINVAL);
	e = (struct ibv_ece){ .vendor_id = 0x1d0f };
	want_errno(ibv_set_ece(qp, &e), EINVAL);
	SAYS("ibv_set_ece: vendor_id 0x1d0f on QP 0x%x, this device's is 0x15b3; leave the call "
	     "out for peers of other vendors",
	     qp->qp_num);
	e.vendor_id = 0;
	want_errno(ibv_set_ece(qp, &e), EOPNOTSUPP);
}

#define BOTH_LINKS(f) CASE_ARG(f, OTHER_PROCESS), CASE_ARG(f, THIS_PROCESS)

int main(void)
{
	static const struct test_case cases[] = {
		BOTH_LINKS(sends),
		BOTH_LINKS(data_forms),
		BOTH_LINKS(one_sided),
		BOTH_LINKS(atomics),
		BOTH_LINKS(atomic_write_posted),
		BOTH_LINKS(atomic_write_refused),
		BOTH_LINKS(datagrams),
		BOTH_LINKS(aborted),
		BOTH_LINKS(overfull),
		CASE_ARG(mistake, SETTER_FIRST),
		CASE_ARG(mistake, TWO_SETTERS),
		CASE_ARG(mistake, INLINE_READ),
		CASE_ARG(mistake, INLINE_ATOMIC),
		CASE_ARG(mistake, TOO_MANY_SGES),
		CASE_ARG(mistake, TOO_MUCH_INLINE),
		CASE_ARG(mistake, START_TWICE),
		CASE_ARG(mistake, AH_ON_RC),
		CASE_ARG(mistake, BIND_NOTHING),
		CASE_ARG(mistake, BIND_TYPE_1),
		CASE(no_address),
		CASE(outside),
		CASE(inside),
		CASE(in_reset),
		CASE(forked),
		CASE(created),
		CASE(flush_is_refused),
		CASE(ece),
	};

	return CASES_RUN(cases);
}
