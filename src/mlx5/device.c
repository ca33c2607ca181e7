// SPDX-License-Identifier: MIT
/* The first questions of a program: is this an mlx5 device, and what can it do beyond the verbs. */
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include "hca/limits.h"
#include "mlx5/given.h"

/* No, unless SOFTHCA_MLX5DV=1: as long as the answer is no, programs poll by the verbs, which are
 * the faster way here (docs/design/memory-doorbells.md). */
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
	NONE(SWP, sw_parsing_caps),
	NONE(DYN_BFREGS, max_dynamic_bfregs),
	NONE(FLOW_ACTION_FLAGS, flow_action_flags),
	NONE(CRYPTO_OFFLOAD, crypto_caps),
	/* clang-format on */
};

#define ASKED(name) (asked & MLX5DV_CONTEXT_MASK_##name)
#define KNOWN_SOME                                                                                 \
	(MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE | MLX5DV_CONTEXT_MASK_DC_ODP_CAPS |                 \
	 MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS | MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD |               \
	 MLX5DV_CONTEXT_MASK_DCI_STREAMS | MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH |                  \
	 MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS | MLX5DV_CONTEXT_MASK_STRIDING_RQ |                   \
	 MLX5DV_CONTEXT_MASK_CQE_COMPRESION)

/* DC targets receive from SRQs alone, as XRC's do, and are RC's responders as these are. */
static uint32_t dc_odp(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr = { 0 };

	return ibv_query_device_ex(context, NULL, &attr) ? 0 : attr.xrc_odp_caps;
}

static const struct mlx5dv_striding_rq_caps strides = {
	.min_single_stride_log_num_of_bytes = LIMIT_STRIDE_LOG_MIN,
	.max_single_stride_log_num_of_bytes = LIMIT_STRIDE_LOG,
	.min_single_wqe_log_num_of_strides = LIMIT_STRIDES_LOG_MIN,
	.max_single_wqe_log_num_of_strides = LIMIT_STRIDES_LOG,
	/* gate: services: an attribute that names types to programs */
	.supported_qpts = 1U << IBV_QPT_RAW_PACKET,
};

static void query_some(struct ibv_context *context, uint64_t asked, struct mlx5dv_context *attrs)
{
	if (ASKED(CQE_COMPRESION))
		attrs->cqe_comp_caps =
			(struct mlx5dv_cqe_comp_caps){ LIMIT_CQE_SESSION, LIMIT_CQE_FORMATS };
	if (ASKED(CLOCK_INFO_UPDATE)) /* a tick is a nanosecond for ever (clock.c) */
		attrs->max_clock_info_update_nsec = INT64_MAX;
	if (ASKED(DC_ODP_CAPS))
		attrs->dc_odp_caps = dc_odp(context);
	if (ASKED(DCI_STREAMS))
		attrs->dci_streams_caps = (struct mlx5dv_dci_streams_caps){ LIMIT_DCI_STREAMS_LOG,
									    LIMIT_DCI_ERRORED_LOG };
	if (ASKED(STRIDING_RQ))
		attrs->striding_rq_caps = strides;
	if (ASKED(TUNNEL_OFFLOADS))
		attrs->tunnel_offloads_caps = MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN |
					      MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE;
	if (ASKED(WR_MEMCPY_LENGTH))
		attrs->max_wr_memcpy_length = LIMIT_MEMCPY;
	if (ASKED(NUM_LAG_PORTS))
		attrs->num_lag_ports = 1; /* no bond */
	if (ASKED(SIGNATURE_OFFLOAD))
		attrs->sig_caps = *softhca_sig_caps();
	attrs->comp_mask |= asked & KNOWN_SOME;
}

/* 0, though mlx5dv_is_supported() says no: perftest asks without that question and ends where it
 * gets an error. Only members whose bits the caller has set in comp_mask are written, and bits that
 * are not answered are cleared on return (mlx5dv_query_device(3)): a caller built with an older
 * header has a shorter struct, and no bit for what it lacks. */
EXPORT int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attrs)
{
	int err = softhca_context_alive(context, "mlx5dv_query_device");
	uint64_t asked;

	err = err ? err : given(attrs, "mlx5dv_query_device", "the attribute");
	if (err)
		return positive_errno(err);
	asked = attrs->comp_mask;
	attrs->version = 0;
	attrs->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1 | MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP |
		       MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD;
	attrs->comp_mask = 0;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		if (!(asked & none[i].bit))
			continue;
		memset((char *)attrs + none[i].at, 0, none[i].len);
		attrs->comp_mask |= none[i].bit;
	}
	query_some(context, asked, attrs);
	return 0;
}
