// SPDX-License-Identifier: MIT
/* The first ABI of libibverbs (version node IBVERBS_1.0, structures of before 2008). No program
 * of today binds it; its names are there so that an old program gets a reason instead of not
 * starting. */
#include "verbs/unbuilt.h"

#define OLD(convention, name)                                                                      \
	RETURNS_##convention(old_##name) __asm__(".symver old_" #name ", " #name "@IBVERBS_1.0");

OLD(NOTHING, ibv_ack_async_event)
OLD(NOTHING, ibv_ack_cq_events)
OLD(NULL, ibv_alloc_pd)
OLD(ERRNO, ibv_attach_mcast)
OLD(MINUS1, ibv_close_device)
OLD(NULL, ibv_create_ah)
OLD(NULL, ibv_create_cq)
OLD(NULL, ibv_create_qp)
OLD(NULL, ibv_create_srq)
OLD(ERRNO, ibv_dealloc_pd)
OLD(ERRNO, ibv_dereg_mr)
OLD(ERRNO, ibv_destroy_ah)
OLD(ERRNO, ibv_destroy_cq)
OLD(ERRNO, ibv_destroy_qp)
OLD(ERRNO, ibv_destroy_srq)
OLD(ERRNO, ibv_detach_mcast)
OLD(NOTHING, ibv_free_device_list)
OLD(MINUS1, ibv_get_async_event)
OLD(MINUS1, ibv_get_cq_event)
OLD(ZERO, ibv_get_device_guid)
OLD(NULL, ibv_get_device_list)
OLD(NULL, ibv_get_device_name)
OLD(ERRNO, ibv_modify_qp)
OLD(ERRNO, ibv_modify_srq)
OLD(NULL, ibv_open_device)
OLD(ERRNO, ibv_query_device)
OLD(MINUS1, ibv_query_gid)
OLD(MINUS1, ibv_query_pkey)
OLD(ERRNO, ibv_query_port)
OLD(ERRNO, ibv_query_qp)
OLD(ERRNO, ibv_query_srq)
OLD(NULL, ibv_reg_mr)
OLD(ERRNO, ibv_resize_cq)

/* How drivers registered before libibverbs 1.1.8; none can be loaded here. */
RETURNS_NOTHING(old_register_driver)
__asm__(".symver old_register_driver, ibv_register_driver@IBVERBS_1.1");
