// SPDX-License-Identifier: MIT
#include "prm/wqe.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "util/be.h"

#define SEG	    16 /* bytes */
#define INLINE_FLAG (1U << 31)
#define FENCE_MASK  0xe0
#define DS_MASK	    0x3fU

/* A segment reader: 16-byte steps that wrap at the ring's end, bounded by ds. */
struct cursor {
	const struct sq_ring *ring;
	uint32_t off; /* bytes from the ring's start, wrapped */
	unsigned int left; /* segments */
};

static const uint8_t *at(const struct sq_ring *ring, uint32_t off)
{
	return ring->buf + (off & (ring->cnt * WQE_BB - 1));
}

static const uint8_t *take(struct cursor *c)
{
	const uint8_t *p = at(c->ring, c->off);

	if (!c->left)
		return NULL;
	c->left--;
	c->off += SEG;
	return p;
}

static unsigned int control(const uint8_t *p, struct wqe *out)
{
	uint32_t op = get_be32(p), qpn_ds = get_be32(p + 4), ds = qpn_ds & DS_MASK;
	uint8_t flags = p[11];

	out->opcode = op & 0xff;
	out->opmod = op >> 24;
	out->idx = op >> 8;
	out->qpn = qpn_ds >> 8;
	out->ds = ds;
	out->nbb = ds ? (ds + 3) / 4 : 1;
	out->signaled = (flags & MLX5_WQE_CTRL_CQ_UPDATE) != 0;
	out->solicited = (flags & MLX5_WQE_CTRL_SOLICITED) != 0;
	out->fence = (flags & FENCE_MASK) != 0;
	memcpy(&out->imm, p + 12, sizeof(out->imm));
	return ds;
}

static int datagram(struct cursor *c, struct wqe *out)
{
	struct mlx5_wqe_av av;

	for (unsigned int i = 0; i < sizeof(av) / SEG; i++) {
		const uint8_t *p = take(c);

		if (!p)
			return EBADMSG;
		memcpy((uint8_t *)&av + i * SEG, p, SEG);
		if (!i && !av_is_extended(&av)) {
			out->wrong = WQE_COMPACT_AV;
			return EBADMSG;
		}
	}
	out->qkey = be32toh(av.key.qkey.qkey);
	out->dc_key = be64toh(av.key.dc_key);
	out->dqpn = be32toh(av.dqp_dct) & 0xffffff;
	av_decode(&av, &out->av);
	return 0;
}

static int xrc(struct cursor *c, struct wqe *out)
{
	const uint8_t *p = take(c);

	if (!p)
		return EBADMSG;
	out->srqn = get_be32(p) & 0xffffff;
	return 0;
}

/* Bytes [off, off + len) of the ring, which wrap at its end, as one or two runs. */
static uint8_t runs(const struct sq_ring *ring, uint32_t off, uint32_t len, struct sge out[2])
{
	uint32_t size = ring->cnt * WQE_BB, start = off & (size - 1), room = size - start;

	out[0] = (struct sge){ (uintptr_t)(ring->buf + start), len < room ? len : room, 0 };
	out[1] = (struct sge){ (uintptr_t)ring->buf, len - out[0].len, 0 };
	return out[1].len ? 2 : 1;
}

/* The Ethernet segment: 16 bytes whose last two begin the inline headers, which go on in as many
 * segments as they need. */
static int ethernet(struct cursor *c, struct wqe *out)
{
	uint32_t start = c->off + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start), more;
	const uint8_t *p = take(c);

	if (!p)
		return EBADMSG;
	out->cs_flags = p[offsetof(struct mlx5_wqe_eth_seg, cs_flags)];
	out->mss = get_be16(p + offsetof(struct mlx5_wqe_eth_seg, mss));
	out->head_len = get_be16(p + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_sz));
	more = out->head_len > 2 ? (out->head_len - 2U + SEG - 1) / SEG : 0;
	if (more > c->left)
		return EBADMSG;
	c->left -= more;
	c->off += more * SEG;
	if (out->head_len)
		out->nhead = runs(c->ring, start, out->head_len, out->head);
	return 0;
}

static int remote(struct cursor *c, struct wqe *out)
{
	const uint8_t *p = take(c);

	if (!p)
		return EBADMSG;
	out->raddr = get_be64(p);
	out->rkey = get_be32(p + 8);
	return 0;
}

