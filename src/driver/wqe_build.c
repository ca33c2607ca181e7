// SPDX-License-Identifier: MIT
#include "driver/wqe_build.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "driver/dqp_raw.h"
#include "engine/doorbell.h"
#include "hca/ah.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/fork.h"

#define SEG	    16
#define INLINE_FLAG (1U << 31)

static void next_seg(struct dqp *qp)
{
	struct wr_build *b = &qp->build;

	b->segs++;
	b->seg += SEG;
	if (b->seg == qp->sq.buf + (size_t)qp->sq.cnt * WQE_BB)
		b->seg = qp->sq.buf;
}

/* Appends bytes that wrap at the ring's end. */
static uint8_t *append(struct dqp *qp, uint8_t *to, const void *from, size_t len)
{
	uint8_t *end = qp->sq.buf + (size_t)qp->sq.cnt * WQE_BB;
	size_t room = end - to, first = len < room ? len : room;

	if (!len) /* @from may be NULL */
		return to;
	memcpy(to, from, first);
	if (first == room) {
		memcpy(qp->sq.buf, (const uint8_t *)from + first, len - first);
		return qp->sq.buf + (len - first);
	}
	return to + first;
}

/* its address names this thread */
static __thread char self __attribute__((tls_model("initial-exec")));

bool wqe_region_mine(const struct dqp *qp)
{
	return load_relaxed(&qp->build.owner) == &self;
}

void wqe_region_missed(const struct dqp *qp, const char *call)
{
	refuse(EINVAL, "%s: this thread is not building work for QP 0x%x; ibv_wr_start comes first",
	       call, qp->ib.qp_base.qp_num);
}

static bool sends_in(enum ibv_qp_state s)
{
	return s != IBV_QPS_RESET && s != IBV_QPS_INIT && s != IBV_QPS_RTR;
}

/* The public state says so, but is a hint: ibv_query_qp beside ibv_modify_qp may have set it
 * back. */
static int too_early(const struct dqp *qp, const char *call)
{
	enum ibv_qp_state s = load_relaxed(&qp->dev->qp.state);

	if (!qp->service->sends)
		return refuse(EINVAL,
			      "%s: QP 0x%x is of type %s, which only receives; send by one "
			      "that sends",
			      call, qp->ib.qp_base.qp_num, qp->service->name);
	if (sends_in(s))
		return 0;
	return refuse(EINVAL, "%s: QP 0x%x is in %s; sending needs RTS (ibv_modify_qp)", call,
		      qp->ib.qp_base.qp_num, qp_state_name(s));
}

static int allowed(struct dqp *qp, const char *call)
{
	enum ibv_qp_state s = load_relaxed(&qp->ib.qp_base.state);

	if (unlikely(!fork_is_ours(qp->epoch)))
		return refuse(EIO, "%s: QP 0x%x was made before fork(); make a new one", call,
			      qp->ib.qp_base.qp_num);
	if (unlikely(!sends_in(s)))
		return too_early(qp, call);
	return 0;
}

static void start(struct dqp *qp, const char *call, int err)
{
	qp->build.err = err;
	qp->build.call = call;
	qp->build.pi = qp->sq.pi;
	qp->build.head = qp->sq.head;
	qp->build.ctrl = NULL;
}

/* The lock is taken: perhaps by this very thread. */
static int contended(struct dqp *qp, const char *call)
{
	if (wqe_region_mine(qp))
		return refuse(EINVAL,
			      "%s: this thread is between ibv_wr_start and ibv_wr_complete on QP "
			      "0x%x; end that first",
			      call, qp->ib.qp_base.qp_num);
	spin_lock(&qp->sq.lock);
	return 0;
}

int wqe_batch_begin(struct dqp *qp, const char *call)
{
	int err = allowed(qp, call);

	if (unlikely(err))
		return err;
	if (unlikely(!spin_trylock(&qp->sq.lock)))
		err = contended(qp, call);
	if (likely(!err))
		start(qp, call, 0);
	return err;
}

void wqe_region_begin(struct dqp *qp)
{
	static const char call[] = "ibv_wr_complete";
	int err = allowed(qp, call);

	if (unlikely(!spin_trylock(&qp->sq.lock)) && contended(qp, "ibv_wr_start")) {
		qp->build.err = EINVAL; /* the batch that was begun goes on, and fails */
		return;
	}
	start(qp, call, err);
	store_relaxed(&qp->build.owner, (const void *)&self);
}

