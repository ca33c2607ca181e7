// SPDX-License-Identifier: MIT
/* Work that succeeds: what arrives is whole, in order, and tells what it came with. */
#include <arpa/inet.h>
#include <string.h>
#include "interop/talk.h"

enum { IMM = 0x11223344, WINDOW = 8, MESSAGES = 48, CHUNK = 8192, OFFSET = 3 };

static void pattern(struct talk *t, size_t at, size_t len, uint64_t seed)
{
	pattern_fill(t->mem + at, len, seed, 0);
}

/* A receive for each size. */
static void recv_sizes(struct talk *t)
{
	for (unsigned int i = 0; i < TALK_SIZES; i++)
		talk_recv(t, i, TALK_SLOT);
	peer_sync(t->fd);
}

static void ask_sizes(struct talk *t)
{
	talk_connect(t);
	peer_sync(t->fd);
	for (size_t i = 0; i < TALK_SIZES; i++) {
		size_t n = t->sizes[i], to = TALK_TARGET + (i + 1) * OFFSET;

		peer_note("size %zu", n);
		pattern(t, TALK_SOURCE, n, i);
		talk_ok(t, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, TALK_SOURCE, n);
		talk_ok(t, talk_rdma(t, IBV_WR_RDMA_WRITE, to), TALK_SOURCE, n);
		if (!n)
			continue; /* ask_empty() reads nothing, where no answer is lost */
		memset(t->mem + TALK_BACK, 0xaa, n + 1);
		talk_ok(t, talk_rdma(t, IBV_WR_RDMA_READ, to), TALK_BACK, n);
		talk_check(t, TALK_BACK, n, i);
		talk_same("the byte behind what was read", t->mem[TALK_BACK + n], 0xaa);
	}
	talk_end(t);
}

static void serve_sizes(struct talk *t)
{
	talk_connect(t);
	recv_sizes(t);
	for (size_t i = 0; i < TALK_SIZES; i++) {
		struct ibv_wc wc = talk_received(t);

		talk_same("the length", wc.byte_len, t->sizes[i]);
		talk_check(t, TALK_RECV + i * TALK_SLOT, t->sizes[i], i);
	}
	talk_end(t);
}

/* Messages without a byte. rxe answers a READ of them once, and never its repetition. */
static void ask_empty(struct talk *t)
{
	talk_connect(t);
	peer_sync(t->fd);
	for (unsigned int i = 0; i < TALK_SIZES; i++) {
		peer_note("message %u", i);
		talk_ok(t, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, TALK_SOURCE, 0);
		talk_ok(t, talk_rdma(t, IBV_WR_RDMA_WRITE, TALK_TARGET), TALK_SOURCE, 0);
		memset(t->mem + TALK_BACK, 0xaa, 1);
		talk_ok(t, talk_rdma(t, IBV_WR_RDMA_READ, TALK_TARGET), TALK_BACK, 0);
		talk_same("the byte behind what was read", t->mem[TALK_BACK], 0xaa);
	}
	talk_end(t);
}

static void serve_empty(struct talk *t)
{
	talk_connect(t);
	recv_sizes(t);
	for (unsigned int i = 0; i < TALK_SIZES; i++)
		talk_same("the length", talk_received(t).byte_len, 0);
	talk_end(t);
}

/* As if the network had marked each packet (ECN CE): who sees that, sends CNPs. */
enum { CE = 3 };

static void ask_marked(struct talk *t)
{
	t->o.traffic_class = CE;
	ask_sizes(t);
}

static void serve_marked(struct talk *t)
{
	t->o.traffic_class = CE;
	serve_sizes(t);
}

/* Immediates behind a SEND and a WRITE, in turn; RC and UC. */
static void ask_imm(struct talk *t)
{
	talk_connect(t);
	peer_sync(t->fd);
	for (uint32_t i = 0; i < TALK_SIZES; i++) {
		size_t n = t->sizes[i];
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM };

		peer_note("size %zu", n);
		if (i % 2)
			wr = talk_rdma(t, IBV_WR_RDMA_WRITE_WITH_IMM, TALK_TARGET + i * TALK_SLOT);
		wr.imm_data = htonl(IMM + i);
		wr.send_flags = i % 3 ? 0 : IBV_SEND_SOLICITED;
		pattern(t, TALK_SOURCE, n, i);
		talk_ok(t, wr, TALK_SOURCE, n);
		peer_sync(t->fd); /* UC: not more at once than a socket holds */
	}
	talk_end(t);
}

