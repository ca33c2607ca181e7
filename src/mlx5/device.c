// SPDX-License-Identifier: MIT
/* The first questions of a program: is this an mlx5 device, and what can it do beyond the verbs. */
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include "verbs/export.h"

/* No, unless SOFTHCA_MLX5DV=1: as long as the answer is no, programs use the plain verbs. */
EXPORT bool mlx5dv_is_supported(struct ibv_device *device)
{
	const char *on = secure_getenv("SOFTHCA_MLX5DV");

	(void)device; /* each is one */
	return on && strcmp(on, "1") == 0;
}

#define NONE(bit, member)                                                                          \
	{                                                                                          \
		MLX5DV_CONTEXT_MASK_##bit, offsetof(struct mlx5dv_context, member),                \
			sizeof(((struct mlx5dv_context *)0)->member)                               \
	}

/* Zero is "none" in each. */
static const struct {
	uint64_t bit;
	size_t at, len;
} none[] = {
	/* clang-format off */
	NONE(CQE_COMPRESION, cqe_comp_caps),
	NONE(SWP, sw_parsing_caps),
	NONE(STRIDING_RQ, striding_rq_caps),
	NONE(TUNNEL_OFFLOADS, tunnel_offloads_caps),
	NONE(DYN_BFREGS, max_dynamic_bfregs),
	NONE(FLOW_ACTION_FLAGS, flow_action_flags),
	NONE(DC_ODP_CAPS, dc_odp_caps),
	NONE(SIGNATURE_OFFLOAD, sig_caps),
	NONE(DCI_STREAMS, dci_streams_caps),
	NONE(WR_MEMCPY_LENGTH, max_wr_memcpy_length),
	NONE(CRYPTO_OFFLOAD, crypto_caps),
	/* clang-format on */
};

/* 0, though mlx5dv_is_supported() says no: perftest asks without that question and ends where it
 * gets an error. Only members whose bits the caller has set in comp_mask are written, and bits that
 * are not answered are cleared on return (mlx5dv_query_device(3)): a caller built with an older
 * header has a shorter struct, and no bit for what it lacks. */
EXPORT int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attrs)
{
	uint64_t asked = attrs->comp_mask;

	(void)context;
	attrs->version = 0;
	attrs->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1;
	attrs->comp_mask = 0;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		if (!(asked & none[i].bit))
			continue;
		memset((char *)attrs + none[i].at, 0, none[i].len);
		attrs->comp_mask |= none[i].bit;
	}
	return 0;
}