static int atomic(struct cursor *c, struct wqe *out)
{
	const uint8_t *p = take(c);

	if (!p)
		return EBADMSG;
	out->swap_add = get_be64(p);
	out->compare = get_be64(p + 8);
	return 0;
}

/* Behind the address: of a swap the operands and then their masks, of an addition one of each. */
static int masked(struct cursor *c, struct wqe *out)
{
	const uint8_t *p;

	if (out->opmod != WQE_MASKED_8) {
		out->wrong = WQE_MASKED_SIZE;
		return EBADMSG;
	}
	if (remote(c, out) || atomic(c, out))
		return EBADMSG;
	out->swap_mask = out->compare;
	out->compare_mask = 0;
	if (out->opcode == MLX5_OPCODE_ATOMIC_MASKED_FA)
		return 0;
	p = take(c);
	if (!p)
		return EBADMSG;
	out->swap_mask = get_be64(p);
	out->compare_mask = get_be64(p + 8);
	return 0;
}

static int bind(struct cursor *c, struct wqe *out)
{
	struct wqe_bind_seg s;

	for (unsigned int i = 0; i < sizeof(s) / SEG; i++) {
		const uint8_t *p = take(c);

		if (!p)
			return EBADMSG;
		memcpy((uint8_t *)&s + i * SEG, p, SEG);
	}
	out->bind.rkey = be32toh(s.rkey);
	out->bind.lkey = be32toh(s.lkey);
	out->bind.access = be32toh(s.access);
	out->bind.addr = be64toh(s.addr);
	out->bind.len = be64toh(s.len);
	return 0;
}

/* Inline data: a 4-byte header, then the bytes, which wrap at the ring's end. None: no entry. */
static int inline_data(struct cursor *c, uint32_t len, struct wqe *out)
{
	uint32_t start = c->off - SEG + 4;
	unsigned int segs = (len + 4 + SEG - 1) / SEG, n;

	if (segs > c->left + 1) {
		out->wrong = WQE_INLINE_CUT_OFF;
		out->len = len;
		return EBADMSG;
	}
	c->left -= segs - 1;
	c->off += (segs - 1) * SEG;
	if (!len)
		return 0;
	n = runs(c->ring, start, len, out->sge + out->nsge);
	out->inlined |= ((1ULL << n) - 1) << out->nsge;
	out->nsge += n;
	return 0;
}

static int data(struct cursor *c, struct wqe *out)
{
	unsigned int keyed = 0;
	uint64_t len = 0;
	const uint8_t *p;

	while ((p = take(c))) {
		uint32_t n = get_be32(p);

		if (n & INLINE_FLAG) {
			if (inline_data(c, n & WQE_INLINE_LEN, out))
				return EBADMSG;
			len += n & WQE_INLINE_LEN;
			continue;
		}
		if (keyed++ == WQE_MAX_SGE) {
			out->wrong = WQE_MANY_SGES;
			return EBADMSG;
		}
		n = n ? n : 1U << 31;
		len += n;
		out->sge[out->nsge++] = (struct sge){ get_be64(p + 8), n, get_be32(p + 4) };
	}
	if (len > 1U << 31)
		return EMSGSIZE;
	out->len = len;
	return 0;
}

void wqe_peek(const struct sq_ring *ring, uint16_t pi, struct wqe *out)
{
	control(at(ring, pi * WQE_BB), out);
}

/* Parses the segment that the service has behind the control segment. */
static int service(struct cursor *c, enum wqe_service svc, struct wqe *out)
{
	switch (svc) {
	case WQE_DATAGRAM:
	case WQE_DC:
		return datagram(c, out);
	case WQE_ETHERNET:
		return ethernet(c, out);
	case WQE_XRC:
		return xrc(c, out);
	default:
		return 0;
	}
}

/* Those between the service's and the list. */
static int operation(struct cursor *c, struct wqe *out)
{
	int err;

	switch (out->opcode) {
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
	case WQE_OPCODE_ATOMIC_WRITE:
		return remote(c, out);
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		err = remote(c, out);
		return err ? err : atomic(c, out);
	case MLX5_OPCODE_ATOMIC_MASKED_CS:
	case MLX5_OPCODE_ATOMIC_MASKED_FA:
		return masked(c, out);
	case WQE_OPCODE_BIND_MW:
		return bind(c, out);
	case MLX5_OPCODE_MMO: /* where an adapter may note what it needs for itself */
		return take(c) ? 0 : EBADMSG;
	default:
		return 0;
	}
}

