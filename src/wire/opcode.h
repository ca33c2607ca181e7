// SPDX-License-Identifier: MIT
/* BTH opcodes: service (bits 7..5) and operation (bits 4..0), and for each what the packet carries.
 * The table is the specification's; an unused code has no name. Extension headers follow the BTH in
 * the order of their bits below. Constant. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	SVC_RC = 0x00,
	SVC_UC = 0x20,
	SVC_DC = 0x40, /* softhca's own; the specification's RD, which no stack sends */
	SVC_UD = 0x60,
	SVC_CNP = 0x80,
	SVC_XRC = 0xa0,
	SVC_OWN = 0xc0, /* the manufacturers' range: only softhca peers know these opcodes */
	SVC_MASK = 0xe0,
	OP_MASK = 0x1f,
};

/* Operations: the whole opcode on RC, the low five bits on the others. */
enum {
	OP_SEND_FIRST = 0x00,
	OP_SEND_MIDDLE = 0x01,
	OP_SEND_LAST = 0x02,
	OP_SEND_LAST_IMM = 0x03,
	OP_SEND_ONLY = 0x04,
	OP_SEND_ONLY_IMM = 0x05,
	OP_WRITE_FIRST = 0x06,
	OP_WRITE_MIDDLE = 0x07,
	OP_WRITE_LAST = 0x08,
	OP_WRITE_LAST_IMM = 0x09,
	OP_WRITE_ONLY = 0x0a,
	OP_WRITE_ONLY_IMM = 0x0b,
	OP_READ_REQUEST = 0x0c,
	OP_READ_RESP_FIRST = 0x0d,
	OP_READ_RESP_MIDDLE = 0x0e,
	OP_READ_RESP_LAST = 0x0f,
	OP_READ_RESP_ONLY = 0x10,
	OP_ACKNOWLEDGE = 0x11,
	OP_ATOMIC_ACK = 0x12,
	OP_COMPARE_SWAP = 0x13,
	OP_FETCH_ADD = 0x14,
	OP_SEND_LAST_INV = 0x16,
	OP_SEND_ONLY_INV = 0x17,
	OP_MASKED_SWAP =
		0x18, /* softhca's own, as the next: codes that the specification reserves */
	OP_MASKED_ADD = 0x19,
	OP_FLUSH = 0x1c,
	OP_ATOMIC_WRITE = 0x1d,
	OP_DC_CONNECT = 0x55, /* the whole byte, as the next: asks for a connection, or ends it */
	OP_DC_ANSWER = 0x56,
	OP_CNP = 0x81, /* the whole byte: congestion notification */
	OP_HELLO = 0xc0, /* the whole byte: what a host can do; udp defines its payload */
	OP_REPORT = 0xc1, /* the whole byte: which PSNs the responder has; transport's */
	OP_DROPPED = 0xc2, /* the whole byte: why a datagram was dropped; on one host only */
	OP_GROUNDS = 0xc3, /* the whole byte: why the NAK behind it is one; transport's */
	OP_PORT = 0xc4, /* the whole byte: from which port a QP sends (transport/sender) */
};

enum {
	/* place in the message: ONLY is both its first and its last packet */
	WIRE_FIRST = 1 << 0,
	WIRE_MIDDLE = 1 << 1,
	WIRE_LAST = 1 << 2,
	WIRE_ONLY = WIRE_FIRST | WIRE_LAST,
	WIRE_REQUEST = 1 << 3,
	WIRE_RESPONSE = 1 << 4,
	WIRE_PAYLOAD = 1 << 5, /* may carry payload; others carry none */
	/* extension headers, in their order on the wire */
	WIRE_XRCETH = 1 << 8,
	WIRE_FETH = 1 << 9,
	WIRE_RETH = 1 << 10,
	WIRE_ATOMICETH = 1 << 11,
	WIRE_DETH = 1 << 12,
	WIRE_AETH = 1 << 13,
	WIRE_ATOMICACKETH = 1 << 14,
	WIRE_IMMDT = 1 << 15,
	WIRE_IETH = 1 << 16,
};

/* The destination QP of datagrams to a multicast group. */
enum { GSI_QPN = 1 /* of general services: connection management */, MULTICAST_QPN = 0xffffff };

enum { BITS_24 = 0xffffff }; /* of a QPN, a PSN, an MSN, an SRQ's number */

/* Bytes. */
enum {
	BTH_LEN = 12,
	XRCETH_LEN = 4,
	FETH_LEN = 4,
	RETH_LEN = 16,
	ATOMICETH_LEN = 28,
	DETH_LEN = 8,
	AETH_LEN = 4,
	ATOMICACKETH_LEN = 8,
	IMMDT_LEN = 4,
	IETH_LEN = 4,
	ICRC_LEN = 4,
	WIRE_HEADERS_MAX = BTH_LEN + XRCETH_LEN + ATOMICETH_LEN, /* the longest combination */
};

struct opcode {
	const char *name; /* "RC SEND FIRST"; NULL: no such opcode */
	uint32_t flags; /* WIRE_* */
	uint8_t service; /* SVC_* */
	uint8_t ext_len; /* bytes of extension headers */
};

extern const struct opcode opcodes[256];

static inline bool opcode_has(uint8_t op, uint32_t flags)
{
	return (opcodes[op].flags & flags) == flags;
}

static inline bool opcode_is_masked(uint8_t op) /* of RC's */
{
	return op == OP_MASKED_SWAP || op == OP_MASKED_ADD;
}

/* The operation without its service: one of OP_*. */
static inline uint8_t opcode_operation(uint8_t op)
{
	return op & OP_MASK;
}

static inline uint8_t opcode_service(uint8_t op)
{
	return op & SVC_MASK;
}
