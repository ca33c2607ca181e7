// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include "hca/limits.h"
#include "obs/explain.h"
#include "transport/blame.h"
#include "transport/sent.h"
#include "util/be.h"
#include "wire/frame.h"
#include "wire/opcode.h"

static const char *wqe_name(uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_SEND:
		return "SEND";
	case MLX5_OPCODE_SEND_IMM:
		return "SEND with immediate";
	case MLX5_OPCODE_SEND_INVAL:
		return "SEND with invalidate";
	case MLX5_OPCODE_RDMA_WRITE:
		return "RDMA WRITE";
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		return "RDMA WRITE with immediate";
	case MLX5_OPCODE_RDMA_READ:
		return "RDMA READ";
	case MLX5_OPCODE_ATOMIC_CS:
		return "compare and swap";
	case MLX5_OPCODE_ATOMIC_FA:
		return "fetch and add";
	case WQE_OPCODE_ATOMIC_WRITE:
		return "atomic write";
	case MLX5_OPCODE_TSO:
		return "TSO";
	default:
		return "work request";
	}
}

const char *blame_name(uint8_t op)
{
	switch (opcode_operation(op)) {
	case OP_READ_REQUEST:
		return "RDMA READ";
	case OP_COMPARE_SWAP:
		return "compare and swap";
	case OP_FETCH_ADD:
		return "fetch and add";
	case OP_ATOMIC_WRITE:
		return "atomic write";
	case OP_WRITE_LAST_IMM:
	case OP_WRITE_ONLY_IMM:
		return "RDMA WRITE with immediate";
	case OP_WRITE_FIRST:
	case OP_WRITE_MIDDLE:
	case OP_WRITE_LAST:
	case OP_WRITE_ONLY:
		return "RDMA WRITE";
	default:
		return "SEND";
	}
}

static const char *type_name(const struct tqp *q)
{
	return q->qp.service->name;
}

static uint64_t blame_sge(const struct tqp *q, const struct wqe *w, const struct gather *g)
{
	char text[192];

	if (g->why == KEY_OK)
		return reason("ibv_post_send: %s of %u B on QP 0x%x: memory of its scatter/gather "
			      "list is not mapped any more; keep it mapped until the completion",
			      wqe_name(w->opcode), w->len, q->qp.qpn);
	return reason("ibv_post_send: %s of %u B on QP 0x%x: sge[%u]: %s; use a key of the QP's PD "
		      "that covers the buffer%s",
		      wqe_name(w->opcode), w->len, q->qp.qpn, g->which,
		      key_describe(q->qp.ctx->hca->keys, g->why, &g->refused, text, sizeof(text)),
		      g->refused.need ? " with IBV_ACCESS_LOCAL_WRITE" : "");
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA ||
	       opcode == WQE_OPCODE_ATOMIC_WRITE;
}

uint64_t blame_wqe(const struct tqp *q, const struct wqe *w, enum verdict v, const struct gather *g)
{
	if (v == V_LOCAL_PROT && g)
		return blame_sge(q, w, g);
	if (v == V_LOCAL_LENGTH && q->qp.service->one_packet)
		return reason("ibv_post_send: %s of %u B on UD QP 0x%x exceeds the MTU of %u B; "
			      "send less",
			      wqe_name(w->opcode), w->len, q->qp.qpn, q->req.mtu);
	if (v == V_LOCAL_LENGTH && q->qp.service->frames)
		return reason("ibv_post_send: %s on RAW_PACKET QP 0x%x: headers of %u B and %u B "
			      "of data (mss %u); a frame has 14..%d B, a TSO send at most %d B of "
			      "data and headers up to TCP; stay within",
			      wqe_name(w->opcode), q->qp.qpn, w->head_len, w->len, w->mss,
			      FRAME_MAX, LIMIT_TSO);
	if (v == V_LOCAL_LENGTH && !is_atomic(w->opcode))
		return reason("ibv_post_send: the SGEs of a %s on QP 0x%x add up to more than "
			      "2^31 B, a message's most; split it",
			      wqe_name(w->opcode), q->qp.qpn);
	if (v == V_LOCAL_LENGTH)
		return reason("ibv_post_send: %s on QP 0x%x has a %s of %u B, an atomic needs 8 B; "
			      "give it 8",
			      wqe_name(w->opcode), q->qp.qpn,
			      w->opcode == WQE_OPCODE_ATOMIC_WRITE ? "payload" : "result buffer",
			      w->len);
	if ((w->opcode == MLX5_OPCODE_RDMA_READ || is_atomic(w->opcode)) &&
	    q->qp.service->reliable && !q->qp.attr.max_rd_atomic)
		return reason("ibv_post_send: %s on QP 0x%x with max_rd_atomic 0; set "
			      "IBV_QP_MAX_QP_RD_ATOMIC in ibv_modify_qp to RTS",
			      wqe_name(w->opcode), q->qp.qpn);
	if (w->opcode == WQE_OPCODE_ATOMIC_WRITE &&
	    service_takes(q->qp.service, IBV_WR_ATOMIC_WRITE))
		return reason(
			"WQE 0x%x on QP 0x%x: opcode 0x%x is softhca's own for atomic writes; "
			"create the QP with IBV_QP_EX_WITH_ATOMIC_WRITE, or post by the verbs",
			w->idx, q->qp.qpn, w->opcode);
	return reason("ibv_post_send: WQE 0x%x with opcode 0x%x on %s QP 0x%x is malformed, was "
		      "changed while outstanding, or is not an operation of this service; post "
		      "what the service offers and leave posted WQEs alone",
		      w->idx, w->opcode, type_name(q), q->qp.qpn);
}