/* What it is in the first place, unless a part of the parser has said more. */
static int malformed(struct wqe *out, enum wqe_wrong wrong)
{
	if (out->wrong == WQE_RIGHT)
		out->wrong = wrong;
	return EBADMSG;
}

int wqe_parse(const struct sq_ring *ring, uint16_t pi, uint16_t avail, enum wqe_service svc,
	      struct wqe *out)
{
	struct cursor c = { ring, pi * WQE_BB + SEG, 0 };
	unsigned int ds = control(at(ring, pi * WQE_BB), out);

	out->wrong = WQE_RIGHT;
	out->nsge = out->nhead = 0;
	out->head_len = 0;
	out->inlined = 0;
	out->len = out->srqn = 0;
	if (!ds)
		return malformed(out, WQE_EMPTY);
	if (out->nbb > avail || out->nbb > ring->cnt)
		return malformed(out, WQE_TOO_LONG);
	c.left = ds - 1;
	if (out->opcode == MLX5_OPCODE_NOP && svc != WQE_DC)
		return 0; /* it may have been another, which the driver has taken back */
	if ((out->opcode != MLX5_OPCODE_MMO && service(&c, svc, out)) || operation(&c, out))
		return malformed(out, WQE_CUT_OFF);
	if (out->opcode == MLX5_OPCODE_UMR || out->opcode == MLX5_OPCODE_SET_PSV)
		return 0; /* the one's list is umr.h's, the other has none */
	return data(&c, out);
}

/* For an explanation: tries lengths on a copy, so that the parser has one caller for each part. */
unsigned int wqe_fixed_segs(const struct sq_ring *ring, uint16_t pi, enum wqe_service svc)
{
	uint8_t copy[WQE_MAX_BB * WQE_BB] __attribute__((aligned(WQE_BB)));
	const struct sq_ring one = { .buf = copy, .cnt = WQE_MAX_BB };
	unsigned int ds = 0;
	struct wqe w;

	wqe_peek(ring, pi, &w);
	memset(copy, 0, sizeof(copy));
	/* no more: what is behind it the program may be writing */
	for (unsigned int i = 0; i < w.nbb; i++)
		memcpy(copy + i * WQE_BB, at(ring, (pi + i) * WQE_BB), WQE_BB);
	do
		copy[7] = (uint8_t)((copy[7] & ~DS_MASK) | ++ds);
	while (wqe_parse(&one, 0, WQE_MAX_BB, svc, &w) && w.wrong == WQE_CUT_OFF && ds < DS_MASK);
	return ds;
}

uint16_t wqe_stream(const struct sq_ring *ring, uint16_t pi)
{
	const uint8_t *ctrl = ring->buf + (size_t)(pi & (ring->cnt - 1)) * WQE_BB;

	return get_be16(ctrl + offsetof(struct mlx5_wqe_ctrl_seg, dci_stream_channel_id));
}

/* Data segments from @p on, at most @n of them. */
static void receive_list(const uint8_t *p, unsigned int n, struct rwqe *out)
{
	out->nsge = 0;
	out->len = 0;
	for (; n && out->nsge < WQE_MAX_SGE; n--, p += SEG) {
		uint32_t len = get_be32(p), key = get_be32(p + 4);

		if (key == WQE_LIST_END && !len)
			break;
		len = len ? len : 1U << 31;
		out->sge[out->nsge++] = (struct sge){ get_be64(p + 8), len, key };
		out->len += len;
	}
}

static const uint8_t *slot(const struct rq_ring *ring, uint16_t idx)
{
	return ring->buf + (size_t)(idx & (ring->cnt - 1)) * ring->stride;
}

void rwqe_parse(const struct rq_ring *ring, uint16_t idx, struct rwqe *out)
{
	out->idx = idx;
	receive_list(slot(ring, idx), ring->stride / SEG, out);
}

void srwqe_parse(const struct rq_ring *ring, uint16_t idx, struct rwqe *out, uint16_t *next)
{
	const uint8_t *p = slot(ring, idx);

	out->idx = idx & (ring->cnt - 1);
	*next = get_be16(p + 2);
	receive_list(p + SEG, ring->stride / SEG - 1, out);
}
