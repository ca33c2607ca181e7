// SPDX-License-Identifier: MIT
/* The private node IBVERBS_PRIVATE_<n>: what provider libraries (libefa, libmlx4, ...) bind when
 * they are loaded beside us; perftest, libfabric, Open MPI and DPDK are linked with some. No device
 * here is theirs, so of these only the registration is ever called.
 *
 * Through rdma-core 56 the node was IBVERBS_PRIVATE_34, in 65 it has the release's own number; it
 * exists under each number between them too, with the names that any of those releases has. */
#include <stdbool.h>
#include "private_nodes.h"
#include "verbs/unbuilt.h"

#define TYPE_NULL    void *
#define TYPE_ERRNO   int
#define TYPE_MINUS1  int
#define TYPE_ZERO    unsigned long
#define TYPE_NOTHING void
#define PRIVATE(convention, name)                                                                  \
	TYPE_##convention name(void) PRIVATE_SYMBOL(name);                                         \
	RETURNS_##convention(name) AT_EACH_NODE(name)

/* Called by a provider's constructor. Providers are taken silently, and none is ever asked. */
#define REGISTER(node, at, name)                                                                   \
	EXPORT void verbs_register_driver_##node(const void *ops);                                 \
	EXPORT void verbs_register_driver_##node(const void *ops)                                  \
	{                                                                                          \
		(void)ops;                                                                         \
	}
EACH_NODE(REGISTER, )

/* Providers log by it about devices that are not theirs. */
EXPORT void __verbs_log(void *ctx, unsigned int level, const char *fmt, ...)
	PRIVATE_SYMBOL(__verbs_log);
EXPORT void __verbs_log(void *ctx, unsigned int level, const char *fmt, ...)
{
	(void)ctx;
	(void)level;
	(void)fmt;
}
AT_EACH_NODE(__verbs_log)

/* What providers say of their own objects when a device vanishes; nothing here reads it. */
extern EXPORT bool
	verbs_allow_disassociate_destroy PRIVATE_SYMBOL(verbs_allow_disassociate_destroy);
EXPORT bool verbs_allow_disassociate_destroy;
AT_EACH_NODE(verbs_allow_disassociate_destroy)

