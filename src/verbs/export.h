// SPDX-License-Identifier: MIT
/* Tools of every public call: EXPORT, one translation for each error convention, and the private
 * exports (version node SOFTHCA_PRIVATE) through which libmlx5 and librdmacm reach the
 * core. Below the shells a function returns 0 or a positive errno and has recorded its reason. */
#pragma once
#include <errno.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

static inline void *null_errno(int err) /* NULL and errno */
{
	errno = err;
	return NULL;
}

static inline int minus1_errno(int err) /* -1 and errno; 0 stays 0 */
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* @err itself, and errno, which the ioctl of a kernel's device sets too; 0 leaves it alone */
static inline int positive_errno(int err)
{
	if (err)
		errno = err;
	return err;
}

/* One moment by the device's counter (1 GHz, LIMIT_CLOCK_MASK) and by the wall clock, in ns. */
void softhca_clock(uint64_t *raw, uint64_t *wall);
/* obs/explain.h's refuse(): records why a call is refused, and returns @err. */
int softhca_refuse(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct arena_part;
/* Memory that peers may map (util/arena.h). */
int softhca_arena_take(size_t len, struct arena_part **out);
void *softhca_arena_at(const struct arena_part *p);
void softhca_arena_give(struct arena_part *p);
struct ibv_qp_ex;
struct mlx5dv_qp_ex;
/* The builder's second table, of a queue pair that has the first (driver/wr_dv.c). */
struct mlx5dv_qp_ex *softhca_qp_dv(struct ibv_qp_ex *ib);
struct ibv_qp_init_attr_ex;
struct dqp_dc;
/* IBV_QPT_DRIVER of mlx5dv_create_qp(): a DC target or an initiator (driver/dqp.h). */
struct ibv_qp *softhca_create_dc(struct ibv_qp_init_attr_ex *attr, const struct dqp_dc *dc);
struct ibv_qp;
struct ibv_ah;
struct ibv_context;
/* alive_check(), for calls that read nothing of the object. */
int softhca_qp_alive(const struct ibv_qp *qp, const char *call);
int softhca_ah_alive(const struct ibv_ah *ah, const char *call);
int softhca_context_alive(const struct ibv_context *ctx, const char *call);
int softhca_stream_reset(struct ibv_qp *qp, uint16_t id); /* dqp_stream_reset() */
void softhca_qp_inlines(struct ibv_qp *qp, bool allow); /* dqp_inlines() */
/* An RC queue pair stops at a wrong signature; before it is used. */
void softhca_qp_sig_pipelining(struct ibv_qp *qp);
int softhca_qp_udp_sport(struct ibv_qp *qp, uint16_t sport); /* dqp_udp_sport() */
/* dqp_cancel(); the number of work requests, or a negative errno. */
int softhca_qp_cancel(struct mlx5dv_qp_ex *qp, uint64_t wr_id);
void softhca_qp_dv_flags(struct ibv_qp *qp, uint32_t flags); /* dqp_dv_flags() */
/* Rings and doorbell records of @ctx are made by these functions from now on. EIO: it is closed. */
int softhca_context_memory(struct ibv_context *ctx, void *(*alloc)(size_t size, void *data),
			   void (*release)(void *p, void *data), void *data);
struct ibv_cq_ex;
struct ibv_cq_init_attr_ex;
struct dcq_form;
/* A CQ with entries of a form of their own (driver/dcq.h). */
struct ibv_cq_ex *softhca_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
				    const struct dcq_form *form);
struct ibv_wq_init_attr;
struct stride_form;
/* A striding work queue (hca/strides.h), without what the inline ibv_create_wq() adds. */
struct ibv_wq *softhca_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr,
				 const struct stride_form *strides);
/* Numbers that no queue pair gets (engine/reserved.h). */
int softhca_qpn_reserve(struct ibv_context *context, uint32_t *qpn);
int softhca_qpn_release(struct ibv_context *context, uint32_t qpn);
struct mlx5dv_obj;
/* Rings and numbers of objects (driver/lay_open.h). EINVAL: @type names none, or a pointer is
 * NULL. */
int softhca_init_obj(struct mlx5dv_obj *o, uint64_t type);
struct mlx5dv_mkey;
struct mlx5dv_mkey_init_attr;
/* Indirect keys (hca/mkey/mkey.h). @attr names a PD. */
struct mlx5dv_mkey *softhca_create_mkey(struct mlx5dv_mkey_init_attr *attr);
int softhca_destroy_mkey(struct mlx5dv_mkey *mkey);
struct mlx5dv_mkey_err;
/* mkey_check(); errno is not set. */
int softhca_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *out);
struct mlx5dv_sig_caps;
const struct mlx5dv_sig_caps *softhca_sig_caps(void); /* driver/sig_attr.h */
/* Records that @call is not built yet, with the errno value @err, and returns @err. */
int softhca_unbuilt(const char *call, int err);
struct cm_calls;
/* Connection management (cm/cm.h). */
const struct cm_calls *softhca_cm(void);
