// SPDX-License-Identifier: MIT
/* Sending and receiving. */
#include <fcntl.h>
#include <string.h>
#include "rdmacm/rsocket/iomap.h"
#include "rdmacm/rsocket/stream.h"

enum { FIRST = 2048, BIGGEST = 65536 }; /* bytes of a message */

/* --- the program's vectors --- */

struct cursor {
	const struct iovec *iov;
	size_t count, done; /* vectors; bytes of the first */
};

static size_t length_of(const struct iovec *iov, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += iov[i].iov_len;
	return n;
}

/* The next piece, of @max bytes at most. */
static size_t piece(struct cursor *c, size_t max, uint8_t **out)
{
	size_t n;

	while (c->count && c->done == c->iov->iov_len) {
		c->iov++;
		c->count--;
		c->done = 0;
	}
	if (!c->count)
		return 0;
	n = c->iov->iov_len - c->done;
	if (n > max)
		n = max;
	*out = (uint8_t *)c->iov->iov_base + c->done;
	c->done += n;
	return n;
}

static void gather(struct cursor *c, void *to, size_t n)
{
	uint8_t *at = to, *from;

	for (size_t k; n && (k = piece(c, n, &from)); n -= k, at += k)
		ring_copy(at, from, k);
}

static void scatter(struct cursor *c, const void *from, size_t n)
{
	const uint8_t *at = from;
	uint8_t *to;

	for (size_t k; n && (k = piece(c, n, &to)); n -= k, at += k)
		ring_copy(to, at, k);
}

/* --- sending --- */

int stream_opened(struct sock *s)
{
	if (s->state == SOCK_NEW || s->state == SOCK_LISTENING)
		return ENOTCONN;
	return 0;
}

static int send_piece(struct sock *s, struct cursor *c, uint32_t n)
{
	struct sge *to = &s->target[0];
	struct write w = { .imm = ring_imm(OP_DATA, n), .addr = to->addr, .key = to->key };
	uint8_t few[512];
	int err;

	if (n <= s->opt.inlined) {
		gather(c, few, n);
		w.sge[0] = (struct ibv_sge){ (uintptr_t)few, n, 0 };
		w.sges = 1;
		w.inlined = true;
	} else {
		ring_place(s, n, &w);
		for (int i = 0; i < w.sges; i++)
			gather(c, (void *)(uintptr_t)w.sge[i].addr, w.sge[i].length);
	}
	err = ring_post(s, &w);
	if (err) {
		sock_end(s, EIO);
		return EIO;
	}
	s->sent++;
	to->addr += n;
	to->length -= n;
	if (!to->length) {
		s->target[0] = s->target[1];
		s->targets--;
	}
	return 0;
}

static uint32_t next_size(const struct sock *s, size_t left, uint32_t *size)
{
	uint32_t n = *size;

	if (n < BIGGEST)
		*size *= 2;
	if (n > left)
		n = (uint32_t)left;
	if (n > s->sfree)
		n = s->sfree;
	return n > s->target[0].length ? s->target[0].length : n;
}

/* Small at first, so that the peer copies while this end does. While bytes of an earlier call are
 * not known to have arrived, fewer messages are less work for both. */
static uint32_t first_size(const struct sock *s)
{
	return s->sfree == s->opt.sndbuf ? FIRST : BIGGEST;
}

int stream_send(struct sock *s, const struct msghdr *m, int flags, size_t *out)
{
	bool nonblock = s->flags & O_NONBLOCK || flags & MSG_DONTWAIT;
	size_t len = length_of(m->msg_iov, m->msg_iovlen), left = len;
	struct cursor c = { m->msg_iov, m->msg_iovlen, 0 };
	uint32_t size = first_size(s);
	int err = stream_opened(s);

	if (!err && s->untold)
		err = iomap_tell(s, nonblock);
	while (!err && left) {
		if (!sock_holds(s, AWAIT_WRITABLE) || s->state != SOCK_OPEN)
			err = sock_wait(s, nonblock, AWAIT_WRITABLE);
		if (!err && !s->can_write)
			err = sock_unwritable(s);
		if (!err) {
			uint32_t n = next_size(s, left, &size);

			err = send_piece(s, &c, n);
			left -= err ? 0 : n;
		}
	}
	*out = len - left;
	return left < len ? 0 : err;
}

/* --- receiving --- */

static uint32_t copy_out(struct sock *s, struct cursor *c, size_t max, bool peek)
{
	uint32_t n = s->have < max ? s->have : (uint32_t)max;
	uint32_t first = s->opt.rcvbuf - s->rpos;

	if (first > n)
		first = n;
	scatter(c, s->rbuf + s->rpos, first);
	scatter(c, s->rbuf, n - first);
	if (peek)
		return n;
	s->rpos = (s->rpos + n) % s->opt.rcvbuf;
	s->have -= n;
	s->consumed += n;
	ring_credit(s);
	return n;
}

int stream_receive(struct sock *s, struct msghdr *m, int flags, size_t *out)
{
	bool nonblock = s->flags & O_NONBLOCK || flags & MSG_DONTWAIT;
	bool peek = flags & MSG_PEEK, all = flags & MSG_WAITALL && !peek;
	size_t len = length_of(m->msg_iov, m->msg_iovlen), left = len;
	struct cursor c = { m->msg_iov, m->msg_iovlen, 0 };
	int err = stream_opened(s);

	while (!err && left) {
		if (!s->have)
			err = sock_wait(s, nonblock, AWAIT_READABLE);
		if (err)
			break;
		if (!s->have) { /* the peer has ended */
			err = s->state == SOCK_OVER ? s->err : 0;
			break;
		}
		left -= copy_out(s, &c, left, peek);
		if (!all)
			break;
	}
	*out = len - left;
	return left < len ? 0 : err;
}
