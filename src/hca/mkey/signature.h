// SPDX-License-Identifier: MIT
/* Block signatures: protection fields between blocks of data, on the wire, in memory, or in both. A
 * key with a signature is used by its bytes on the wire; the bytes of its layout are those in
 * memory. Each stream is blocks of @block bytes of data with a field of @field bytes behind each;
 * bytes behind the last whole block have no field. Where both streams have fields at the same
 * places, the bytes of fields that @copy names are copied from one stream to the other; all others
 * are computed.
 *
 * Only struct sig_rest is kept from one call to the next, so parts of a message may have any sizes
 * and be sent again: the data of a block whose field is computed is read once more, as part of the
 * *image*, the bytes in memory around those that are asked for. Pure. docs/design/signatures.md
 * tells why. */
#pragma once
#include "prm/bsf.h"

enum {
	SIG_FIELD = 8, /* bytes, at most */
	SIG_BLOCK = 4160,
	SIG_TAG_ESCAPE = 0xffff, /* application tag, and reference tag in 32 bits */
};

enum sig_wrong { SIG_GOOD, SIG_GUARD, SIG_APP_TAG, SIG_REF_TAG }; /* in the order of the checks */

struct sig_error {
	enum sig_wrong wrong;
	bool on_wire; /* the stream whose field is wrong */
	uint64_t expected, actual; /* the field's value; the computed value */
	uint64_t offset; /* of the block in that stream */
};

/* The first bytes of a field on the wire, which came with one part; the others come with the
 * next */
struct sig_rest {
	uint64_t block; /* whose field it is */
	unsigned int n; /* bytes; 0: none */
	uint8_t field[SIG_FIELD];
};

/* Bytes on the wire of @mem bytes of memory. */
uint64_t sig_wire_len(const struct signature *s, uint64_t mem);

/* What a part [wire, wire + len) of the wire's stream needs in memory */
struct sig_part {
	uint64_t wire, len;
	uint64_t data, end; /* its data: offsets that do not count fields */
	uint64_t image; /* where the image begins in memory */
	uint64_t load; /* bytes to load from there on */
	uint64_t skip; /* receiving: bytes of the image before those to store; equals @load */
	uint64_t size; /* of the image */
};

/* @mem: bytes of memory in all; the part lies within sig_wire_len(). @store: it is received. */
struct sig_part sig_part(const struct signature *s, uint64_t mem, uint64_t wire, uint64_t len,
			 bool store);

/* Sending: makes the part from its image, which is loaded. Receiving: completes the image, of which
 * the first @load bytes are loaded, from the part; [skip, size) of it is to be stored. *@e: the
 * first field that is wrong, if e->wrong is SIG_GOOD before. */
void sig_send(const struct signature *s, const struct sig_part *p, const uint8_t *image,
	      uint8_t *part, struct sig_error *e);
void sig_receive(const struct signature *s, const struct sig_part *p, const uint8_t *part,
		 uint8_t *image, struct sig_rest *rest, struct sig_error *e);
