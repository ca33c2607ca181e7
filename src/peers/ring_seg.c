// SPDX-License-Identifier: MIT
#include "peers/ring_seg.h"
#include <errno.h>
#include <string.h>
#include "wire/opcode.h"

/* Extensions, in this order; 12 bits in the word. */
enum {
	EXT_ACK = 1, /* ack_psn, ack_msn */
	EXT_MSN = 2,
	EXT_IMM = 4,
	EXT_ADDR = 8, /* va, rkey, dma_len */
	EXT_SWAP = 16,
	EXT_CMP = 32,
	EXT_UD = 64, /* qkey, l3, sl, sport */
	EXT_GRH = 128,
	EXT_AV = 256, /* struct av */
	EXT_XRC = 512, /* srqn, ifindex */
	EXT_IP4 = 1024, /* the second half of a GRH whose first one is zero: an IPv4 header */
	EXT_ODD = 2048, /* marked, damaged: bits of 4 bytes */
	EXT_ALL = 4095,
};

enum { ODD_MARKED = 1, ODD_DAMAGED = 2, HALF_GRH = GRH_LEN / 2 };

enum {
	FIXED = 28, /* bytes of a record before its extensions */
	FIXED_PLAIN = 32,
	FIXED_ACK = 40, /* before the body, without one and with EXT_ACK */
};

struct fixed { /* behind the word */
	uint32_t dqpn_syndrome; /* 24 + 8 bits */
	uint32_t sqpn_npieces; /* 24 + 8 bits */
	uint32_t psn, npsn, len;
};
_Static_assert(sizeof(uint64_t) + sizeof(struct fixed) == FIXED, "the fixed part has no holes");

/* A record has 8 bits for flags: SEG_MCAST, which only datagrams have, is said by the bit of
 * SEG_ARMING, which they never have, and stands 8 places above it (docs/design/rings.md). */
static uint8_t flags_out(const struct seg *s, bool by_ref)
{
	uint32_t flags = s->flags | s->flags >> 8;

	return (uint8_t)((flags & ~(uint32_t)SEG_BYREF) | (by_ref ? SEG_BYREF : 0));
}

_Static_assert(SEG_MCAST == SEG_ARMING << 8, "flags_out() moves the one to the other");

static uint16_t flags_in(uint8_t op, uint8_t flags)
{
	if (likely(!(flags & SEG_ARMING)) || opcode_service(op) != SVC_UD)
		return flags;
	return (uint16_t)((flags & ~SEG_ARMING) | SEG_MCAST);
}

static uint32_t ext_bytes(uint32_t ext)
{
	static const uint8_t size[] = { 8, 4,	     4, 16, 8, 8, 8, GRH_LEN, sizeof(struct av),
					4, HALF_GRH, 4 };
	uint32_t n = 0;

	for (; ext; ext &= ext - 1)
		n += size[__builtin_ctz(ext)];
	return n;
}

static uint32_t ext_of_grh(const uint8_t *grh)
{
	static const uint8_t zero[HALF_GRH];

	return memcmp(grh, zero, HALF_GRH) ? EXT_GRH : EXT_IP4;
}

static uint32_t ext_of(const struct seg *s)
{
	uint32_t ext = 0;

	if (s->ack_psn | s->ack_msn)
		ext |= EXT_ACK;
	if (s->msn)
		ext |= EXT_MSN;
	if (s->imm)
		ext |= EXT_IMM;
	if (s->va | s->rkey | s->dma_len)
		ext |= EXT_ADDR;
	if (s->swap_add)
		ext |= EXT_SWAP;
	if (s->compare)
		ext |= EXT_CMP;
	if (s->qkey | s->l3 | s->sl | s->sport)
		ext |= EXT_UD;
	if (s->grh)
		ext |= ext_of_grh(s->grh);
	if (s->av && (s->flags & SEG_MCAST))
		ext |= EXT_AV;
	if (s->srqn)
		ext |= EXT_XRC;
	if (unlikely(s->marked || s->damaged))
		ext |= EXT_ODD;
	return ext;
}

static uint32_t round_up(uint32_t n, uint32_t to)
{
	return (n + to - 1) & -to;
}

static uint32_t head_bytes(uint32_t ext)
{
	return round_up(FIXED + ext_bytes(ext), 8);
}

