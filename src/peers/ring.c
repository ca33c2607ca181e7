// SPDX-License-Identifier: MIT
#include "peers/ring.h"
#include <errno.h>

enum { AHEAD = 4 }; /* lines */

void ring_init(struct ring *r, void *mem, uint32_t size)
{
	*r = (struct ring){
		.ctl = mem, .data = (uint8_t *)mem + RING_CTL, .size = size, .refused = UINT64_MAX
	};
}

static uint64_t *word_at(const struct ring *r, uint64_t pos)
{
	return (uint64_t *)(r->data + (pos & (r->size - 1)));
}

/* Reads the consumer's position; it may only go on, and not past the producer. 0 says nothing new:
 * a consumer that ends gives the memory back. */
static int look(struct ring *r)
{
	uint64_t pos = load_acquire(&r->ctl->pos); /* (P) */

	if (!pos)
		return 0;
	if (pos - r->seen > r->pos - r->seen || pos % RING_LINE)
		return EPROTO;
	r->seen = pos;
	return 0;
}

int ring_ask(struct ring *r, bool *told)
{
	uint32_t nothing = 0;

	*told = cas_acq_rel(&r->ctl->want, &nothing, RING_WANT_POSITION); /* before look() */
	return look(r);
}

/* One line more than the records: the 0 where the next one begins. */
static bool fits(const struct ring *r, uint64_t bytes)
{
	return bytes + RING_LINE <= r->size - (r->pos - r->seen);
}

static int make_room(struct ring *r, uint64_t bytes)
{
	int err;

	if (likely(fits(r, bytes)))
		return 0;
	err = look(r);
	if (err || fits(r, bytes))
		return err;
	store_relaxed(&r->ctl->want, RING_WANT_SPACE); /* (W) */
	/* Either we see the consumer's newest position, or it sees the wish: pairs with tell(). */
	full_fence();
	err = look(r);
	if (err)
		return err;
	if (!fits(r, bytes)) {
		r->refused = r->seen;
		return EAGAIN;
	}
	store_relaxed(&r->ctl->want, 0);
	return 0;
}

/* Only its position is believed: an honest consumer may answer once without having moved on, and
 * one that answers all the time without taking anything would keep us going round. */
int ring_moved_on(struct ring *r, bool *anew)
{
	int err = look(r);

	*anew = false;
	if (err || r->seen != r->refused)
		return err;
	*anew = load_relaxed(&r->ctl->want) != RING_WANT_SPACE;
	if (*anew)
		store_relaxed(&r->ctl->want, RING_WANT_SPACE); /* before the caller's wake */
	return EAGAIN;
}

/* The 0 behind a record of @bytes is stored before its body: body and word then reach their line in
 * one go, or the consumer, which polls that line, takes it away in between. */
static void end_at(struct ring *r, uint32_t bytes)
{
	store_relaxed(word_at(r, r->pos + bytes), 0);
}

static void publish(struct ring *r, uint64_t word, uint32_t bytes)
{
	store_release(word_at(r, r->pos), word); /* (R): the record and the next 0 are in place */
	r->pos += bytes;
	/* The lines of the records that follow: fetching them is the cost of a stream. */
	for (unsigned int i = 1; i <= AHEAD; i++)
		prefetch_to_write(word_at(r, r->pos + i * RING_LINE));
}

int ring_reserve(struct ring *r, uint32_t bytes, uint8_t **rec)
{
	uint32_t left = r->size - (uint32_t)(r->pos & (r->size - 1));
	uint32_t pad = left < bytes ? left : 0;
	int err = make_room(r, (uint64_t)pad + bytes);

	if (err)
		return err;
	if (pad) {
		end_at(r, pad);
		publish(r, ring_word(RING_PAD, pad, 0), pad);
	}
	end_at(r, bytes);
	*rec = (uint8_t *)word_at(r, r->pos);
	return 0;
}

static uint32_t word_bytes(uint64_t word)
{
	return (uint32_t)(word >> 4 & 0xffff) * RING_LINE;
}

void ring_publish(struct ring *r, uint64_t word)
{
	publish(r, word, word_bytes(word));
}

static int peek(struct ring *r, uint64_t *word, const uint8_t **rec, uint32_t *bytes)
{
	uint32_t left = r->size - (uint32_t)(r->pos & (r->size - 1));

	*word = load_acquire(word_at(r, r->pos)); /* (R) */
	if (!*word)
		return EAGAIN;
	*rec = (const uint8_t *)word_at(r, r->pos);
	*bytes = word_bytes(*word);
	if (!*bytes || *bytes > left)
		return EPROTO;
	__builtin_prefetch(*rec + RING_LINE);
	__builtin_prefetch(word_at(r, r->pos + *bytes));
	return 0;
}

int ring_peek(struct ring *r, uint64_t *word, const uint8_t **rec, uint32_t *bytes)
{
	int err = peek(r, word, rec, bytes);

	if (err || (*word & 15) != RING_PAD)
		return err;
	r->pos += *bytes; /* stored with the record behind it, whose caller hears of a waiter */
	err = peek(r, word, rec, bytes);
	return !err && (*word & 15) == RING_PAD ? EPROTO : err; /* never two in a row */
}

/* Publishes the position; says whether the producer waits for it. */
static bool tell(struct ring *r)
{
	r->seen = r->pos;
	store_release(&r->ctl->pos, r->pos); /* (P): we are done with what lies before */
	full_fence(); /* pairs with make_room() */
	if (likely(!load_relaxed(&r->ctl->want))) /* (W) */
		return false;
	/* One question may become the other meanwhile. */
	return xchg_acq_rel(&r->ctl->want, 0) == RING_WANT_SPACE;
}

bool ring_advance(struct ring *r, uint32_t bytes)
{
	r->pos += bytes;
	return unlikely(r->pos - r->seen >= r->size / 4) && tell(r);
}

bool ring_settle(struct ring *r)
{
	return unlikely(load_relaxed(&r->ctl->want)) && tell(r);
}
