// SPDX-License-Identifier: MIT
/* What a trace says about connections: each packet once, from one end to the other, with when it
 * left and when it came, as far as these ends were traced; and what went wrong on the way. Clocks
 * of several hosts are taken as they are. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "capture.h"

enum { FLOWS_STALL_NS = 1000000 /* a pause that is worth a word */, FLOWS_ADDR = 46 };

struct flows_end { /* a queue pair */
	char addr[FLOWS_ADDR];
	uint32_t qpn; /* 0: not known */
	bool traced; /* its own process wrote packets of it */
	/* while hops are looked at in the order of time */
	bool asked; /* max_psn is set */
	bool open; /* a request of it is not answered */
	uint32_t max_psn; /* last PSN of the requests that it has sent */
	uint32_t peer; /* to which it sent last; UINT32_MAX: nothing yet */
};

enum flows_fate {
	FLOWS_AGAIN = 1, /* a request whose PSN had been sent before */
	FLOWS_LOST = 2, /* it left, and its receiver, which is traced, has not seen it */
	FLOWS_REFUSED = 4, /* the verdict of its receiver has a reason */
	FLOWS_NAK = 8, /* it is a NAK, not an RNR NAK */
	FLOWS_RNR = 16,
};

struct flows_hop {
	uint64_t sent, came; /* ns since 1970; 0: that end was not traced, or it never came */
	const struct capture_packet *out, *in; /* NULL likewise */
	uint32_t from, to; /* indices of ends */
	uint32_t psn, bytes; /* of the payload */
	uint8_t op, fate; /* BTH opcode; enum flows_fate */
};

struct flows_stall {
	uint64_t from, to; /* ns since 1970 */
	size_t before; /* index of the hop that ended it */
	const char *why;
};

struct flows {
	struct flows_end *ends;
	struct flows_hop *hops; /* by time */
	struct flows_stall *stalls;
	size_t n_ends, n_hops, n_stalls;
	size_t others; /* packets that are no RoCEv2, or say no queue pair */
};

/* @c: sorted. ENOMEM. */
int flows_make(const struct capture *c, struct flows *out);
void flows_free(struct flows *f);
uint64_t flows_time(const struct flows_hop *h); /* when it left, or came */
