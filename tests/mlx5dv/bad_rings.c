// SPDX-License-Identifier: MIT
/* Rings and records with anything in them: the queue pair whose they are fails, with a sentence
 * that says why, and no other; a program that takes its memory away goes on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "mlx5dv/hand.h"
#include "verbs/said.h"

static struct hand c, d; /* a pair beside a and b */

static void beside(void)
{
	struct peer_opts o = { .type = IBV_QPT_RC };

	endpoint(&c, IBV_QPT_RC, NULL);
	endpoint(&d, IBV_QPT_RC, NULL);
	c.ep.theirs = d.ep.mine;
	d.ep.theirs = c.ep.mine;
	peer_connect(&c.ep, &o);
	peer_connect(&d.ep, &o);
}

static void one_message(struct hand *from, struct hand *to, uint32_t imm)
{
	uint16_t at = from->sent;

	hand_recv(to);
	hand_send(from, MLX5_WQE_CTRL_CQ_UPDATE, imm);
	received_ok(to, LEN, imm);
	sent_ok(from, at);
}

static enum ibv_qp_state state_of(struct hand *h)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	want_eq(ibv_query_qp(h->ep.qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* A sentence was written for somebody who asks why. */
static bool explained(void)
{
	struct stat st;

	return !stat(said_file(SAID_NEAR), &st) && st.st_size > 0;
}

/* --- WQEs --- */

struct bad_wqe {
	const char *what;
	uint8_t opcode, ds;
	uint16_t ahead; /* of the index that it should have */
	bool other_qpn;
	uint32_t seg[4]; /* its second segment, big-endian when written */
};

static const struct bad_wqe wqes[] = {
	{ "ds of 0", MLX5_OPCODE_SEND, 0, 0, false, { 0 } },
	{ "ds of 63", MLX5_OPCODE_SEND, 63, 0, false, { 0 } },
	{ "an address cut off", MLX5_OPCODE_RDMA_WRITE, 1, 0, false, { 0 } },
	{ "operands cut off", MLX5_OPCODE_ATOMIC_CS, 2, 0, false, { 0 } },
	{ "no opcode", 0x7f, 2, 0, false, { 0 } },
	{ "a TSO", MLX5_OPCODE_TSO, 2, 0, false, { 0 } },
	{ "a masked swap", MLX5_OPCODE_ATOMIC_MASKED_CS, 4, 0, false, { 0 } },
	{ "a masked addition", MLX5_OPCODE_ATOMIC_MASKED_FA, 4, 0, false, { 0 } },
	{ "a PSV", MLX5_OPCODE_SET_PSV, 3, 0, false, { 0 } },
	{ "an atomic write", 0x3f, 3, 0, false, { 0 } },
	{ "inline data past the end", MLX5_OPCODE_SEND, 2, 0, false, { 0x80000000U | 100 } },
	{ "inline data of 2 GiB", MLX5_OPCODE_SEND, 2, 0, false, { 0xffffffffU } },
	{ "no such key", MLX5_OPCODE_SEND, 2, 0, false, { 16, 0xdeadbe00 } },
	{ "another index", MLX5_OPCODE_NOP, 1, 5, false, { 0 } },
	{ "another queue pair", MLX5_OPCODE_NOP, 1, 0, true, { 0 } },
};

static void write_bad(const struct bad_wqe *w)
{
	uint32_t seg[4];
	uint8_t *at = block(&a, a.sent);

	mlx5dv_set_ctrl_seg((void *)at, (uint16_t)(a.sent + w->ahead), w->opcode, 0,
			    w->other_qpn ? c.ep.qp->qp_num : a.ep.qp->qp_num,
			    MLX5_WQE_CTRL_CQ_UPDATE, w->ds, 0, 0);
	for (int i = 0; i < 4; i++)
		seg[i] = htobe32(w->seg[i]);
	memcpy(at + SEG, seg, sizeof(seg));
	a.sent++;
	record(&a.qp.dbrec[MLX5_SND_DBR], a.sent);
	/* the doorbell names the queue itself, whatever stands in the WQE */
	*(volatile uint64_t *)a.qp.bf.reg = (uint64_t)htobe32(a.ep.qp->qp_num << 8 | (w->ds & 63))
					    << 32;
}

static void wrong_wqes(int i)
{
	open_memory();
	connected(IBV_QPT_RC, NULL);
	beside();
	peer_note("%s", wqes[i].what);
	one_message(&a, &b, 1);
	write_bad(&wqes[i]);
	errs(&a);
	want(explained());
	one_message(&c, &d, 2);
	want_eq(state_of(&b), IBV_QPS_RTS);
}

/* A bind as softhca's own verbs write it, in which all is right but that no verb has written it. */
static void write_bind(const struct ibv_mw *mw, const struct ibv_mr *of)
{
	const struct {
		__be32 rkey, lkey;
		__be64 addr, len;
		__be32 access, reserved;
	} seg = { htobe32(ibv_inc_rkey(mw->rkey)),  htobe32(of->lkey),
		  htobe64((uintptr_t)mem),	    htobe64(64),
		  htobe32(IBV_ACCESS_REMOTE_WRITE), 0 };
	uint8_t *at = block(&a, a.sent);

	mlx5dv_set_ctrl_seg((void *)at, a.sent++, 0x3d, 0, a.ep.qp->qp_num, MLX5_WQE_CTRL_CQ_UPDATE,
			    3, 0, htobe32(mw->rkey));
	memcpy(at + SEG, &seg, sizeof(seg));
	announce(&a, at);
}

/* An opcode that mlx5 does not have means nothing in a ring that a program writes. */
static void softhcas_own_opcode(int arg)
{
	struct ibv_mr *of;
	struct ibv_mw *mw;

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	of = ibv_reg_mr(dev.pd, mem, BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(dev.pd, IBV_MW_TYPE_2);
	want(of && mw);
	write_bind(mw, of);
	errs(&a);
	said_want(SAID_NEAR,
		  "WQE 0x0 on QP 0x%x: opcode 0x3d is softhca's own for binding windows; bind by "
		  "the verbs",
		  a.ep.qp->qp_num);
}

/* The form of 16 bytes, which a datagram or a DC initiator's work request may have on InfiniBand */
static void compact_address(int arg)
{
	struct mlx5_wqe_av av;
	struct mlx5dv_ah of;
	struct mlx5dv_obj obj = { .ah = { .out = &of } };

	(void)arg;
	open_memory();
	connected(IBV_QPT_UD, NULL);
	obj.ah.in = peer_ah(&dev, &b.ep.mine);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
	av = *of.av;
	want_eq(be32toh(av.dqp_dct), 1U << 31);
	av.dqp_dct = htobe32(b.ep.mine.qpn);
	announce(&a, write_send(&a, &av, MLX5_WQE_CTRL_CQ_UPDATE, 1));
	want_eq(take(&a).op_own >> 4, MLX5_CQE_REQ_ERR);
	want_eq(state_of(&a), IBV_QPS_SQE);
	said_want(
		SAID_NEAR,
		"WQE 0x0 (opcode 0xb) on UD QP 0x%x has the address vector of 16 B, which names a "
		"LID, and RoCE needs a GID; write the one of 48 B, as mlx5dv_init_obj() gives it "
		"for an AH, and set bit 31 of dqp_dct",
		a.ep.qp->qp_num);
}

/* --- records --- */

enum { AHEAD, BACK };

/* A send record ahead by more than the ring has, or going back, which is the same: the ring is not
 * what it says. No work requests that were never written are flushed. */
static void send_record(int how)
{
	open_memory();
	connected(IBV_QPT_RC, NULL);
	beside();
	for (uint32_t i = 0; i < 5; i++)
		one_message(&a, &b, i);
	record(&a.qp.dbrec[MLX5_SND_DBR],
	       how == AHEAD ? (a.sent + a.qp.sq.wqe_cnt + 1) & 0xffff : a.sent - 1U);
	errs(&a);
	want(explained());
	one_message(&c, &d, 1);
	want_eq(ibv_destroy_qp(a.ep.qp), 0);
	want(!ready(&a));
}

/* The receive record ahead or back: receives that nobody has written are as good as any. What comes
 * then lands in them or is refused; the neighbours do not notice. */
static void receive_record(int how)
{
	struct mlx5_cqe64 e;

	open_memory();
	connected(IBV_QPT_RC, NULL);
	beside();
	for (uint32_t i = 0; i < 5; i++)
		one_message(&a, &b, i);
	memset(b.qp.rq.buf, 0xa5, (size_t)b.qp.rq.wqe_cnt * b.qp.rq.stride);
	record(&b.qp.dbrec[MLX5_RCV_DBR],
	       how == AHEAD ? (b.received + b.qp.rq.wqe_cnt * 3U) & 0xffff : b.received - 1U);
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, 1);
	e = take(&a); /* it is refused: garbage is no receive */
	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_REQ_ERR);
	want_eq(state_of(&a), IBV_QPS_ERR);
	want_eq(state_of(&b), IBV_QPS_ERR);
	want(explained());
	one_message(&c, &d, 1);
	want_eq(ibv_destroy_qp(a.ep.qp), 0);
	want_eq(ibv_destroy_qp(b.ep.qp), 0);
}

/* A consumer beyond the producer: the CQ is overrun or goes on, but nothing else is hurt. */
static void consumer_ahead(int by)
{
	open_memory();
	connected(IBV_QPT_RC, NULL);
	beside();
	one_message(&a, &b, 1);
	record(&b.cq.dbrec[0], (b.polled + (uint32_t)by) & 0xffffff);
	hand_recv(&b);
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, 2);
	take(&a);
	record(&b.cq.dbrec[1], 0xfffffff); /* an arm of nowhere */
	*(volatile uint64_t *)((uint8_t *)b.cq.cq_uar + 0x20) = ~UINT64_C(0);
	want_eq(state_of(&b), IBV_QPS_ERR);
	said_want(SAID_NEAR,
		  "CQ 0x%x overrun: its doorbell record says that 0x%x entries were read, and 0x1 "
		  "were written; store there how many were read",
		  b.cq.cqn, 1 + by);
	one_message(&c, &d, 2);
	want_eq(ibv_destroy_qp(b.ep.qp), 0);
	want_eq(ibv_destroy_cq(b.ep.rcq), 0);
}