PRIVATE(ZERO, __ioctl_final_num_attrs)
PRIVATE(NULL, _verbs_init_and_alloc_context)
PRIVATE(ERRNO, execute_ioctl)
PRIVATE(ERRNO, ibv_cmd_advise_mr)
PRIVATE(ERRNO, ibv_cmd_alloc_dm)
PRIVATE(ERRNO, ibv_cmd_alloc_dmah)
PRIVATE(ERRNO, ibv_cmd_alloc_mw)
PRIVATE(ERRNO, ibv_cmd_alloc_pd)
PRIVATE(ERRNO, ibv_cmd_attach_mcast)
PRIVATE(ERRNO, ibv_cmd_close_xrcd)
PRIVATE(ERRNO, ibv_cmd_create_ah)
PRIVATE(ERRNO, ibv_cmd_create_comp_cntr)
PRIVATE(ERRNO, ibv_cmd_create_counters)
PRIVATE(ERRNO, ibv_cmd_create_cq)
PRIVATE(ERRNO, ibv_cmd_create_cq_ex)
PRIVATE(ERRNO, ibv_cmd_create_cq_ex2)
PRIVATE(ERRNO, ibv_cmd_create_flow)
PRIVATE(ERRNO, ibv_cmd_create_flow_action_esp)
PRIVATE(ERRNO, ibv_cmd_create_qp)
PRIVATE(ERRNO, ibv_cmd_create_qp_ex)
PRIVATE(ERRNO, ibv_cmd_create_qp_ex2)
PRIVATE(ERRNO, ibv_cmd_create_rwq_ind_table)
PRIVATE(ERRNO, ibv_cmd_create_srq)
PRIVATE(ERRNO, ibv_cmd_create_srq_ex)
PRIVATE(ERRNO, ibv_cmd_create_wq)
PRIVATE(ERRNO, ibv_cmd_dealloc_mw)
PRIVATE(ERRNO, ibv_cmd_dealloc_pd)
PRIVATE(ERRNO, ibv_cmd_dereg_mr)
PRIVATE(ERRNO, ibv_cmd_destroy_ah)
PRIVATE(ERRNO, ibv_cmd_destroy_comp_cntr)
PRIVATE(ERRNO, ibv_cmd_destroy_counters)
PRIVATE(ERRNO, ibv_cmd_destroy_cq)
PRIVATE(ERRNO, ibv_cmd_destroy_flow)
PRIVATE(ERRNO, ibv_cmd_destroy_flow_action)
PRIVATE(ERRNO, ibv_cmd_destroy_qp)
PRIVATE(ERRNO, ibv_cmd_destroy_rwq_ind_table)
PRIVATE(ERRNO, ibv_cmd_destroy_srq)
PRIVATE(ERRNO, ibv_cmd_destroy_wq)
PRIVATE(ERRNO, ibv_cmd_detach_mcast)
PRIVATE(ERRNO, ibv_cmd_export_dmabuf_fd)
PRIVATE(ERRNO, ibv_cmd_free_dm)
PRIVATE(ERRNO, ibv_cmd_free_dmah)
PRIVATE(ERRNO, ibv_cmd_get_context)
PRIVATE(ERRNO, ibv_cmd_inc_comp_cntr)
PRIVATE(ERRNO, ibv_cmd_inc_err_comp_cntr)
PRIVATE(ERRNO, ibv_cmd_modify_cq)
PRIVATE(ERRNO, ibv_cmd_modify_flow_action_esp)
PRIVATE(ERRNO, ibv_cmd_modify_qp)
PRIVATE(ERRNO, ibv_cmd_modify_qp_ex)
PRIVATE(ERRNO, ibv_cmd_modify_srq)
PRIVATE(ERRNO, ibv_cmd_modify_wq)
PRIVATE(ERRNO, ibv_cmd_open_qp)
PRIVATE(ERRNO, ibv_cmd_open_xrcd)
PRIVATE(ERRNO, ibv_cmd_poll_cq)
PRIVATE(ERRNO, ibv_cmd_post_recv)
PRIVATE(ERRNO, ibv_cmd_post_send)
PRIVATE(ERRNO, ibv_cmd_post_srq_recv)
PRIVATE(ERRNO, ibv_cmd_qp_attach_comp_cntr)
PRIVATE(ERRNO, ibv_cmd_query_comp_cntr_caps)
PRIVATE(ERRNO, ibv_cmd_query_context)
PRIVATE(ERRNO, ibv_cmd_query_device_any)
PRIVATE(ERRNO, ibv_cmd_query_mr)
PRIVATE(ERRNO, ibv_cmd_query_port)
PRIVATE(ERRNO, ibv_cmd_query_port_speed)
PRIVATE(ERRNO, ibv_cmd_query_qp)
PRIVATE(ERRNO, ibv_cmd_query_srq)
PRIVATE(ERRNO, ibv_cmd_read_comp_cntr)
PRIVATE(ERRNO, ibv_cmd_read_counters)
PRIVATE(ERRNO, ibv_cmd_read_err_comp_cntr)
PRIVATE(ERRNO, ibv_cmd_reg_dm_mr)
PRIVATE(ERRNO, ibv_cmd_reg_dmabuf_mr)
PRIVATE(ERRNO, ibv_cmd_reg_mr)
PRIVATE(ERRNO, ibv_cmd_reg_mr_ex)
PRIVATE(ERRNO, ibv_cmd_req_notify_cq)
PRIVATE(ERRNO, ibv_cmd_rereg_mr)
PRIVATE(ERRNO, ibv_cmd_resize_cq)
PRIVATE(ERRNO, ibv_cmd_set_comp_cntr)
PRIVATE(ERRNO, ibv_cmd_set_err_comp_cntr)
PRIVATE(NULL, ibv_dmabuf_heap_alloc)
PRIVATE(ERRNO, ibv_dmabuf_heap_cc_shared_init)
PRIVATE(NOTHING, ibv_dmabuf_heap_destroy)
PRIVATE(NOTHING, ibv_dmabuf_heap_free)
PRIVATE(MINUS1, ibv_read_ibdev_sysfs_file)
PRIVATE(ERRNO, verbs_init_cq)
PRIVATE(NULL, verbs_open_device)
PRIVATE(NOTHING, verbs_set_ops)
PRIVATE(NOTHING, verbs_uninit_context)
