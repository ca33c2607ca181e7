// SPDX-License-Identifier: MIT
#include <errno.h>
#include "util/be.h"
#include "wire/packet.h"

enum {
	BTH_SE = 0x80,
	BTH_MIGREQ = 0x40,
	BTH_PAD_SHIFT = 4,
	BTH_TVER_MASK = 0x0f,
	BTH_FECN = 0x80,
	BTH_BECN = 0x40,
	BTH_ACKREQ = 0x80,
};

struct cursor {
	const uint8_t *p, *end;
};

static size_t left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

/* The next @n bytes; NULL when there are fewer. */
static const uint8_t *take(struct cursor *c, size_t n)
{
	const uint8_t *p = c->p;

	if (left(c) < n)
		return NULL;
	c->p += n;
	return p;
}

static struct pkt parse_bth(const uint8_t *b)
{
	return (struct pkt){
		.op = &opcodes[b[0]],
		.opcode = b[0],
		.solicited = b[1] & BTH_SE,
		.migreq = b[1] & BTH_MIGREQ,
		.pad = b[1] >> BTH_PAD_SHIFT & 3,
		.pkey = get_be16(b + 2),
		.fecn = b[4] & BTH_FECN,
		.becn = b[4] & BTH_BECN,
		.dqpn = get_be24(b + 5),
		.ackreq = b[8] & BTH_ACKREQ,
		.psn = get_be24(b + 9),
	};
}

/* RETH and AtomicETH begin alike. */
static const uint8_t *parse_remote(const uint8_t *e, uint32_t has, struct pkt *p)
{
	if (!(has & (WIRE_RETH | WIRE_ATOMICETH)))
		return e;
	p->va = get_be64(e);
	p->rkey = get_be32(e + 8);
	if (has & WIRE_RETH) {
		p->dma_len = get_be32(e + 12);
		return e + RETH_LEN;
	}
	p->swap_add = get_be64(e + 12);
	p->compare = get_be64(e + 20);
	return e + ATOMICETH_LEN;
}

static const uint8_t *parse_answer(const uint8_t *e, uint32_t has, struct pkt *p)
{
	if (has & WIRE_AETH) {
		p->syndrome = e[0];
		p->msn = get_be24(e + 1);
		e += AETH_LEN;
	}
	if (has & WIRE_ATOMICACKETH) {
		p->orig = get_be64(e);
		e += ATOMICACKETH_LEN;
	}
	return e;
}

/* @e has p->op->ext_len bytes. */
static void parse_ext(const uint8_t *e, struct pkt *p)
{
	uint32_t has = p->op->flags;

	if (has & WIRE_XRCETH) {
		p->xrc_srqn = get_be24(e + 1);
		e += XRCETH_LEN;
	}
	if (has & WIRE_FETH) {
		p->flush_type = e[3] & 0xf;
		p->flush_level = e[3] >> 4 & 3;
		e += FETH_LEN;
	}
	e = parse_remote(e, has, p);
	if (has & WIRE_DETH) {
		p->qkey = get_be32(e);
		p->sqpn = get_be24(e + 5);
		e += DETH_LEN;
	}
	e = parse_answer(e, has, p);
	if (has & WIRE_IMMDT)
		memcpy(&p->imm, e, IMMDT_LEN);
	if (has & WIRE_IETH)
		p->inv_rkey = get_be32(e);
}

int wire_parse(const uint8_t *buf, size_t len, struct pkt *out)
{
	struct cursor c = { buf, buf + len };
	const uint8_t *bth = take(&c, BTH_LEN), *ext;
	struct pkt p;
	size_t body;

	if (!bth || (bth[1] & BTH_TVER_MASK) || !opcodes[bth[0]].name)
		return EBADMSG;
	p = parse_bth(bth);
	ext = take(&c, p.op->ext_len);
	if (!ext || left(&c) < (size_t)p.pad + ICRC_LEN)
		return EBADMSG;
	body = left(&c) - ICRC_LEN; /* payload and pad: whole words */
	if (body % 4 || (body && !(p.op->flags & WIRE_PAYLOAD)))
		return EBADMSG;
	parse_ext(ext, &p);
	p.payload = c.p;
	p.payload_len = body - p.pad;
	*out = p;
	return 0;
}

