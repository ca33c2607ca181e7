// SPDX-License-Identifier: MIT
/* Send and receive queues, which any program may fill with anything: what a WQE names lies in the
 * ring or is a list whose lengths add up. The input: service, size of the ring, stride, index,
 * how many blocks were posted; then the ring. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "prm/umr.h"
#include "prm/wqe_single.h"

enum { MAX_LOG = 5, HEAD = 7 };

const struct fuzz_target fuzz_target = { "wqe", HEAD + (WQE_BB << MAX_LOG), 400000 };

static uint64_t in_ring(const struct sq_ring *ring, const struct sge *run, unsigned int n)
{
	uint64_t start = (uintptr_t)ring->buf, size = (uint64_t)ring->cnt * WQE_BB, sum = 0;

	must(n <= 2);
	for (unsigned int i = 0; i < n; i++) {
		must(run[i].addr >= start && run[i].len <= size);
		must(run[i].addr - start <= size - run[i].len);
		sum += run[i].len;
	}
	return sum;
}

static uint64_t list_len(const struct sge *sge, unsigned int n)
{
	uint64_t sum = 0;

	must(n <= WQE_MAX_RUNS);
	for (unsigned int i = 0; i < n; i++)
		sum += sge[i].len;
	return sum;
}

/* What the short way takes is what the parser finds. */
static void single_send(const struct sq_ring *ring, uint16_t pi, enum wqe_service svc, int err,
			const struct wqe *w)
{
	struct wqe_single s;

	if (!wqe_single_send(ring, pi, w->qpn, &s) || svc != WQE_CONNECTED || err)
		return;
	must(w->opcode == MLX5_OPCODE_SEND && !w->opmod && w->idx == pi && !w->fence);
	must(w->nsge == 1 && w->inlined == s.inlined && w->len == s.sge.len && w->nbb == s.nbb);
	must(w->sge[0].addr == s.sge.addr && w->sge[0].key == s.sge.key);
	must(w->signaled == s.signaled && w->solicited == s.solicited);
}

static void single_datagram(const struct sq_ring *ring, uint16_t pi, enum wqe_service svc, int err,
			    const struct wqe *w)
{
	struct wqe_single s;
	const uint8_t *av;

	if (!wqe_single_datagram(ring, pi, w->qpn, &s, &av) || svc != WQE_DATAGRAM || err)
		return;
	must(av >= ring->buf && av + WQE_SINGLE_AV <= ring->buf + (size_t)ring->cnt * WQE_BB);
	must(w->opcode == MLX5_OPCODE_SEND && !w->opmod && w->idx == pi && !w->fence);
	must(w->nsge == 1 && w->inlined == s.inlined && w->len == s.sge.len && w->nbb == s.nbb);
	must(w->sge[0].addr == s.sge.addr && w->sge[0].key == s.sge.key);
	must(w->signaled == s.signaled && w->solicited == s.solicited);
	must(w->qkey == get_be32(av) && w->dqpn == (get_be32(av + 8) & 0xffffff));
}

static void single_remote(const struct sq_ring *ring, uint16_t pi, enum wqe_service svc, int err,
			  const struct wqe *w)
{
	struct wqe_remote to;
	struct wqe_single s;

	if ((w->opcode != MLX5_OPCODE_RDMA_WRITE && w->opcode != MLX5_OPCODE_RDMA_READ) ||
	    !wqe_single_remote(ring, pi, w->opcode, w->qpn, &s, &to) || svc != WQE_CONNECTED || err)
		return;
	must(!w->opmod && w->idx == pi && !w->fence);
	must(w->nsge == 1 && w->inlined == s.inlined && w->len == s.sge.len && w->nbb == s.nbb);
	must(w->sge[0].addr == s.sge.addr && w->sge[0].key == s.sge.key);
	must(w->signaled == s.signaled && w->raddr == to.addr && w->rkey == to.key);
}

static void send_queue(const struct sq_ring *ring, uint16_t pi, uint16_t avail,
		       enum wqe_service svc)
{
	struct wqe w, first;
	struct umr u;
	int err;

	memset(&w, 0x5a, sizeof(w));
	memset(&first, 0x5a, sizeof(first));
	wqe_peek(ring, pi, &first);
	must(first.nbb >= 1 && first.nbb <= WQE_MAX_BB);
	err = wqe_parse(ring, pi, avail, svc, &w);
	must(w.nbb == first.nbb && w.opcode == first.opcode && w.idx == first.idx);
	single_send(ring, pi, svc, err, &w);
	single_datagram(ring, pi, svc, err, &w);
	single_remote(ring, pi, svc, err, &w);
	if (err)
		return;
	must(w.nbb <= avail);
	if (!umr_parse(ring, pi, &u) && u.listed)
		must(u.nparts >= 1 && u.nparts <= UMR_PARTS);
	must(in_ring(ring, w.head, w.nhead) == w.head_len);
	must(w.nsge <= WQE_MAX_RUNS && !(w.inlined >> w.nsge));
	for (unsigned int i = 0; i < w.nsge; i++)
		must(!(w.inlined >> i & 1) || in_ring(ring, &w.sge[i], 1) == w.sge[i].len);
	must(w.nsge - (unsigned int)__builtin_popcountll(w.inlined) <= WQE_MAX_SGE);
	must(list_len(w.sge, w.nsge) == w.len && w.len <= 1U << 31);
}

static void receive_queue(const struct rq_ring *ring, uint16_t idx)
{
	struct sge only;
	struct rwqe w;
	uint16_t next;

	rwqe_parse(ring, idx, &w);
	if (rwqe_single(ring, idx, &only))
		must(w.nsge == 1 && !memcmp(&only, &w.sge[0], sizeof(only)));
	must(w.idx == idx && w.nsge <= WQE_MAX_SGE && list_len(w.sge, w.nsge) == w.len);
	srwqe_parse(ring, idx, &w, &next);
	must(w.idx < ring->cnt && w.nsge <= WQE_MAX_SGE && list_len(w.sge, w.nsge) == w.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	enum wqe_service svc = (enum wqe_service)(fuzz_take(&b, 1) % (WQE_DC + 1));
	unsigned int log = (unsigned int)fuzz_take(&b, 1) % (MAX_LOG + 1);
	unsigned int stride = 16U << fuzz_take(&b, 1) % (log + 3);
	uint16_t at = (uint16_t)fuzz_take(&b, 2), avail = (uint16_t)fuzz_take(&b, 2);
	size_t size = (size_t)WQE_BB << log;
	struct sq_ring sq = { .cnt = 1U << log };
	struct rq_ring rq = { .cnt = (uint32_t)(size / stride), .stride = stride };
	const uint8_t *from;
	size_t n;

	sq.buf = rq.buf = calloc(1, size); /* of that size, so that a sanitizer sees its end */
	if (!sq.buf)
		abort();
	n = fuzz_take_run(&b, size, &from);
	memcpy(sq.buf, from, n);
	send_queue(&sq, at, (uint16_t)(avail % (2 * sq.cnt + 1)), svc);
	receive_queue(&rq, at);
	free(sq.buf);
	return 0;
}
