// SPDX-License-Identifier: MIT
/* Queue pairs with what only mlx5 devices have (mlx5dv_create_qp(3)). */
#include <infiniband/mlx5dv.h>
#include "driver/dqp.h"
#include "hca/limits.h"
#include "mlx5/given.h"

#define MASK(name) MLX5DV_QP_INIT_ATTR_MASK_##name
#define KNOWN_MASKS                                                                                \
	((uint64_t)(MASK(QP_CREATE_FLAGS) | MASK(DC) | MASK(SEND_OPS_FLAGS) | MASK(DCI_STREAMS)))
#define SCATTER_FLAGS                                                                              \
	(MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE | MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE)
#define MKEY_OPS                                                                                   \
	((uint64_t)(MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MR_LIST |                 \
		    MLX5DV_QP_EX_WITH_MKEY_CONFIGURE))
#define FRAME_FLAGS                                                                                \
	((uint32_t)(MLX5DV_QP_CREATE_TUNNEL_OFFLOADS |                                             \
		    MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC |                                  \
		    MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC))
#define KNOWN_FLAGS (MLX5DV_QP_CREATE_SIG_PIPELINING * 2U - 1)

enum { /* bytes */
       ENTRY = 16, /* of an mkey's list */
       UMR_SEGS = 128, /* before the list */
       SIG_SEGS = 64, /* behind it */
       INLINE_SEGS = 36, /* before inline data of a WRITE */
       INLINE_LIMIT = 828, /* what max_inline_data can be */
};

static bool is_dct(const struct mlx5dv_qp_init_attr *dv)
{
	return dv->comp_mask & MASK(DC) && dv->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
}

static bool is_dci(const struct mlx5dv_qp_init_attr *dv)
{
	return dv->comp_mask & MASK(DC) && dv->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCI;
}

static uint32_t flags_of(const struct mlx5dv_qp_init_attr *dv)
{
	return dv->comp_mask & MASK(QP_CREATE_FLAGS) ? dv->create_flags : 0;
}

static bool has_streams(const struct mlx5dv_qp_init_attr *dv)
{
	return dv->comp_mask & MASK(DCI_STREAMS);
}

static uint64_t ops_of(const struct mlx5dv_qp_init_attr *dv)
{
	return dv->comp_mask & MASK(SEND_OPS_FLAGS) ? dv->send_ops_flags : 0;
}

/* Does the type of queue pair fit both attributes? */
static int check_type(const struct ibv_qp_init_attr_ex *attr, const struct mlx5dv_qp_init_attr *dv)
{
	/* gate: services: a type that says no service; dc_type does */
	bool driver = attr->qp_type == IBV_QPT_DRIVER;
	bool dc = dv->comp_mask & MASK(DC);

	if (dv->comp_mask & ~KNOWN_MASKS)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_qp: comp_mask 0x%llx, of which 0x%llx is not "
				      "known; leave it out",
				      (unsigned long long)dv->comp_mask,
				      (unsigned long long)(dv->comp_mask & ~KNOWN_MASKS));
	if (dc != driver)
		return softhca_refuse(
			EINVAL,
			"mlx5dv_create_qp: qp_type %d %s MLX5DV_QP_INIT_ATTR_MASK_DC; "
			"IBV_QPT_DRIVER and a dc_type go together",
			attr->qp_type, dc ? "with" : "without");
	if (dc && !is_dct(dv) && !is_dci(dv))
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_qp: dc_type %d is neither "
				      "MLX5DV_DCTYPE_DCT nor MLX5DV_DCTYPE_DCI; use one of these",
				      dv->dc_init_attr.dc_type);
	if (has_streams(dv) && !is_dci(dv))
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_qp: DCI streams on a queue pair that is no "
				      "DCI; leave out MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS");
	return 0;
}

