// SPDX-License-Identifier: MIT
/* What a UMR says of an mkey's signature: a BSF (byte stream format) of 64 bytes behind the list
 * (prm/umr.h). The BSF alone describes the signature; the PSVs that it names, which on an adapter
 * have the running values, are not read. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "util/checksum.h"

enum { BSF_LEN = 64, BSF_SEGS = BSF_LEN / 16 };

struct sig_domain {
	enum checksum guard; /* CHECKSUM_NONE: this stream is data alone */
	bool ones; /* seed of the guard: ones, or zeros */
	uint32_t block, field; /* bytes of data in a block, of the field behind it */
	/* T10-DIF, whose guards are CHECKSUM_CRC16 and CHECKSUM_IP: */
	uint16_t app_tag;
	uint32_t ref_tag; /* of the first block */
	bool increment; /* the reference tag counts blocks */
	bool app_escape, ref_escape; /* fields with tags of all ones are not checked */
};

/* Masks: a bit for each byte of a field, the highest for the first one in the stream. */
struct signature {
	struct sig_domain mem, wire;
	uint8_t check; /* bytes of fields that come in to be checked */
	uint8_t copy; /* bytes taken over from the field that comes in */
};

static inline bool sig_has_tags(const struct sig_domain *d)
{
	return d->guard == CHECKSUM_CRC16 || d->guard == CHECKSUM_IP;
}

/* Bytes of a field with @guard */
uint32_t bsf_field(enum checksum guard);
/* Have both streams fields of the same size at the same places? copy is 0 otherwise. */
bool sig_same_places(const struct signature *s);
/* @buf: BSF_LEN bytes. A block size that adapters do not have gets selector 0. */
void bsf_write(uint8_t *buf, const struct signature *s);
/* NULL, or what is wrong. */
const char *bsf_parse(const uint8_t *buf, struct signature *out);
