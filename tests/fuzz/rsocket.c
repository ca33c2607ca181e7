// SPDX-License-Identifier: MIT
/* A stream of rsocket(7) and a peer that lies: in its greeting, in what it writes into the tables
 * and the ring that it may write to, in immediates, lengths and credits. The program sends,
 * receives and writes by the I/O map meanwhile. The sum of a ring's bytes stays its size, no queue
 * gets more than it has places for, and what leaves lies in the send buffer. The stream's code is
 * compiled here, on a device that keeps what is posted. */
#include <errno.h>
#include <string.h>
#include "rdmacm/rsocket/ring.c"
/* behind ring.c */
#include "rdmacm/rsocket/iomap.c"
#include "rdmacm/rsocket/stream.c"
#include "fuzz.h"
#include "util/arena.h"

enum {
	QUEUE = 16, /* places of each */
	INLINED = 64,
	BUFFER = 4096,
	ENTRIES = 3, /* of the I/O map */
	MOST = 6000, /* bytes of a call */
};

const struct fuzz_target fuzz_target = { "rsocket", 1024, 100000 };

static struct world {
	struct sock s;
	struct ibv_context verbs;
	struct ibv_pd pd;
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct ibv_comp_channel channel;
	struct rdma_cm_id id;
	unsigned int receives, sends; /* posted */
	uint64_t sent[QUEUE]; /* wr_ids, the oldest first */
	struct ibv_wc done[2]; /* what the CQ has */
	int n_done;
	uint64_t taken, got; /* bytes that came, that the program has */
	uint8_t mapped[256];
} w;

/* --- the device --- */

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)bad;
	for (; wr; wr = wr->next)
		must(++w.receives <= w.s.opt.rq);
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	volatile uint8_t sum = 0;

	(void)qp;
	(void)bad;
	must(!wr->next && w.sends < w.s.opt.sq && wr->num_sge <= 2);
	for (int i = 0; i < wr->num_sge; i++) {
		const uint8_t *at = (const uint8_t *)(uintptr_t)wr->sg_list[i].addr;

		must(wr->send_flags & IBV_SEND_INLINE ||
		     (at >= w.s.sbuf && at + wr->sg_list[i].length <= w.s.sbuf + w.s.opt.sndbuf));
		for (uint32_t k = 0; k < wr->sg_list[i].length; k++)
			sum ^= at[k];
	}
	w.sent[w.sends++] = wr->wr_id;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = w.n_done < n ? w.n_done : n;

	(void)cq;
	memcpy(wc, w.done, (size_t)got * sizeof(*wc));
	w.n_done -= got;
	return got;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)access;
	*mr = (struct ibv_mr){ .pd = pd, .addr = addr, .length = length, .lkey = 1, .rkey = 2 };
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	static int fd = -1; /* its flags are set */

	(void)context;
	if (fd < 0)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	w.channel.fd = fd;
	return &w.channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	(void)channel;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	(void)cqe;
	(void)cq_context;
	(void)channel;
	(void)comp_vector;
	w.cq.context = context;
	return &w.cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	(void)attr;
	w.qp.context = &w.verbs;
	id->qp = &w.qp;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	id->qp = NULL;
}

/* --- the rest of a socket --- */

int softhca_arena_take(size_t len, struct arena_part **out)
{
	return arena_take(len, out);
}

void *softhca_arena_at(const struct arena_part *p)
{
	return arena_at(p);
}

void softhca_arena_give(struct arena_part *p)
{
	arena_give(p);
}

int softhca_refuse(int err, const char *fmt, ...)
{
	(void)fmt;
	return err;
}

void sock_changed(struct sock *s)
{
	(void)s;
}

void sock_end(struct sock *s, int err)
{
	if (s->state == SOCK_OVER)
		return;
	s->state = SOCK_OVER;
	s->err = err;
	s->can_read = s->can_write = false;
}

int sock_get(int fd, struct sock **out)
{
	(void)fd;
	*out = &w.s;
	return 0;
}

void sock_put(struct sock *s)
{
	(void)s;
}

bool meet_underway(const struct sock *s)
{
	(void)s;
	return false;
}

bool sock_holds(struct sock *s, enum awaited what)
{
	if (what == AWAIT_READABLE)
		return s->have || !s->can_read;
	return !s->can_write || (s->state == SOCK_OPEN && ring_can_send(s));
}

int sock_unwritable(const struct sock *s)
{
	return s->can_write ? 0 : EPIPE;
}

int sock_wait(struct sock *s, bool nonblock, enum awaited what)
{
	must(nonblock);
	return sock_holds(s, what) ? 0 : EAGAIN;
}

/* --- what happens --- */

static void is_sound(const struct sock *s)
{
	must(s->state == SOCK_OPEN || s->state == SOCK_OVER);
	must(s->offered <= s->opt.rcvbuf && s->have <= s->opt.rcvbuf);
	must(s->offered + s->have + s->consumed == s->opt.rcvbuf);
	must(s->rpos < s->opt.rcvbuf && s->spos < s->opt.sndbuf && s->sfree <= s->opt.sndbuf);
	must(s->sends_free <= s->opt.sq - CONTROL_SLOTS && s->control_free <= CONTROL_SLOTS);
	must(s->targets <= SGES && s->next_sge < SGES && s->next_theirs < s->their_sge_count);
	must(w.taken == w.got + s->have);
}