void wqe_batch_abort(struct dqp *qp)
{
	qp->sq.pi = qp->build.pi;
	qp->sq.head = qp->build.head;
	store_relaxed(&qp->build.owner, NULL);
	spin_unlock(&qp->sq.lock);
}

int wqe_batch_end(struct dqp *qp, bool keep)
{
	int err = qp->build.err;

	if (err && !keep) {
		wqe_batch_abort(qp);
		return err;
	}
	/* (A) with the requester: WQEs before the count */
	store_release(&qp->dbrec[MLX5_SND_DBR], htobe32(qp->sq.pi & 0xffff));
	if (!keep)
		store_relaxed(&qp->build.owner, NULL);
	spin_unlock(&qp->sq.lock);
	doorbell_sq(qp->dev);
	return err;
}

uint64_t wqe_wr_id(const struct dqp *qp)
{
	return qp->build.ctrl ? qp->sq.slot[qp->sq.pi & (qp->sq.cnt - 1)].wr_id : 0;
}

static bool sq_full(const struct dqp *qp)
{
	/* (A) with complete_send(): a slot is free when its completion was polled */
	return qp->sq.head - load_acquire(&qp->sq.tail) >= qp->sq.max_wr;
}

/* RAW_PACKET: the Ethernet segment, with the checksums to compute and the headers of a TSO send. */
static void ethernet(struct dqp *qp, const struct wqe_head *h)
{
	struct wr_build *b = &qp->build;
	struct mlx5_wqe_eth_seg eth = { .mss = htobe16(h->mss),
					.inline_hdr_sz = htobe16(h->hdr_sz) };

	if (unlikely(h->hdr_sz > qp->max_tso_header)) {
		b->err = refuse_work(EINVAL, h->wr_id,
				     "%s: TSO headers of %u B, QP 0x%x was created with "
				     "max_tso_header %u; create it with more",
				     b->call, h->hdr_sz, qp->ib.qp_base.qp_num, qp->max_tso_header);
		return;
	}
	if (h->send_flags & IBV_SEND_IP_CSUM)
		eth.cs_flags = MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM;
	memcpy(b->seg, &eth, offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start));
	append(qp, b->seg + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start), h->hdr, h->hdr_sz);
	for (uint32_t n = 1 + dqp_tso_segs(h->hdr_sz); n; n--)
		next_seg(qp);
}

void wqe_xrc(struct dqp *qp, uint32_t srqn)
{
	uint8_t *p = qp->build.av;

	if (unlikely(qp->build.err))
		return;
	memset(p, 0, SEG);
	put_be32(p, srqn & 0xffffff);
	qp->build.need_av = false;
}

/* Is there room for one more WQE? */
static inline bool room(struct dqp *qp, uint64_t wr_id)
{
	struct wr_build *b = &qp->build;

	if (unlikely(b->err))
		return false;
	if (likely(!sq_full(qp)))
		return true;
	b->err = refuse_work(ENOMEM, wr_id,
			     "%s: all %u send work requests of QP 0x%x are outstanding; poll "
			     "completions first",
			     b->call, qp->sq.max_wr, qp->ib.qp_base.qp_num);
	return false;
}

static int raw_check(const struct dqp *qp, uint64_t wr_id, uint32_t segs, uint8_t opcode)
{
	uint32_t max = wqe_share(qp);

	if (!segs || segs > max)
		return refuse_work(EINVAL, wr_id,
				   "mlx5dv_wr_raw_wqe: ds %u on QP 0x%x, whose WQEs have 1 to %u "
				   "segments of 16 B; create it with more SGEs or inline data",
				   segs, qp->ib.qp_base.qp_num, max);
	if (opcode == WQE_OPCODE_BIND_MW || opcode == WQE_OPCODE_ATOMIC_WRITE)
		return refuse_work(
			EINVAL, wr_id,
			"mlx5dv_wr_raw_wqe: opcode 0x%x on QP 0x%x is none of mlx5's; call "
			"ibv_wr_bind_mw or ibv_wr_atomic_write",
			opcode, qp->ib.qp_base.qp_num);
	return 0;
}

