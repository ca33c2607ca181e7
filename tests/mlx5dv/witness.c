// SPDX-License-Identifier: MIT
#include "mlx5dv/witness.h"
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

/* Its memory, by quarters: what is sent, where sends land, where writes land, where reads land.
 * The last 8 bytes: the word that atomics count. */
enum { QUARTER = WITNESS_BYTES / 4, SENT = 0, LANDED = QUARTER, WRITTEN = 2 * QUARTER };
enum { READ = 3 * QUARTER, WORD = WITNESS_BYTES - 8, LONGEST = QUARTER - 64, GRH = 40 };
enum { QKEY = 0x71717171, LAST = UINT32_MAX };

static struct {
	struct peer_dev dev; /* with a domain of its own */
	uint8_t *mem, *far_mem; /* the second: the same for the pair of one process */
	struct ibv_mr *mr, *far_mr;
	struct peer_ep x, y, u, v, out; /* x to y, u to v; out to the other process */
	struct ibv_ah *ah;
	bool near;
	bool ends; /* atomic */
	uint64_t rounds; /* atomic */
	pthread_t thread;
} w;

static void right(const struct ibv_wc *wc, const struct peer_ep *ep, uint64_t id)
{
	want_eq(wc->status, IBV_WC_SUCCESS);
	want_eq(wc->wr_id, id);
	want_eq(wc->qp_num, ep->mine.qpn);
}

static struct ibv_wc next(struct peer_ep *ep, uint64_t id)
{
	struct ibv_wc wc;

	peer_poll_ok(ep->scq, &wc);
	right(&wc, ep, id);
	return wc;
}

static void receive(struct peer_ep *ep, const struct ibv_mr *mr, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + LANDED, QUARTER, mr->lkey };

	memset((uint8_t *)mr->addr + LANDED, 0, QUARTER);
	peer_recv(ep, id, &sge, 1);
}

static void post(struct peer_ep *ep, struct ibv_send_wr wr, uint32_t from, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)w.mem + from, len, w.mr->lkey };
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	want_eq(ibv_post_send(ep->qp, &wr, &bad), 0);
}

/* The next receive is there at once, so that what is not the witnesses' would find it. */
static void landed(struct peer_ep *at, const uint8_t *mem, uint64_t id, uint32_t len, uint32_t skip)
{
	struct ibv_wc wc = next(at, id);

	want_eq(wc.opcode, IBV_WC_RECV);
	want_eq(wc.byte_len, len + skip);
	want_eq(be32toh(wc.imm_data), (uint32_t)id);
	want_eq(pattern_check_told(mem + LANDED + skip, len, id, 0), len);
	want_eq(mem[LANDED + skip + len], 0);
	receive(at, mem == w.mem ? w.mr : w.far_mr, id + 1);
}

static void send_one(struct peer_ep *ep, uint64_t id, uint32_t len)
{
	pattern_fill(w.mem + SENT, len, id, 0);
	post(ep,
	     (struct ibv_send_wr){ .wr_id = id,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .imm_data = htobe32((uint32_t)id) },
	     SENT, len);
	want_eq(next(ep, id).opcode, IBV_WC_SEND);
}

static void datagram(uint64_t id, uint32_t len)
{
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htobe32((uint32_t)id) };

	wr.wr.ud.ah = w.ah;
	wr.wr.ud.remote_qpn = w.v.mine.qpn;
	wr.wr.ud.remote_qkey = QKEY;
	pattern_fill(w.mem + SENT, len, id, 0);
	post(&w.u, wr, SENT, len);
	want_eq(next(&w.u, id).opcode, IBV_WC_SEND);
	landed(&w.v, w.far_mem, id, len, GRH);
}

/* Writes, reads back, counts. */
static void one_sided(struct peer_ep *ep, uint64_t id, uint32_t len)
{
	struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_RDMA_WRITE };

	pattern_fill(w.mem + SENT, len, ~id, 0);
	wr.wr.rdma.remote_addr = ep->theirs.va + WRITTEN;
	wr.wr.rdma.rkey = ep->theirs.rkey;
	post(ep, wr, SENT, len);
	want_eq(next(ep, id).opcode, IBV_WC_RDMA_WRITE);
	wr.opcode = IBV_WR_RDMA_READ;
	memset(w.mem + READ, 0, QUARTER);
	post(ep, wr, READ, len);
	want_eq(next(ep, id).opcode, IBV_WC_RDMA_READ);
	want_eq(pattern_check_told(w.mem + READ, len, ~id, 0), len);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = ep->theirs.va + WORD;
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.rkey = ep->theirs.rkey;
	post(ep, wr, READ, 8);
	want_eq(next(ep, id).opcode, IBV_WC_FETCH_ADD);
	want_eq(*(uint64_t *)(w.mem + READ), id - 1);
}

static void near_round(uint64_t id)
{
	uint32_t len = 1 + (uint32_t)(id * 37 % LONGEST);

	peer_note("round %llu of the witnesses, within the process", (unsigned long long)id);
	send_one(&w.x, id, len);
	landed(&w.y, w.far_mem, id, len, 0);
	one_sided(&w.x, id, len);
	datagram(id, len);
	peer_note("round %llu of the witnesses, to another process", (unsigned long long)id);
	send_one(&w.out, id, len);
	landed(&w.out, w.mem, id, len, 0);
	one_sided(&w.out, id, len);
}

