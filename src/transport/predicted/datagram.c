// SPDX-License-Identifier: MIT
#include "transport/blocked.h"
#include "transport/completion.h"
#include "transport/predicted/kept_path.h"
#include "transport/predicted/predicted.h"
#include "transport/receive.h"
#include "transport/request.h"
#include "transport/sent.h"
#include "transport/ud.h"
#include "util/be.h"
#include "util/guard.h"

/* --- sending --- */

/* Has the requester nothing else to do, and is the path of the last datagram still good? */
static bool may_send(const struct tqp *q, uint64_t now)
{
	const struct requester *r = &q->req;
	const struct kept_path *k = r->ud.kept;

	return q->qp.service->wire == SVC_UD && k && k->has_grh && k->until > now &&
	       !dest_dead(k->dest) && k->dest->ops->send_plain && r->sent && r->cur == r->tail &&
	       !r->blocked && !r->ud.full && !r->pace.kbps && !q->qp.laid_open && q->qp.sq.cnt;
}

enum { AV_FORM = 8 }; /* the byte of an address vector that is not 0 in the form with a GID */

/* Does the address vector @raw of a WQE lead where @k does? */
static bool leads(struct kept_path *k, const uint8_t *raw)
{
	struct mlx5_wqe_av copy;
	struct av av;

	if (likely(!memcmp(k->raw, raw, sizeof(k->raw)) && k->raw[AV_FORM]))
		return true;
	memcpy(&copy, raw, sizeof(copy));
	av_decode(&copy, &av);
	if (!av_is_extended(&copy) || !kept_path_is(k, &av, be32toh(copy.dqp_dct) & 0xffffff))
		return false;
	memcpy(k->raw, &copy, sizeof(k->raw));
	return true;
}

static void resize(struct kept_path *k, uint32_t len)
{
	grh_resize(k->grh, (uint16_t)(GRH_UD_BYTES + len));
	k->len = len;
}

static uint32_t qkey(const struct tqp *q, const struct kept_path *k)
{
	uint32_t key = get_be32(k->raw);

	return key & UD_PRIVILEGED_QKEY ? q->qp.attr.qkey : key;
}

static void sent(struct tqp *q, const struct wqe_single *w, uint64_t now)
{
	struct requester *r = &q->req;

	predicted_sent(q, w);
	r->una = r->psn = r->max_psn = r->next_psn;
	completion_done(q, now);
}

/* Sends the next work request, of @avail posted blocks. */
static bool send_next(struct tqp *q, uint16_t avail, uint64_t now)
{
	struct kept_path *k = q->req.ud.kept;
	const uint8_t *raw;
	struct wqe_single w;
	struct piece piece;
	struct seg s;

	/* The list stands in the second block. */
	if (avail < 2 || !wqe_single_datagram(&q->qp.sq, q->req.next_block, q->qp.qpn, &w, &raw) ||
	    w.nbb > avail || w.sge.len > q->req.mtu || w.sge.len > k->dest->inline_max ||
	    !leads(k, raw) || !predicted_piece(q, &w, 0, &piece))
		return false;
	if (k->len != w.sge.len)
		resize(k, w.sge.len);
	s.op = SVC_UD | OP_SEND_ONLY;
	s.flags = SEG_SQPN | (w.solicited ? SEG_SOLICITED : 0);
	s.syndrome = 0;
	s.pkey = 0xffff;
	s.dqpn = k->dqpn;
	s.sqpn = q->qp.qpn;
	s.psn = q->req.next_psn;
	s.npsn = 1;
	s.qkey = qkey(q, k);
	s.sport = 0;
	s.l3 = k->l3;
	s.sl = 0;
	s.grh = k->grh;
	s.len = w.sge.len;
	s.pieces = &piece;
	s.npieces = 1;
	if (k->dest->ops->send_plain(k->dest, &s))
		return false;
	blocked_over(q, k->dest);
	sent(q, &w, now);
	return true;
}

bool predicted_datagrams(struct tqp *q, uint64_t now)
{
	const struct kept_path *k = q->req.ud.kept;
	bool any = false;
	uint16_t avail;

	if (!may_send(q, now))
		return false;
	while ((avail = sent_posted(q)) && q->qp.state == IBV_QPS_RTS && send_next(q, avail, now))
		any = true;
	if (any)
		k->dest->ops->flush(k->dest);
	return !avail;
}

/* --- receiving --- */

/* With nothing but payload and the header of a process of this host */
static bool is_usual(const struct tqp *q, const struct seg *s)
{
	const uint16_t other = (uint16_t) ~(SEG_SQPN | SEG_SOLICITED);

	return s->op == (SVC_UD | OP_SEND_ONLY) && !(s->flags & other) && s->grh &&
	       s->qkey == q->qp.attr.qkey && s->len <= q->req.mtu && s->pkey == 0xffff;
}

static bool may_receive(const struct tqp *q)
{
	enum ibv_qp_state state = q->qp.state;

	return (state == IBV_QPS_RTS || state == IBV_QPS_RTR) && q->qp.service->wire == SVC_UD &&
	       !q->qp.srq && !load_relaxed(&q->qp.inlines) && !q->rsp.have_rwqe;
}

/* Copies it into the next receive, which is not taken yet. */
static bool place(struct tqp *q, const struct seg *s)
{
	struct key_ask ask = { .pdn = q->qp.pd->pdn,
			       .len = GRH_LEN + s->len,
			       .need = IBV_ACCESS_LOCAL_WRITE };
	uint64_t addr;

	return predicted_room(q, &ask, &addr) &&
	       !guard_copy((void *)(uintptr_t)addr, s->grh, GRH_LEN) &&
	       !guard_copy((void *)(uintptr_t)(addr + GRH_LEN), s->data, s->len);
}

bool predicted_datagram(struct tqp *q, const struct seg *s, uint64_t now)
{
	if (!is_usual(q, s) || !may_receive(q) || !place(q, s))
		return false;
	q->rsp.rwqe.idx = q->qp.rq.head++;
	ud_complete(q, s, now);
	return true;
}
