// SPDX-License-Identifier: MIT
/* A segment: what the transport hands to a link and gets from one. On the udp link a segment is
 * one RoCEv2 packet (at most the path MTU of payload); on same-host links it may stand for many
 * PSNs of one message (seg.npsn), up to the destination's max_seg bytes. Headers are the
 * specification's, decoded; the opcode says which of them have a meaning (wire/opcode.h).
 *
 * Payload. Sending: @pieces name ranges of this process's memory that the sender has checked. Their
 * key is the lkey they were checked under, or 0 for rings and inline data, which the link always
 * copies before send() returns. Receiving: either @data, bytes in the link's buffer, which a peer
 * may still write, so they are copied once; or, by reference, @pieces in the *sender's* memory,
 * which link_ops.fetch fetches. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "prm/av.h"

struct dest;

struct piece {
	uint64_t addr;
	uint32_t len; /* bytes */
	uint32_t key;
};

/* seg.flags */
enum {
	SEG_SOLICITED = 1,
	SEG_ACKREQ = 2,
	SEG_ACK = 4, /* carries a piggybacked cumulative ACK: ack_psn, ack_msn (same-host links) */
	SEG_BYREF = 8, /* receiving: payload by reference */
	SEG_NO_REF = 16, /* request: answer by value, since the requester cannot fetch */
	SEG_SQPN = 32, /* sqpn is known (same-host links, and UD); it is the sender's word */
	SEG_ARMING = 64, /* MigReq of the BTH is 0: the sender's path_mig_state is REARM or ARMED */
	SEG_NET = 128, /* received from a network: the addresses are in grh and l3, only UD has a
			  sqpn, npsn is 1 */
	SEG_MCAST = 64 << 8, /* datagrams: to every QP attached to the group of the AV, or of grh */
};

/* AETH syndromes beyond the specification's, on same-host links only. */
enum {
	/* a receive WQE was posted: send again now what got an RNR NAK
	 * (docs/design/receiver-not-ready.md) */
	SYN_RNR_CLEAR = 0x7c,
	/* there is no QP to answer; an adapter would be silent: the ordinary timeout follows */
	SYN_NO_RESPONDER = 0x7d,
	/* the requester's memory behind a payload by reference is gone: LOC_PROT_ERR */
	SYN_SOURCE_FAULT = 0x7e,
	/* the responder cannot fetch from the requester: that PSN is to be sent again, by value */
	SYN_NO_REF = 0x7f,
};

/* A segment with this opcode, on same-host links only, is no RoCE packet. Its payload is a whole
 * Ethernet frame without its FCS, by value; sqpn is the QP that sent it, or 0 for one from the
 * netdev. */
enum { FRAME_OP = 0xff };

struct seg {
	uint8_t op; /* BTH opcode */
	uint8_t syndrome; /* AETH; OP_DROPPED: enum drop_why */
	uint16_t flags; /* SEG_* */
	uint16_t pkey;
	uint32_t dqpn, sqpn;
	uint32_t psn; /* first PSN of the segment */
	uint32_t
		npsn; /* number of its PSNs, at least 1; of a READ request: those of its response */
	uint32_t msn; /* AETH */
	uint32_t ack_psn, ack_msn;
	union {
		uint32_t imm; /* ImmDt or IETH, in network order */
		uint32_t dropped; /* OP_DROPPED: how many datagrams so far */
		uint32_t flow_tag; /* FRAME_OP, when a QP gets it: of the rule that names the QP */
	};
	union {
		uint32_t qkey;
		uint32_t port; /* FRAME_OP: interface index of the port */
		uint32_t dc_answered; /* DC ANSWER: the session that it is about */
	};
	union {
		uint32_t srqn; /* XRCETH: the SRQ that a request names */
		/* The interface that a SEG_MCAST of this host leaves by, or of a link-local address
		 * (SEG_NET to QP 1); else 0. */
		uint32_t ifindex;
	};
	union {
		uint64_t va; /* RETH, AtomicETH */
		uint64_t dc_key; /* DC CONNECT: access key */
		const void *owner; /* SEG_NET with SEG_MCAST: the device that has joined */
	};
	union {
		uint32_t rkey; /* RETH, AtomicETH */
		uint32_t dc_session; /* DC CONNECT */
	};
	union {
		uint32_t dma_len; /* RETH: bytes */
		uint32_t dc_mtu; /* DC CONNECT: the initiator's path MTU in bytes; 0 ends */
		uint32_t port_mtu; /* OP_DROPPED with DROP_LONG: bytes that the port takes */
	};
	union {
		uint64_t swap_add; /* AtomicETH, host order, as the next */
		uint64_t orig; /* ATOMIC ACK: the value before */
	};
	uint64_t compare;
	const struct av *av; /* UD, sending */
	uint32_t len; /* payload bytes */
	uint16_t npieces;
	bool more; /* sending: the link may leave the peer asleep until its flush() */
	const struct piece *pieces;
	const uint8_t *data;
	struct dest *from; /* receiving: its sender, valid during the call */
	const uint8_t *grh; /* received by UD or from a network: 40 bytes for the receive buffer */
	uint8_t l3, sl; /* with grh: as struct cqe has them */
	uint16_t sport; /* SEG_NET: the UDP port that it came from */
	bool marked; /* SEG_NET: the packet had the mark of a congested network (ECN CE) */
	bool damaged; /* by SOFTHCA_FAULT: its ICRC is wrong, so that its receiver drops it */
};
