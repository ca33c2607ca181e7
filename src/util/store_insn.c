// SPDX-License-Identifier: MIT
#include "util/store_insn.h"
#include <string.h>

enum { REX = 0x40, REX_W = 8, REX_R = 4, PREFIXES = 8 };

/* What has been read of the instruction. */
struct reader {
	const uint8_t *at;
	uint8_t rex; /* 0: none */
	bool word; /* prefix 66: 16 bits, or another of the SSE moves */
	bool repeats; /* F2 or F3 */
};

static uint8_t next(struct reader *r)
{
	return *r->at++;
}

static bool prefixes(struct reader *r)
{
	for (unsigned int n = 0; n < PREFIXES; n++) {
		switch (*r->at) {
		case 0x66:
			r->word = true;
			break;
		case 0xf2:
		case 0xf3:
			r->repeats = true;
			break;
		case 0x67: /* addresses of 32 bits, as long as others */
		case 0x2e: /* segments */
		case 0x36:
		case 0x3e:
		case 0x26:
		case 0x64:
		case 0x65:
			break;
		default:
			if ((*r->at & 0xf0) == REX)
				r->rex = next(r);
			return true;
		}
		r->at++;
	}
	return false;
}

/* Skips the address. False: the operand is a register. @number: the middle field of the byte. */
static bool operand(struct reader *r, unsigned int *number)
{
	uint8_t modrm = next(r), mod = modrm >> 6, base = modrm & 7;

	*number = modrm >> 3 & 7;
	if (mod == 3)
		return false;
	if (base == 4)
		base = next(r) & 7; /* an index and a scale */
	if (mod == 1)
		r->at += 1;
	else if (mod == 2 || base == 5)
		r->at += 4; /* mod 0 with base 5: a displacement in place of the base */
	return true;
}

/* Of the two-byte opcodes, those that store a vector register, or part of one. */
static bool stores_vector(uint8_t opcode)
{
	switch (opcode) {
	case 0x11: /* MOVUPS, MOVUPD, MOVSS, MOVSD */
	case 0x13: /* MOVLPS */
	case 0x17: /* MOVHPS */
	case 0x29: /* MOVAPS */
	case 0x2b: /* MOVNTPS */
	case 0x7e: /* MOVD, MOVQ */
	case 0x7f: /* MOVDQA, MOVDQU, MOVQ */
	case 0xd6: /* MOVQ */
	case 0xe7: /* MOVNTDQ */
		return true;
	default:
		return false;
	}
}

static bool vector(struct reader *r, uint8_t opcode)
{
	unsigned int number;

	if (opcode == 0x7e && r->repeats)
		return false; /* this one loads */
	return stores_vector(opcode) && operand(r, &number);
}

/* The prefixes C5, C4 and 62, which contain the fields of the others. */
static bool wide(struct reader *r, uint8_t first)
{
	uint8_t map = 1, pp;

	if (r->rex || r->word || r->repeats)
		return false;
	if (first == 0xc5) {
		pp = next(r) & 3;
	} else if (first == 0xc4) {
		map = next(r) & 0x1f;
		pp = next(r) & 3;
	} else {
		map = next(r) & 7;
		pp = next(r) & 3;
		r->at++;
	}
	r->repeats = pp >= 2;
	return map == 1 && vector(r, next(r));
}

static uint64_t low(uint64_t value, unsigned int bytes)
{
	return bytes == 8 ? value : value & ((UINT64_C(1) << bytes * 8) - 1);
}

/* Without a REX prefix numbers 4 to 7 are the second bytes of the first four registers. */
static uint64_t byte_register(const struct reader *r, const uint64_t reg[16], unsigned int number)
{
	return !r->rex && number >= 4 ? reg[number - 4] >> 8 : reg[number];
}

static bool from_register(struct reader *r, const uint64_t reg[16], unsigned int bytes,
			  struct store_insn *out)
{
	unsigned int number;

	if (!operand(r, &number))
		return false;
	number += r->rex & REX_R ? 8 : 0;
	out->bytes = (uint8_t)bytes;
	out->value = low(bytes == 1 ? byte_register(r, reg, number) : reg[number], bytes);
	return true;
}

static bool from_constant(struct reader *r, unsigned int bytes, struct store_insn *out)
{
	unsigned int number, n = bytes == 8 ? 4 : bytes;
	int32_t value = 0;

	if (!operand(r, &number) || number)
		return false;
	memcpy(&value, r->at, n);
	r->at += n;
	out->bytes = (uint8_t)bytes;
	out->value = low((uint64_t)(int64_t)value, bytes);
	return true;
}

static bool move(struct reader *r, const uint64_t reg[16], struct store_insn *out)
{
	unsigned int bytes = r->rex & REX_W ? 8 : r->word ? 2 : 4;
	uint8_t opcode = next(r);

	switch (opcode) {
	case 0x88:
		return from_register(r, reg, 1, out);
	case 0x89:
		return from_register(r, reg, bytes, out);
	case 0xc6:
		return from_constant(r, 1, out);
	case 0xc7:
		return from_constant(r, bytes, out);
	case 0xc4:
	case 0xc5:
	case 0x62:
		return wide(r, opcode);
	case 0x0f:
		opcode = next(r);
		if (opcode == 0xc3) /* MOVNTI */
			return !r->word && from_register(r, reg, bytes, out);
		return vector(r, opcode);
	default:
		return false;
	}
}

bool store_insn_decode(const uint8_t *at, const uint64_t reg[16], struct store_insn *out)
{
	struct reader r = { .at = at };

	*out = (struct store_insn){ 0 };
	if (!prefixes(&r) || !move(&r, reg, out) || r.at - at > 15)
		return false;
	out->len = (uint8_t)(r.at - at);
	return true;
}
