// SPDX-License-Identifier: MIT
/* The usual WQEs of the mlx5 format in few steps: a SEND, a datagram, a WRITE, a READ or a receive
 * of one piece. What prm/wqe.h promises holds here, too: each field is read once, and bounded by
 * the ring. */
#pragma once
#include "prm/wqe.h"
#include "util/be.h"

struct wqe_single {
	struct sge sge; /* inlined: address in the ring, key 0 */
	bool inlined, signaled, solicited;
	uint8_t nbb; /* blocks it takes */
};

enum {
	WQE_SINGLE_LIST = 16, /* where the list begins, behind the control segment: bytes */
	WQE_SINGLE_FLAGS = MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_SOLICITED,
	WQE_SINGLE_AV = 48, /* of datagrams, bytes: the list begins with the next block */
	WQE_SINGLE_REMOTE = 16, /* of WRITEs and READs, in front of the list: bytes */
};
_Static_assert(WQE_SINGLE_AV == sizeof(struct mlx5_wqe_av), "the form with a GID");

static inline bool wqe_single_data(const uint8_t *p, uint32_t n, uint32_t ds,
				   struct wqe_single *out)
{
	out->inlined = false;
	out->nbb = 1;
	out->sge = (struct sge){ get_be64(p + 8), n, get_be32(p + 4) };
	return n && ds == 2;
}

/* @room: blocks up to the ring's end */
static inline bool wqe_single_inline(const uint8_t *p, uint32_t n, uint32_t ds, uint32_t room,
				     struct wqe_single *out)
{
	n &= WQE_INLINE_LEN;
	out->inlined = true;
	out->nbb = (uint8_t)((ds + 3) / 4);
	out->sge = (struct sge){ (uintptr_t)(p + 4), n, 0 };
	return n && ds == 1 + (n + 4 + 15) / 16 && out->nbb <= room;
}

/* MLX5_OPCODE_* of the WQE at block @pi */
static inline uint8_t wqe_single_opcode(const struct sq_ring *ring, uint16_t pi)
{
	return ring->buf[(size_t)(pi & (ring->cnt - 1)) * WQE_BB + 3];
}

/* Is the control segment @p, of the WQE at block @pi, that of an @opcode of QP @qpn, unfenced? The
 * number of its segments; else 0. */
static inline uint32_t wqe_single_ctrl(const uint8_t *p, uint16_t pi, uint8_t opcode, uint32_t qpn,
				       struct wqe_single *out)
{
	uint32_t qpn_ds = get_be32(p + 4);
	uint8_t flags = p[11];

	out->signaled = flags & MLX5_WQE_CTRL_CQ_UPDATE;
	out->solicited = flags & MLX5_WQE_CTRL_SOLICITED;
	if (get_be32(p) != ((uint32_t)pi << 8 | opcode) || qpn_ds >> 8 != qpn ||
	    (flags & ~WQE_SINGLE_FLAGS))
		return 0;
	return qpn_ds & 0x3f;
}

/* Is the WQE at block @pi a SEND of QP @qpn, unfenced, of one piece that does not wrap? */
static inline bool wqe_single_send(const struct sq_ring *ring, uint16_t pi, uint32_t qpn,
				   struct wqe_single *out)
{
	uint32_t block = pi & (ring->cnt - 1);
	const uint8_t *p = ring->buf + (size_t)block * WQE_BB;
	uint32_t n = get_be32(p + WQE_SINGLE_LIST),
		 ds = wqe_single_ctrl(p, pi, MLX5_OPCODE_SEND, qpn, out);

	p += WQE_SINGLE_LIST;
	return n >> 31 ? wqe_single_inline(p, n, ds, ring->cnt - block, out)
		       : wqe_single_data(p, n, ds, out);
}

struct wqe_remote {
	uint64_t addr;
	uint32_t key;
};

/* The same of an @opcode with a remote address: a WRITE, or a READ, whose piece is not inlined. */
static inline bool wqe_single_remote(const struct sq_ring *ring, uint16_t pi, uint8_t opcode,
				     uint32_t qpn, struct wqe_single *out, struct wqe_remote *to)
{
	uint32_t block = pi & (ring->cnt - 1);
	const uint8_t *p = ring->buf + (size_t)block * WQE_BB;
	const uint8_t *list = p + WQE_SINGLE_LIST + WQE_SINGLE_REMOTE;
	uint32_t n = get_be32(list), ds = wqe_single_ctrl(p, pi, opcode, qpn, out);

	*to = (struct wqe_remote){ get_be64(p + WQE_SINGLE_LIST),
				   get_be32(p + WQE_SINGLE_LIST + 8) };
	if (!ds)
		return false;
	if (!(n >> 31))
		return wqe_single_data(list, n, ds - 1, out);
	if (opcode != MLX5_OPCODE_RDMA_WRITE ||
	    !wqe_single_inline(list, n, ds - 1, ring->cnt - block, out))
		return false;
	out->nbb = (uint8_t)((ds + 3) / 4);
	return out->nbb <= ring->cnt - block;
}

/* The same of a datagram. *av: its address vector, WQE_SINGLE_AV bytes in the ring. */
static inline bool wqe_single_datagram(const struct sq_ring *ring, uint16_t pi, uint32_t qpn,
				       struct wqe_single *out, const uint8_t **av)
{
	enum { BEFORE = WQE_SINGLE_AV / 16 }; /* segments that a SEND has not */
	uint32_t mask = ring->cnt - 1, block = (pi + 1U) & mask;
	const uint8_t *ctrl = ring->buf + (size_t)(pi & mask) * WQE_BB;
	const uint8_t *list = ring->buf + (size_t)block * WQE_BB;
	uint32_t n = get_be32(list), ds = wqe_single_ctrl(ctrl, pi, MLX5_OPCODE_SEND, qpn, out);
	bool good;

	*av = ctrl + WQE_SINGLE_LIST;
	if (ds < BEFORE)
		return false;
	good = n >> 31 ? wqe_single_inline(list, n, ds - BEFORE, ring->cnt - block, out)
		       : wqe_single_data(list, n, ds - BEFORE, out);
	out->nbb = (uint8_t)((ds + 3) / 4);
	return good;
}

/* Has the receive WQE @idx, as rwqe_parse() takes it, just one piece? */
static inline bool rwqe_single(const struct rq_ring *ring, uint16_t idx, struct sge *out)
{
	const uint8_t *p = ring->buf + (size_t)(idx & (ring->cnt - 1)) * ring->stride;

	*out = (struct sge){ get_be64(p + 8), get_be32(p), get_be32(p + 4) };
	return out->len &&
	       (ring->stride == 16 || (!get_be32(p + 16) && get_be32(p + 20) == WQE_LIST_END));
}