static void serve_imm(struct talk *t)
{
	talk_connect(t);
	recv_sizes(t);
	for (uint32_t i = 0; i < TALK_SIZES; i++) {
		struct ibv_wc wc = talk_received(t);

		talk_same("the slot", wc.wr_id, i);
		talk_same("the length", wc.byte_len, t->sizes[i]);
		talk_same("the opcode", wc.opcode, i % 2 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
		talk_same("having an immediate", wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
		talk_same("the immediate", ntohl(wc.imm_data), IMM + i);
		talk_check(t, (i % 2 ? TALK_TARGET : TALK_RECV) + i * TALK_SLOT, t->sizes[i], i);
		peer_sync(t->fd);
	}
	talk_end(t);
}

/* UC: a SEND tells that the WRITE before it is there. */
static void ask_uc(struct talk *t)
{
	talk_connect(t);
	peer_sync(t->fd);
	for (size_t i = 0; i < TALK_SIZES; i++) {
		pattern(t, TALK_SOURCE, t->sizes[i], i);
		talk_ok(t, talk_rdma(t, IBV_WR_RDMA_WRITE, TALK_TARGET), TALK_SOURCE, t->sizes[i]);
		talk_ok(t, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, TALK_SOURCE, t->sizes[i]);
		peer_sync(t->fd);
	}
	talk_end(t);
}

static void serve_uc(struct talk *t)
{
	talk_connect(t);
	recv_sizes(t);
	for (size_t i = 0; i < TALK_SIZES; i++) {
		talk_same("the length", talk_received(t).byte_len, t->sizes[i]);
		talk_check(t, TALK_RECV + i * TALK_SLOT, t->sizes[i], i);
		talk_check(t, TALK_TARGET, t->sizes[i], i);
		peer_sync(t->fd);
	}
	talk_end(t);
}

static struct ibv_send_wr atomic(const struct talk *t, enum ibv_wr_opcode op, uint64_t a,
				 uint64_t b)
{
	struct ibv_send_wr wr = { .opcode = op };

	wr.wr.atomic.remote_addr = t->ep.theirs.va + TALK_TARGET;
	wr.wr.atomic.rkey = t->ep.theirs.rkey;
	wr.wr.atomic.compare_add = a;
	wr.wr.atomic.swap = b;
	return wr;
}

/* The word of the other side that all atomics go to, from 0 on. */
static const struct {
	enum ibv_wr_opcode op;
	uint64_t a, b, was;
} atomics[] = {
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, 0 },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 0, 5 },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, 4, 0x1122334455667788, 4 },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, 4, 9, 0x1122334455667788 },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, 0x1122334455667788, 0xfffffffe, 0x1122334455667788 },
};
enum { ATOMICS = sizeof(atomics) / sizeof(atomics[0]), MORE = 32 };
static const uint64_t atomics_left = 0xfffffffe;

static uint64_t word(const struct talk *t, size_t at)
{
	uint64_t w;

	memcpy(&w, t->mem + at, sizeof(w));
	return w;
}

static void ask_atomics(struct talk *t)
{
	talk_connect(t);
	for (size_t i = 0; i < ATOMICS; i++) {
		talk_ok(t, atomic(t, atomics[i].op, atomics[i].a, atomics[i].b), TALK_BACK, 8);
		talk_same("what was there", word(t, TALK_BACK), atomics[i].was);
	}
	for (size_t i = 0; i < MORE; i++) /* more than may be in the air */
		talk_post(t, atomic(t, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0), TALK_BACK + i * 8, 8);
	for (size_t i = 0; i < MORE; i++) {
		talk_same("an addition's status", talk_wc(t).status, IBV_WC_SUCCESS);
		talk_same("what was there", word(t, TALK_BACK + i * 8), atomics_left + i);
	}
	talk_end(t);
}

static void serve_atomics(struct talk *t)
{
	talk_connect(t);
	peer_sync(t->fd);
	talk_same("the word", word(t, TALK_TARGET), atomics_left + MORE);
	peer_ep_destroy(&t->ep);
}

