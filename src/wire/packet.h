// SPDX-License-Identifier: MIT
/* RoCEv2 packets behind the UDP header: BTH, extension headers, payload, pad, ICRC. wire_parse()
 * and wire_build() are inverses; the opcode says which fields of a struct pkt are meaningful, the
 * others are zero after parsing and ignored when building. Reserved bits are ignored on receipt and
 * sent as zero. icrc.h computes the ICRC's value. Pure. */
#pragma once
#include <stddef.h>
#include "wire/opcode.h"

struct pkt {
	const struct opcode *op; /* &opcodes[opcode]; building looks at @opcode alone */
	uint8_t opcode;
	bool solicited, migreq, ackreq, fecn, becn; /* BTH bits */
	uint8_t pad; /* PadCnt; building computes it */
	uint16_t pkey;
	uint32_t dqpn, psn; /* 24 bits each */
	/* RETH and AtomicETH */
	uint64_t va;
	uint32_t rkey;
	uint32_t dma_len; /* RETH, bytes */
	uint64_t swap_add, compare;
	/* AETH, AtomicAckETH */
	uint8_t syndrome;
	uint32_t msn; /* 24 bits */
	uint64_t orig; /* what an atomic found */
	/* DETH */
	uint32_t qkey;
	uint32_t sqpn; /* 24 bits */
	/* the rest */
	uint32_t imm; /* ImmDt: the four bytes as they stand in the application's memory */
	uint32_t inv_rkey; /* IETH */
	uint32_t xrc_srqn; /* 24 bits */
	uint8_t flush_type; /* FETH, 4 bits: 1 global visibility, 2 persistence */
	uint8_t flush_level; /* FETH, 2 bits: 0 range, 1 whole region */
	const uint8_t *payload;
	size_t payload_len; /* bytes, without pad */
};

/* Decodes @len bytes from BTH to ICRC; *out borrows @buf. EBADMSG: an unknown packet: drop and
 * count it, never NAK it. */
int wire_parse(const uint8_t *buf, size_t len, struct pkt *out);

/* Headers of @p alone; payload_len decides the PadCnt. EINVAL: no such opcode, or payload on one
 * that carries none. ENOBUFS: @cap is too small. */
int wire_build_headers(const struct pkt *p, uint8_t *buf, size_t cap, size_t *len);

/* The whole packet: headers, payload (NULL: its place is left as it is, for the caller), zero pad
 * and four zero bytes for the ICRC, which *len counts. Errors as above. */
int wire_build(const struct pkt *p, uint8_t *buf, size_t cap, size_t *len);

/* Bytes of pad behind @payload_len bytes of payload. */
static inline unsigned int wire_pad(size_t payload_len)
{
	return -payload_len & 3;
}
