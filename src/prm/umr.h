// SPDX-License-Identifier: MIT
/* UMR work requests in mlx5's format: behind the control segment stand one that says what changes,
 * the mkey's new context, and inline the list of what its bytes are and its signature (BSF). The
 * driver writes them, or the program itself, so umr_parse() copies the whole out of the ring
 * first and bounds everything by that copy. Pure. */
#pragma once
#include "prm/bsf.h"
#include "prm/wqe.h"

enum {
	UMR_PARTS = 55, /* of a list: what 63 segments hold beside the control segments */
	UMR_FIXED_SEGS = 1 + 3 + 4, /* of 16 bytes, before the list */
	UMR_LIST_UNIT = 4, /* segments: a list is filled up with zeros to a multiple */
	UMR_REPEAT = 0x400, /* in place of a key: the head of an interleaved list */
	UMR_FREE = 1 << 6, /* mlx5_wqe_mkey_context_seg.free */
	UMR_LOCAL_READ = 1 << 2, /* its access_flags */
	UMR_LOCAL_WRITE = 1 << 3,
	UMR_REMOTE_READ = 1 << 4,
	UMR_REMOTE_WRITE = 1 << 5,
	UMR_ATOMIC = 1 << 6,
	UMR_SIGNED = 1 << 30, /* its flags_pd: the mkey has a signature */
};

struct umr_part {
	uint64_t va;
	uint32_t len, stride; /* bytes; stride: of an interleaved list, from one time to the next */
	uint32_t key;
};

struct umr {
	uint32_t mkey; /* that is changed */
	uint8_t flags; /* MLX5_WQE_UMR_CTRL_FLAG_* */
	uint64_t mask; /* MLX5_WQE_UMR_CTRL_MKEY_MASK_*: members below that count */
	bool free;
	unsigned int access; /* IBV_ACCESS_* */
	uint8_t variant; /* the mkey's low 8 bits from now on */
	uint32_t qpn; /* the only QP that may use it; 0xffffff: any */
	uint64_t start, len;
	bool is_signed; /* from now on it has a signature */
	bool brings_sig; /* it brings one: */
	struct signature sig;
	bool listed; /* it brings a list: what follows */
	uint32_t times; /* that the parts are gone through */
	unsigned int nparts;
	struct umr_part part[UMR_PARTS];
};

/* The UMR at block @pi, which wqe_parse() has found well-formed. NULL, or what is wrong. */
const char *umr_parse(const struct sq_ring *ring, uint16_t pi, struct umr *out);

/* The segments behind the control segment, as a builder fills them: @buf has UMR_MAX bytes and
 * begins with zeros. */
enum { UMR_MAX = 62 * 16 };

/* Sets rights (IBV_ACCESS_*) and their bits in the mask. */
void umr_access(uint8_t *buf, unsigned int access);
/* Marks the mkey as in use or free. */
void umr_free(uint8_t *buf, bool free);
/* Errors of signatures are found again. */
void umr_rearm(uint8_t *buf);
/* From now on the mkey has the signature of the BSF that the caller writes behind the list, or
 * none. */
void umr_sign(uint8_t *buf, bool is_signed);
/* Sets the list, zero based, and its length. Both return the number of its segments. */
unsigned int umr_list(uint8_t *buf, const struct umr_part *part, unsigned int n, uint64_t len);
unsigned int umr_interleaved(uint8_t *buf, const struct umr_part *part, unsigned int n,
			     uint32_t times, uint64_t len);