void wqe_raw(struct dqp *qp, uint64_t wr_id, const void *wqe)
{
	struct wr_build *b = &qp->build;
	uint32_t block = qp->sq.pi & (qp->sq.cnt - 1);
	struct mlx5_wqe_ctrl_seg ctrl;
	uint32_t first;

	if (!room(qp, wr_id))
		return;
	memcpy(&ctrl, wqe, sizeof(ctrl));
	first = be32toh(ctrl.opmod_idx_opcode);
	b->segs = be32toh(ctrl.qpn_ds) & 0x3f;
	b->err = raw_check(qp, wr_id, b->segs, first & 0xff);
	if (b->err)
		return;
	qp->sq.slot[block] = (struct sq_slot){ wr_id, qp->sq.head, IBV_WC_DRIVER2 };
	b->ctrl = qp->sq.buf + (size_t)block * WQE_BB;
	append(qp, b->ctrl, wqe, (size_t)b->segs * SEG);
	put_be32(b->ctrl, (first & 0xff0000ff) | (qp->sq.pi & 0xffff) << 8);
	b->need_av = false;
	wqe_finish(qp);
}

void wqe_begin(struct dqp *qp, const struct wqe_head *h)
{
	struct wr_build *b = &qp->build;
	uint32_t block = qp->sq.pi & (qp->sq.cnt - 1);
	uint8_t flags = 0;

	if (unlikely(!room(qp, h->wr_id)))
		return;
	if (qp->sq_sig_all || (h->send_flags & IBV_SEND_SIGNALED))
		flags |= MLX5_WQE_CTRL_CQ_UPDATE;
	if (h->send_flags & IBV_SEND_SOLICITED)
		flags |= MLX5_WQE_CTRL_SOLICITED;
	if (h->send_flags & IBV_SEND_FENCE)
		flags |= MLX5_WQE_CTRL_FENCE;
	qp->sq.slot[block] = (struct sq_slot){ h->wr_id, qp->sq.head, h->wc_opcode };
	b->ctrl = qp->sq.buf + (size_t)block * WQE_BB;
	b->seg = b->ctrl;
	b->segs = 0;
	put_be32(b->ctrl, (qp->sq.pi & 0xffff) << 8 | h->opcode);
	put_be32(b->ctrl + 8, flags);
	memcpy(b->ctrl + 12, &h->imm, sizeof(h->imm));
	next_seg(qp);
	b->need_av = qp->service->address_segs && h->opcode != MLX5_OPCODE_MMO;
	if (qp->service->frames)
		ethernet(qp, h);
	if (!b->need_av)
		return;
	b->av = b->seg; /* kept free, since setters may come in any order */
	for (unsigned int i = qp->service->address_segs; i; i--)
		next_seg(qp);
	if (qp->service->wqe == WQE_XRC &&
	    (h->opcode == WQE_OPCODE_BIND_MW || h->opcode == MLX5_OPCODE_LOCAL_INVAL))
		wqe_xrc(qp, 0); /* no message, so no SRQ */
}

void wqe_remote(struct dqp *qp, uint64_t addr, uint32_t rkey)
{
	uint8_t *p = qp->build.seg;

	if (unlikely(qp->build.err))
		return;
	put_be64(p, addr);
	put_be32(p + 8, rkey);
	put_be32(p + 12, 0);
	next_seg(qp);
}

void wqe_atomic(struct dqp *qp, uint64_t swap_add, uint64_t compare)
{
	if (unlikely(qp->build.err))
		return;
	put_be64(qp->build.seg, swap_add);
	put_be64(qp->build.seg + 8, compare);
	next_seg(qp);
}

bool wqe_may_bind(struct dqp *qp, uint64_t wr_id, const struct ibv_mw *mw)
{
	if (mw && mw->type == IBV_MW_TYPE_2)
		return true;
	qp->build.err = refuse_work(
		EINVAL, wr_id,
		"%s: IBV_WR_BIND_MW on QP 0x%x with %s; bind type 2 windows so, "
		"type 1 windows by ibv_bind_mw()",
		qp->build.call, qp->ib.qp_base.qp_num, mw ? "a type 1 window" : "mw NULL");
	return false;
}

