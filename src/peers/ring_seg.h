// SPDX-License-Identifier: MIT
/* Segments as records of a ring. All fields of a struct seg are transferred, but those that are
 * zero take no room, so common records are short: a SEND with a piggybacked ACK has a header of 40
 * bytes, and up to 24 bytes of payload share its line.
 *
 *	word | dqpn, syndrome | sqpn, npieces | psn | npsn | len | extensions | pieces or payload
 *
 * Pure; decoding copies each field once out of the peer's memory and checks it. */
#pragma once
#include "link/seg.h"
#include "peers/ring.h"
#include "wire/grh.h"

enum { RING_SEG_PIECES = 30 };

struct ring_plan {
	uint32_t ext; /* bits: the extensions that it has */
	uint32_t head; /* bytes before the pieces or the payload */
	uint32_t bytes; /* of the whole record: a multiple of 64; over RING_RECORD_MAX: too large */
};

void ring_seg_plan(const struct seg *s, bool by_ref, struct ring_plan *out);
/* For link_ops.send_plain: the record of @s by value, whose only extension is the ACK, or of a
 * datagram what says where it comes from. */
void ring_seg_plan_plain(const struct seg *s, struct ring_plan *out);
/* Writes all but the first word, which it returns for ring_publish(), and the payload (by value),
 * which the caller puts at @rec + p->head. @by_ref: as planned. */
uint64_t ring_seg_encode(const struct seg *s, const struct ring_plan *p, bool by_ref, uint8_t *rec);

/* A decoded segment and the memory that it points to. Zeroed before the first use, then used for
 * one segment after the other: decoding clears fields of the last segment that the next one
 * lacks. */
struct ring_got {
	struct seg seg;
	uint32_t ext; /* extensions of the last segment */
	struct av av;
	struct piece pieces[RING_SEG_PIECES];
	uint8_t grh[GRH_LEN];
};

/* The caller sets seg.from. EPROTO: lengths, counts or sums do not fit. seg.data points into
 * @rec. */
int ring_seg_decode(uint64_t word, const uint8_t *rec, uint32_t bytes, struct ring_got *out);
