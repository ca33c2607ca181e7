// SPDX-License-Identifier: MIT
#include <string.h>
#include "property/side.h"
#include "verbs/peer.h"

size_t slot_bytes(const struct program *p)
{
	return (p->max_len + 40 + 256 + 64 + GUARD + 63) & ~(size_t)63;
}

static size_t source_bytes(const struct program *p)
{
	return (p->max_len + 4095) & ~(size_t)4095;
}

size_t slot_at(const struct program *p, enum area a, unsigned int k)
{
	unsigned int before = a == AREA_OPS ? 0 : a == AREA_TARGET ? OPS : 2 * OPS;

	return SOURCE_AT + source_bytes(p) + (before + k) * slot_bytes(p);
}

size_t memory_bytes(const struct program *p)
{
	return (slot_at(p, AREA_RECVS, RECVS) + 4095) & ~(size_t)4095;
}

uint64_t base_pattern(const struct program *p)
{
	return mix(p->seed, 999);
}

/* Piece @i of @n: where it begins in the message, and how long it is. */
static uint32_t piece(uint32_t len, unsigned int n, unsigned int i, uint32_t *size)
{
	uint32_t each = len / n;

	*size = i == n - 1 ? len - each * i : each;
	return each * i;
}

/* The first piece lies last in memory. */
static uint32_t place_of(uint32_t len, uint32_t begin, uint32_t size)
{
	return len - begin - size;
}

unsigned int pieces(struct ibv_sge sg[SGES], uint8_t *base, uint32_t len, unsigned int n,
		    uint32_t lkey)
{
	for (unsigned int i = 0; i < n; i++) {
		uint32_t size, begin = piece(len, n, i, &size);

		sg[i] = (struct ibv_sge){ (uintptr_t)base + place_of(len, begin, size), size,
					  lkey };
	}
	return n;
}

void pieces_fill(uint8_t *base, uint32_t len, unsigned int n, uint64_t content)
{
	for (unsigned int i = 0; i < n; i++) {
		uint32_t size, begin = piece(len, n, i, &size);

		pattern_fill(base + place_of(len, begin, size), size, content, begin);
	}
}

/* The pieces hold @len bytes of the pattern behind @skip others, of @of that they have room for. */
bool pieces_are(const uint8_t *base, uint32_t skip, uint32_t len, uint32_t of, unsigned int n,
		uint64_t content)
{
	for (unsigned int i = 0; i < n; i++) {
		uint32_t size, begin = piece(of, n, i, &size), from, to;

		from = begin > skip ? begin : skip;
		to = begin + size < skip + len ? begin + size : skip + len;
		if (from < to && pattern_check(base + place_of(of, begin, size) + (from - begin),
					       to - from, content, from - skip) != to - from)
			return false;
	}
	return true;
}

void memory_refill(struct side *s)
{
	const struct program *p = s->pr->p;
	uint64_t zero = 0;

	memcpy(s->mem + WORD_AT, &zero, sizeof(zero));
	for (unsigned int k = 0; k < s->v.their_ops; k++)
		if (is_write(&s->v.theirs->op[k]))
			pattern_fill(s->mem + slot_at(p, AREA_TARGET, k),
				     s->v.theirs->op[k].len + GUARD, base_pattern(p), 0);
}

static void verify_target(struct side *s, unsigned int k, enum outcome out)
{
	const struct op *o = &s->v.theirs->op[k];
	const uint8_t *at = s->mem + slot_at(s->pr->p, AREA_TARGET, k);
	uint64_t base = base_pattern(s->pr->p);
	size_t bad;

	bad = pattern_check_told(at + o->len, GUARD, base, o->len);
	if (bad != GUARD)
		board_fail("link %u side %c episode %u: byte %zu behind the target of operation %u "
			   "was written",
			   s->link, "ab"[s->s], s -> ep, bad, k);
	if (out == OUT_UNKNOWN)
		return;
	bad = pattern_check_told(at, o->len, out == OUT_SUCCESS ? o->content : base, 0);
	if (bad != o->len)
		board_fail("link %u side %c episode %u: byte %zu of %u of the target of operation "
			   "%u, which %s",
			   s->link, "ab"[s->s], s -> ep, bad, o -> len, k,
			   out == OUT_SUCCESS ? "succeeded, is missing"
					      : "was not executed, was written");
}

PEER_TOLD static void verify_word(struct side *s)
{
	const struct seat *peer = &board->seat[s->link][!s->s];
	uint64_t now;

	memcpy(&now, s->mem + WORD_AT, sizeof(now));
	for (unsigned int i = peer->words_sure; i <= peer->words; i++)
		if (now == peer->word[i])
			return;
	board_fail("link %u side %c episode %u: the word is 0x%llx, after %u to %u atomics 0x%llx",
		   s->link, "ab"[s->s], s -> ep, (unsigned long long)now, peer -> words_sure,
		   peer -> words, (unsigned long long)peer -> word[peer->words]);
}

void memory_verify(struct side *s)
{
	const struct seat *peer = &board->seat[s->link][!s->s];
	/* A UC responder takes any first packet: what an earlier episode sent may land in it. */
	unsigned int n = s->v.l->type == IBV_QPT_UC && s->ep ? 0 : s->v.their_ops;
	size_t bad;

	for (unsigned int k = 0; k < n; k++)
		if (is_write(&s->v.theirs->op[k]))
			verify_target(s, k, peer->out[k]);
	if (reliable(s->v.l))
		verify_word(s);
	bad = pattern_check(s->mem + SOURCE_AT, s->pr->p->max_len,
			    source_pattern(s->pr->p, s->link, s->s), 0);
	if (bad != s->pr->p->max_len)
		board_fail("link %u side %c: byte %zu of memory that is only read was written",
			   s->link, "ab"[s->s], bad);
}