static int bind_check(const struct dqp *qp, const struct ibv_mw *mw,
		      const struct ibv_mw_bind_info *info)
{
	const unsigned int known = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED |
				   IBV_ACCESS_LOCAL_WRITE; /* taken, without effect */

	if (info->mw_access_flags & ~known)
		return refuse_work(
			EINVAL, wqe_wr_id(qp),
			"ibv_bind_mw: mw_access_flags 0x%x of window 0x%x on QP 0x%x; only "
			"remote rights and IBV_ACCESS_ZERO_BASED are known (0x%x)",
			info->mw_access_flags, mw->rkey, qp->ib.qp_base.qp_num, known);
	if (!info->mr && (info->length || mw->type == IBV_MW_TYPE_2))
		return refuse_work(
			EINVAL, wqe_wr_id(qp),
			"ibv_bind_mw: window 0x%x on QP 0x%x: bind_info.mr is NULL; name the "
			"region (without one a type 1 window of length 0 is unbound)",
			mw->rkey, qp->ib.qp_base.qp_num);
	return 0;
}

void wqe_bind(struct dqp *qp, const struct ibv_mw *mw, uint32_t rkey,
	      const struct ibv_mw_bind_info *info)
{
	struct wqe_bind_seg s = { .rkey = htobe32(rkey),
				  .lkey = info->mr ? htobe32(info->mr->lkey) : 0,
				  .addr = htobe64(info->addr),
				  .len = htobe64(info->length),
				  .access = htobe32(info->mw_access_flags) };

	if (unlikely(qp->build.err))
		return;
	qp->build.err = bind_check(qp, mw, info);
	if (qp->build.err)
		return;
	doorbell_binds(qp->dev);
	append(qp, qp->build.seg, &s, sizeof(s));
	for (unsigned int i = 0; i < sizeof(s) / SEG; i++)
		next_seg(qp);
}

static void address(struct dqp *qp, struct ibv_ah *ib, uint32_t qpn, uint64_t key)
{
	bool dc = qp->service->wqe == WQE_DC;
	struct mlx5_wqe_av av;

	if (unlikely(qp->build.err))
		return;
	if (!ib) {
		qp->build.err = refuse_work(EINVAL, wqe_wr_id(qp),
					    "%s: the AH of a %s send on QP 0x%x is NULL; set %s",
					    qp->build.call, dc ? "DC" : "UD", qp->ib.qp_base.qp_num,
					    dc ? "it by mlx5dv_wr_set_dc_addr" : "wr.ud.ah");
		return;
	}
	av_encode(&((struct ah *)ib)->av, &av);
	av.key.dc_key = htobe64(key);
	av.dqp_dct |= htobe32(qpn & 0xffffff);
	append(qp, qp->build.av, &av, sizeof(av));
	qp->build.need_av = false;
}

void wqe_datagram(struct dqp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	address(qp, ah, qpn, (uint64_t)qkey << 32);
}

void wqe_dc(struct dqp *qp, struct ibv_ah *ah, uint32_t dctn, uint64_t access_key)
{
	address(qp, ah, dctn, access_key);
}

static bool sges_fit(struct dqp *qp, size_t n)
{
	if (likely(n <= qp->max_send_sge))
		return true;
	qp->build.err = refuse_work(EINVAL, wqe_wr_id(qp),
				    "%s: num_sge %zu, QP 0x%x was created with max_send_sge "
				    "%u; use fewer, or create it with more",
				    qp->build.call, n, qp->ib.qp_base.qp_num, qp->max_send_sge);
	return false;
}

void wqe_sge_list(struct dqp *qp, const struct ibv_sge *sg, size_t n)
{
	if (unlikely(qp->build.err) || !sges_fit(qp, n))
		return;
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = qp->build.seg;

		if (!sg[i].length)
			continue; /* a byte count of 0 means 2^31 */
		put_be32(p, sg[i].length & ~INLINE_FLAG);
		put_be32(p + 4, sg[i].lkey);
		put_be64(p + 8, sg[i].addr);
		if (unlikely(sg[i].length > INLINE_FLAG)) {
			qp->build.err =
				refuse_work(EINVAL, wqe_wr_id(qp),
					    "%s: SGE %zu on QP 0x%x has %u bytes, a message "
					    "at most 2^31; split it",
					    qp->build.call, i, qp->ib.qp_base.qp_num, sg[i].length);
			return;
		}
		next_seg(qp);
	}
}

/* Behind TSO headers less fits than max_inline says. */
static bool inline_fits_there(struct dqp *qp, uint64_t total)
{
	if (qp->build.segs + (total + 4 + SEG - 1) / SEG <= wqe_share(qp))
		return true;
	qp->build.err =
		refuse_work(EINVAL, wqe_wr_id(qp),
			    "%s: %llu bytes inline behind %u segments of TSO headers, QP 0x%x "
			    "has room for %u segments of 16 B; leave IBV_SEND_INLINE out, or "
			    "create it with more",
			    qp->build.call, (unsigned long long)total, qp->build.segs,
			    qp->ib.qp_base.qp_num, wqe_share(qp));
	return false;
}

