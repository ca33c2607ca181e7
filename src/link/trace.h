// SPDX-License-Identifier: MIT
/* Traces: segments as the RoCEv2 packets that they stand for, in a pcapng file. A segment of a
 * same-host link that covers many PSNs becomes as many packets, and an ACK that it carries one
 * more; Ethernet, IP and UDP headers are made up where no network is, and the ICRC is right. Who is
 * not traced has none of this: a traced destination is one that wraps another, which takes no
 * references and is never accessed directly. Any thread. */
#pragma once
#include "link/link.h"

struct trace_ends { /* of a QP's packets, as seen from here */
	union ibv_gid local, remote;
	uint32_t qpn; /* ours */
};

/* Begins the file, once in a process. False: none is wanted (@path NULL), or it cannot be written,
 * which a warning says. */
bool trace_begin(const char *path);

/* Takes over the caller's reference on @inner, on success only. */
int trace_wrap(struct dest *inner, const struct trace_ends *ends, struct dest **out);

enum { TRACE_FRAME = 10048 };

/* Whose payload is it: in pieces of this process, or as it came in. */
enum trace_way { TRACE_OUT, TRACE_IN };

struct trace_frame {
	uint8_t b[TRACE_FRAME];
	size_t len;
	bool payload_lost; /* it could not be read, zeros stand for it */
	bool carried; /* the ACK that came with another packet */
};

uint32_t trace_count(const struct seg *s); /* packets of a segment, at least 1 */
/* The @k-th of them. */
void trace_build(const struct seg *s, uint32_t k, enum trace_way way, const struct trace_ends *ends,
		 struct trace_frame *out);
uint64_t trace_now(void);
/* Writes those of @s, which went out @by a link. */
void trace_sent(const struct trace_ends *ends, const char *by, const struct seg *s,
		const char *verdict, uint64_t now);
void trace_put(const struct trace_frame *f, uint64_t now, enum trace_way way, const char *comment);
