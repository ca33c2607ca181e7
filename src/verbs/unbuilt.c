// SPDX-License-Identifier: MIT
/* Calls of verbs.h that are not built yet. A call moves to the file of its object when it works. */
#include "verbs/unbuilt.h"

RETURNS_ERRNO(ibv_resolve_eth_l2_from_gid)

/* Between the kernel's structures and ours: there is no kernel device. */
RETURNS_NOTHING(ibv_copy_ah_attr_from_kern)
RETURNS_NOTHING(ibv_copy_path_rec_from_kern)
RETURNS_NOTHING(ibv_copy_path_rec_to_kern)
RETURNS_NOTHING(ibv_copy_qp_attr_from_kern)

/* Of v59, v62 and v65: hints for a cache's steering, device memory as a dma-buf, completion
 * counters. */
RETURNS_NULL(ibv_alloc_dmah)
RETURNS_ERRNO(ibv_dealloc_dmah)
RETURNS_MINUS1(ibv_dm_export_dmabuf_fd)
RETURNS_ERRNO(_ibv_query_comp_cntr_caps)
RETURNS_NULL(ibv_create_comp_cntr)
RETURNS_ERRNO(ibv_destroy_comp_cntr)
RETURNS_ERRNO(ibv_inc_comp_cntr)
RETURNS_ERRNO(ibv_inc_err_comp_cntr)
RETURNS_ERRNO(ibv_qp_attach_comp_cntr)
RETURNS_ERRNO(ibv_read_comp_cntr)
RETURNS_ERRNO(ibv_read_err_comp_cntr)
RETURNS_ERRNO(ibv_set_comp_cntr)
RETURNS_ERRNO(ibv_set_err_comp_cntr)
