// SPDX-License-Identifier: MIT
/* A ring of records in memory shared by two processes: one producer, one consumer
 * (docs/design/rings.md).
 *
 * Records are multiples of 64 bytes and stand in one piece; each begins with a word that is not 0,
 * stored last. Before that the producer stores 0 where the next record will begin, so the consumer
 * polls just that line. Positions are byte counts that never wrap. The consumer stores its position
 * rarely: every quarter, and when the producer has asked for space or for the position.
 *
 * Neither end trusts the other: lengths and positions are copied once and checked; EPROTO means
 * that the peer has written values that cannot be right. Each end is guarded by a lock of the
 * caller's. */
#pragma once
#include "util/barrier.h"

enum {
	RING_LINE = 64,
	RING_CTL = 4096, /* bytes before the data */
	RING_MIN = 64 << 10, /* bytes of data, a power of two */
	RING_MAX = 1 << 20,
	RING_RECORD_MAX = RING_MIN / 2 - RING_LINE, /* always fits a ring that is empty */
};

/* Kinds of records: the lowest 4 bits of the first word. */
enum { RING_SEG = 1, RING_PAD, RING_MOVED };

/* What the producer wants of the consumer, which answers by storing its position; 0: nothing. */
enum { RING_WANT_SPACE = 1, RING_WANT_POSITION };

struct ring_ctl {
	uint64_t pos __attribute__((aligned(RING_LINE))); /* the consumer's position; (P) */
	uint32_t want __attribute__((aligned(RING_LINE))); /* RING_WANT_*, by the producer; (W) */
};

struct ring { /* one end */
	struct ring_ctl *ctl;
	uint8_t *data;
	uint32_t size;
	uint64_t pos; /* position of this end */
	uint64_t seen; /* the consumer's position as last read (producer) or stored (consumer) */
	uint64_t refused; /* producer: @seen when a record did not fit last */
};

/* @mem: RING_CTL + @size bytes, zero at first. */
void ring_init(struct ring *r, void *mem, uint32_t size);

/* A word for a record of @bytes; @info are the upper 44 bits, the caller's. */
static inline uint64_t ring_word(unsigned int kind, uint32_t bytes, uint64_t info)
{
	return kind | (uint64_t)(bytes / RING_LINE) << 4 | info << 20;
}

static inline uint64_t ring_word_info(uint64_t word)
{
	return word >> 20;
}

/* Producer. Place for a record of @bytes (a multiple of 64, at most RING_RECORD_MAX) in *rec.
 * EAGAIN: full, and the consumer has been asked for space. Reserving again without publishing is
 * fine. */
int ring_reserve(struct ring *r, uint32_t bytes, uint8_t **rec);
/* The reserved record is complete but for its first 8 bytes, which become @word. */
void ring_publish(struct ring *r, uint64_t word);
/* Has the consumer moved on since a record did not fit? EAGAIN: no. *@anew: it had taken the wish
 * for space off all the same, was asked again, and may have to be woken. EPROTO as above. */
int ring_moved_on(struct ring *r, bool *anew);
/* Asks the consumer to store its position at its next look, and reads the one that it stored last.
 * *@told: earlier questions have been answered. EPROTO as above. */
int ring_ask(struct ring *r, bool *told);

/* Consumer. EAGAIN: nothing there. Else the first record, its length and its word, read once. */
int ring_peek(struct ring *r, uint64_t *word, const uint8_t **rec, uint32_t *bytes);
/* Done with the record that ring_peek() gave. True: the producer waits for space and has it now. */
bool ring_advance(struct ring *r, uint32_t bytes);
/* After a batch: true as above. */
bool ring_settle(struct ring *r);

/* The place of the next record's first word: not 0 once the record is there. */
static inline const uint64_t *ring_next_word(const struct ring *r)
{
	return (const uint64_t *)(r->data + (r->pos & (r->size - 1)));
}
