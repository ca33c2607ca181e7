// SPDX-License-Identifier: MIT
#include "driver/wr_mkey.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "driver/sig_attr.h"
#include "driver/wqe_build.h"
#include "hca/alive.h"
#include "hca/mkey/mkey.h"
#include "obs/explain.h"

#define SEG	  16
#define RESET_SIG MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR
#define RIGHTS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

enum setter { SET_ACCESS = 1, SET_LAYOUT = 2, SET_SIG = 4 };

struct wr_umr {
	uint8_t buf[UMR_MAX]; /* segments behind the control segment */
	const char *call; /* the operation that began it */
	uint32_t flags; /* of the mkey: MLX5DV_MKEY_INIT_ATTR_FLAGS_* */
	uint16_t max_entries; /* of the mkey */
	bool is_signed; /* @bsf stands behind the list */
	uint8_t bsf[BSF_LEN];
	uint8_t seen; /* enum setter: those that came */
	unsigned int segs; /* of the list */
};

static inline struct dqp *dv_qp(struct mlx5dv_qp_ex *dv)
{
	return (struct dqp *)((char *)dv - offsetof(struct dqp, dv));
}

static bool failed(struct dqp *qp, int err)
{
	qp->build.err = err;
	return false;
}

/* Segments that a work request of @qp has room for beside the fixed ones */
static unsigned int room(const struct dqp *qp)
{
	unsigned int segs = wqe_share(qp);

	return segs > UMR_FIXED_SEGS ? segs - UMR_FIXED_SEGS : 0;
}

/* Do @segs of a list fit, beside a signature if there is one? */
static bool fits(struct dqp *qp, const char *call, unsigned int segs)
{
	unsigned int sig = qp->umr->is_signed ? BSF_SEGS : 0;

	if (segs + sig <= room(qp))
		return true;
	return failed(qp,
		      refuse_work(ENOMEM, wqe_wr_id(qp),
				  "%s: a list of %u segments and a signature of %u on QP 0x%x, "
				  "whose work requests have room for %u; create it with a larger "
				  "max_inline_data",
				  call, segs, sig, qp->ib.qp_base.qp_num, room(qp)));
}

/* Do the fixed segments alone fit? */
static bool begins(struct dqp *qp, const char *call)
{
	if (wqe_share(qp) >= UMR_FIXED_SEGS)
		return true;
	return failed(qp,
		      refuse_work(ENOMEM, wqe_wr_id(qp),
				  "%s: it takes %d segments, and a work request of QP 0x%x has %u; "
				  "create it with a larger max_inline_data",
				  call, UMR_FIXED_SEGS, qp->ib.qp_base.qp_num, wqe_share(qp)));
}

/* Begins a UMR of @mkey. False: the batch has failed. */
static bool begin(struct dqp *qp, const char *call, struct mlx5dv_mkey *dv)
{
	struct wqe_head h = { .wr_id = qp->ib.wr_id,
			      .send_flags = qp->ib.wr_flags,
			      .opcode = MLX5_OPCODE_UMR,
			      .wc_opcode = IBV_WC_DRIVER1 };
	int err;

	if (!wqe_region_open(qp, call))
		return false;
	wqe_finish(qp);
	if (qp->build.err)
		return false;
	if (!(qp->ib.wr_flags & IBV_SEND_INLINE))
		return failed(qp,
			      refuse_work(EOPNOTSUPP, h.wr_id,
					  "%s: wr_flags 0x%x on QP 0x%x; lists go inline, so set "
					  "IBV_SEND_INLINE",
					  call, qp->ib.wr_flags, qp->ib.qp_base.qp_num));
	if (!dv)
		return failed(qp, refuse_work(EINVAL, h.wr_id,
					      "%s: mkey is NULL on QP 0x%x; pass what "
					      "mlx5dv_create_mkey() returned",
					      call, qp->ib.qp_base.qp_num));
	err = alive_check(ALIVE_MKEY, dv, call);
	if (err)
		return failed(qp, err);
	if (!qp->umr)
		qp->umr = malloc(sizeof(*qp->umr));
	if (!qp->umr)
		return failed(qp, refuse_work(ENOMEM, h.wr_id,
					      "%s: no memory; raise the limit (ulimit -v)", call));
	memset(qp->umr->buf, 0, UMR_HEAD); /* lists and BSFs are written whole */
	qp->umr->is_signed = false;
	qp->umr->seen = 0;
	qp->umr->segs = 0;
	qp->umr->call = call;
	qp->umr->flags = to_mkey(dv)->flags;
	qp->umr->max_entries = to_mkey(dv)->max_entries;
	h.imm = htobe32(dv->lkey);
	wqe_begin(qp, &h);
	qp->build.takes = 0;
	return !qp->build.err && begins(qp, call);
}