void ring_seg_plan(const struct seg *s, bool by_ref, struct ring_plan *out)
{
	uint32_t ext = ext_of(s), head = head_bytes(ext);
	uint64_t body = by_ref ? s->npieces * sizeof(struct piece) : s->len;

	*out = (struct ring_plan){ ext, head, UINT32_MAX };
	if (body <= RING_RECORD_MAX - head)
		out->bytes = round_up(head + (uint32_t)body, RING_LINE);
}

void ring_seg_plan_plain(const struct seg *s, struct ring_plan *out)
{
	uint32_t ext = s->flags & SEG_ACK ? EXT_ACK : 0, head = ext ? FIXED_ACK : FIXED_PLAIN;

	if (opcode_service(s->op) == SVC_UD) {
		ext = EXT_UD | ext_of_grh(s->grh);
		head = head_bytes(ext);
	}
	*out = (struct ring_plan){ ext, head, round_up(head + s->len, RING_LINE) };
}

static uint8_t *put(uint8_t *p, const void *v, size_t n)
{
	memcpy(p, v, n);
	return p + n;
}

#define PUT(p, v) ((p) = put((p), &(v), sizeof(v)))

static void put_ext(const struct seg *s, uint32_t ext, uint8_t *p)
{
	uint8_t ud[2] = { s->l3, s->sl };

	if (ext & EXT_MSN)
		PUT(p, s->msn);
	if (ext & EXT_IMM)
		PUT(p, s->imm);
	if (ext & EXT_ADDR) {
		PUT(p, s->va);
		PUT(p, s->rkey);
		PUT(p, s->dma_len);
	}
	if (ext & EXT_SWAP)
		PUT(p, s->swap_add);
	if (ext & EXT_CMP)
		PUT(p, s->compare);
	if (ext & EXT_UD) {
		PUT(p, s->qkey);
		PUT(p, ud);
		PUT(p, s->sport);
	}
	if (ext & EXT_GRH)
		p = put(p, s->grh, GRH_LEN);
	if (ext & EXT_AV)
		p = put(p, s->av, sizeof(*s->av));
	if (ext & EXT_XRC)
		PUT(p, s->srqn);
	if (ext & EXT_IP4)
		p = put(p, s->grh + HALF_GRH, HALF_GRH);
	if (ext & EXT_ODD) {
		uint32_t odd = (s->marked ? ODD_MARKED : 0) | (s->damaged ? ODD_DAMAGED : 0);

		put(p, &odd, sizeof(odd));
	}
}

/* Two members that stand side by side: whoever copies the record has whole words to load. */
static uint64_t pair(uint32_t first, uint32_t second)
{
	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first one stands lower");
	return first | (uint64_t)second << 32;
}

uint64_t ring_seg_encode(const struct seg *s, const struct ring_plan *p, bool by_ref, uint8_t *rec)
{
	uint8_t flags = flags_out(s, by_ref);
	uint32_t dqpn = (s->dqpn & BITS_24) | (uint32_t)s->syndrome << 24;
	uint32_t sqpn = (s->sqpn & BITS_24) | (by_ref ? (uint32_t)s->npieces << 24 : 0);
	uint32_t ack = p->ext & EXT_ACK ? s->ack_psn : 0;
	uint64_t *to = (uint64_t *)(void *)rec;

	to[1] = pair(dqpn, sqpn);
	to[2] = pair(s->psn, s->npsn);
	to[3] = pair(s->len, ack);
	if (p->ext & EXT_ACK)
		to[4] = s->ack_msn; /* its upper half is the next extension's */
	if (p->ext & ~EXT_ACK)
		put_ext(s, p->ext & ~EXT_ACK, rec + FIXED + (p->ext & EXT_ACK ? 8 : 0));
	if (by_ref)
		memcpy(rec + p->head, s->pieces, s->npieces * sizeof(struct piece));
	return ring_word(RING_SEG, p->bytes,
			 s->op | (uint32_t)flags << 8 | (uint64_t)s->pkey << 16 |
				 (uint64_t)p->ext << 32);
}

static const uint8_t *get(const uint8_t *p, void *v, size_t n)
{
	memcpy(v, p, n);
	return p + n;
}

#define GET(p, v) ((p) = get((p), &(v), sizeof(v)))

