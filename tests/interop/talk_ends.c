// SPDX-License-Identifier: MIT
/* Work that is refused, and sides that are not there: each ends with the status that belongs to
 * it, what is behind it is flushed, and nobody waits for ever. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "interop/talk.h"

#define COUNTERS "/sys/class/infiniband/rxe0/ports/1/hw_counters"

enum {
	REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	LEN = 3000,
	SHORT = 16,
	PAGE = 4096,
};

/* What the serving side tells of a memory region or window. */
struct key {
	uint64_t va;
	uint32_t rkey;
};

enum target { WHOLE, NO_RIGHTS, BAD_KEY, OUT_OF_BOUNDS, NO_MEMORY };

static const struct refusal {
	const char *name;
	enum ibv_wr_opcode op;
	enum target target;
	int qp_lacks;
	enum ibv_wc_status status;
} refusals[] = {
	{ "WRITE, wrong key", IBV_WR_RDMA_WRITE, BAD_KEY, 0, IBV_WC_REM_ACCESS_ERR },
	{ "READ, wrong key", IBV_WR_RDMA_READ, BAD_KEY, 0, IBV_WC_REM_ACCESS_ERR },
	{ "addition, wrong key", IBV_WR_ATOMIC_FETCH_AND_ADD, BAD_KEY, 0, IBV_WC_REM_ACCESS_ERR },
	{ "WRITE past the end", IBV_WR_RDMA_WRITE, OUT_OF_BOUNDS, 0, IBV_WC_REM_ACCESS_ERR },
	{ "READ past the end", IBV_WR_RDMA_READ, OUT_OF_BOUNDS, 0, IBV_WC_REM_ACCESS_ERR },
	{ "WRITE, region without the right", IBV_WR_RDMA_WRITE, NO_RIGHTS, 0,
	  IBV_WC_REM_ACCESS_ERR },
	{ "READ, region without the right", IBV_WR_RDMA_READ, NO_RIGHTS, 0, IBV_WC_REM_ACCESS_ERR },
	{ "swap, region without the right", IBV_WR_ATOMIC_CMP_AND_SWP, NO_RIGHTS, 0,
	  IBV_WC_REM_ACCESS_ERR },
	{ "WRITE, QP without the right", IBV_WR_RDMA_WRITE, WHOLE, IBV_ACCESS_REMOTE_WRITE,
	  IBV_WC_REM_INV_REQ_ERR },
	{ "READ, QP without the right", IBV_WR_RDMA_READ, WHOLE, IBV_ACCESS_REMOTE_READ,
	  IBV_WC_REM_INV_REQ_ERR },
	{ "addition, QP without the right", IBV_WR_ATOMIC_FETCH_AND_ADD, WHOLE,
	  IBV_ACCESS_REMOTE_ATOMIC, IBV_WC_REM_INV_REQ_ERR },
	{ "SEND longer than the receive", IBV_WR_SEND, NO_MEMORY, 0, IBV_WC_REM_INV_REQ_ERR },
};
enum { REFUSALS = sizeof(refusals) / sizeof(refusals[0]) };

/* To rxe a SEND that is too long is an operational error. */
static enum ibv_wc_status expected(const struct talk *t, const struct refusal *r)
{
	return r->op == IBV_WR_SEND && !t->is_rxe ? IBV_WC_REM_OP_ERR : r->status;
}

static void ask_refused(struct talk *t)
{
	for (const struct refusal *r = refusals; r < refusals + REFUSALS; r++) {
		struct ibv_send_wr wr;
		struct key key = { 0 };
		size_t len =
			r->op == IBV_WR_ATOMIC_FETCH_AND_ADD || r->op == IBV_WR_ATOMIC_CMP_AND_SWP
				? 8
				: LEN;

		peer_note("%s", r->name);
		talk_connect(t);
		peer_swap(t->fd, &key, &key, sizeof(key));
		wr = talk_rdma(t, r->op, 0);
		if (len == 8) {
			wr.wr.atomic.remote_addr = key.va;
			wr.wr.atomic.rkey = key.rkey;
		} else {
			wr.wr.rdma.remote_addr = key.va;
			wr.wr.rdma.rkey = key.rkey;
		}
		talk_post(t, wr, TALK_BACK, len);
		talk_same("the status", talk_wc(t).status, expected(t, r));
		talk_same("the next one's status",
			  talk_do(t, talk_rdma(t, IBV_WR_RDMA_WRITE, TALK_TARGET), 0, 8),
			  IBV_WC_WR_FLUSH_ERR);
		talk_end(t);
	}
}