static int check_dct(const struct ibv_qp_init_attr_ex *attr, const struct mlx5dv_qp_init_attr *dv)
{
	uint64_t more = dv->comp_mask & ~(uint64_t)(MASK(DC) | MASK(QP_CREATE_FLAGS));

	if (attr->comp_mask != IBV_QP_INIT_ATTR_PD || more || !attr->srq ||
	    flags_of(dv) & ~SCATTER_FLAGS)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_qp: a DCT with comp_mask 0x%x, 0x%llx of "
				      "mlx5dv, create_flags 0x%x and %s SRQ; it takes a PD, an SRQ "
				      "and the two flags of scatter to CQE",
				      attr->comp_mask, (unsigned long long)dv->comp_mask,
				      flags_of(dv), attr->srq ? "an" : "no");
	return 0;
}

static int check_flags(const struct ibv_qp_init_attr_ex *attr, const struct mlx5dv_qp_init_attr *dv)
{
	uint32_t flags = flags_of(dv);

	if (flags & ~KNOWN_FLAGS)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_qp: create_flags 0x%x, of which 0x%x are not "
				      "known; leave them out",
				      flags, flags & ~KNOWN_FLAGS);
	/* gate: services: flags of the frames that this type alone receives */
	if (flags & FRAME_FLAGS && attr->qp_type != IBV_QPT_RAW_PACKET)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_qp: create_flags 0x%x with qp_type %d, of "
				      "which 0x%x are for IBV_QPT_RAW_PACKET; leave them out",
				      flags, attr->qp_type, flags & FRAME_FLAGS);
	if ((flags & SCATTER_FLAGS) == SCATTER_FLAGS)
		return softhca_refuse(EINVAL, "mlx5dv_create_qp: scatter to CQE is both "
					      "disabled and allowed; set one flag");
	return 0;
}

static int check_ops(const struct ibv_qp_init_attr_ex *attr, const struct mlx5dv_qp_init_attr *dv)
{
	/* gate: services: sets up mkeys by what libmlx5 says of this type alone */
	if (ops_of(dv) & MKEY_OPS && attr->qp_type != IBV_QPT_RC)
		return softhca_refuse(EOPNOTSUPP,
				      "mlx5dv_create_qp: send_ops_flags 0x%llx with qp_type %d; "
				      "mkeys are set up by RC queue pairs",
				      (unsigned long long)ops_of(dv), attr->qp_type);
	/* gate: services: it is of work requests that set up mkeys */
	if (flags_of(dv) & MLX5DV_QP_CREATE_SIG_PIPELINING && attr->qp_type != IBV_QPT_RC)
		return softhca_refuse(EOPNOTSUPP,
				      "mlx5dv_create_qp: MLX5DV_QP_CREATE_SIG_PIPELINING with "
				      "qp_type %d; RC queue pairs stop at wrong signatures",
				      attr->qp_type);
	/* gate: services: the same, of memory copies */
	if (ops_of(dv) & MLX5DV_QP_EX_WITH_MEMCPY && attr->qp_type != IBV_QPT_RC && !is_dci(dv))
		return softhca_refuse(EOPNOTSUPP,
				      "mlx5dv_create_qp: MLX5DV_QP_EX_WITH_MEMCPY with qp_type %d; "
				      "RC queue pairs and DCIs copy memory",
				      attr->qp_type);
	return 0;
}

/* A work request that sets up an mkey has a list of what fits into the inline data, and of four
 * entries at least (mlx5dv_wr_post(3)), beside a signature where it may have one. It begins with
 * more than one that sends inline data. */
static void make_room(struct ibv_qp_cap *cap, uint64_t ops)
{
	uint32_t sig = ops & MLX5DV_QP_EX_WITH_MKEY_CONFIGURE ? SIG_SEGS : 0;
	uint32_t least = 4 * ENTRY, more = UMR_SEGS - INLINE_SEGS;
	uint32_t data = cap->max_inline_data > least ? cap->max_inline_data : least;

	data += more + sig;
	if (data > INLINE_LIMIT)
		data = INLINE_LIMIT;
	if (data > cap->max_inline_data)
		cap->max_inline_data = data;
}