/* Links that loop, or point nowhere: each message takes some slot of the ring. */
static void links(int next)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 7, .max_sge = 1 } };
	struct mlx5dv_srq srq = { 0 };
	struct mlx5dv_obj obj = { .srq = { .out = &srq } };

	open_memory();
	obj.srq.in = ibv_create_srq(dev.pd, &attr);
	want(obj.srq.in);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	connected(IBV_QPT_RC, obj.srq.in);
	beside();
	for (uint32_t i = 0; i < 8; i++) {
		struct mlx5_wqe_srq_next_seg *slot =
			(void *)((uint8_t *)srq.buf + (size_t)i * srq.stride);

		slot->next_wqe_index = htobe16((uint16_t)next);
		mlx5dv_set_data_seg((void *)(slot + 1), HALF, mr->lkey, (uintptr_t)mem + HALF);
	}
	record(srq.dbrec, 20);
	for (uint32_t i = 0; i < 20; i++) {
		uint16_t at = a.sent;

		hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, i);
		want(be16toh(received_ok(&b, LEN, i).wqe_counter) < 8);
		sent_ok(&a, at);
	}
	one_message(&c, &d, 2);
	want_eq(ibv_destroy_qp(b.ep.qp), 0);
	want_eq(ibv_destroy_srq(obj.srq.in), 0);
}