static void get_ext(struct ring_got *o, uint32_t ext, const uint8_t *p)
{
	struct seg *s = &o->seg;
	uint32_t odd;
	uint8_t ud[2];

	if (ext & EXT_ACK) {
		GET(p, s->ack_psn);
		GET(p, s->ack_msn);
	}
	if (ext & EXT_MSN)
		GET(p, s->msn);
	if (ext & EXT_IMM)
		GET(p, s->imm);
	if (ext & EXT_ADDR) {
		GET(p, s->va);
		GET(p, s->rkey);
		GET(p, s->dma_len);
	}
	if (ext & EXT_SWAP)
		GET(p, s->swap_add);
	if (ext & EXT_CMP)
		GET(p, s->compare);
	if (ext & EXT_UD) {
		GET(p, s->qkey);
		GET(p, ud);
		GET(p, s->sport);
		s->l3 = ud[0];
		s->sl = ud[1];
	}
	if (ext & EXT_GRH) {
		p = get(p, o->grh, GRH_LEN);
		s->grh = o->grh;
	}
	if (ext & EXT_AV) {
		p = get(p, &o->av, sizeof(o->av));
		s->av = &o->av;
	}
	if (ext & EXT_XRC)
		GET(p, s->srqn);
	if (ext & EXT_IP4) {
		memset(o->grh, 0, HALF_GRH);
		p = get(p, o->grh + HALF_GRH, HALF_GRH);
		s->grh = o->grh;
	}
	if (ext & EXT_ODD) {
		get(p, &odd, sizeof(odd));
		s->marked = odd & ODD_MARKED;
		s->damaged = odd & ODD_DAMAGED;
	}
}

static int get_pieces(struct ring_got *o, uint32_t n, const uint8_t *p, uint32_t room)
{
	uint64_t sum = 0;

	if (!n || n > RING_SEG_PIECES || n * sizeof(struct piece) > room)
		return EPROTO;
	memcpy(o->pieces, p, n * sizeof(struct piece));
	for (uint32_t i = 0; i < n; i++)
		sum += o->pieces[i].len;
	o->seg.pieces = o->pieces;
	o->seg.npieces = (uint16_t)n;
	return sum == o->seg.len ? 0 : EPROTO;
}

/* Clears the fields that only extensions set. */
static void clear_ext(struct ring_got *o)
{
	struct seg *s = &o->seg;

	s->msn = s->ack_psn = s->ack_msn = 0;
	s->imm = s->qkey = s->srqn = s->rkey = s->dma_len = 0;
	s->va = s->swap_add = s->compare = 0;
	s->av = NULL;
	s->grh = NULL;
	s->l3 = s->sl = 0;
	s->sport = 0;
	s->marked = s->damaged = false;
	o->ext = 0;
}

static void put_fixed(struct seg *s, uint64_t info, const struct fixed *f)
{
	s->op = (uint8_t)info;
	s->flags = flags_in(s->op, (uint8_t)(info >> 8));
	s->pkey = (uint16_t)(info >> 16);
	s->dqpn = f->dqpn_syndrome & BITS_24;
	s->syndrome = (uint8_t)(f->dqpn_syndrome >> 24);
	s->sqpn = f->sqpn_npieces & BITS_24;
	s->psn = f->psn;
	s->npsn = f->npsn;
	s->len = f->len;
	s->npieces = 0;
	s->pieces = NULL;
	s->data = NULL;
}

int ring_seg_decode(uint64_t word, const uint8_t *rec, uint32_t bytes, struct ring_got *o)
{
	uint64_t info = ring_word_info(word);
	uint32_t ext = (uint32_t)(info >> 32), head = head_bytes(ext & EXT_ALL);
	struct fixed f;

	if ((ext & ~EXT_ALL) || head > bytes)
		return EPROTO;
	memcpy(&f, rec + sizeof(word), sizeof(f));
	put_fixed(&o->seg, info, &f);
	if (unlikely(o->ext))
		clear_ext(o);
	if (ext) {
		get_ext(o, ext, rec + FIXED);
		o->ext = ext;
	}
	if (o->seg.flags & SEG_BYREF)
		return get_pieces(o, f.sqpn_npieces >> 24, rec + head, bytes - head);
	if (f.sqpn_npieces >> 24 || f.len > bytes - head)
		return EPROTO;
	o->seg.data = rec + head;
	return 0;
}