uint64_t blame_window(const struct tqp *q, const struct wqe *w, const char *why)
{
	if (w->opcode == MLX5_OPCODE_LOCAL_INVAL)
		return reason("ibv_post_send: LOCAL_INV of rkey 0x%x on QP 0x%x: %s",
			      be32toh(w->imm), q->qp.qpn, why);
	if (w->opcode == MLX5_OPCODE_UMR)
		return reason("mlx5dv_wr_*: UMR of mkey 0x%x on QP 0x%x: %s", be32toh(w->imm),
			      q->qp.qpn, why);
	return reason("ibv_bind_mw: window 0x%x on QP 0x%x, %lu B at 0x%lx under lkey 0x%x: %s",
		      w->bind.rkey, q->qp.qpn, (unsigned long)w->bind.len,
		      (unsigned long)w->bind.addr, w->bind.lkey, why);
}

/* What to do when this host's own kernel does not send. */
static const char *kernel_remedy(int err)
{
	switch (err) {
	case EMSGSIZE:
		return "they are longer than the MTU of the interface: raise it, or lower path_mtu";
	case EPERM:
		return "a packet filter of this host drops them: let UDP port 4791 out";
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
	case EINVAL:
		return "the address is no longer reached: look at the interface and its routes";
	default:
		return "look at the interface";
	}
}

static uint64_t blame_silence(struct tqp *q, const struct sent *e)
{
	const struct ibv_qp_attr *a = &q->qp.attr;
	int err = q->dest ? dest_refused(q->dest) : 0;

	if (err)
		return reason("%s of %u B on QP 0x%x: no answer from QP 0x%x after %u tries: the "
			      "kernel of this host refuses to send its packets (%s); %s",
			      wqe_name(e->opcode), e->len, q->qp.qpn, a->dest_qp_num,
			      a->retry_cnt + 1U, strerror(err), kernel_remedy(err));
	if (q->req.doubt == DOUBT_PSN)
		return reason("%s of %u B on QP 0x%x: QP 0x%x answers PSNs that were not sent, in "
			      "each of %u tries; make its rq_psn this QP's sq_psn (0x%x)",
			      wqe_name(e->opcode), e->len, q->qp.qpn, a->dest_qp_num,
			      a->retry_cnt + 1U, a->sq_psn);
	if (link_is_lossless(q->dest) && !q->req.doubt)
		return reason("%s of %u B on QP 0x%x: the process of QP 0x%x takes what is sent, "
			      "and has answered none of %u tries; is it a softhca of this "
			      "version, and is a thread of it stuck?",
			      wqe_name(e->opcode), e->len, q->qp.qpn, a->dest_qp_num,
			      a->retry_cnt + 1U);
	return reason("%s of %u B on QP 0x%x: no answer from QP 0x%x after %u tries of 4.096 us * "
		      "2^%u (retry_cnt %u); is the peer alive, its QP in RTR or RTS, connected to "
		      "this QP, and its rq_psn this sq_psn?",
		      wqe_name(e->opcode), e->len, q->qp.qpn, a->dest_qp_num, a->retry_cnt + 1U,
		      a->timeout, a->retry_cnt);
}

static const char *remedy(enum verdict v)
{
	switch (v) {
	case V_REMOTE_INVALID:
		return "the operation must be enabled in the peer's qp_access_flags, within its "
		       "max_dest_rd_atomic, aligned, and fit its receive buffer";
	case V_REMOTE_ACCESS:
		return "the rkey must be of the peer QP's PD, cover the range and allow it";
	case V_REMOTE_OP:
		return "the peer's receive buffer or memory is bad; look at its completions";
	case V_LOCAL_PROT:
		return "this side's buffer was deregistered or unmapped before the completion";
	default:
		return "the peer breaks the protocol";
	}
}

