// SPDX-License-Identifier: MIT
#include "prm/umr.h"
#include <stddef.h>
#include <string.h>
#include "util/be.h"

#define SEG	    16 /* bytes */
#define INLINE_FLAG (1U << 31) /* of a data segment */
#define MASK(bit)   ((uint64_t)MLX5_WQE_UMR_CTRL_MKEY_MASK_##bit)
#define RIGHTS                                                                                     \
	(MASK(ACCESS_LOCAL_WRITE) | MASK(ACCESS_REMOTE_READ) | MASK(ACCESS_REMOTE_WRITE) |         \
	 MASK(ACCESS_ATOMIC))

static const struct {
	uint8_t prm;
	unsigned int verbs;
} rights[] = {
	{ UMR_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE },
	{ UMR_REMOTE_READ, IBV_ACCESS_REMOTE_READ },
	{ UMR_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE },
	{ UMR_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC },
};

static const uint8_t *context_of(const uint8_t *buf)
{
	return buf + sizeof(struct mlx5_wqe_umr_ctrl_seg);
}

static const uint8_t *list_of(const uint8_t *buf)
{
	return context_of(buf) + sizeof(struct mlx5_wqe_mkey_context_seg);
}

static void context(const uint8_t *buf, struct umr *out)
{
	struct mlx5_wqe_mkey_context_seg c;
	uint32_t qpn_mkey;

	memcpy(&c, context_of(buf), sizeof(c));
	qpn_mkey = be32toh(c.qpn_mkey);
	out->free = c.free & UMR_FREE;
	out->access = 0;
	for (unsigned int i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		if (c.access_flags & rights[i].prm)
			out->access |= rights[i].verbs;
	out->qpn = qpn_mkey >> 8;
	out->variant = (uint8_t)qpn_mkey;
	out->is_signed = be32toh(c.flags_pd) & UMR_SIGNED;
	out->start = be64toh(c.start_addr);
	out->len = be64toh(c.len);
}

/* A head and entries of 16 bytes, @n in all */
static const char *interleaved(const uint8_t *p, unsigned int n, struct umr_part *part,
			       struct umr *out)
{
	unsigned int parts = get_be16(p + 14);

	if (!parts || parts >= n)
		return "its interleaved list has no entries, or more than the list's segments";
	out->times = get_be32(p + 8);
	out->nparts = parts;
	for (unsigned int i = 0; i < parts; i++) {
		p += SEG;
		part[i] = (struct umr_part){ .stride = get_be16(p),
					     .len = get_be16(p + 2),
					     .key = get_be32(p + 4),
					     .va = get_be64(p + 8) };
	}
	return NULL;
}

/* @n entries into @part, which has room for all */
static const char *list(const uint8_t *p, unsigned int n, struct umr_part *part, struct umr *out)
{
	out->listed = true;
	if (get_be32(p + 4) == UMR_REPEAT)
		return interleaved(p, n, part, out);
	out->times = 1;
	out->nparts = n;
	for (unsigned int i = 0; i < n; i++, p += SEG)
		part[i] = (struct umr_part){ .len = get_be32(p),
					     .key = get_be32(p + 4),
					     .va = get_be64(p + 8) };
	return NULL;
}

const char *umr_read_list(struct umr *u, const uint8_t *buf, struct umr_part *part)
{
	u->read = part;
	return list(buf, u->away.len / SEG, part, u);
}

/* What stands inline behind the mkey's context, @klm and @bsf segments of it */
static const char *inlined(const uint8_t *p, unsigned int klm, unsigned int bsf, struct umr *out)
{
	const char *why = NULL;

	if (klm > UMR_PARTS)
		return "its list is longer than a work request";
	if (klm)
		why = list(p, klm, out->part, out);

	if (why || !bsf)
		return why;
	if (bsf != BSF_SEGS)
		return "its BSF is not one of 64 bytes";
	out->brings_sig = true;
	return bsf_parse(p + (size_t)klm * SEG, &out->sig);
}

/* @klm segments stand where the data segment @p says, the only one behind the mkey's context. */
static const char *pointed(const uint8_t *p, unsigned int segs, unsigned int klm, struct umr *out)
{
	const struct sge s = { get_be64(p + 8), get_be32(p), get_be32(p + 4) };

	if (segs != UMR_FIXED_SEGS + 1)
		return "its list is not inline, and one data segment must say where it stands; "
		       "write that one, or set MLX5_WQE_UMR_CTRL_FLAG_INLINE";
	if (s.len & INLINE_FLAG)
		return "its data segment is inline data; set MLX5_WQE_UMR_CTRL_FLAG_INLINE, and "
		       "write the list alone";
	if (s.len && s.len < klm * SEG) /* 0 is 2 GiB */
		return "its data segment is shorter than the list; let its byte_count cover "
		       "klm_octowords of 16 bytes";
	out->away = (struct sge){ s.addr, klm * SEG, s.key };
	return NULL;
}

const char *umr_parse(const struct sq_ring *ring, uint16_t pi, struct umr *out)
{
	uint32_t size = ring->cnt * WQE_BB, off = pi * WQE_BB;
	uint8_t wqe[63 * SEG] __attribute__((aligned(8)));
	struct mlx5_wqe_umr_ctrl_seg ctrl;
	unsigned int segs = 0, klm, bsf;

	for (unsigned int i = 0; i < 63; i++, off += SEG) {
		memcpy(wqe + (size_t)i * SEG, ring->buf + (off & (size - 1)), SEG);
		if (!i)
			segs = get_be32(wqe + 4) & 0x3f;
		if (i + 1 >= segs)
			break;
	}
	if (segs < UMR_FIXED_SEGS)
		return "it is shorter than its control segments";
	out->mkey = get_be32(wqe + 12);
	memcpy(&ctrl, wqe + SEG, sizeof(ctrl));
	out->flags = ctrl.flags;
	out->mask = be64toh(ctrl.mkey_mask);
	context(wqe + SEG, out);
	klm = be16toh(ctrl.klm_octowords);
	bsf = be16toh(ctrl.bsf_octowords);
	out->listed = out->brings_sig = false;
	out->away.len = 0;
	out->read = NULL;
	if (ctrl.flags &
	    (MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET | MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN))
		return "its flags change a part of a list or look at the QP, which is not built";
	if (bsf && !(ctrl.flags & MLX5_WQE_UMR_CTRL_FLAG_INLINE))
		return "its BSF is not inline; set MLX5_WQE_UMR_CTRL_FLAG_INLINE";
	if (klm && !(ctrl.flags & MLX5_WQE_UMR_CTRL_FLAG_INLINE))
		return pointed(list_of(wqe + SEG), segs, klm, out);
	if (klm + bsf > segs - UMR_FIXED_SEGS)
		return "its list is longer than the work request";
	return inlined(list_of(wqe + SEG), klm, bsf, out);
}

static struct mlx5_wqe_umr_ctrl_seg *ctrl_of(uint8_t *buf)
{
	return (struct mlx5_wqe_umr_ctrl_seg *)buf;
}

static struct mlx5_wqe_mkey_context_seg *mkey_of(uint8_t *buf)
{
	return (struct mlx5_wqe_mkey_context_seg *)(buf + sizeof(struct mlx5_wqe_umr_ctrl_seg));
}

void umr_access(uint8_t *buf, unsigned int access)
{
	struct mlx5_wqe_mkey_context_seg *c = mkey_of(buf);

	c->access_flags = UMR_LOCAL_READ;
	for (unsigned int i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		if (access & rights[i].verbs)
			c->access_flags |= rights[i].prm;
	ctrl_of(buf)->mkey_mask |= htobe64(RIGHTS);
}

void umr_free(uint8_t *buf, bool free)
{
	mkey_of(buf)->free = free ? UMR_FREE : 0;
	ctrl_of(buf)->mkey_mask |= htobe64(MASK(FREE));
}

void umr_rearm(uint8_t *buf)
{
	ctrl_of(buf)->mkey_mask |= htobe64(MASK(SIG_ERR));
}

void umr_sign(uint8_t *buf, bool is_signed)
{
	struct mlx5_wqe_umr_ctrl_seg *ctrl = ctrl_of(buf);

	ctrl->mkey_mask |= htobe64(MASK(BSF_ENABLE));
	mkey_of(buf)->flags_pd = is_signed ? htobe32(UMR_SIGNED) : 0;
	ctrl->bsf_octowords = is_signed ? htobe16(BSF_SEGS) : 0;
	if (is_signed)
		ctrl->flags |= MLX5_WQE_UMR_CTRL_FLAG_INLINE;
}

/* @n entries with the head, up to @end: filled up to a multiple of four by zeros. */
static unsigned int sized(uint8_t *buf, unsigned int n, uint8_t *end, uint64_t len)
{
	struct mlx5_wqe_umr_ctrl_seg *ctrl = ctrl_of(buf);

	for (; n % UMR_LIST_UNIT; n++, end += SEG)
		memset(end, 0, SEG);
	ctrl->flags |= MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	ctrl->klm_octowords = htobe16((uint16_t)n);
	ctrl->mkey_mask |= htobe64(MASK(LEN) | MASK(START_ADDR));
	mkey_of(buf)->start_addr = 0;
	mkey_of(buf)->len = htobe64(len);
	return n;
}

static uint8_t *entries(uint8_t *buf)
{
	return buf + sizeof(struct mlx5_wqe_umr_ctrl_seg) +
	       sizeof(struct mlx5_wqe_mkey_context_seg);
}

unsigned int umr_list(uint8_t *buf, const struct umr_part *part, unsigned int n, uint64_t len)
{
	uint8_t *p = entries(buf);

	for (unsigned int i = 0; i < n; i++, p += SEG) {
		put_be32(p, part[i].len);
		put_be32(p + 4, part[i].key);
		put_be64(p + 8, part[i].va);
	}
	return sized(buf, n, p, len);
}

unsigned int umr_interleaved(uint8_t *buf, const struct umr_part *part, unsigned int n,
			     uint32_t times, uint64_t len)
{
	uint8_t *p = entries(buf);
	uint32_t bytes = 0;

	for (unsigned int i = 0; i < n; i++)
		bytes += part[i].len;
	put_be32(p, bytes);
	put_be32(p + 4, UMR_REPEAT);
	put_be32(p + 8, times);
	put_be16(p + 12, 0);
	put_be16(p + 14, (uint16_t)n);
	for (unsigned int i = 0; i < n; i++) {
		p += SEG;
		put_be16(p, (uint16_t)part[i].stride);
		put_be16(p + 2, (uint16_t)part[i].len);
		put_be32(p + 4, part[i].key);
		put_be64(p + 8, part[i].va);
	}
	return sized(buf, n + 1, p + SEG, len);
}
