// SPDX-License-Identifier: MIT
/* UMR work requests in mlx5's format: behind the control segment stand a segment that says what
 * changes, the mkey's new context, and then inline the list of the mkey's parts and its signature
 * (BSF), or a data segment that says where the list stands in memory. The driver writes them, or
 * the program itself, so umr_parse() copies the whole out of the ring first and bounds everything
 * by that copy; so does the caller of umr_read_list() with the list. Pure. */
#pragma once
#include "prm/bsf.h"
#include "prm/wqe.h"

enum {
	UMR_PARTS = 55, /* of a list, at most: 63 segments less UMR_FIXED_SEGS */
	UMR_FIXED_SEGS = 1 + 3 + 4, /* segments of 16 bytes before the list */
	UMR_ENTRY = 16, /* bytes of an entry of the list */
	UMR_LIST_UNIT = 4, /* segments: zeros fill a list up to a multiple of this */
	UMR_REPEAT = 0x400, /* in place of a key: the head of an interleaved list */
	UMR_FREE = 1 << 6, /* mlx5_wqe_mkey_context_seg.free */
	UMR_LOCAL_READ = 1 << 2, /* this and the next four: of its access_flags */
	UMR_LOCAL_WRITE = 1 << 3,
	UMR_REMOTE_READ = 1 << 4,
	UMR_REMOTE_WRITE = 1 << 5,
	UMR_ATOMIC = 1 << 6,
	UMR_SIGNED = 1 << 30, /* of its flags_pd: the mkey has a signature */
};

struct umr_part {
	uint64_t va;
	uint32_t len, stride; /* bytes; stride: interleaved, from one round to the next */
	uint32_t key;
};

struct umr {
	uint32_t mkey; /* key of the mkey that changes */
	uint8_t flags; /* MLX5_WQE_UMR_CTRL_FLAG_* */
	uint64_t mask; /* MLX5_WQE_UMR_CTRL_MKEY_MASK_*: which members below are valid */
	bool free; /* the mkey allows no access from now on */
	unsigned int access; /* IBV_ACCESS_* */
	uint8_t variant; /* the mkey's low 8 bits from now on */
	uint32_t qpn; /* the only QP that may use it; 0xffffff: any */
	uint64_t start, len; /* first address as work requests name it; bytes */
	bool is_signed; /* the mkey has a signature from now on */
	bool brings_sig; /* sig is valid: the UMR brings a signature */
	struct signature sig;
	struct sge away; /* where the list stands in memory; len 0: it brings none, or inline */
	bool listed; /* the members below are valid: the UMR brings a list, and it was read */
	uint32_t times; /* rounds through the parts; 1 unless the list is interleaved */
	unsigned int nparts;
	const struct umr_part *read; /* those of a list in memory; NULL: it was inline */
	struct umr_part part[UMR_PARTS]; /* those of an inline list */
};

/* The UMR at block @pi, which wqe_parse() has found well-formed. NULL, or what is wrong. */
const char *umr_parse(const struct sq_ring *ring, uint16_t pi, struct umr *out);
/* Reads the list of @u that stands in memory: @buf is the caller's copy of u->away.len bytes, @part
 * has room for one part for each 16 of them. NULL, or what is wrong. */
const char *umr_read_list(struct umr *u, const uint8_t *buf, struct umr_part *part);

/* The segments behind the control segment, as a builder fills them: @buf has UMR_MAX bytes, of
 * which the first UMR_HEAD are zeros at first. UMR_MAX: with a list that is filled up to 56. */
enum { UMR_HEAD = (UMR_FIXED_SEGS - 1) * 16, UMR_MAX = UMR_HEAD + 56 * 16 };

/* Sets rights (IBV_ACCESS_*) and their bits in the mask. */
void umr_access(uint8_t *buf, unsigned int access);
/* Marks the mkey as in use or free. */
void umr_free(uint8_t *buf, bool free);
/* From now on a wrong signature is recorded again. */
void umr_rearm(uint8_t *buf);
/* From now on the mkey has the signature of the BSF that the caller writes behind the list, or
 * none. */
void umr_sign(uint8_t *buf, bool is_signed);
/* Both set a list, zero based, with its length, and return the number of its segments. */
unsigned int umr_list(uint8_t *buf, const struct umr_part *part, unsigned int n, uint64_t len);
unsigned int umr_interleaved(uint8_t *buf, const struct umr_part *part, unsigned int n,
			     uint32_t times, uint64_t len);