/* --- memory that goes --- */

enum { SENDS, RECEIVES, ENTRIES, RECORDS, PAGE, OPEN_PAGE };

static void take_away(int what)
{
	size_t sq = (size_t)a.qp.sq.wqe_cnt * BLOCK, rq = (size_t)b.qp.rq.wqe_cnt * b.qp.rq.stride;
	size_t cq = (size_t)b.cq.cqe_cnt * b.cq.cqe_size;
	uintptr_t page = (uintptr_t)a.qp.bf.reg & ~(uintptr_t)4095;

	if (what == SENDS) /* the record, behind the ring, is in these pages, too */
		want_eq(munmap(a.qp.rq.buf, (uintptr_t)a.qp.sq.buf + sq - (uintptr_t)a.qp.rq.buf),
			0);
	else if (what == RECEIVES)
		want_eq(munmap(b.qp.rq.buf, rq), 0);
	else if (what == ENTRIES)
		want_eq(munmap(b.cq.buf, cq), 0);
	else
		want_eq(munmap((void *)page, 4096), 0);
}

/* In a child, since its memory is lost: it must neither crash nor hang, and ends by exit(). */
static void unmapped(int what)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (what == OPEN_PAGE)
			setenv("SOFTHCA_DOORBELL", "nap", 1);
		open_memory();
		connected(IBV_QPT_RC, NULL);
		beside();
		one_message(&a, &b, 1);
		hand_recv(&b);
		take_away(what);
		one_message(&c, &d, 1);
		exit(0);
	}
	want(waitpid(child, &status, 0) == child);
	want(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* Files as the memory of rings, so that all can be done to them. */
enum { PIECES = 32 };

static struct {
	void *at;
	int fd;
} piece[PIECES];

static void *from_a_file(size_t size, void *data)
{
	unsigned int *n = data;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	want(*n < PIECES && fd >= 0 && !ftruncate(fd, (off_t)size));
	piece[*n].fd = fd;
	piece[*n].at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	want(piece[*n].at != MAP_FAILED);
	return piece[(*n)++].at;
}

static void stays(void *p, void *data)
{
	(void)p;
	(void)data;
}

static void cut_off(const void *p)
{
	for (int i = 0; i < PIECES; i++)
		if (piece[i].at == p)
			want_eq(ftruncate(piece[i].fd, 0), 0);
}

static const struct taken {
	const char *what;
	bool theirs; /* memory of the program's functions */
	int ring;
	int rights; /* that are left */
	enum { UNMAPPED, CUT_OFF, PROTECTED } how;
} takens[] = {
	{ "their sends, unmapped", true, SENDS, 0, UNMAPPED },
	{ "their receives, unmapped", true, RECEIVES, 0, UNMAPPED },
	{ "their entries, unmapped", true, ENTRIES, 0, UNMAPPED },
	{ "their records, unmapped", true, RECORDS, 0, UNMAPPED },
	{ "their records, cut off", true, RECORDS, 0, CUT_OFF },
	{ "their sends, cut off", true, SENDS, 0, CUT_OFF },
	{ "their entries, cut off", true, ENTRIES, 0, CUT_OFF },
	{ "their entries, to be read", true, ENTRIES, PROT_READ, PROTECTED },
	{ "our sends, without rights", false, SENDS, PROT_NONE, PROTECTED },
	{ "our entries, to be read", false, ENTRIES, PROT_READ, PROTECTED },
};

static void take_from(const struct taken *t)
{
	size_t len = t->ring == SENDS	   ? (size_t)a.qp.sq.wqe_cnt * BLOCK
		     : t->ring == RECORDS  ? 8
		     : t->ring == RECEIVES ? (size_t)b.qp.rq.wqe_cnt * b.qp.rq.stride
					   : (size_t)b.cq.cqe_cnt * b.cq.cqe_size;
	void *at = t->ring == SENDS	 ? a.qp.sq.buf
		   : t->ring == RECORDS	 ? (void *)a.qp.dbrec
		   : t->ring == RECEIVES ? b.qp.rq.buf
					 : b.cq.buf;
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095; /* ours have both rings in one */

	len += (uintptr_t)at - page;
	if (t->how == UNMAPPED)
		want_eq(munmap((void *)page, len), 0);
	else if (t->how == CUT_OFF)
		cut_off(at);
	else
		want_eq(mprotect((void *)page, len, t->rights), 0);
}

/* What is gone is zeros: its queue pair fails, with a sentence, unless it is a record, which is
 * stored anew. What has only lost its rights is as good as before, as with an adapter. */
static void lacks(const struct taken *t)
{
	const void *first;

	hand_recv(&b);
	first = write_send(&a, NULL, MLX5_WQE_CTRL_CQ_UPDATE, 2);
	take_from(t);
	announce(&a, first);
	if (t->how != PROTECTED && t->ring != ENTRIES && t->ring != RECORDS) {
		errs(&a);
		want(explained());
		return;
	}
	if (t->how == PROTECTED || t->ring == RECORDS)
		received_ok(&b, LEN, 2);
	want_eq(take(&a).op_own >> 4, MLX5_CQE_REQ);
}

/* In a child, as above. */
static void taken(int i)
{
	int status;
	pid_t child = fork();
	unsigned int n = 0;
	struct mlx5dv_ctx_allocators f = { from_a_file, stays, &n };

	if (!child) {
		open_memory();
		peer_note("%s", takens[i].what);
		if (takens[i].theirs)
			want_eq(mlx5dv_set_context_attr(dev.ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS,
							&f),
				0);
		connected(IBV_QPT_RC, NULL);
		beside();
		one_message(&a, &b, 1);
		lacks(&takens[i]);
		one_message(&c, &d, 1);
		exit(0);
	}
	want(waitpid(child, &status, 0) == child);
	want(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* Objects live, rings are open, and the device is closed; or the process just ends, or forks. */
static void closes(int arg)
{
	int status;
	pid_t child;

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	one_message(&a, &b, 1);
	child = fork();
	if (!child) {
		record(&a.qp.dbrec[MLX5_SND_DBR], 9); /* the child's own copy */
		*(volatile uint64_t *)a.qp.bf.reg = ~UINT64_C(0);
		_exit(0);
	}
	want(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
	one_message(&a, &b, 2);
	ibv_close_device(dev.ctx);
	hand_recv(&b);
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, 3);
}

static const struct test_case cases[] = {
	CASE_ARG(wrong_wqes, 0),
	CASE_ARG(wrong_wqes, 1),
	CASE_ARG(wrong_wqes, 2),
	CASE_ARG(wrong_wqes, 3),
	CASE_ARG(wrong_wqes, 4),
	CASE_ARG(wrong_wqes, 5),
	CASE_ARG(wrong_wqes, 6),
	CASE_ARG(wrong_wqes, 7),
	CASE_ARG(wrong_wqes, 8),
	CASE_ARG(wrong_wqes, 9),
	CASE_ARG(wrong_wqes, 10),
	CASE_ARG(wrong_wqes, 11),
	CASE_ARG(wrong_wqes, 12),
	CASE_ARG(wrong_wqes, 13),
	CASE_ARG(wrong_wqes, 14),
	CASE(softhcas_own_opcode),
	CASE(compact_address),
	CASE_ARG(send_record, AHEAD),
	CASE_ARG(send_record, BACK),
	CASE_ARG(receive_record, AHEAD),
	CASE_ARG(receive_record, BACK),
	CASE_ARG(consumer_ahead, 5),
	CASE_ARG(consumer_ahead, 0x800000),
	CASE_ARG(links, 0),
	CASE_ARG(links, 3),
	CASE_ARG(links, 0xffff),
	CASE_ARG(unmapped, SENDS),
	CASE_ARG(unmapped, RECEIVES),
	CASE_ARG(unmapped, ENTRIES),
	CASE_ARG(unmapped, PAGE),
	CASE_ARG(unmapped, OPEN_PAGE),
	CASE_ARG(taken, 0),
	CASE_ARG(taken, 1),
	CASE_ARG(taken, 2),
	CASE_ARG(taken, 3),
	CASE_ARG(taken, 4),
	CASE_ARG(taken, 5),
	CASE_ARG(taken, 6),
	CASE_ARG(taken, 7),
	CASE_ARG(taken, 8),
	CASE_ARG(taken, 9),
	CASE(closes),
};

int main(void)
{
	return CASES_RUN(cases);
}