static void *near_thread(void *arg)
{
	uint64_t id = 0;

	while (!__atomic_load_n(&w.ends, __ATOMIC_RELAXED)) {
		near_round(++id);
		__atomic_fetch_add(&w.rounds, 1, __ATOMIC_RELAXED);
	}
	send_one(&w.out, LAST, 1);
	return arg;
}

/* It answers each message with one of the same length. */
static void *far_thread(void *arg)
{
	struct ibv_wc wc;

	peer_note("witness of the other process");
	for (uint64_t id = 1;; id++) {
		while (!peer_poll(w.out.scq, &wc, 1000))
			;
		right(&wc, &w.out, id);
		if (be32toh(wc.imm_data) == LAST)
			return arg;
		want_eq(pattern_check_told(w.mem + LANDED, wc.byte_len, id, 0), wc.byte_len);
		receive(&w.out, w.mr, id + 1);
		send_one(&w.out, id, wc.byte_len);
	}
}

static struct ibv_mr *memory(uint8_t **mem)
{
	struct ibv_mr *mr;

	*mem = peer_memory(WITNESS_BYTES, false);
	mr = ibv_reg_mr(w.dev.pd, *mem, WITNESS_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	want(mr);
	return mr;
}

static void tell(struct peer_ep *ep, const struct ibv_mr *mr)
{
	ep->mine.va = (uintptr_t)mr->addr;
	ep->mine.rkey = mr->rkey;
}

static void within(void)
{
	struct peer_opts rc = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct peer_opts ud = { .type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 }, .qkey = QKEY };

	w.far_mr = memory(&w.far_mem);
	peer_pair(&w.dev, &rc, &w.x, &w.y);
	tell(&w.y, w.far_mr);
	w.x.theirs = w.y.mine;
	peer_pair(&w.dev, &ud, &w.u, &w.v);
	w.ah = peer_ah(&w.dev, &w.v.mine);
	receive(&w.y, w.far_mr, 1);
	receive(&w.v, w.far_mr, 1);
}

static void outside(int fd)
{
	struct peer_opts rc = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };

	peer_ep_create(&w.dev, &rc, &w.out);
	tell(&w.out, w.mr);
	peer_ep_swap(fd, &w.out);
	peer_connect(&w.out, &rc);
	receive(&w.out, w.mr, 1);
	peer_sync(fd);
}

void witness_begin(const struct peer_dev *dev, int fd, bool near, struct witness_names *out)
{
	w.dev = *dev;
	w.dev.pd = ibv_alloc_pd(dev->ctx);
	want(w.dev.pd);
	w.near = near;
	w.mr = memory(&w.mem);
	if (near)
		within();
	outside(fd);
	*out = (struct witness_names){ .va = (uintptr_t)w.mem, .key = w.mr->rkey };
	out->qpn[out->n++] = w.out.mine.qpn;
	for (struct peer_ep *ep = &w.x; near && ep <= &w.v; ep++)
		out->qpn[out->n++] = ep->mine.qpn;
	want_eq(pthread_create(&w.thread, NULL, near ? near_thread : far_thread, NULL), 0);
}

uint64_t witness_rounds(void)
{
	return __atomic_load_n(&w.rounds, __ATOMIC_RELAXED);
}

/* A witness that waits for too long fails by itself. */
void witness_goes_on(void)
{
	uint64_t from = witness_rounds();

	while (witness_rounds() < from + 2)
		sched_yield();
}

void witness_end(void)
{
	__atomic_store_n(&w.ends, true, __ATOMIC_RELAXED);
	want_eq(pthread_join(w.thread, NULL), 0);
}

void witness_anew(const struct peer_dev *dev, struct ibv_pd *pd)
{
	struct peer_opts rc = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 64 } };
	struct peer_dev here = { dev->ctx, pd, dev->gid };
	uint8_t words[2][64] = { { 0 } };
	struct ibv_mr *mr = ibv_reg_mr(pd, words, sizeof(words), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge[2] = { { (uintptr_t)words[0], 64, 0 }, { (uintptr_t)words[1], 64, 0 } };
	struct ibv_send_wr wr = { .wr_id = 3, .opcode = IBV_WR_SEND, .num_sge = 1 }, *bad;
	struct peer_ep from, to;
	struct ibv_wc wc;

	want(mr);
	sge[0].lkey = sge[1].lkey = mr->lkey;
	pattern_fill(words[0], 64, mr->lkey, 0);
	peer_pair(&here, &rc, &from, &to);
	peer_recv(&to, 4, &sge[1], 1);
	wr.sg_list = sge;
	wr.send_flags = IBV_SEND_SIGNALED;
	want_eq(ibv_post_send(from.qp, &wr, &bad), 0);
	peer_poll_ok(from.scq, &wc);
	right(&wc, &from, 3);
	peer_poll_ok(to.scq, &wc);
	right(&wc, &to, 4);
	want(!memcmp(words[0], words[1], 64));
	peer_ep_destroy(&from);
	peer_ep_destroy(&to);
	want_eq(ibv_dereg_mr(mr), 0);
}
