// SPDX-License-Identifier: MIT
/* AETH syndromes (ACK with credits, RNR NAK with a timer, NAK with a code), the times that codes of
 * five bits stand for, and arithmetic on 24-bit packet sequence numbers. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "wire/opcode.h"

enum aeth_kind { AETH_ACK = 0x00, AETH_RNR = 0x20, AETH_RESERVED = 0x40, AETH_NAK = 0x60 };

enum {
	AETH_KIND_MASK = 0x60,
	AETH_CODE_MASK = 0x1f,
	AETH_UNLIMITED = 0x1f, /* ACK: no credit count; the requester need not wait for receives */
};

enum aeth_nak {
	NAK_PSN_SEQUENCE = 0,
	NAK_INVALID_REQUEST = 1,
	NAK_REMOTE_ACCESS = 2,
	NAK_REMOTE_OPERATIONAL = 3,
	NAK_INVALID_RD_REQUEST = 4,
};

static inline enum aeth_kind aeth_kind(uint8_t syndrome)
{
	return (enum aeth_kind)(syndrome & AETH_KIND_MASK);
}

static inline uint8_t aeth_code(uint8_t syndrome)
{
	return syndrome & AETH_CODE_MASK;
}

static inline uint8_t aeth_nak(enum aeth_nak code)
{
	return (uint8_t)(AETH_NAK | code);
}

/* @timer is min_rnr_timer, 0..31. */
static inline uint8_t aeth_rnr(unsigned int timer)
{
	return (uint8_t)(AETH_RNR | (timer & AETH_CODE_MASK));
}

uint8_t aeth_ack(uint32_t credits); /* rounded down to a count that has a code; at most 32768 */
uint32_t aeth_credits(uint8_t syndrome); /* of an ACK; UINT32_MAX: unlimited */
uint64_t aeth_rnr_ns(unsigned int timer); /* how long an RNR NAK asks to wait; 0 means 655.36 ms */

/* Local ACK timeout of a QP: 4.096 us * 2^t; UINT64_MAX (never) for 0. */
static inline uint64_t aeth_timeout_ns(unsigned int t)
{
	return t & 31 ? UINT64_C(4096) << (t & 31) : UINT64_MAX;
}

enum { PSN_MASK = BITS_24 };

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/* How far @a is behind (negative) or ahead of @b: -2^23 .. 2^23-1. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline bool psn_before(uint32_t a, uint32_t b)
{
	return psn_diff(a, b) < 0;
}

static inline bool psn_after(uint32_t a, uint32_t b)
{
	return psn_diff(a, b) > 0;
}

/* @psn is one of the @n numbers from @first on. */
static inline bool psn_within(uint32_t psn, uint32_t first, uint32_t n)
{
	return ((psn - first) & PSN_MASK) < n;
}
