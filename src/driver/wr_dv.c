// SPDX-License-Identifier: MIT
/* The mlx5dv_wr_* API: a second table of operations and setters beside ibv_wr_*, in the same batch
 * and by the same rules (wr_builder.c). */
#include <errno.h>
#include <stddef.h>
#include "driver/wqe_build.h"
#include "driver/wr_mkey.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/be.h"

struct dc_addr {
	struct ibv_ah *ah;
	uint64_t access_key;
	uint32_t dctn;
	uint16_t stream;
};

static inline struct dqp *dv_qp(struct mlx5dv_qp_ex *dv)
{
	return (struct dqp *)((char *)dv - offsetof(struct dqp, dv));
}

/* wr_flags are not read: the WQE's control segment says all (mlx5dv_wr_post(3)). */
static void wr_raw_wqe(struct mlx5dv_qp_ex *dv, const void *wqe)
{
	struct dqp *qp = dv_qp(dv);

	if (!wqe_region_open(qp, "mlx5dv_wr_raw_wqe"))
		return;
	wqe_finish(qp);
	qp->build.takes = 0;
	wqe_raw(qp, qp->ib.wr_id, wqe);
}

/* @to->stream stands in the control segment. A DCI that was created without streams is one: it
 * keeps all its work requests in order, whatever their streams. */
static void set_dc_addr(struct dqp *qp, const char *call, const struct dc_addr *to)
{
	if (!wqe_region_open(qp, call))
		return;
	if (!qp->build.ctrl || !(qp->build.takes & WR_TAKES_AH)) {
		qp->build.err =
			refuse_work(EINVAL, wqe_wr_id(qp),
				    "%s: no operation on QP 0x%x waits for an address; each "
				    "takes one, after its ibv_wr_ call",
				    call, qp->ib.qp_base.qp_num);
		return;
	}
	qp->build.takes &= (uint8_t)~WR_TAKES_AH;
	put_be16(qp->build.ctrl + offsetof(struct mlx5_wqe_ctrl_seg, dci_stream_channel_id),
		 to->stream);
	wqe_dc(qp, to->ah, to->dctn, to->access_key);
}

static void wr_set_dc_addr(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah, uint32_t dctn,
			   uint64_t access_key)
{
	set_dc_addr(dv_qp(dv), "mlx5dv_wr_set_dc_addr",
		    &(struct dc_addr){ ah, access_key, dctn, 0 });
}

static void wr_set_dc_addr_stream(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah, uint32_t dctn,
				  uint64_t access_key, uint16_t stream)
{
	set_dc_addr(dv_qp(dv), "mlx5dv_wr_set_dc_addr_stream",
		    &(struct dc_addr){ ah, access_key, dctn, stream });
}

/* Segments behind the control segment: one for an adapter's own use, the source, the target. */
static void wr_memcpy(struct mlx5dv_qp_ex *dv, uint32_t dest_lkey, uint64_t dest_addr,
		      uint32_t src_lkey, uint64_t src_addr, size_t length)
{
	struct dqp *qp = dv_qp(dv);
	struct wqe_head h = { .wr_id = qp->ib.wr_id,
			      .send_flags = qp->ib.wr_flags,
			      .opcode = MLX5_OPCODE_MMO,
			      .wc_opcode = MLX5DV_WC_MEMCPY };
	struct mlx5_wqe_data_seg segs[] = {
		{ 0 },
		{ htobe32((uint32_t)length), htobe32(src_lkey), htobe64(src_addr) },
		{ htobe32((uint32_t)length), htobe32(dest_lkey), htobe64(dest_addr) },
	};

	if (!wqe_region_open(qp, "mlx5dv_wr_memcpy"))
		return;
	wqe_finish(qp);
	if (qp->build.err)
		return;
	if (!length || length > LIMIT_MEMCPY) {
		qp->build.err =
			refuse_work(EINVAL, qp->ib.wr_id,
				    "mlx5dv_wr_memcpy: %zu B on QP 0x%x; a copy has 1 to %d B "
				    "(max_wr_memcpy_length)",
				    length, qp->ib.qp_base.qp_num, LIMIT_MEMCPY);
		return;
	}
	wqe_begin(qp, &h);
	qp->build.takes = 0;
	if (qp->build.err)
		return;
	qp->build.ctrl[0] = 1; /* opmod: a copy */
	wqe_append(qp, segs, sizeof(segs));
}

/* X(entry): not built yet. The functions read only their first argument, as wr_builder.c's. */
#define LACKING(X)                                                                                 \
	X(wr_set_dc_addr)                                                                          \
	X(wr_mr_interleaved)                                                                       \
	X(wr_mr_list)                                                                              \
	X(wr_mkey_configure)                                                                       \
	X(wr_set_mkey_access_flags)                                                                \
	X(wr_set_mkey_layout_list)                                                                 \
	X(wr_set_mkey_layout_interleaved)                                                          \
	X(wr_set_mkey_sig_block)                                                                   \
	X(wr_set_dc_addr_stream)                                                                   \
	X(wr_memcpy)                                                                               \
	X(wr_set_mkey_crypto)

static void lacking(struct mlx5dv_qp_ex *dv, const char *call)
{
	struct dqp *qp = dv_qp(dv);

	if (wqe_region_open(qp, call))
		qp->build.err = refuse_work(EOPNOTSUPP, qp->ib.wr_id,
					    "%s: QP 0x%x (%s) does not do it; leave it out", call,
					    qp->ib.qp_base.qp_num, qp->service->name);
}

#define LACKING_OP(entry)                                                                          \
	static void lacking_##entry(struct mlx5dv_qp_ex *dv)                                       \
	{                                                                                          \
		lacking(dv, "mlx5dv_" #entry);                                                     \
	}
LACKING(LACKING_OP)

#define SET_LACKING(entry) qp->dv.entry = (__typeof__(qp->dv.entry))(void (*)(void))lacking_##entry;

void wr_dv_attach(struct dqp *qp)
{
	LACKING(SET_LACKING)
	qp->dv.wr_raw_wqe = wr_raw_wqe;
	if (qp->service->wqe == WQE_CONNECTED && qp->service->reliable)
		wr_mkey_attach(qp);
	if (qp->service->copies)
		qp->dv.wr_memcpy = wr_memcpy;
	if (qp->service->wqe == WQE_DC) {
		qp->dv.wr_set_dc_addr = wr_set_dc_addr;
		qp->dv.wr_set_dc_addr_stream = wr_set_dc_addr_stream;
	}
}