static struct key key_of(const struct talk *t, const struct ibv_mr *weak, enum target target)
{
	struct key key = { (uintptr_t)t->mem + TALK_TARGET, t->mr->rkey };

	if (target == NO_RIGHTS)
		key.rkey = weak->rkey;
	else if (target == BAD_KEY)
		key.rkey ^= 0x55;
	else if (target == OUT_OF_BOUNDS)
		key.va = (uintptr_t)t->mem + TALK_BYTES - LEN + 1;
	return key;
}

static void serve_refused(struct talk *t)
{
	struct ibv_mr *weak = ibv_reg_mr(t->dev.pd, t->mem, TALK_BYTES, IBV_ACCESS_LOCAL_WRITE);

	if (!weak)
		die("ibv_reg_mr");
	for (const struct refusal *r = refusals; r < refusals + REFUSALS; r++) {
		struct key key = key_of(t, weak, r->target);
		enum ibv_wc_status received = r->op != IBV_WR_SEND ? IBV_WC_WR_FLUSH_ERR
					      : t->is_rxe	   ? IBV_WC_LOC_QP_OP_ERR
								   : IBV_WC_LOC_LEN_ERR;

		peer_note("%s", r->name);
		memset(t->mem + TALK_TARGET, 0, LEN);
		t->o.access = REMOTE & ~r->qp_lacks;
		talk_connect(t);
		talk_recv(t, 0, SHORT);
		peer_swap(t->fd, &key, &key, sizeof(key));
		talk_same("the receive's status", talk_wc(t).status, received);
		for (size_t i = 0; i < LEN; i++)
			talk_same("a byte of the target", t->mem[TALK_TARGET + i], 0);
		talk_end(t);
	}
	ibv_dereg_mr(weak);
}

/* A window of type 2 that a SEND invalidates. */
static void ask_invalidate(struct talk *t)
{
	struct ibv_send_wr write, send = { .opcode = IBV_WR_SEND_WITH_INV };
	struct key key = { 0 };

	talk_connect(t);
	peer_swap(t->fd, &key, &key, sizeof(key));
	write = talk_rdma(t, IBV_WR_RDMA_WRITE, 0);
	write.wr.rdma.remote_addr = key.va;
	write.wr.rdma.rkey = key.rkey;
	send.invalidate_rkey = key.rkey;
	pattern_fill(t->mem + TALK_SOURCE, LEN, 1, 0);
	talk_ok(t, write, TALK_SOURCE, LEN);
	talk_ok(t, send, TALK_SOURCE, LEN);
	talk_same("by a window that is invalid", talk_do(t, write, TALK_SOURCE, LEN),
		  IBV_WC_REM_ACCESS_ERR);
	talk_end(t);
}

static struct key bind_window(struct talk *t, struct ibv_mw *mw)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct key key = { (uintptr_t)t->mem + TALK_TARGET, ibv_inc_rkey(mw->rkey) };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = key.rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = t->mr, .addr = key.va, .length = PAGE, .mw_access_flags = REMOTE
	};
	errno = ibv_post_send(t->ep.qp, &wr, &bad);
	if (errno)
		die("ibv_post_send of a bind");
	talk_same("the bind's status", talk_wc(t).status, IBV_WC_SUCCESS);
	return key;
}

static void serve_invalidate(struct talk *t)
{
	/* rxe gives the bit that the kernel has for it */
	const unsigned int inv = t->is_rxe ? 1 << 2 : IBV_WC_WITH_INV;
	struct ibv_mw *mw = ibv_alloc_mw(t->dev.pd, IBV_MW_TYPE_2);
	struct key key, ignored;
	struct ibv_wc wc;

	if (!mw)
		die("ibv_alloc_mw");
	talk_connect(t);
	talk_recv(t, 0, TALK_SLOT);
	key = bind_window(t, mw);
	peer_swap(t->fd, &key, &ignored, sizeof(key));
	wc = talk_received(t);
	talk_same("having a key", wc.wc_flags & inv, inv);
	talk_same("the key", wc.invalidated_rkey, key.rkey);
	talk_check(t, TALK_TARGET, LEN, 1);
	talk_check(t, TALK_RECV, LEN, 1);
	talk_end(t);
	ibv_dealloc_mw(mw);
}