static void end(struct dqp *qp)
{
	wqe_append(qp, qp->umr->buf, (UMR_FIXED_SEGS - 1 + qp->umr->segs) * SEG);
	if (qp->umr->is_signed)
		wqe_append(qp, qp->umr->bsf, BSF_LEN);
	wqe_finish(qp);
}

/* @call, a setter of @kind, in its place? */
static bool takes(struct dqp *qp, const char *call, enum setter kind)
{
	if (!wqe_region_open(qp, call))
		return false;
	if (qp->build.ctrl && qp->build.need_av && qp->build.setters && qp->umr->seen & kind)
		return failed(
			qp,
			refuse_work(EINVAL, wqe_wr_id(qp),
				    "%s: called twice for one mkey on QP 0x%x; call each setter "
				    "once between mlx5dv_wr_mkey_configure and the next operation",
				    call, qp->ib.qp_base.qp_num));
	if (!qp->build.ctrl || !qp->build.need_av || !qp->build.setters)
		return failed(
			qp, refuse_work(EINVAL, wqe_wr_id(qp),
					"%s: no mlx5dv_wr_mkey_configure on QP 0x%x waits for it; "
					"count it in the num_setters of that call",
					call, qp->ib.qp_base.qp_num));
	qp->umr->seen |= kind;
	return true;
}

/* One more setter is done; @left are to come. */
static void set(struct dqp *qp, uint8_t left)
{
	qp->build.setters = left;
	qp->build.need_av = left;
	if (!left)
		end(qp);
}

static bool set_access(struct dqp *qp, const char *call, uint32_t access)
{
	if (access & ~(uint32_t)RIGHTS)
		return failed(qp,
			      refuse_work(EINVAL, wqe_wr_id(qp),
					  "%s: access_flags 0x%x on QP 0x%x, of which 0x%x are not "
					  "an mkey's; leave them out",
					  call, access, qp->ib.qp_base.qp_num,
					  access & ~(uint32_t)RIGHTS));
	umr_access(qp->umr->buf, access);
	return true;
}

/* Do @n entries, with their head, fit? */
static bool entries(struct dqp *qp, const char *call, unsigned int n)
{
	unsigned int segs = (n + UMR_LIST_UNIT - 1) / UMR_LIST_UNIT * UMR_LIST_UNIT;

	if (!n)
		return failed(
			qp, refuse_work(EINVAL, wqe_wr_id(qp),
					"%s: no entries for an mkey on QP 0x%x; give at least one",
					call, qp->ib.qp_base.qp_num));
	if (n > qp->umr->max_entries)
		return failed(qp,
			      refuse_work(ENOMEM, wqe_wr_id(qp),
					  "%s: %u entries for an mkey of max_entries %u; create it "
					  "with more",
					  call, n, qp->umr->max_entries));
	return fits(qp, call, segs);
}

static bool set_list(struct dqp *qp, const char *call, unsigned int n, const struct ibv_sge *sge)
{
	struct umr_part part[UMR_PARTS];
	uint64_t len = 0;

	if (!entries(qp, call, n))
		return false;
	for (unsigned int i = 0; i < n; i++) {
		part[i] = (struct umr_part){ sge[i].addr, sge[i].length, 0, sge[i].lkey };
		len += sge[i].length;
	}
	qp->umr->segs = umr_list(qp->umr->buf, part, n, len);
	return true;
}

static bool set_interleaved(struct dqp *qp, const char *call, uint32_t times, unsigned int n,
			    const struct mlx5dv_mr_interleaved *data)
{
	struct umr_part part[UMR_PARTS];
	uint64_t len = 0;

	if (!entries(qp, call, n ? n + 1 : 0))
		return false;
	if (!times)
		return failed(
			qp, refuse_work(EINVAL, wqe_wr_id(qp),
					"%s: repeat_count 0 for an mkey on QP 0x%x; give at least "
					"1",
					call, qp->ib.qp_base.qp_num));
	for (unsigned int i = 0; i < n; i++) {
		uint64_t stride = (uint64_t)data[i].bytes_count + data[i].bytes_skip;

		if (stride > UINT16_MAX)
			return failed(qp, refuse_work(EINVAL, wqe_wr_id(qp),
						      "%s: entry %u has %u bytes and skips %u; the "
						      "format counts both in 16 bits",
						      call, i, data[i].bytes_count,
						      data[i].bytes_skip));
		part[i] = (struct umr_part){ data[i].addr, data[i].bytes_count, (uint32_t)stride,
					     data[i].lkey };
		len += data[i].bytes_count;
	}
	qp->umr->segs = umr_interleaved(qp->umr->buf, part, n, times, len * times);
	return true;
}

static void wr_mr_list(struct mlx5dv_qp_ex *dv, struct mlx5dv_mkey *mkey, uint32_t access,
		       uint16_t n, struct ibv_sge *sge)
{
	static const char call[] = "mlx5dv_wr_mr_list";
	struct dqp *qp = dv_qp(dv);

	if (!begin(qp, call, mkey) || !set_access(qp, call, access) || !set_list(qp, call, n, sge))
		return;
	umr_free(qp->umr->buf, false);
	end(qp);
}

