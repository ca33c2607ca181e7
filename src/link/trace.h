// SPDX-License-Identifier: MIT
/* Traces: segments as the RoCEv2 packets that they stand for, in a pcapng file. A segment of a
 * same-host link that covers many PSNs becomes that many packets, and an ACK that it carries
 * becomes one more. Within a host the Ethernet, IP and UDP headers are made up, with a right ICRC.
 * A traced destination wraps another one, and offers neither payload by reference nor direct
 * access. Programs that are not traced pay nothing. Any thread. */
#pragma once
#include "link/link.h"

struct trace_ends { /* of a QP's packets, as seen from here */
	union ibv_gid local, remote;
	uint32_t qpn; /* ours */
};

/* Begins the file, once in a process. False: @path is NULL, or the file cannot be written, which a
 * warning says. */
bool trace_begin(const char *path);

/* Takes over the caller's reference on @inner, on success only. */
int trace_wrap(struct dest *inner, const struct trace_ends *ends, struct dest **out);

enum { TRACE_FRAME = 10048 };

enum trace_way {
	TRACE_OUT, /* sent: payload is in pieces of this process */
	TRACE_IN, /* received */
};

struct trace_frame {
	uint8_t b[TRACE_FRAME];
	size_t len;
	uint32_t psn;
	bool payload_lost; /* the payload could not be read; zeros stand for it */
	bool carried; /* an ACK that came with another packet */
};

uint32_t trace_count(const struct seg *s); /* packets of a segment, at least 1 */
/* Builds the @k-th of them. */
void trace_build(const struct seg *s, uint32_t k, enum trace_way way, const struct trace_ends *ends,
		 struct trace_frame *out);
uint64_t trace_now(void); /* ns, wall clock */
enum { TRACE_MESSAGE = 32 };
/* The name of a message of connection management in @f, " CM REQ", into @out; "" if it is none. */
const char *trace_message(const struct trace_ends *ends, const struct trace_frame *f, char *out,
			  size_t n);
/* Writes the packets of @s, which the link called @by has sent. */
void trace_sent(const struct trace_ends *ends, const char *by, const struct seg *s,
		const char *verdict, uint64_t now);
void trace_put(const struct trace_frame *f, uint64_t now, enum trace_way way, const char *comment);
