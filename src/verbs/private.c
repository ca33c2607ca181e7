// SPDX-License-Identifier: MIT
/* The private node IBVERBS_PRIVATE_<n>: what a distribution's libefa binds when it is loaded
 * beside us (perftest and libfabric are linked with it). No device here is an EFA device, so of
 * these only the registration is ever called. */
#include "verbs/unbuilt.h"

/* Called by a provider's constructor. Providers are taken silently, and none is ever asked. */
#define REGISTER(n)   verbs_register_driver_##n
#define REGISTER_N(n) REGISTER(n)
EXPORT void REGISTER_N(IBVERBS_PABI)(const void *ops);
EXPORT void REGISTER_N(IBVERBS_PABI)(const void *ops)
{
	(void)ops;
}

/* Providers log by it about devices that are not theirs. */
EXPORT void __verbs_log(void *ctx, unsigned int level, const char *fmt, ...);
EXPORT void __verbs_log(void *ctx, unsigned int level, const char *fmt, ...)
{
	(void)ctx;
	(void)level;
	(void)fmt;
}

RETURNS_NULL(_verbs_init_and_alloc_context)
RETURNS_NOTHING(verbs_set_ops)
RETURNS_NOTHING(verbs_uninit_context)
RETURNS_ERRNO(ibv_cmd_alloc_pd)
RETURNS_ERRNO(ibv_cmd_create_ah)
RETURNS_ERRNO(ibv_cmd_create_cq_ex)
RETURNS_ERRNO(ibv_cmd_create_qp_ex)
RETURNS_ERRNO(ibv_cmd_dealloc_pd)
RETURNS_ERRNO(ibv_cmd_dereg_mr)
RETURNS_ERRNO(ibv_cmd_destroy_ah)
RETURNS_ERRNO(ibv_cmd_destroy_cq)
RETURNS_ERRNO(ibv_cmd_destroy_qp)
RETURNS_ERRNO(ibv_cmd_get_context)
RETURNS_ERRNO(ibv_cmd_modify_qp)
RETURNS_ERRNO(ibv_cmd_query_device_any)
RETURNS_ERRNO(ibv_cmd_query_port)
RETURNS_ERRNO(ibv_cmd_query_qp)
RETURNS_ERRNO(ibv_cmd_reg_dmabuf_mr)
RETURNS_ERRNO(ibv_cmd_reg_mr)
