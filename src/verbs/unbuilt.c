// SPDX-License-Identifier: MIT
/* Calls of verbs.h that are not built yet. A call moves to the file of its object when it works. */
#include "verbs/unbuilt.h"

RETURNS_ERRNO(ibv_resolve_eth_l2_from_gid)

/* Between the kernel's structures and ours: there is no kernel device. */
RETURNS_NOTHING(ibv_copy_ah_attr_from_kern)
RETURNS_NOTHING(ibv_copy_path_rec_from_kern)
RETURNS_NOTHING(ibv_copy_path_rec_to_kern)
RETURNS_NOTHING(ibv_copy_qp_attr_from_kern)
