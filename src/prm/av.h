// SPDX-License-Identifier: MIT
/* Address vector, as the device sees it: decoded from a struct mlx5_wqe_av or an ibv_ah_attr. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/mlx5dv.h>

struct av {
	union ibv_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t sl;
	uint8_t dmac[6];
	uint16_t sport; /* UDP port to send from; 0: the link chooses */
};

/* Of the two forms, that of 48 bytes, which has a GID: RoCE's. The other one ends behind rlid. */
bool av_is_extended(const struct mlx5_wqe_av *av);
void av_encode(const struct av *av, struct mlx5_wqe_av *out); /* RoCE form, extended AV, 48 bytes */
void av_decode(const struct mlx5_wqe_av *in, struct av *out);
void av_from_attr(const struct ibv_ah_attr *attr, struct av *out);
