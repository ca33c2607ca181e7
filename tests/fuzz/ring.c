// SPDX-License-Identifier: MIT
/* A ring that a peer wrote: records, words and positions. Whatever is decoded lies in its record
 * and says the same when it is sent on. The input: where this end stands, the peer's position and
 * whether it waits; then what the ring holds from there on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "peers/ring_seg.h"

enum { HEAD = 12, BYTES = 2048, LINES = RING_MIN / RING_LINE };

const struct fuzz_target fuzz_target = { "ring", HEAD + BYTES, 200000 };

static uint8_t *memory; /* RING_CTL + RING_MIN bytes, all zero between inputs */

/* As the ring wraps. */
static void lay(uint64_t at, const uint8_t *from, size_t n)
{
	uint8_t *data = memory + RING_CTL;

	for (size_t i = 0; i < n; i++)
		data[(at + i) % RING_MIN] = from ? from[i] : 0;
}

static uint64_t same_numbers(const struct seg *a, const struct seg *b)
{
	return a->op == b->op && a->flags == b->flags && a->syndrome == b->syndrome &&
	       a->pkey == b->pkey && a->dqpn == b->dqpn && a->sqpn == b->sqpn && a->psn == b->psn &&
	       a->npsn == b->npsn && a->len == b->len && a->msn == b->msn &&
	       a->ack_psn == b->ack_psn && a->ack_msn == b->ack_msn && a->imm == b->imm &&
	       a->qkey == b->qkey && a->srqn == b->srqn && a->va == b->va && a->rkey == b->rkey &&
	       a->dma_len == b->dma_len && a->swap_add == b->swap_add && a->compare == b->compare &&
	       a->npieces == b->npieces && a->l3 == b->l3 && a->sl == b->sl && !a->grh == !b->grh;
}

static void send_on(const struct seg *s)
{
	static uint8_t rec[RING_RECORD_MAX] __attribute__((aligned(RING_LINE)));
	static struct ring_got got;
	bool by_ref = s->flags & SEG_BYREF;
	struct ring_plan p;
	uint64_t word;

	ring_seg_plan(s, by_ref, &p);
	if (p.bytes > RING_RECORD_MAX)
		return;
	word = ring_seg_encode(s, &p, by_ref, rec);
	must(!ring_seg_decode(word, rec, p.bytes, &got));
	must(same_numbers(s, &got.seg));
}

static void look_at(const struct seg *s, const uint8_t *rec, uint32_t bytes)
{
	uint64_t sum = 0;

	must((s->dqpn | s->sqpn) <= 0xffffff);
	must(!s->data || !s->pieces);
	must(s->npieces <= RING_SEG_PIECES);
	for (unsigned int i = 0; i < s->npieces; i++)
		sum += s->pieces[i].len;
	if (s->flags & SEG_BYREF)
		must(s->npieces && s->pieces && sum == s->len);
	else
		must(s->data >= rec && s->len <= bytes && s->data + s->len <= rec + bytes);
	send_on(s);
}

static void consume(struct ring *r)
{
	static struct ring_got got;
	const uint8_t *rec;
	uint32_t bytes;
	uint64_t word;

	for (unsigned int n = 0; !ring_peek(r, &word, &rec, &bytes); n++) {
		must(n < LINES); /* it would go round for ever */
		must(rec >= r->data && bytes && bytes <= r->size);
		must(rec + bytes <= r->data + r->size);
		if ((word & 15) != RING_SEG || ring_seg_decode(word, rec, bytes, &got))
			break;
		look_at(&got.seg, rec, bytes);
		ring_advance(r, bytes);
		ring_settle(r);
		lay(rec - r->data, NULL, bytes); /* as a producer does before it comes round */
	}
}

/* As the producer, with a consumer that tells anything. */
static void produce(struct ring *r, uint32_t lines)
{
	uint8_t *rec;
	int err;

	err = ring_reserve(r, lines * RING_LINE, &rec);
	must(!err || err == EAGAIN || err == EPROTO);
	if (err)
		return;
	must(rec >= r->data && rec + lines * RING_LINE <= r->data + r->size);
	ring_publish(r, ring_word(RING_SEG, lines * RING_LINE, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	uint64_t start = fuzz_take(&b, 2) * RING_LINE, told = fuzz_take(&b, 8);
	uint32_t want = (uint32_t)fuzz_take(&b, 1);
	uint32_t lines = 1 + (uint32_t)fuzz_take(&b, 1) * 2 % (RING_RECORD_MAX / RING_LINE);
	struct ring in, out;
	bool anew;
	int err;

	if (!memory)
		memory = aligned_alloc(RING_CTL, RING_CTL + RING_MIN);
	if (!memory)
		abort();
	memset(memory, 0, RING_CTL + RING_MIN);
	ring_init(&in, memory, RING_MIN);
	in.pos = in.seen = start;
	in.ctl->want = want;
	lay(start, b.p, b.left);
	consume(&in);
	ring_init(&out, memory, RING_MIN);
	out.pos = start;
	out.seen = start < RING_MIN ? 0 : start - RING_MIN;
	out.ctl->pos = told;
	for (unsigned int i = 0; i < 3; i++)
		produce(&out, lines);
	err = ring_moved_on(&out, &anew);
	must(!err || err == EAGAIN || err == EPROTO);
	must(out.seen <= out.pos && (err == EAGAIN || !anew));
	return 0;
}