static bool is_send(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_SEND || opcode == MLX5_OPCODE_SEND_IMM ||
	       opcode == MLX5_OPCODE_SEND_INVAL;
}

uint64_t blame_peer(struct tqp *q, const struct sent *e, enum verdict v)
{
	struct wqe w = { .raddr = 0 };

	if (v == V_RETRY_EXCEEDED)
		return blame_silence(q, e);
	if (v == V_RNR_EXCEEDED)
		return reason("%s of %u B on QP 0x%x: QP 0x%x had no receive posted at %u tries "
			      "(rnr_retry %u); post receives earlier or set rnr_retry to 7",
			      wqe_name(e->opcode), e->len, q->qp.qpn, q->qp.attr.dest_qp_num,
			      q->qp.attr.rnr_retry + 1U, q->qp.attr.rnr_retry);
	if (!sent_reread(q, e, &w))
		w.raddr = w.rkey = 0;
	if (is_send(e->opcode))
		return reason("%s of %u B on QP 0x%x, refused by QP 0x%x (vendor_err 0x%x): %s",
			      wqe_name(e->opcode), e->len, q->qp.qpn, q->qp.attr.dest_qp_num,
			      fate_at_requester(v)->vendor, remedy(v));
	return reason("%s of %u B on QP 0x%x to 0x%lx, rkey 0x%x, refused by QP 0x%x (vendor_err "
		      "0x%x): %s",
		      wqe_name(e->opcode), e->len, q->qp.qpn, (unsigned long)w.raddr, w.rkey,
		      q->qp.attr.dest_qp_num, fate_at_requester(v)->vendor, remedy(v));
}

uint64_t blame_request(const struct tqp *q, const struct seg *s, const char *what)
{
	bool atomic = s->op == OP_COMPARE_SWAP || s->op == OP_FETCH_ADD;

	if (!atomic && !opcode_has(s->op, WIRE_RETH))
		return reason("%s of %u B by QP 0x%x refused by QP 0x%x: %s", blame_name(s->op),
			      s->len, q->qp.attr.dest_qp_num, q->qp.qpn, what);
	return reason("%s of %u B to 0x%lx by QP 0x%x refused by QP 0x%x: %s", blame_name(s->op),
		      atomic ? 8 : s->dma_len, (unsigned long)s->va, q->qp.attr.dest_qp_num,
		      q->qp.qpn, what);
}

uint64_t blame_rkey(const struct tqp *q, const struct seg *s, enum key_verdict why,
		    const struct key_ask *ask)
{
	char text[192];

	if (why == KEY_OK)
		return reason(
			"%s of %lu B to 0x%lx by QP 0x%x failed at QP 0x%x: that memory is not "
			"mapped any more; deregister an MR before you unmap it",
			blame_name(s->op), (unsigned long)ask->len, (unsigned long)ask->va,
			q->qp.attr.dest_qp_num, q->qp.qpn);
	return reason("%s of %lu B to 0x%lx by QP 0x%x refused by QP 0x%x: %s", blame_name(s->op),
		      (unsigned long)ask->len, (unsigned long)ask->va, q->qp.attr.dest_qp_num,
		      q->qp.qpn, key_describe(q->qp.ctx->hca->keys, why, ask, text, sizeof(text)));
}

uint64_t blame_short(const struct tqp *q, const struct seg *s, uint64_t need, uint64_t have)
{
	return reason("%s to QP 0x%x brings at least %lu B%s, the receive has room for %lu B; post "
		      "larger receives",
		      blame_name(s->op), q->qp.qpn, (unsigned long)need,
		      q->qp.service->one_packet ? " with 40 B of GRH" : "", (unsigned long)have);
}

uint64_t blame_receive(const struct tqp *q, const struct gather *g)
{
	char text[192];

	if (g->why == KEY_OK)
		return reason(
			"ibv_post_recv: QP 0x%x: the memory of receive 0x%x is not mapped any "
			"more; keep it mapped until the completion",
			q->qp.qpn, q->rsp.rwqe.idx);
	return reason("ibv_post_recv: QP 0x%x: receive 0x%x, sge[%u]: %s; use a key of the %s PD "
		      "that covers the buffer with IBV_ACCESS_LOCAL_WRITE",
		      q->qp.qpn, q->rsp.rwqe.idx, g->which,
		      key_describe(q->qp.ctx->hca->keys, g->why, &g->refused, text, sizeof(text)),
		      q->qp.srq ? "SRQ's" : "QP's");
}