static void wr_mr_interleaved(struct mlx5dv_qp_ex *dv, struct mlx5dv_mkey *mkey, uint32_t access,
			      uint32_t times, uint16_t n, struct mlx5dv_mr_interleaved *data)
{
	static const char call[] = "mlx5dv_wr_mr_interleaved";
	struct dqp *qp = dv_qp(dv);

	if (!begin(qp, call, mkey) || !set_access(qp, call, access) ||
	    !set_interleaved(qp, call, times, n, data))
		return;
	umr_free(qp->umr->buf, false);
	end(qp);
}

static void wr_mkey_configure(struct mlx5dv_qp_ex *dv, struct mlx5dv_mkey *mkey, uint8_t n,
			      struct mlx5dv_mkey_conf_attr *attr)
{
	static const char call[] = "mlx5dv_wr_mkey_configure";
	struct dqp *qp = dv_qp(dv);

	if (!begin(qp, call, mkey))
		return;
	if (attr && (attr->conf_flags & ~(uint32_t)RESET_SIG || attr->comp_mask)) {
		failed(qp, refuse_work(EOPNOTSUPP, wqe_wr_id(qp),
				       "%s: conf_flags 0x%x, comp_mask 0x%llx on QP 0x%x; only "
				       "RESET_SIG_ATTR works on this device (0x%x)",
				       call, attr->conf_flags, (unsigned long long)attr->comp_mask,
				       qp->ib.qp_base.qp_num, RESET_SIG));
		return;
	}
	umr_free(qp->umr->buf, false);
	if (qp->umr->flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE)
		umr_rearm(qp->umr->buf);
	if (attr && attr->conf_flags & RESET_SIG)
		umr_sign(qp->umr->buf, false);
	set(qp, n);
}

static void wr_set_mkey_access_flags(struct mlx5dv_qp_ex *dv, uint32_t access)
{
	static const char call[] = "mlx5dv_wr_set_mkey_access_flags";
	struct dqp *qp = dv_qp(dv);

	if (takes(qp, call, SET_ACCESS) && set_access(qp, call, access))
		set(qp, qp->build.setters - 1);
}

static void wr_set_mkey_layout_list(struct mlx5dv_qp_ex *dv, uint16_t n, const struct ibv_sge *sge)
{
	static const char call[] = "mlx5dv_wr_set_mkey_layout_list";
	struct dqp *qp = dv_qp(dv);

	if (takes(qp, call, SET_LAYOUT) && set_list(qp, call, n, sge))
		set(qp, qp->build.setters - 1);
}

static void wr_set_mkey_layout_interleaved(struct mlx5dv_qp_ex *dv, uint32_t times, uint16_t n,
					   const struct mlx5dv_mr_interleaved *data)
{
	static const char call[] = "mlx5dv_wr_set_mkey_layout_interleaved";
	struct dqp *qp = dv_qp(dv);

	if (takes(qp, call, SET_LAYOUT) && set_interleaved(qp, call, times, n, data))
		set(qp, qp->build.setters - 1);
}

static bool set_sig_block(struct dqp *qp, const char *call,
			  const struct mlx5dv_sig_block_attr *attr)
{
	struct signature s;
	const char *why = "its mkey was created without "
			  "MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE; create it with that";

	if (qp->umr->flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE)
		why = sig_attr(attr, &s);
	if (why)
		return failed(qp, refuse_work(EINVAL, wqe_wr_id(qp), "%s: on QP 0x%x: %s", call,
					      qp->ib.qp_base.qp_num, why));
	qp->umr->is_signed = true;
	if (!fits(qp, call, qp->umr->segs))
		return false;
	umr_sign(qp->umr->buf, true);
	bsf_write(qp->umr->bsf, &s);
	return true;
}

static void wr_set_mkey_sig_block(struct mlx5dv_qp_ex *dv, const struct mlx5dv_sig_block_attr *attr)
{
	static const char call[] = "mlx5dv_wr_set_mkey_sig_block";
	struct dqp *qp = dv_qp(dv);

	if (takes(qp, call, SET_SIG) && set_sig_block(qp, call, attr))
		set(qp, qp->build.setters - 1);
}

void wr_mkey_attach(struct dqp *qp)
{
	qp->dv.wr_mr_list = wr_mr_list;
	qp->dv.wr_mr_interleaved = wr_mr_interleaved;
	qp->dv.wr_mkey_configure = wr_mkey_configure;
	qp->dv.wr_set_mkey_access_flags = wr_set_mkey_access_flags;
	qp->dv.wr_set_mkey_layout_list = wr_set_mkey_layout_list;
	qp->dv.wr_set_mkey_sig_block = wr_set_mkey_sig_block;
	qp->dv.wr_set_mkey_layout_interleaved = wr_set_mkey_layout_interleaved;
}
