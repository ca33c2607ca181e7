// SPDX-License-Identifier: MIT
#include "prm/cqe_session.h"
#include <string.h>
#include "util/barrier.h"
#include "util/be.h"

#define COMPRESSED (3 << 2) /* in op_own: the format */
#define SHARED	   0xf2 /* in op_own: what is the title's and each completion's */

/* Bytes of an entry that <infiniband/mlx5dv.h> reserves. */
enum { AT_HASH = 12, AT_HASH_TYPE = 16, AT_CHECKSUM = 20 };

/* Of a striding queue the WQE counters do not follow one another. */
static bool may_join(const struct cqe_session *s, const struct cqe *c)
{
	return c->opcode >= MLX5_CQE_RESP_WR_IMM && c->opcode <= MLX5_CQE_RESP_SEND_INV &&
	       (!c->app_op ||
		(c->app_op == CQE_STRIDED && s->format == MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX));
}

static bool alike(const struct cqe *a, const struct cqe *b)
{
	return a->opcode == b->opcode && a->uidx == b->uidx && a->qpn == b->qpn &&
	       a->src_qp == b->src_qp && a->imm == b->imm && a->vlan == b->vlan &&
	       a->solicited == b->solicited && a->grh == b->grh && a->l3 == b->l3 &&
	       a->csum_ok == b->csum_ok && a->hash_type == b->hash_type && a->app_op == b->app_op &&
	       (!a->app_op || a->wqe_id == b->wqe_id);
}

bool cqe_session_takes(const struct cqe_session *s, const struct cqe *c)
{
	if (!s->n)
		return may_join(s, c);
	return s->n < CQE_SESSION_MAX && may_join(s, c) && alike(&s->title, c) &&
	       (s->format == MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX ||
		c->wqe_counter == (uint16_t)(s->title.wqe_counter + s->n));
}

static uint32_t brief_be(uint8_t format, const struct cqe *c)
{
	switch (format) {
	case MLX5DV_CQE_RES_FORMAT_CSUM:
		return htobe32(c->brief << 16);
	case MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX:
		return htobe32(c->brief << 16 | c->wqe_counter);
	default:
		return htobe32(c->brief);
	}
}

void cqe_session_add(struct cqe_session *s, const struct cqe *c)
{
	if (!s->n)
		s->title = *c;
	if (s->n % CQE_MINIS == 0)
		memset(&s->mini[s->n], 0, CQE_MINIS * sizeof(s->mini[0]));
	s->mini[s->n++] = (struct cqe_mini){ brief_be(s->format, c), htobe32(c->byte_cnt) };
}

/* Puts what @m carries where an ordinary entry has it. */
static void put_brief(struct mlx5_cqe64 *e, const struct cqe_mini *m, uint8_t format)
{
	uint8_t *p = (uint8_t *)e;

	if (format == MLX5DV_CQE_RES_FORMAT_HASH)
		memcpy(p + AT_HASH, &m->brief, sizeof(m->brief));
	else
		memcpy(p + AT_CHECKSUM, &m->brief, sizeof(uint16_t));
	if (format == MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX)
		e->wqe_counter = htobe16((uint16_t)be32toh(m->brief));
}

/* Where array @k of the session stands that begins at entry @i. */
static struct mlx5_cqe64 *array_at(const struct cqe_ring *r, uint32_t i, uint32_t k)
{
	return cqe_ring_at(r, i + (k ? k * CQE_MINIS : 1));
}

static void clear_first_half(const struct cqe_ring *r, struct mlx5_cqe64 *e)
{
	size_t len = r->size - sizeof(*e);

	memset((uint8_t *)e - len, 0, len);
}

static void write_arrays(const struct cqe_session *s, const struct cqe_ring *r, uint32_t i)
{
	for (uint32_t k = 0; k * CQE_MINIS < s->n; k++) {
		struct mlx5_cqe64 *at = array_at(r, i, k);

		if (s->padded)
			clear_first_half(r, at);
		memcpy(at, &s->mini[k * CQE_MINIS], sizeof(*at));
	}
}

void cqe_session_write(struct cqe_session *s, const struct cqe_ring *r, uint32_t i)
{
	struct mlx5_cqe64 *at = cqe_ring_at(r, i), e;

	cqe_write(&e, &s->title, !!(i & r->cnt));
	put_brief(&e, &s->mini[0], s->format);
	((uint8_t *)&e)[AT_HASH_TYPE] = s->title.hash_type;
	if (s->n > 1) {
		write_arrays(s, r, i);
		e.byte_cnt = htobe32(s->n);
		e.op_own |= COMPRESSED;
	}
	if (s->padded)
		clear_first_half(r, at);
	memcpy(at, &e, offsetof(struct mlx5_cqe64, op_own));
	store_release(&at->op_own, e.op_own); /* pairs with cqe_ours() */
	s->n = 0;
}

void cqe_session_expand(const struct cqe_ring *r, uint32_t i, uint8_t format)
{
	struct cqe_mini mini[CQE_SESSION_MAX];
	struct mlx5_cqe64 e = *cqe_ring_at(r, i);
	uint32_t n = be32toh(e.byte_cnt);
	uint16_t counter = be16toh(e.wqe_counter);

	e.op_own &= SHARED;
	if (!n || n > CQE_SESSION_MAX || n > r->cnt)
		n = 1; /* the program has written into its ring */
	for (uint32_t k = 0; n > 1 && k * CQE_MINIS < n; k++)
		memcpy(&mini[k * CQE_MINIS], array_at(r, i, k), sizeof(e));
	for (uint32_t j = 0; j < n; j++) {
		e.wqe_counter = htobe16((uint16_t)(counter + j));
		if (n > 1) {
			e.byte_cnt = mini[j].byte_cnt;
			put_brief(&e, &mini[j], format);
		}
		*cqe_ring_at(r, i + j) = e;
		cqe_ring_at(r, i + j)->op_own |= !!((i + j) & r->cnt);
	}
}

void cqe_session_expand_all(const struct cqe_ring *r, uint32_t ci, uint32_t pi, uint8_t format)
{
	for (uint32_t i = ci; i != pi; i++)
		if (cqe_is_title(cqe_ring_at(r, i)))
			cqe_session_expand(r, i, format);
}