/* WRITEs and READs in one list, a SEND of two pieces that is inline behind a fence. */
static void ask_batch(struct talk *t)
{
	struct ibv_sge sg[2 * WINDOW], two[2];
	struct ibv_send_wr wr[2 * WINDOW + 1] = { 0 }, *bad;

	talk_connect(t);
	peer_sync(t->fd);
	pattern(t, TALK_SOURCE, WINDOW * CHUNK, 1);
	for (size_t i = 0; i < 2 * WINDOW; i++) {
		bool write = i < WINDOW;
		size_t at = i % WINDOW * CHUNK;

		sg[i] = (struct ibv_sge){ (uintptr_t)t->mem + (write ? TALK_SOURCE : TALK_BACK) +
						  at,
					  CHUNK, t->mr->lkey };
		wr[i] = talk_rdma(t, write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				  TALK_TARGET + at);
		wr[i].wr_id = i;
		wr[i].sg_list = &sg[i];
		wr[i].num_sge = 1;
		wr[i].send_flags = write && i % 4 != 3 ? 0 : IBV_SEND_SIGNALED;
		wr[i].next = &wr[i + 1];
	}
	two[0] = (struct ibv_sge){ (uintptr_t)t->mem + TALK_SOURCE, 5, t->mr->lkey };
	two[1] = (struct ibv_sge){ (uintptr_t)t->mem + TALK_SOURCE + 5, 16, t->mr->lkey };
	wr[2 * WINDOW] = (struct ibv_send_wr){ .wr_id = 2 * WINDOW,
					       .opcode = IBV_WR_SEND,
					       .sg_list = two,
					       .num_sge = 2,
					       .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE |
							     IBV_SEND_FENCE };
	talk_same("ibv_post_send", ibv_post_send(t->ep.qp, wr, &bad), 0);
	for (size_t i = 3; i <= 2 * WINDOW; i += i == 3 ? 4 : 1) {
		struct ibv_wc wc = talk_wc(t);

		talk_same("the status", wc.status, IBV_WC_SUCCESS);
		talk_same("the order", wc.wr_id, i);
	}
	talk_check(t, TALK_BACK, WINDOW * CHUNK, 1);
	talk_end(t);
}

static void serve_batch(struct talk *t)
{
	talk_connect(t);
	talk_recv(t, 0, TALK_SLOT);
	peer_sync(t->fd);
	talk_same("the length", talk_received(t).byte_len, 21);
	talk_check(t, TALK_RECV, 21, 1);
	talk_check(t, TALK_TARGET, WINDOW * CHUNK, 1);
	talk_end(t);
}

static size_t length_of(size_t message)
{
	return message * 977 % CHUNK;
}

/* Message k of the stream of both sides at once: each fourth is a SEND, a WRITE, a READ, an
 * addition. */
static void both_post(struct talk *t, size_t k)
{
	size_t at = TALK_SOURCE + k % WINDOW * CHUNK, n = length_of(k);
	size_t back = TALK_BACK + k % WINDOW * CHUNK;

	pattern(t, at, n, k);
	switch (k % 4) {
	case 0:
		talk_post(t, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, at, n);
		break;
	case 1:
		talk_post(t, talk_rdma(t, IBV_WR_RDMA_WRITE_WITH_IMM, TALK_TARGET + k * CHUNK), at,
			  n);
		break;
	case 2:
		talk_post(t, talk_rdma(t, IBV_WR_RDMA_READ, TALK_BACK + TALK_SLOT), back, n);
		break;
	default:
		talk_post(t, atomic(t, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0), back, 8);
	}
}

static void both_done(const struct talk *t, size_t k)
{
	size_t back = TALK_BACK + k % WINDOW * CHUNK;

	if (k % 4 == 2)
		talk_check(t, back, length_of(k), 7);
	else if (k % 4 == 3)
		talk_same("what was there", word(t, back), k / 4);
}

/* The m-th that comes in: message 4 * (m / 2) + m % 2 of the other side. */
static void both_came(struct talk *t, const struct ibv_wc *wc, size_t m)
{
	size_t k = m / 2 * 4 + m % 2;
	size_t at = m % 2 ? TALK_TARGET + k * CHUNK : TALK_RECV + wc->wr_id * TALK_SLOT;

	talk_same("the slot", wc->wr_id, m % TALK_SLOTS);
	talk_same("the length", wc->byte_len, length_of(k));
	talk_check(t, at, length_of(k), k);
	talk_recv(t, (unsigned int)wc->wr_id, TALK_SLOT);
}