static int check_streams(const struct mlx5dv_qp_init_attr *dv)
{
	const struct mlx5dv_dci_streams *s = &dv->dc_init_attr.dci_streams;

	if (has_streams(dv) && (s->log_num_concurent > LIMIT_DCI_STREAMS_LOG ||
				s->log_num_errored > LIMIT_DCI_ERRORED_LOG))
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_qp: dci_streams of 2^%u, and 2^%u in error, "
				      "above dci_streams_caps: 2^%d and 2^%d; ask for less",
				      s->log_num_concurent, s->log_num_errored,
				      LIMIT_DCI_STREAMS_LOG, LIMIT_DCI_ERRORED_LOG);
	return 0;
}

/* What is well-formed, but not built. */
static int check_built(const struct mlx5dv_qp_init_attr *dv)
{
	uint64_t ops =
		ops_of(dv) &
		~((uint64_t)(MLX5DV_QP_EX_WITH_RAW_WQE | MLX5DV_QP_EX_WITH_MEMCPY) | MKEY_OPS);

	if (ops)
		return softhca_refuse(EOPNOTSUPP,
				      "mlx5dv_create_qp: send_ops_flags 0x%llx, of which 0x%llx do "
				      "not work on this device; leave them out",
				      (unsigned long long)ops_of(dv), (unsigned long long)ops);
	return 0;
}

static int check(const struct ibv_qp_init_attr_ex *attr, const struct mlx5dv_qp_init_attr *dv)
{
	int err = check_type(attr, dv);

	if (!err)
		err = check_flags(attr, dv);
	if (!err && is_dct(dv))
		err = check_dct(attr, dv);
	if (!err)
		err = check_streams(dv);
	if (!err)
		err = check_ops(attr, dv);
	return err ? err : check_built(dv);
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			     const struct mlx5dv_qp_init_attr *dv)
{
	struct dqp_dc dc = { .target = is_dct(dv) };
	struct ibv_qp *qp;

	if (dc.target)
		dc.access_key = dv->dc_init_attr.dct_access_key;
	else if (has_streams(dv))
		dc.errored = 1U << dv->dc_init_attr.dci_streams.log_num_errored;
	if (dv->comp_mask & MASK(DC))
		qp = softhca_create_dc(attr, &dc);
	else
		qp = ibv_create_qp_ex(context, attr);
	if (qp && flags_of(dv) & SCATTER_FLAGS)
		softhca_qp_inlines(qp, flags_of(dv) & MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE);
	if (qp && flags_of(dv) & MLX5DV_QP_CREATE_SIG_PIPELINING)
		softhca_qp_sig_pipelining(qp);
	if (qp)
		softhca_qp_dv_flags(qp, flags_of(dv));
	return qp;
}

EXPORT struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr,
				       struct mlx5dv_qp_init_attr *dv)
{
	static const struct mlx5dv_qp_init_attr none;
	const struct mlx5dv_qp_init_attr *with = dv ? dv : &none;
	struct ibv_qp_init_attr_ex with_ops;
	struct ibv_qp *qp;
	int err = softhca_context_alive(context, "mlx5dv_create_qp");

	err = err ? err : given(attr, "mlx5dv_create_qp", "the queue pair's attribute");
	err = err ? err : check(attr, with);
	if (err)
		return null_errno(err);
	if (!(with->comp_mask & MASK(SEND_OPS_FLAGS)))
		return create(context, attr, with);
	/* mlx5's operations alone make the queue pair an extended one */
	with_ops = *attr;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		with_ops.send_ops_flags = 0;
	with_ops.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (ops_of(with) & MKEY_OPS)
		make_room(&with_ops.cap, ops_of(with));
	qp = create(context, &with_ops, with);
	if (qp)
		attr->cap = with_ops.cap;
	return qp;
}

EXPORT int mlx5dv_qp_cancel_posted_send_wrs(struct mlx5dv_qp_ex *qp, uint64_t wr_id)
{
	int err = given(qp, "mlx5dv_qp_cancel_posted_send_wrs", "the queue pair");

	return err ? -positive_errno(err) : softhca_qp_cancel(qp, wr_id);
}

EXPORT int mlx5dv_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream_id)
{
	int err = given(qp, "mlx5dv_dci_stream_id_reset", "the queue pair");

	return positive_errno(err ? err : softhca_stream_reset(qp, stream_id));
}

EXPORT struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp)
{
	return softhca_qp_dv(qp);
}
