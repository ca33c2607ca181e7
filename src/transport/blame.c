// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "hca/limits.h"
#include "net/gid.h"
#include "obs/explain.h"
#include "transport/blame.h"
#include "transport/sent.h"
#include "util/be.h"
#include "wire/frame.h"
#include "wire/opcode.h"

enum { SILENCE = GROUNDS_TEXT + 16, WORK = 80, PEER = 32 };

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
	case MLX5_OPCODE_ATOMIC_MASKED_CS:
		return "masked compare and swap";
	case MLX5_OPCODE_ATOMIC_MASKED_FA:
		return "masked fetch and add";
	case WQE_OPCODE_ATOMIC_WRITE:
		return "atomic write";
	case MLX5_OPCODE_TSO:
		return "TSO";
	case MLX5_OPCODE_MMO:
		return "copy";
	default:
		return "work request";
	}
}

/* "RDMA WRITE of 64 B (wr_id 0x1)": without a number where the program has given none. */
static const char *work(const struct tqp *q, uint8_t opcode, uint32_t len, uint32_t block,
			char buf[WORK])
{
	uint64_t id = qp_wr_id(&q->qp.sq_ids, block);
	int n = snprintf(buf, WORK, "%s of %u B", wqe_name(opcode), len);

	if (id && n > 0 && n < WORK)
		snprintf(buf + n, WORK - (size_t)n, " (wr_id 0x%llx)", (unsigned long long)id);
	return buf;
}

