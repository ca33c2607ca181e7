// SPDX-License-Identifier: MIT
/* The protocol of a stream, the one of rdma-core's rsockets: every message is an RDMA WRITE with
 * immediate data. Data go into a ring that the receiver offers by halves; SGEs of further halves,
 * and entries of the I/O map, are written into tables of the sender's. The immediate has an
 * operation in its upper three bits and 29 bits of data.
 *
 * A peer is hostile until checked: more bytes or messages than it was offered, an SGE too many,
 * an entry beyond the table end the connection with EIO, and no byte that it says is a length or
 * an address here. It writes only into registered memory of this connection. Under the lock. */
#pragma once
#include <string.h>
#include "rdmacm/rsocket/sock.h"

enum { OP_DATA, OP_SGL = 4, OP_IOMAP = 6, OP_CONTROL = 7 };
enum { CONTROL_DISCONNECT, CONTROL_KEEPALIVE, CONTROL_SHUTDOWN };

struct write {
	struct ibv_sge sge[2];
	int sges;
	bool inlined, plain; /* plain: without immediate */
	uint32_t imm;
	uint64_t addr; /* at the peer */
	uint32_t key;
	uint32_t copied; /* bytes of the send buffer that it occupies */
};

int ring_make(struct sock *s); /* memory, queue pair, receives; s->id has a device */
void ring_free(struct sock *s);
void ring_greet(const struct sock *s, struct greeting *out);
int ring_meet(struct sock *s, const void *data, size_t len); /* EPROTO: not a greeting */
void ring_progress(struct sock *s); /* completions, then credits */
void ring_credit(struct sock *s); /* offers what has been consumed */
bool ring_can_send(const struct sock *s);
bool ring_is_idle(const struct sock *s); /* all sends are done */
int ring_post(struct sock *s, const struct write *w); /* in a slot that is not control's */
int ring_control(struct sock *s, uint32_t what); /* ENOBUFS: no slot */
void ring_probe(struct sock *s); /* writes no bytes: does the peer acknowledge them? */
/* Places for @n bytes in the send buffer, sfree permitting: one, or two at its end. */
void ring_place(struct sock *s, uint32_t n, struct write *w);

static inline uint32_t ring_imm(uint32_t op, uint32_t data)
{
	return op << 29 | data;
}

/* Bytes of the program, of any length. Of a memcpy() the compiler would make a loop here, which is
 * slow for many bytes. */
static inline void ring_copy(void *to, const void *from, size_t n)
{
	memmove(to, from, n);
}