static bool inline_fits(struct dqp *qp, uint64_t total)
{
	if (likely(total <= qp->any_inline))
		return true;
	if (total <= qp->max_inline)
		return inline_fits_there(qp, total);
	qp->build.err = refuse_work(
		EINVAL, wqe_wr_id(qp),
		"%s: %llu bytes inline, QP 0x%x was created with max_inline_data "
		"%u; leave IBV_SEND_INLINE out, or create it with more",
		qp->build.call, (unsigned long long)total, qp->ib.qp_base.qp_num, qp->max_inline);
	return false;
}

static void inline_close(struct dqp *qp, uint8_t *header, uint32_t total)
{
	put_be32(header, INLINE_FLAG | total);
	for (uint32_t n = (total + 4 + SEG - 1) / SEG; n; n--)
		next_seg(qp);
}

void wqe_inline_sges(struct dqp *qp, const struct ibv_sge *sg, size_t n)
{
	uint8_t *header = qp->build.seg, *p = header + 4;
	uint64_t total = 0;

	if (unlikely(qp->build.err) || !sges_fit(qp, n))
		return; /* a wrong number is not taken for the length of the list */
	for (size_t i = 0; i < n; i++)
		total += sg[i].length;
	if (!inline_fits(qp, total) || !total)
		return;
	for (size_t i = 0; i < n; i++)
		p = append(qp, p, (const void *)(uintptr_t)sg[i].addr, sg[i].length);
	inline_close(qp, header, total);
}

void wqe_inline(struct dqp *qp, const struct ibv_data_buf *bufs, size_t n)
{
	uint8_t *header = qp->build.seg, *p = header + 4;
	uint64_t total = 0;

	if (unlikely(qp->build.err))
		return;
	for (size_t i = 0; i < n && total <= qp->max_inline; i++) /* the sum cannot wrap */
		total += bufs[i].length < UINT32_MAX ? bufs[i].length : UINT32_MAX;
	if (!inline_fits(qp, total) || !total)
		return;
	for (size_t i = 0; i < n; i++)
		p = append(qp, p, bufs[i].addr, bufs[i].length);
	inline_close(qp, header, total);
}

void wqe_inline_always(struct dqp *qp, const struct ibv_data_buf *buf)
{
	uint8_t *header = qp->build.seg;

	if (unlikely(qp->build.err))
		return;
	append(qp, header + 4, buf->addr, buf->length);
	inline_close(qp, header, buf->length);
}

void wqe_append(struct dqp *qp, const void *segs, size_t len)
{
	append(qp, qp->build.seg, segs, len);
	for (size_t n = len / SEG; n; n--)
		next_seg(qp);
}

void wqe_finish(struct dqp *qp)
{
	struct wr_build *b = &qp->build;

	if (unlikely(b->err) || !b->ctrl)
		return;
	if (unlikely(b->need_av && b->setters)) {
		b->err = refuse_work(
			EINVAL, wqe_wr_id(qp),
			"mlx5dv_wr_mkey_configure on QP 0x%x: %u setters are missing; call "
			"as many as num_setters says",
			qp->ib.qp_base.qp_num, b->setters);
		return;
	}
	if (unlikely(b->need_av)) {
		static const struct {
			const char *send, *setter;
		} of[] = {
			[WQE_DATAGRAM] = { "a UD", "ibv_wr_set_ud_addr" },
			[WQE_XRC] = { "an XRC", "ibv_wr_set_xrc_srqn" },
			[WQE_DC] = { "a DC", "mlx5dv_wr_set_dc_addr" },
		};

		b->err = refuse_work(EINVAL, wqe_wr_id(qp),
				     "ibv_wr_complete: %s send on QP 0x%x has no address; call %s",
				     of[qp->service->wqe].send, qp->ib.qp_base.qp_num,
				     of[qp->service->wqe].setter);
		return;
	}
	put_be32(b->ctrl + 4, qp->ib.qp_base.qp_num << 8 | b->segs);
	b->ctrl = NULL;
	qp->sq.pi += (b->segs + 3) / 4;
	qp->sq.head++;
}
