// SPDX-License-Identifier: MIT
#include "driver/sig_attr.h"

#define DIF(flag) MLX5DV_SIG_T10DIF_FLAG_##flag
#define EACH(a)	  ((1U << (sizeof(a) / sizeof((a)[0]))) - 1)

static const uint32_t blocks[] = { [MLX5DV_BLOCK_SIZE_512] = 512,
				   [MLX5DV_BLOCK_SIZE_520] = 520,
				   [MLX5DV_BLOCK_SIZE_4048] = 4048,
				   [MLX5DV_BLOCK_SIZE_4096] = 4096,
				   [MLX5DV_BLOCK_SIZE_4160] = 4160 };
static const enum checksum difs[] = {
	[MLX5DV_SIG_T10DIF_CRC] = CHECKSUM_CRC16, [MLX5DV_SIG_T10DIF_CSUM] = CHECKSUM_IP
};
static const enum checksum crcs[] = { [MLX5DV_SIG_CRC_TYPE_CRC32] = CHECKSUM_CRC32,
				      [MLX5DV_SIG_CRC_TYPE_CRC32C] = CHECKSUM_CRC32C,
				      [MLX5DV_SIG_CRC_TYPE_CRC64_XP10] = CHECKSUM_CRC64 };

const struct mlx5dv_sig_caps sig_caps = {
	.block_size = EACH(blocks),
	.block_prot = MLX5DV_SIG_PROT_CAP_T10DIF | MLX5DV_SIG_PROT_CAP_CRC,
	.t10dif_bg = EACH(difs),
	.crc_type = EACH(crcs),
};

static const char *dif(const struct mlx5dv_sig_t10dif *a, struct sig_domain *out)
{
	if (!a)
		return "sig.dif is NULL";
	if ((unsigned int)a->bg_type >= sizeof(difs) / sizeof(difs[0]))
		return "bg_type is neither MLX5DV_SIG_T10DIF_CRC nor _CSUM";
	if (a->bg && a->bg != UINT16_MAX)
		return "bg is neither 0 nor 0xffff";
	if (a->flags & ~(DIF(REF_REMAP) | DIF(APP_ESCAPE) | DIF(APP_REF_ESCAPE)))
		return "flags of T10-DIF are not known";
	*out = (struct sig_domain){ .guard = difs[a->bg_type],
				    .ones = a->bg,
				    .app_tag = a->app_tag,
				    .ref_tag = a->ref_tag,
				    .increment = a->flags & DIF(REF_REMAP),
				    .app_escape = a->flags & DIF(APP_ESCAPE),
				    .ref_escape = a->flags & DIF(APP_REF_ESCAPE) };
	return NULL;
}

static const char *crc(const struct mlx5dv_sig_crc *a, struct sig_domain *out)
{
	uint64_t all;

	if (!a)
		return "sig.crc is NULL";
	if ((unsigned int)a->type >= sizeof(crcs) / sizeof(crcs[0]))
		return "the type of its CRC is not known";
	all = crcs[a->type] == CHECKSUM_CRC64 ? UINT64_MAX : UINT32_MAX;
	if ((a->seed & all) && (a->seed & all) != all)
		return "the seed of its CRC is neither 0 nor all ones";
	*out = (struct sig_domain){ .guard = crcs[a->type], .ones = a->seed & all };
	return NULL;
}

static const char *domain(const struct mlx5dv_sig_block_domain *a, struct sig_domain *out)
{
	const char *why;

	*out = (struct sig_domain){ 0 };
	if (!a)
		return NULL;
	if (a->comp_mask)
		return "comp_mask of a domain is not 0";
	if ((unsigned int)a->block_size >= sizeof(blocks) / sizeof(blocks[0]))
		return "block_size of a domain is not known";
	if (a->sig_type != MLX5DV_SIG_TYPE_T10DIF && a->sig_type != MLX5DV_SIG_TYPE_CRC)
		return "sig_type of a domain is not known";
	why = a->sig_type == MLX5DV_SIG_TYPE_T10DIF ? dif(a->sig.dif, out) : crc(a->sig.crc, out);
	out->block = blocks[a->block_size];
	out->field = bsf_field(out->guard);
	return why;
}

/* Of one type and structure, so that bytes of fields may be taken over? */
static bool alike(const struct signature *s)
{
	bool tags = sig_has_tags(&s->mem) && sig_has_tags(&s->wire);

	return sig_same_places(s) && (tags || s->mem.guard == s->wire.guard);
}

/* What is the same on both sides is taken over, each part of T10-DIF for itself. */
static uint8_t usual_copy(const struct signature *s)
{
	const struct sig_domain *m = &s->mem, *w = &s->wire;
	bool guard = m->guard == w->guard && m->ones == w->ones;

	if (!alike(s))
		return 0;
	if (!sig_has_tags(m))
		return guard ? UINT8_MAX : 0;
	return (uint8_t)((guard ? MLX5DV_SIG_MASK_T10DIF_GUARD : 0) |
			 (m->app_tag == w->app_tag ? MLX5DV_SIG_MASK_T10DIF_APPTAG : 0) |
			 (m->ref_tag == w->ref_tag && m->increment == w->increment
				  ? MLX5DV_SIG_MASK_T10DIF_REFTAG
				  : 0));
}

const char *sig_attr(const struct mlx5dv_sig_block_attr *attr, struct signature *out)
{
	const char *why;

	if (!attr)
		return "attr is NULL";
	if (attr->comp_mask || attr->flags & ~(uint32_t)MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK)
		return "comp_mask or flags are not known";
	why = domain(attr->mem, &out->mem);
	why = why ? why : domain(attr->wire, &out->wire);
	if (why)
		return why;
	out->check = attr->check_mask;
	out->copy = usual_copy(out);
	if (!(attr->flags & MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK))
		return NULL;
	out->copy = attr->copy_mask;
	return alike(out) ? NULL
			  : "copy_mask, but the domains differ in type or block size; leave "
			    "MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK out";
}