static void build_bth(const struct pkt *p, uint8_t *b)
{
	b[0] = p->opcode;
	b[1] = (uint8_t)((p->solicited ? BTH_SE : 0) | (p->migreq ? BTH_MIGREQ : 0) |
			 wire_pad(p->payload_len) << BTH_PAD_SHIFT);
	put_be16(b + 2, p->pkey);
	b[4] = (uint8_t)((p->fecn ? BTH_FECN : 0) | (p->becn ? BTH_BECN : 0));
	put_be24(b + 5, p->dqpn);
	b[8] = p->ackreq ? BTH_ACKREQ : 0;
	put_be24(b + 9, p->psn);
}

static uint8_t *build_remote(const struct pkt *p, uint32_t has, uint8_t *e)
{
	if (!(has & (WIRE_RETH | WIRE_ATOMICETH)))
		return e;
	put_be64(e, p->va);
	put_be32(e + 8, p->rkey);
	if (has & WIRE_RETH) {
		put_be32(e + 12, p->dma_len);
		return e + RETH_LEN;
	}
	put_be64(e + 12, p->swap_add);
	put_be64(e + 20, p->compare);
	return e + ATOMICETH_LEN;
}

static uint8_t *build_answer(const struct pkt *p, uint32_t has, uint8_t *e)
{
	if (has & WIRE_AETH) {
		put_be32(e, (uint32_t)p->syndrome << 24 | (p->msn & BITS_24));
		e += AETH_LEN;
	}
	if (has & WIRE_ATOMICACKETH) {
		put_be64(e, p->orig);
		e += ATOMICACKETH_LEN;
	}
	return e;
}

static void build_ext(const struct pkt *p, uint32_t has, uint8_t *e)
{
	if (has & WIRE_XRCETH) {
		put_be32(e, p->xrc_srqn & BITS_24);
		e += XRCETH_LEN;
	}
	if (has & WIRE_FETH) {
		put_be32(e, (p->flush_level & 3u) << 4 | (p->flush_type & 0xfu));
		e += FETH_LEN;
	}
	e = build_remote(p, has, e);
	if (has & WIRE_DETH) {
		put_be32(e, p->qkey);
		put_be32(e + 4, p->sqpn & BITS_24);
		e += DETH_LEN;
	}
	e = build_answer(p, has, e);
	if (has & WIRE_IMMDT)
		memcpy(e, &p->imm, IMMDT_LEN);
	if (has & WIRE_IETH)
		put_be32(e, p->inv_rkey);
}

int wire_build_headers(const struct pkt *p, uint8_t *buf, size_t cap, size_t *len)
{
	const struct opcode *op = &opcodes[p->opcode];
	size_t n = (size_t)BTH_LEN + op->ext_len;

	if (!op->name || (p->payload_len && !(op->flags & WIRE_PAYLOAD)))
		return EINVAL;
	if (cap < n)
		return ENOBUFS;
	build_bth(p, buf);
	build_ext(p, op->flags, buf + BTH_LEN);
	*len = n;
	return 0;
}

int wire_build(const struct pkt *p, uint8_t *buf, size_t cap, size_t *len)
{
	size_t head, tail = wire_pad(p->payload_len) + ICRC_LEN;
	int err = wire_build_headers(p, buf, cap, &head);

	if (err)
		return err;
	if (p->payload_len > cap || cap - p->payload_len < head + tail)
		return ENOBUFS;
	if (p->payload)
		memcpy(buf + head, p->payload, p->payload_len);
	memset(buf + head + p->payload_len, 0, tail);
	*len = head + p->payload_len + tail;
	return 0;
}