static const char *sent_work(const struct tqp *q, const struct sent *e, char buf[WORK])
{
	if (!(e->flags & SENT_INNER))
		return work(q, e->opcode, e->len, e->block, buf);
	snprintf(buf, WORK, "%s of %u B", wqe_name(e->opcode), e->len);
	return buf;
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
	case OP_MASKED_SWAP:
		return "masked compare and swap";
	case OP_MASKED_ADD:
		return "masked fetch and add";
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

/* Who posts it: a program that writes the ring itself has called nothing. */
static const char *poster(const struct tqp *q, const struct wqe *w, char buf[WORK])
{
	if (!q->qp.laid_open)
		return "ibv_post_send";
	snprintf(buf, WORK, "WQE 0x%x", w->idx);
	return buf;
}

static uint64_t blame_sge(const struct tqp *q, const struct wqe *w, const struct gather *g)
{
	char text[192], what[WORK], who[WORK];

	if (g->why == KEY_OK)
		return reason("%s: %s on QP 0x%x: memory of its scatter/gather "
			      "list is not mapped any more; keep it mapped until the completion",
			      poster(q, w, who), work(q, w->opcode, w->len, w->idx, what),
			      q->qp.qpn);
	return reason("%s: %s on QP 0x%x: sge[%u]: %s; use a key of the QP's PD "
		      "that covers the buffer%s",
		      poster(q, w, who), work(q, w->opcode, w->len, w->idx, what), q->qp.qpn,
		      g->which,
		      key_describe(q->qp.ctx->hca->keys, g->why, &g->refused, text, sizeof(text)),
		      g->refused.need ? " with IBV_ACCESS_LOCAL_WRITE" : "");
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA ||
	       wqe_is_masked(opcode) || opcode == WQE_OPCODE_ATOMIC_WRITE;
}

static bool is_read(const struct wqe *w)
{
	return w->opcode == MLX5_OPCODE_RDMA_READ || is_atomic(w->opcode);
}

/* It was just started, at its block of a ring that the program writes. */
static bool is_misplaced(const struct tqp *q, const struct wqe *w)
{
	const struct requester *r = &q->req;

	return q->qp.laid_open && r->cur + 1 == r->tail &&
	       (w->idx != sent_at(r, r->cur)->block || w->qpn != q->qp.qpn);
}

/* What it needs that its ds does not have. */
static uint64_t blame_size(const struct tqp *q, const struct wqe *w, const char *name)
{
	uint16_t block = sent_at(&q->req, q->req.cur)->block;

	switch ((enum wqe_wrong)w->wrong) {
	case WQE_EMPTY:
		return reason("%s has ds 0; count its segments of 16 B in ds, the control segment "
			      "too",
			      name);
	case WQE_TOO_LONG:
		return reason("%s has ds %u, that is %u blocks of 64 B, and the doorbell record "
			      "posts %u from there on; write its real size into ds, and count all "
			      "its blocks in the doorbell record",
			      name, w->ds, w->nbb, (q->req.next_block - block) & 0xffff);
	case WQE_INLINE_CUT_OFF:
		return reason("%s brings %u B of inline data, and its ds of %u ends before them; "
			      "count them in ds, or bring fewer",
			      name, w->len, w->ds);
	case WQE_MANY_SGES:
		return reason("%s has more than %d data segments; split it", name, WQE_MAX_SGE);
	case WQE_MASKED_SIZE:
		return reason("%s, a masked atomic, has opmod %u; this device has those on 8 "
			      "bytes, whose opmod is %d",
			      name, w->opmod, WQE_MASKED_8);
	case WQE_COMPACT_AV:
		return reason(
			"%s has the address vector of 16 B, which names a LID, and RoCE needs "
			"a GID; write the one of 48 B, as mlx5dv_init_obj() gives it for an "
			"AH, and set bit 31 of dqp_dct",
			name);
	default:
		return reason("%s has ds %u, its opcode needs %u segments before the data; count "
			      "all of them in ds",
			      name, w->ds, wqe_fixed_segs(&q->qp.sq, block, q->qp.service->wqe));
	}
}

uint64_t blame_changed(const struct tqp *q, const struct wqe *w)
{
	return reason("WQE 0x%x (opcode 0x%x) on %s QP 0x%x was changed while it was outstanding; "
		      "leave a posted WQE alone until it completes",
		      w->idx, w->opcode, type_name(q), q->qp.qpn);
}

/* The program changed it after it was started. */
static bool is_changed(const struct tqp *q, const struct wqe *w)
{
	const struct sent *e = sent_at(&q->req, q->req.cur);

	return q->req.cur != q->req.tail && (w->opcode != e->opcode || w->len != e->len);
}

static uint64_t blame_malformed(const struct tqp *q, const struct wqe *w)
{
	char name[80];

	snprintf(name, sizeof(name), "WQE 0x%x (opcode 0x%x) on %s QP 0x%x", w->idx, w->opcode,
		 type_name(q), q->qp.qpn);
	if (is_misplaced(q, w))
		return reason(
			"WQE 0x%x of QP 0x%x at block 0x%x in the ring of QP 0x%x: it has not "
			"been written, or is for another place; write index and number into "
			"each WQE, and then the doorbell record",
			w->idx, w->qpn, sent_at(&q->req, q->req.cur)->block, q->qp.qpn);
	if (is_changed(q, w))
		return blame_changed(q, w);
	if (w->wrong != WQE_RIGHT)
		return blame_size(q, w, name);
	if (w->opcode == WQE_OPCODE_ATOMIC_WRITE &&
	    service_takes(q->qp.service, IBV_WR_ATOMIC_WRITE))
		return reason(
			"WQE 0x%x on QP 0x%x: opcode 0x%x is softhca's own for atomic writes; "
			"create the QP with IBV_QP_EX_WITH_ATOMIC_WRITE, or post by the verbs",
			w->idx, q->qp.qpn, w->opcode);
	if (w->opcode == WQE_OPCODE_BIND_MW && service_takes(q->qp.service, IBV_WR_BIND_MW))
		return reason(
			"WQE 0x%x on QP 0x%x: opcode 0x%x is softhca's own for binding windows; "
			"bind by the verbs",
			w->idx, q->qp.qpn, w->opcode);
	if (w->opcode == MLX5_OPCODE_SET_PSV)
		return reason("%s sets a PSV, and this device has none: a signature's seeds and "
			      "tags stand in the BSF of the mkey; write them there by a UMR, or "
			      "call mlx5dv_wr_set_mkey_sig_block",
			      name);
	if (w->opcode == MLX5_OPCODE_MMO && q->qp.service->copies)
		return reason("%s is no copy: it has opmod %u and %u data segments; a copy has "
			      "opmod 1 and two of equal length, at most %d B",
			      name, w->opmod, w->nsge, LIMIT_MEMCPY);
	if (is_read(w) && w->inlined)
		return reason("%s has inline data where its answer lands; give it data segments",
			      name);
	return reason("%s: %s QPs have no operation of that opcode; use another opcode, or another "
		      "type of QP",
		      name, type_name(q));
}

uint64_t blame_wqe(const struct tqp *q, const struct wqe *w, enum verdict v, const struct gather *g)
{
	char what[WORK], who[WORK];

	if (v == V_LOCAL_PROT && g)
		return blame_sge(q, w, g);
	if (v == V_LOCAL_LENGTH && q->qp.service->one_packet)
		return reason("%s: %s on UD QP 0x%x exceeds the MTU of %u B; send less",
			      poster(q, w, who), work(q, w->opcode, w->len, w->idx, what),
			      q->qp.qpn, q->req.mtu);
	if (v == V_LOCAL_LENGTH && q->qp.service->frames)
		return reason("%s: %s on RAW_PACKET QP 0x%x: headers of %u B and %u B "
			      "of data (mss %u); a frame has 14..%d B, a TSO send at most %d B of "
			      "data and headers up to TCP; stay within",
			      poster(q, w, who), wqe_name(w->opcode), q->qp.qpn, w->head_len,
			      w->len, w->mss, FRAME_MAX, LIMIT_TSO);
	if (v == V_LOCAL_LENGTH && !is_atomic(w->opcode))
		return reason("%s: the SGEs of the %s on QP 0x%x add up to more than "
			      "2^31 B, a message's most; split it",
			      poster(q, w, who), wqe_name(w->opcode), q->qp.qpn);
	if (v == V_LOCAL_LENGTH)
		return reason("%s: %s on QP 0x%x has a %s of %u B, an atomic needs 8 B; "
			      "give it 8",
			      poster(q, w, who), wqe_name(w->opcode), q->qp.qpn,
			      w->opcode == WQE_OPCODE_ATOMIC_WRITE ? "payload" : "result buffer",
			      w->len);
	if (w->wrong == WQE_RIGHT && is_read(w) && q->qp.service->reliable &&
	    !q->qp.attr.max_rd_atomic)
		return reason("%s: %s on QP 0x%x with max_rd_atomic 0; set "
			      "IBV_QP_MAX_QP_RD_ATOMIC in ibv_modify_qp to RTS",
			      poster(q, w, who), wqe_name(w->opcode), q->qp.qpn);
	return blame_malformed(q, w);
}

uint64_t blame_window(const struct tqp *q, const struct wqe *w, const char *why)
{
	if (w->opcode == MLX5_OPCODE_LOCAL_INVAL)
		return reason("ibv_post_send: LOCAL_INV of rkey 0x%x on QP 0x%x: %s",
			      be32toh(w->imm), q->qp.qpn, why);
	if (w->opcode == MLX5_OPCODE_UMR)
		return reason("UMR of mkey 0x%x on QP 0x%x: %s", be32toh(w->imm), q->qp.qpn, why);
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

/* What the peer has said about @e. */
static bool peers_words(const struct tqp *q, const struct sent *e, char text[SILENCE])
{
	char clause[GROUNDS_TEXT];

	if (!psn_within(q->req.told.psn, e->psn, e->npsn) ||
	    !grounds_text(&q->req.told.what, clause))
		return false;
	snprintf(text, SILENCE, "peer: %s", clause);
	return true;
}

/* What answers, or should: a DC initiator's program knows the target's number alone. */
static const char *peer_name(const struct tqp *q, const struct wqe *w, char buf[PEER])
{
	if (q->qp.service->wqe == WQE_DC)
		snprintf(buf, PEER, "DC target 0x%x", w->dqpn);
	else
		snprintf(buf, PEER, "QP 0x%x", q->qp.attr.dest_qp_num);
	return buf;
}

/* The work request of @e, as far as it can still be read. */
static struct wqe reread(struct tqp *q, const struct sent *e)
{
	struct wqe w = { .raddr = 0 };

	if (!sent_reread(q, e, &w))
		w.raddr = w.rkey = w.dqpn = w.srqn = 0;
	return w;
}

/* Since this QP was last brought to RTS. A DC initiator may have asked another target before. */
static bool has_answered(const struct tqp *q)
{
	return q->qp.service->wqe != WQE_DC && q->req.una != (q->qp.attr.sq_psn & PSN_MASK);
}

/* Of a peer behind a network. */
static void network_silence(const struct tqp *q, const struct wqe *w, const struct link_silence *l,
			    char *text)
{
	const struct dest_net *net = link_ends(q->dest);
	char to[INET6_ADDRSTRLEN];

	gid_text(&net->remote, to, sizeof(to));
	if (l->no_neighbour)
		snprintf(text, SILENCE,
			 "no neighbour answers for %s; is it the peer's address, and its host up?",
			 to);
	else if (l->answers && q->qp.service->wqe == WQE_DC)
		snprintf(text, SILENCE,
			 "the softhca of %s answers, the DC target does not; is it there, and in "
			 "RTR?",
			 to);
	else if (l->answers && q->qp.service->wqe == WQE_XRC)
		snprintf(text, SILENCE,
			 "the softhca of %s answers, the QP does not; is it there, in RTR or RTS, "
			 "connected to this QP and address, and does a process there have SRQ "
			 "0x%x?",
			 to, w->srqn);
	else if (l->answers)
		snprintf(text, SILENCE,
			 "the softhca of %s answers, the QP does not; is it there, in RTR or RTS, "
			 "and connected to this QP and address?",
			 to);
	else if (has_answered(q))
		snprintf(text, SILENCE,
			 "%s answered earlier requests, and nothing comes back any more; has its "
			 "program ended, its QP gone to ERR, or the way there broken?",
			 to);
	else
		snprintf(
			text, SILENCE,
			"%lu packets left for %s, and nothing came back; does a program run there, "
			"and is UDP port 4791 open both ways?",
			(unsigned long)l->sent, to);
}

/* Of a process of this host. */
static void process_silence(const struct tqp *q, const struct wqe *w, const struct link_silence *l,
			    char *text)
{
	if (l->ended && l->pid)
		snprintf(text, SILENCE, "its process %d has ended; end the connection", l->pid);
	else if (l->ended)
		snprintf(text, SILENCE, "its process has ended; end the connection");
	else if (l->layout)
		snprintf(text, SILENCE,
			 "its process runs on another version of softhca (layout %u), which this "
			 "one cannot reach; start all programs of a host on one version",
			 l->layout);
	else if (l->unreached == ECONNREFUSED && q->qp.service->wqe == WQE_XRC)
		snprintf(text, SILENCE,
			 "no process of this host has SRQ 0x%x; has it ended, or is "
			 "xrc.remote_srqn wrong (ibv_get_srq_num)?",
			 w->srqn);
	else if (l->unreached == ECONNREFUSED)
		snprintf(text, SILENCE,
			 "no process of this host has that number; has it ended, or is the number "
			 "wrong?");
	else if (l->unreached)
		snprintf(text, SILENCE, "its process cannot be reached (%s); is it stuck?",
			 strerror(l->unreached));
	else if (link_is_lossless(q->dest) && !q->req.doubt)
		snprintf(text, SILENCE,
			 "its process takes what is sent, and answers nothing; is it a softhca of "
			 "this version, and is a thread of it stuck?");
	else
		snprintf(text, SILENCE,
			 "is the peer alive, its QP in RTR or RTS, connected to this QP, and its "
			 "rq_psn this sq_psn?");
}

/* Why no answer came, as far as it is known, and what to do. */
static void silence(struct tqp *q, const struct sent *e, const struct wqe *w, char text[SILENCE])
{
	struct link_silence l = { 0 };

	if (q->dest)
		dest_silence(q->dest, &l);
	if (!l.ended && peers_words(q, e, text))
		return;
	if (l.refused)
		snprintf(text, SILENCE, "the kernel of this host refused %lu packets (%s); %s",
			 (unsigned long)l.refusals, strerror(l.refused), kernel_remedy(l.refused));
	else if (q->req.doubt == DOUBT_PSN)
		snprintf(text, SILENCE,
			 "it answers PSNs that were not sent; make its rq_psn this QP's sq_psn "
			 "(0x%x)",
			 q->qp.attr.sq_psn);
	else if (q->req.elsewhere)
		snprintf(text, SILENCE,
			 "answers came from another address or port than its; connect to the "
			 "address that it sends from");
	else if (link_ends(q->dest))
		network_silence(q, w, &l, text);
	else
		process_silence(q, w, &l, text);
}

static uint64_t blame_silence(struct tqp *q, const struct sent *e, const struct wqe *w)
{
	const struct ibv_qp_attr *a = &q->qp.attr;
	char text[SILENCE], what[WORK], peer[PEER];

	silence(q, e, w, text);
	return reason("%s on QP 0x%x: no answer from %s after %u tries of 4.096 us * "
		      "2^%u (retry_cnt %u): %s",
		      sent_work(q, e, what), q->qp.qpn, peer_name(q, w, peer), a->retry_cnt + 1U,
		      a->timeout, a->retry_cnt, text);
}

/* What the peer has said about @e itself, or what can be said without it. */
static const char *remedy(const struct tqp *q, const struct sent *e, enum verdict v,
			  char text[SILENCE])
{
	if (v != V_LOCAL_PROT && v != V_BAD_RESPONSE && peers_words(q, e, text))
		return text;
	switch (v) {
	case V_RNR_EXCEEDED:
		return e->flags & SENT_READ ? "try again later or set rnr_retry to 7"
					    : "post receives earlier or set rnr_retry to 7";
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
	struct wqe w = reread(q, e);
	char text[SILENCE], what[WORK], peer[PEER];
	const char *why;

	if (v == V_RETRY_EXCEEDED)
		return blame_silence(q, e, &w);
	why = remedy(q, e, v, text);
	peer_name(q, &w, peer);
	if (v == V_RNR_EXCEEDED)
		return reason("%s on QP 0x%x: %s had no %s at %u tries (rnr_retry %u): %s",
			      sent_work(q, e, what), q->qp.qpn, peer,
			      e->flags & SENT_READ ? "room for the answer" : "receive posted",
			      q->qp.attr.rnr_retry + 1U, q->qp.attr.rnr_retry, why);
	if (is_send(e->opcode))
		return reason("%s on QP 0x%x, refused by %s (vendor_err 0x%x): %s",
			      sent_work(q, e, what), q->qp.qpn, peer, fate_at_requester(v)->vendor,
			      why);
	return reason("%s on QP 0x%x to 0x%lx, rkey 0x%x, refused by %s (vendor_err "
		      "0x%x): %s",
		      sent_work(q, e, what), q->qp.qpn, (unsigned long)w.raddr, w.rkey, peer,
		      fate_at_requester(v)->vendor, why);
}

static uint64_t blame_refused(const struct tqp *q, const struct seg *s, const char *what)
{
	bool atomic = s->op == OP_COMPARE_SWAP || s->op == OP_FETCH_ADD || opcode_is_masked(s->op);

	if (!atomic && !opcode_has(s->op, WIRE_RETH))
		return reason("%s of %u B by QP 0x%x refused by QP 0x%x: %s", blame_name(s->op),
			      s->len, q->qp.attr.dest_qp_num, q->qp.shown, what);
	return reason("%s of %u B to 0x%lx by QP 0x%x refused by QP 0x%x: %s", blame_name(s->op),
		      atomic ? 8 : s->dma_len, (unsigned long)s->va, q->qp.attr.dest_qp_num,
		      q->qp.shown, what);
}

uint64_t blame_request(struct tqp *q, const struct seg *s, struct grounds what)
{
	char text[GROUNDS_TEXT];

	q->rsp.grounds = what;
	return blame_refused(q, s, grounds_text(&what, text));
}

uint64_t blame_invalidate(struct tqp *q, const struct seg *s, const char *why)
{
	q->rsp.grounds = (struct grounds){ GROUNDS_INVALIDATE };
	return blame_refused(q, s, why);
}

uint64_t blame_rkey(struct tqp *q, const struct seg *s, enum key_verdict why,
		    const struct key_ask *ask)
{
	char text[192];

	q->rsp.grounds = grounds_of_key(q->qp.ctx->hca->keys, why, ask);
	if (why == KEY_OK)
		return reason(
			"%s of %lu B to 0x%lx by QP 0x%x failed at QP 0x%x: that memory is not "
			"mapped any more; deregister an MR before you unmap it",
			blame_name(s->op), (unsigned long)ask->len, (unsigned long)ask->va,
			q->qp.attr.dest_qp_num, q->qp.shown);
	return reason("%s of %lu B to 0x%lx by QP 0x%x refused by QP 0x%x: %s; give the peer an "
		      "rkey of this QP's PD that covers and allows it",
		      blame_name(s->op), (unsigned long)ask->len, (unsigned long)ask->va,
		      q->qp.attr.dest_qp_num, q->qp.shown,
		      key_describe(q->qp.ctx->hca->keys, why, ask, text, sizeof(text)));
}

uint64_t blame_short(struct tqp *q, const struct seg *s, uint64_t need, uint64_t have)
{
	q->rsp.grounds =
		(struct grounds){ q->qp.service->one_packet ? GROUNDS_SHORT_GRH : GROUNDS_SHORT,
				  { have, need } };
	return reason("%s to QP 0x%x brings at least %lu B%s, the receive has room for %lu B; post "
		      "larger receives",
		      blame_name(s->op), q->qp.shown, (unsigned long)need,
		      q->qp.service->one_packet ? " with 40 B of GRH" : "", (unsigned long)have);
}

/* By the program's number; by the slot's where there is none. */
/* A program that writes the ring itself has no wr_ids. */
static const char *receive_name(uint64_t wr_id, const struct rwqe *w, char buf[32])
{
	if (wr_id)
		snprintf(buf, 32, "wr_id 0x%llx", (unsigned long long)wr_id);
	else
		snprintf(buf, 32, "0x%x", w->idx);
	return buf;
}

static const char *receive_of(const struct tqp *q, char buf[32])
{
	const struct rwqe *w = &q->rsp.rwqe;

	return receive_name(q->qp.srq ? srq_wr_id(q->qp.srq, w->idx)
				      : rq_ring_wr_id(&q->qp.rq.ring, w->idx),
			    w, buf);
}

uint64_t blame_receive(struct tqp *q, const struct gather *g)
{
	char text[192], which[32];

	q->rsp.grounds = (struct grounds){ GROUNDS_RECEIVE_UNMAPPED };
	if (g->why != KEY_OK)
		q->rsp.grounds = (struct grounds){ GROUNDS_RECEIVE_KEY, { g->which } };
	if (g->why == KEY_OK)
		return reason("ibv_post_recv: QP 0x%x: the memory of receive %s is not mapped any "
			      "more; keep it mapped until the completion",
			      q->qp.shown, receive_of(q, which));
	return reason("ibv_post_recv: QP 0x%x: receive %s, sge[%u]: %s; use a key of the %s PD "
		      "that covers the buffer with IBV_ACCESS_LOCAL_WRITE",
		      q->qp.shown, receive_of(q, which), g->which,
		      key_describe(q->qp.ctx->hca->keys, g->why, &g->refused, text, sizeof(text)),
		      q->qp.srq ? "SRQ's" : "QP's");
}

uint64_t blame_wq_receive(const struct wq *wq, const struct rwqe *w, const struct gather *g)
{
	const char *name = receive_name(rq_ring_wr_id(&wq->rq.ring, w->idx), w, (char[32]){ 0 });
	char text[192];

	if (g->why == KEY_OK)
		return reason("ibv_post_wq_recv: WQ 0x%x: the memory of receive %s is not mapped "
			      "any more; keep it mapped until the completion",
			      wq->wqn, name);
	return reason(
		"ibv_post_wq_recv: WQ 0x%x: receive %s, sge[%u]: %s; use a key of the "
		"WQ's PD that covers the buffer with IBV_ACCESS_LOCAL_WRITE",
		wq->wqn, name, g->which,
		key_describe(wq->pd->ctx->hca->keys, g->why, &g->refused, text, sizeof(text)));
}

uint64_t blame_wq_short(const struct wq *wq, const struct rwqe *w, uint64_t at, uint32_t len)
{
	const struct stride_form *form = &wq->strides.form;
	unsigned int size = 1U << form->size_log, count = 1U << form->count_log;

	if (!wq_strides(wq))
		return reason("frame of %u B: the receive of WQ 0x%x has %lu B; post larger ones",
			      len, wq->wqn, (unsigned long)w->len);
	if (len > (uint64_t)size * count)
		return reason("frame of %u B: a receive of WQ 0x%x has %u strides of %u B; create "
			      "it with more or larger ones (mlx5dv_create_wq)",
			      len, wq->wqn, count, size);
	return reason(
		"frame of %u B at byte %lu of receive 0x%x of WQ 0x%x, whose SGEs have %lu B; "
		"post receives of %u strides of %u B",
		len, (unsigned long)at, w->idx, wq->wqn, (unsigned long)w->len, count, size);
}
