// SPDX-License-Identifier: MIT
/* Memory that one end shows the other, by offsets: riomap(), riowrite(). */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "rdmacm/rsocket/iomap.h"

enum { CHUNK = 65536 };

/* --- showing --- */

static void swap_entry(struct iomap *e)
{
	e->offset = __builtin_bswap64(e->offset);
	e->sge.addr = __builtin_bswap64(e->sge.addr);
	e->sge.key = __builtin_bswap32(e->sge.key);
	e->sge.length = __builtin_bswap32(e->sge.length);
}

static int tell(struct sock *s, const struct exported *x)
{
	struct iomap e = { .offset = x->offset };
	struct write w = { .imm = ring_imm(OP_IOMAP, (uint32_t)x->index),
			   .sges = 1,
			   .inlined = true,
			   .addr = s->their_iomaps + (uint64_t)x->index * sizeof(e),
			   .key = s->their_key };

	if (x->mr)
		e.sge = (struct sge){ (uintptr_t)x->mr->addr, x->mr->rkey,
				      (uint32_t)x->mr->length };
	if (s->swap)
		swap_entry(&e);
	w.sge[0] = (struct ibv_sge){ (uintptr_t)&e, sizeof(e), 0 };
	if (ring_post(s, &w)) {
		sock_end(s, EIO);
		return EIO;
	}
	s->sent++;
	return 0;
}

/* The first that the peer does not know. */
static int tell_next(struct sock *s)
{
	struct exported **at = &s->exported, *x;
	int err;

	while ((x = *at) && x->told)
		at = &x->next;
	if (!x)
		return 0; /* another thread was faster */
	err = tell(s, x);
	x->told = true;
	s->untold--;
	if (x->mr)
		return err;
	*at = x->next;
	free(x);
	return err;
}

int iomap_tell(struct sock *s, bool nonblock)
{
	int err = 0;

	while (!err && s->untold) {
		err = sock_wait(s, nonblock, AWAIT_WRITABLE);
		err = err ? err : sock_unwritable(s);
		err = err ? err : tell_next(s);
	}
	return err;
}

static bool is_taken(const struct sock *s, int index)
{
	for (const struct exported *x = s->exported; x; x = x->next)
		if (x->index == index)
			return true;
	return false;
}

/* A new one, of a free entry of the peer's table if it is for the peer. */
static int new_exported(struct sock *s, bool for_peer, struct exported **out)
{
	struct exported *x;
	int index = for_peer ? 0 : -1;

	while (for_peer && is_taken(s, index))
		index++;
	if (for_peer && (uint32_t)index >= s->their_iomap_count)
		return softhca_refuse(ENXIO,
				      "riomap: the peer's I/O map has %u entries "
				      "(RDMA_IOMAPSIZE), which are in use; riounmap some, or let "
				      "the peer set more",
				      s->their_iomap_count);
	x = calloc(1, sizeof(*x));
	if (!x)
		return ENOMEM;
	x->index = index;
	x->told = !for_peer;
	x->next = s->exported;
	s->exported = x;
	s->untold += for_peer;
	*out = x;
	return 0;
}

/* One that was withdrawn, of which the peer is still to hear: it hears of what follows it. */
static struct exported *withdrawn(const struct sock *s)
{
	struct exported *x = s->exported;

	while (x && x->mr)
		x = x->next;
	return x;
}

static int map(struct sock *s, void *buf, size_t len, int prot, off_t *offset)
{
	int access = prot & PROT_WRITE ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
	struct exported *x = access ? withdrawn(s) : NULL;
	struct ibv_mr *mr;
	int err;

	if (s->state != SOCK_OPEN && !(s->passive && meet_underway(s)))
		return ENOTCONN;
	if (prot & ~PROT_WRITE || !len || len > UINT32_MAX)
		return EINVAL;
	mr = ibv_reg_mr(s->id->pd, buf, len, access);
	if (!mr)
		return errno;
	err = x ? 0 : new_exported(s, access, &x);
	if (err) {
		ibv_dereg_mr(mr);
		return err;
	}
	if (*offset == -1)
		*offset = (off_t)(uintptr_t)buf;
	x->mr = mr;
	x->offset = (uint64_t)*offset;
	return 0;
}

EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	err = flags ? EINVAL : map(s, buf, len, prot, &offset);
	sock_put(s);
	return err ? minus1_errno(err) : offset;
}

static int unmap(struct sock *s, const void *buf, size_t len)
{
	struct exported **at = &s->exported, *x;

	while ((x = *at) && !(x->mr && x->mr->addr == buf && x->mr->length == len))
		at = &x->next;
	if (!x)
		return EINVAL;
	ibv_dereg_mr(x->mr);
	x->mr = NULL;
	if (x->told && x->index >= 0) { /* an entry of length 0 */
		x->told = false;
		s->untold++;
		return 0;
	}
	s->untold -= !x->told;
	*at = x->next;
	free(x);
	return 0;
}

EXPORT int riounmap(int socket, void *buf, size_t len)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	err = unmap(s, buf, len);
	sock_put(s);
	return minus1_errno(err);
}

/* --- writing --- */

static const struct iomap *entry_at(const struct sock *s, uint64_t offset)
{
	for (uint32_t i = 0; i < s->opt.iomaps && s->known; i++)
		if (offset - s->known[i].offset < s->known[i].sge.length)
			return &s->known[i];
	return NULL;
}

static int write_chunk(struct sock *s, const uint8_t *from, uint32_t n, uint64_t offset)
{
	const struct iomap *e = entry_at(s, offset);
	struct write w = { .plain = true };

	if (!e)
		return EINVAL;
	w.addr = e->sge.addr + (offset - e->offset);
	w.key = e->sge.key;
	ring_place(s, n, &w);
	for (int i = 0; i < w.sges; from += w.sge[i++].length)
		ring_copy((void *)(uintptr_t)w.sge[i].addr, from, w.sge[i].length);
	if (!ring_post(s, &w))
		return 0;
	sock_end(s, EIO);
	return EIO;
}

static uint32_t chunk(const struct sock *s, uint64_t offset, size_t left)
{
	const struct iomap *e = entry_at(s, offset);
	uint64_t n = e ? e->sge.length - (offset - e->offset) : 0;

	if (n > left)
		n = left;
	if (n > s->sfree)
		n = s->sfree;
	return n > CHUNK ? CHUNK : (uint32_t)n;
}

static int write_all(struct sock *s, const uint8_t *from, size_t len, uint64_t offset,
		     bool nonblock, size_t *out)
{
	int err = iomap_tell(s, nonblock);

	for (*out = 0; !err && *out < len;) {
		uint32_t n;

		err = sock_wait(s, nonblock, AWAIT_WRITABLE);
		err = err ? err : sock_unwritable(s);
		if (err)
			break;
		n = chunk(s, offset + *out, len - *out);
		err = write_chunk(s, from + *out, n, offset + *out);
		*out += err ? 0 : n;
	}
	return *out ? 0 : err;
}

EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct sock *s;
	size_t n = 0;
	int err = sock_get(socket, &s);

	if (err)
		return (size_t)minus1_errno(err);
	if (s->state == SOCK_NEW || s->state == SOCK_LISTENING)
		err = ENOTCONN;
	else if (!buf && count)
		err = EFAULT;
	else
		err = write_all(s, buf, count, (uint64_t)offset,
				s->flags & O_NONBLOCK || flags & MSG_DONTWAIT, &n);
	sock_put(s);
	return err ? (size_t)minus1_errno(err) : n;
}
