// SPDX-License-Identifier: MIT
/* Address handles: checked address vectors. RoCE needs a GRH: without is_global EINVAL. */
#pragma once
#include "hca/pd.h"
#include "prm/av.h"

struct ah {
	struct ibv_ah ib; /* first */
	struct pd *pd;
	uint32_t epoch;
	struct av av; /* frozen by ah_create() */
	struct mlx5_wqe_av wire; /* av as WQEs have it, for programs that write them */
};

int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, struct ah **out);
int ah_destroy(struct ah *ah);
/* Checks port, sgid_index (in range and not empty), GRH, dgid; used by ah_create() and QP moves.
 * @call names the caller in the reason. */
int ah_attr_check(const struct hca *hca, const struct ibv_ah_attr *attr, const char *call);
/* The same without the check of the dgid, for an address vector that names no peer. */
int ah_source_check(const struct hca *hca, const struct ibv_ah_attr *attr, const char *call);