static void completes(const struct ibv_wc *wc)
{
	uint32_t had = w.s.have;

	w.done[0] = *wc;
	w.n_done = 1;
	ring_progress(&w.s);
	must(!w.n_done || w.s.state != SOCK_OPEN);
	w.n_done = 0;
	must(w.s.have >= had);
	w.taken += w.s.have - had;
}

/* What the peer may write to: tables and ring. */
static void peer_writes(struct fuzz_bytes *b)
{
	size_t size = SGES * sizeof(struct sge) + ENTRIES * sizeof(struct iomap);
	bool ring = fuzz_take(b, 1) & 1;
	uint8_t *to = ring ? w.s.rbuf : (uint8_t *)w.s.sges;
	size_t room = ring ? w.s.opt.rcvbuf : size, at = fuzz_take(b, 2) % room, n;
	const uint8_t *from;

	n = fuzz_take_run(b, fuzz_take(b, 1) % 64, &from);
	memcpy(to + at, from, n < room - at ? n : room - at);
}

static void peer_says(struct fuzz_bytes *b)
{
	static const uint32_t lengths[] = { 0, 16, 24, BUFFER / 2 };
	uint8_t how = (uint8_t)fuzz_take(b, 1);
	uint32_t data = (uint32_t)fuzz_take(b, 2);
	struct ibv_wc wc = { .wr_id = (uint64_t)OF_RECEIVE << 32,
			     .status = how & 0x40 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS,
			     .opcode = how & 0x80 ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
			     .byte_len = how & 8 ? data : lengths[how >> 4 & 3],
			     .imm_data = htobe32(ring_imm(how & 7, data)) };

	if (!w.receives)
		return; /* the peer's queue pair waits */
	w.receives--;
	completes(&wc);
}

static void send_completes(bool fails)
{
	struct ibv_wc wc = { .status = fails ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS };

	if (!w.sends)
		return;
	wc.wr_id = w.sent[0];
	memmove(w.sent, w.sent + 1, --w.sends * sizeof(w.sent[0]));
	completes(&wc);
}

static void program_moves(struct fuzz_bytes *b, bool sends)
{
	static uint8_t bytes[MOST];
	struct iovec iov = { bytes, fuzz_take(b, 2) % MOST };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int flags = MSG_DONTWAIT | (fuzz_take(b, 1) & 1 ? MSG_PEEK : 0);
	size_t n = 0;

	if (sends) {
		stream_send(&w.s, &m, MSG_DONTWAIT, &n);
	} else {
		stream_receive(&w.s, &m, flags, &n);
		w.got += flags & MSG_PEEK ? 0 : n;
	}
	must(n <= iov.iov_len);
}

static void program_maps(struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1), at = how >> 2;
	uint64_t offset = fuzz_take(b, 8);
	size_t n = 0;

	if (how & 1)
		riomap(0, w.mapped + at, at + 1U, how & 2 ? PROT_WRITE : 0, 0, at);
	else if (how & 2)
		riounmap(0, w.mapped + at, at + 1U);
	else
		write_all(&w.s, w.mapped, at, offset, true, &n);
}

static void happen(struct fuzz_bytes *b)
{
	switch (fuzz_take(b, 1) % 7) {
	case 0:
		peer_writes(b);
		break;
	case 1:
	case 2:
		peer_says(b);
		break;
	case 3:
		send_completes(fuzz_take(b, 1) > 250);
		break;
	case 4:
		program_moves(b, true);
		break;
	case 5:
		program_moves(b, false);
		break;
	default:
		program_maps(b);
	}
}

static void begin(void)
{
	memset(&w, 0, sizeof(w));
	w.verbs.ops.poll_cq = poll_cq;
	w.verbs.ops.post_send = post_send;
	w.verbs.ops.post_recv = post_receive;
	w.pd.context = &w.verbs;
	w.id.verbs = &w.verbs;
	w.id.pd = &w.pd;
	w.s.id = &w.id;
	w.s.opt.sq = w.s.opt.rq = QUEUE;
	w.s.opt.inlined = INLINED;
	w.s.opt.sndbuf = w.s.opt.rcvbuf = BUFFER;
	w.s.opt.iomaps = ENTRIES;
	w.s.can_read = w.s.can_write = true;
	w.s.state = SOCK_OPEN;
}

static void end(void)
{
	while (w.s.exported) {
		struct exported *x = w.s.exported;

		w.s.exported = x->next;
		free(x->mr);
		free(x);
	}
	ring_free(&w.s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	const uint8_t *greeting;
	size_t n;

	begin();
	must(!ring_make(&w.s));
	n = fuzz_take_run(&b, sizeof(struct greeting), &greeting);
	if (!ring_meet(&w.s, greeting, n)) {
		is_sound(&w.s);
		while (b.left) {
			happen(&b);
			is_sound(&w.s);
		}
	}
	end();
	return 0;
}