static void both(struct talk *t)
{
	size_t posted = 0, done = 0, came = 0;

	talk_connect(t);
	pattern(t, TALK_BACK + TALK_SLOT, TALK_SLOT, 7);
	for (unsigned int i = 0; i < TALK_SLOTS; i++)
		talk_recv(t, i, TALK_SLOT);
	peer_sync(t->fd);
	while (done < MESSAGES || came < MESSAGES / 2) {
		struct ibv_wc wc;

		while (posted < MESSAGES && posted - done < WINDOW)
			both_post(t, posted++);
		wc = talk_wc(t);
		talk_same("the status", wc.status, IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV)
			both_came(t, &wc, came++);
		else
			both_done(t, done++);
	}
	peer_sync(t->fd);
	talk_same("the word", word(t, TALK_TARGET), MESSAGES / 4);
	talk_end(t);
}

/* Three QPs whose messages go into one queue. */
enum { QPS = 3, EACH = 5 };

static void ask_srq(struct talk *t)
{
	struct peer_ep ep[QPS];

	for (size_t i = 0; i < QPS; i++) {
		peer_ep_create(&t->dev, &t->o, &ep[i]);
		talk_connect_ep(t, &ep[i]);
	}
	peer_sync(t->fd);
	for (size_t i = 0; i < QPS * EACH; i++) {
		t->ep = ep[i % QPS];
		pattern(t, TALK_SOURCE, t->sizes[i % TALK_SIZES], i);
		talk_ok(t, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, TALK_SOURCE,
			t->sizes[i % TALK_SIZES]);
	}
	peer_sync(t->fd);
	for (size_t i = 0; i < QPS; i++)
		peer_ep_destroy(&ep[i]);
}

static void serve_srq(struct talk *t)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 32, .max_sge = 1 } };
	struct peer_ep ep[QPS];

	t->o.srq = ibv_create_srq(t->dev.pd, &attr);
	if (!t->o.srq)
		die("ibv_create_srq");
	for (size_t i = 0; i < QPS; i++) {
		peer_ep_create(&t->dev, &t->o, &ep[i]);
		talk_connect_ep(t, &ep[i]);
	}
	for (size_t i = 0; i < QPS * EACH; i++) {
		size_t at = TALK_RECV + i * TALK_SLOT;
		struct ibv_sge sg = { (uintptr_t)t->mem + at, TALK_SLOT, t->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sg, .num_sge = 1 }, *bad;

		talk_same("ibv_post_srq_recv", ibv_post_srq_recv(t->o.srq, &wr, &bad), 0);
	}
	peer_sync(t->fd);
	for (size_t i = 0; i < QPS * EACH; i++) {
		struct ibv_wc wc;

		t->ep = ep[i % QPS];
		wc = talk_received(t);
		talk_same("the QP", wc.qp_num, t->ep.qp->qp_num);
		talk_same("the length", wc.byte_len, t->sizes[i % TALK_SIZES]);
		talk_check(t, TALK_RECV + wc.wr_id * TALK_SLOT, wc.byte_len, i);
	}
	peer_sync(t->fd);
	for (size_t i = 0; i < QPS; i++)
		peer_ep_destroy(&ep[i]);
	talk_same("ibv_destroy_srq", ibv_destroy_srq(t->o.srq), 0);
}

const struct talk_case talk_data[] = {
	{ "sizes", IBV_QPT_RC, ask_sizes, serve_sizes },
	{ "empty", IBV_QPT_RC, ask_empty, serve_empty },
	{ "marked", IBV_QPT_RC, ask_marked, serve_marked },
	{ "immediates", IBV_QPT_RC, ask_imm, serve_imm },
	{ "atomics", IBV_QPT_RC, ask_atomics, serve_atomics },
	{ "batch", IBV_QPT_RC, ask_batch, serve_batch },
	{ "both", IBV_QPT_RC, both, both },
	{ "srq", IBV_QPT_RC, ask_srq, serve_srq },
	{ "uc", IBV_QPT_UC, ask_uc, serve_uc },
	{ "uc-immediates", IBV_QPT_UC, ask_imm, serve_imm },
	{ 0 },
};