/* How many RNR NAKs the kernel has sent and got. */
static unsigned long rnr_naks(void)
{
	static const char *const names[] = { "send_rnr_err", "rcvd_rnr_err" };
	unsigned long sum = 0, n;
	char path[256];

	for (size_t i = 0; i < 2; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", COUNTERS, names[i]);
		f = fopen(path, "r");
		if (!f || fscanf(f, "%lu", &n) != 1)
			die(path);
		fclose(f);
		sum += n;
	}
	return sum;
}

/* The side that counts them sees one more, then both go on. */
static void rnr_seen(struct talk *t, unsigned long before)
{
	while (t->is_rxe && rnr_naks() == before)
		usleep(10000);
	peer_sync(t->fd);
}

static void ask_rnr(struct talk *t)
{
	unsigned long before;

	talk_connect(t);
	before = t->is_rxe ? rnr_naks() : 0;
	peer_sync(t->fd);
	pattern_fill(t->mem + TALK_SOURCE, LEN, 1, 0);
	talk_post(t, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, TALK_SOURCE, LEN);
	rnr_seen(t, before);
	talk_same("the status", talk_wc(t).status, IBV_WC_SUCCESS);
	talk_end(t);
	t->o.rnr = 2;
	talk_connect(t);
	talk_same("where no receive comes",
		  talk_do(t, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, TALK_SOURCE, LEN),
		  IBV_WC_RNR_RETRY_EXC_ERR);
	talk_end(t);
}

static void serve_rnr(struct talk *t)
{
	unsigned long before;

	talk_connect(t);
	before = t->is_rxe ? rnr_naks() : 0;
	peer_sync(t->fd);
	rnr_seen(t, before);
	talk_recv(t, 0, TALK_SLOT);
	talk_same("the length", talk_received(t).byte_len, LEN);
	talk_check(t, TALK_RECV, LEN, 1);
	talk_end(t);
	talk_connect(t);
	talk_end(t);
}

/* The other side's QP is gone. */
static void ask_gone(struct talk *t)
{
	t->o.retry = 1;
	t->o.timeout = 12;
	talk_connect(t);
	peer_sync(t->fd);
	talk_same("the status", talk_do(t, talk_rdma(t, IBV_WR_RDMA_WRITE, 0), TALK_SOURCE, LEN),
		  IBV_WC_RETRY_EXC_ERR);
	talk_end(t);
}

static void serve_gone(struct talk *t)
{
	talk_connect(t);
	peer_ep_destroy(&t->ep);
	peer_sync(t->fd);
	peer_sync(t->fd);
}

/* WRITEs until the other side is killed. */
static void ask_endless(struct talk *t)
{
	enum ibv_wc_status status;

	t->o.retry = 3;
	talk_connect(t);
	puts("running");
	do
		status = talk_do(t, talk_rdma(t, IBV_WR_RDMA_WRITE, TALK_TARGET), TALK_SOURCE,
				 TALK_SLOT);
	while (status == IBV_WC_SUCCESS);
	talk_same("the status", status, IBV_WC_RETRY_EXC_ERR);
	peer_ep_destroy(&t->ep);
}

static void serve_endless(struct talk *t)
{
	char c;

	talk_connect(t);
	puts("running");
	if (read(t->fd, &c, 1) > 0)
		fail("the other side goes on");
	peer_ep_destroy(&t->ep);
}

const struct talk_case talk_ends[] = {
	{ "refused", IBV_QPT_RC, ask_refused, serve_refused },
	{ "invalidate", IBV_QPT_RC, ask_invalidate, serve_invalidate },
	{ "rnr", IBV_QPT_RC, ask_rnr, serve_rnr },
	{ "gone", IBV_QPT_RC, ask_gone, serve_gone },
	{ "endless", IBV_QPT_RC, ask_endless, serve_endless },
	{ 0 },
};
