// SPDX-License-Identifier: MIT
#include "prm/bsf.h"
#include <string.h>
#include "util/be.h"

/* Bytes of the BSF */
enum {
	SIZE = 0, /* and whether both streams have the same places */
	CHECK_MASK = 1,
	WIRE_FLAGS = 2, /* copy mask, or the wire's block selector if the places differ */
	MEM_SELECTOR = 3,
	RAW_SIZE = 4,
	WIRE_FORMAT = 8, /* and the number of a PSV */
	MEM_FORMAT = 12,
	WIRE_DIF = 32,
	MEM_DIF = 48,
};

/* Bytes of a T10-DIF part */
enum { VALID = 0, APP_TAG = 2, REF_TAG = 4, TYPE = 8, SEED = 9, CHECKS = 13, APP_MASK = 14 };

enum {
	SIZE_64 = 2 << 6,
	SIZE_BITS = 3 << 6,
	SAME_PLACES = 1 << 4,
	FORMAT_ZEROS = 1,
	FORMAT_REPEAT = 2,
	DIF_VALID = 0x8000,
	DIF_REFRESH = 0x4000,
	DIF_CRC = 1,
	DIF_IP = 2,
	DIF_REPEAT = 0x80,
	DIF_ONES = 8,
	DIF_INCREMENT = 0x40,
	DIF_APP_ESCAPE = 1,
	DIF_REF_ESCAPE = 2,
};

static const struct {
	uint8_t selector;
	uint16_t block;
} sizes[] = { { 1, 512 }, { 2, 520 }, { 3, 4096 }, { 4, 4160 }, { 6, 4048 } };

static const struct {
	uint8_t format;
	enum checksum guard;
} formats[] = { { 0x20, CHECKSUM_CRC32 }, { 0x40, CHECKSUM_CRC32C }, { 0x50, CHECKSUM_CRC64 } };

uint32_t bsf_field(enum checksum guard)
{
	if (guard == CHECKSUM_NONE)
		return 0;
	return guard == CHECKSUM_CRC32 || guard == CHECKSUM_CRC32C ? 4 : 8;
}

bool sig_same_places(const struct signature *s)
{
	return s->mem.field && s->mem.field == s->wire.field && s->mem.block == s->wire.block;
}

static uint8_t selector_of(uint32_t block)
{
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].block == block)
			return sizes[i].selector;
	return 0;
}

static void write_dif(uint8_t *p, const struct sig_domain *d)
{
	put_be16(p + VALID, DIF_VALID | DIF_REFRESH);
	put_be16(p + APP_TAG, d->app_tag);
	put_be32(p + REF_TAG, d->ref_tag);
	p[TYPE] = d->guard == CHECKSUM_CRC16 ? DIF_CRC : DIF_IP;
	p[SEED] = DIF_REPEAT | (d->ones ? DIF_ONES : 0);
	p[CHECKS] = (uint8_t)((d->increment ? DIF_INCREMENT : 0) |
			      (d->app_escape ? DIF_APP_ESCAPE : 0) |
			      (d->ref_escape ? DIF_REF_ESCAPE : 0));
	put_be16(p + APP_MASK, 0xffff);
}

static void write_domain(const struct sig_domain *d, uint8_t *format, uint8_t *dif)
{
	if (sig_has_tags(d))
		write_dif(dif, d);
	for (unsigned int i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].guard == d->guard)
			*format = formats[i].format | FORMAT_REPEAT | (d->ones ? 0 : FORMAT_ZEROS);
}

void bsf_write(uint8_t *buf, const struct signature *s)
{
	bool same = sig_same_places(s);

	memset(buf, 0, BSF_LEN);
	buf[SIZE] = SIZE_64 | (same ? SAME_PLACES : 0);
	buf[CHECK_MASK] = s->check;
	buf[WIRE_FLAGS] = same ? s->copy : selector_of(s->wire.block);
	buf[MEM_SELECTOR] = selector_of(s->mem.block);
	put_be32(buf + RAW_SIZE, UINT32_MAX);
	write_domain(&s->wire, buf + WIRE_FORMAT, buf + WIRE_DIF);
	write_domain(&s->mem, buf + MEM_FORMAT, buf + MEM_DIF);
}

static const char *parse_dif(const uint8_t *p, struct sig_domain *out)
{
	if (p[TYPE] != DIF_CRC && p[TYPE] != DIF_IP)
		return "its T10-DIF has neither a CRC nor a checksum as guard";
	if (!(p[SEED] & DIF_REPEAT))
		return "its T10-DIF does not repeat block by block, which is not built";
	if (get_be16(p + APP_MASK) != 0xffff)
		return "it masks bits of the application tag, which is not built; use "
		       "check_byte_mask";
	*out = (struct sig_domain){ .guard = p[TYPE] == DIF_CRC ? CHECKSUM_CRC16 : CHECKSUM_IP,
				    .ones = p[SEED] & DIF_ONES,
				    .app_tag = get_be16(p + APP_TAG),
				    .ref_tag = get_be32(p + REF_TAG),
				    .increment = p[CHECKS] & DIF_INCREMENT,
				    .app_escape = p[CHECKS] & DIF_APP_ESCAPE,
				    .ref_escape = p[CHECKS] & DIF_REF_ESCAPE };
	return NULL;
}

static const char *parse_crc(uint8_t format, struct sig_domain *out)
{
	if (!(format & FORMAT_REPEAT))
		return "its CRC does not repeat block by block, which is not built";
	out->ones = !(format & FORMAT_ZEROS);
	format &= (uint8_t) ~(FORMAT_REPEAT | FORMAT_ZEROS);
	for (unsigned int i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].format == format)
			out->guard = formats[i].guard;
	return out->guard == CHECKSUM_NONE ? "its signature has a format that is not built" : NULL;
}

/* A stream with neither format nor T10-DIF has no signature. */
static const char *parse_domain(uint8_t format, const uint8_t *dif, uint8_t selector,
				struct sig_domain *out)
{
	const char *why = NULL;

	*out = (struct sig_domain){ 0 };
	if (format)
		why = parse_crc(format, out);
	else if (get_be16(dif + VALID) & DIF_VALID)
		why = parse_dif(dif, out);
	if (why || out->guard == CHECKSUM_NONE)
		return why;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].selector == selector)
			out->block = sizes[i].block;
	out->field = bsf_field(out->guard);
	return out->block ? NULL : "its signature has a block selector that is not built";
}

const char *bsf_parse(const uint8_t *buf, struct signature *out)
{
	bool same = buf[SIZE] & SAME_PLACES;
	const char *why;

	if ((buf[SIZE] & SIZE_BITS) != SIZE_64)
		return "its BSF is not one of 64 bytes";
	*out = (struct signature){ .check = buf[CHECK_MASK], .copy = same ? buf[WIRE_FLAGS] : 0 };
	why = parse_domain(buf[MEM_FORMAT], buf + MEM_DIF, buf[MEM_SELECTOR], &out->mem);
	if (why)
		return why;
	why = parse_domain(buf[WIRE_FORMAT], buf + WIRE_DIF, buf[same ? MEM_SELECTOR : WIRE_FLAGS],
			   &out->wire);
	if (!why && same && !sig_same_places(out))
		why = "its BSF says that fields stand at the same places, but they differ";
	return why;
}
