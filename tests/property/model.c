// SPDX-License-Identifier: MIT
#include "property/model.h"

uint32_t op_len(const struct program *p, const struct op *o)
{
	return o->sin == SIN_LONG ? p->max_len + 64 : o->len;
}

unsigned int messages(const struct plan *p, unsigned int ops)
{
	unsigned int n = 0;

	for (unsigned int k = 0; k < ops; k++)
		n += takes_receive(&p->op[k]);
	return n;
}

unsigned int message_number(const struct plan *p, unsigned int k)
{
	return messages(p, k);
}

unsigned int message_op(const struct plan *p, unsigned int ops, unsigned int n)
{
	for (unsigned int k = 0; k < ops; k++)
		if (takes_receive(&p->op[k]) && !n--)
			return k;
	return NONE;
}

static unsigned int count(const struct view *v, unsigned int side, bool sends)
{
	const struct plan *p = &v->l->ep[v->ep].side[side];
	unsigned int n = 0, all = sends ? p->ops : p->recvs;

	for (unsigned int i = 0; i < p->steps; i++) {
		if (v->p->off[program_index(v->link, v->ep, side, i)])
			continue;
		if (p->step[i].kind == (sends ? S_SEND : S_RECV))
			n += p->step[i].n;
		else if (sends && p->step[i].kind == S_CHAIN)
			n++;
	}
	return n < all ? n : all;
}

static bool kills(const struct view *v, unsigned int proc)
{
	for (unsigned int l = 0; l < v->p->links; l++)
		for (unsigned int i = 0; i < EPISODES * SIDES * STEPS; i++) {
			unsigned int e = i / (SIDES * STEPS), s = i / STEPS % SIDES, k = i % STEPS;
			const struct plan *p = &v->p->link[l].ep[e].side[s];

			if (v->p->link[l].proc[s] == proc && k < p->steps &&
			    p->step[k].kind == S_KILL && !v->p->off[program_index(l, e, s, k)])
				return true;
		}
	return false;
}

static bool sins(const struct plan *p, unsigned int ops, unsigned int recvs)
{
	for (unsigned int k = 0; k < ops; k++)
		if (p->op[k].sin)
			return true;
	for (unsigned int r = 0; r < recvs; r++)
		if (p->recv[r].sin)
			return true;
	return false;
}

static bool breaks(const struct view *v, unsigned int side, unsigned int ops, unsigned int recvs)
{
	const struct plan *p = &v->l->ep[v->ep].side[side];

	for (unsigned int i = 0; i < p->steps; i++)
		if (p->step[i].kind >= S_DEREG &&
		    !v->p->off[program_index(v->link, v->ep, side, i)])
			return true;
	return sins(p, ops, recvs) || kills(v, v->l->proc[side]) || p->rnr_retry != 7;
}

/* The first operation that waits for a receive which is never posted. */
static unsigned int starved(const struct view *v)
{
	if (!reliable(v->l) || v->l->srq[!v->side])
		return v->ops;
	for (unsigned int k = 0, n = 0; k < v->ops; k++)
		if (takes_receive(&v->mine->op[k]) && n++ == v->their_recvs)
			return k;
	return v->ops;
}

void view_make(struct view *v, const struct program *p, unsigned int link, unsigned int ep,
	       unsigned int side)
{
	const struct link *l = &p->link[link];

	*v = (struct view){ .p = p,
			    .l = l,
			    .link = link,
			    .ep = ep,
			    .side = side,
			    .mine = &l->ep[ep].side[side],
			    .theirs = &l->ep[ep].side[!side] };
	v->ops = count(v, side, true);
	v->their_ops = count(v, !side, true);
	v->recvs = l->srq[side] ? 0 : count(v, side, false);
	v->their_recvs = l->srq[!side] ? 0 : count(v, !side, false);
	v->sure = starved(v);
	v->due = messages(v->theirs, v->their_ops);
	if (!l->srq[side] && v->due > v->recvs)
		v->due = v->recvs;
	v->i_break = breaks(v, side, v->ops, v->recvs);
	v->they_break = breaks(v, !side, v->their_ops, v->their_recvs);
	if (l->ep[ep].skewed)
		v->i_break = v->they_break = true;
}

static bool recv_sins(const struct plan *p, unsigned int recvs)
{
	return sins(p, 0, recvs);
}

static bool has_dereg(const struct view *v, unsigned int side)
{
	const struct plan *p = &v->l->ep[v->ep].side[side];

	for (unsigned int i = 0; i < p->steps; i++)
		if (p->step[i].kind == S_DEREG)
			return true;
	return false;
}

/* A key that the peer refuses. A bad one to invalidate is class J: it answers nothing. */
static enum ibv_wc_status refused_key(const struct op *o)
{
	return o->opcode == IBV_WR_SEND_WITH_INV ? IBV_WC_RETRY_EXC_ERR : IBV_WC_REM_ACCESS_ERR;
}

/* The status that its sin brings; SUCCESS: none must. */
static enum ibv_wc_status wage(const struct view *v, const struct op *o)
{
	switch (o->sin) {
	case SIN_LKEY:
		return IBV_WC_LOC_PROT_ERR;
	case SIN_RKEY:
	case SIN_RIGHT:
	case SIN_BOUNDS:
	case SIN_STALE:
		return refused_key(o);
	case SIN_WINDOW:
		return is_local(o) ? IBV_WC_MW_BIND_ERR : refused_key(o);
	case SIN_SRQ:
	case SIN_UNALIGNED:
	case SIN_LONG:
		return IBV_WC_REM_INV_REQ_ERR;
	case SIN_FICKLE:
		return has_dereg(v, v->side) ? IBV_WC_LOC_PROT_ERR : refused_key(o);
	default:
		return IBV_WC_SUCCESS;
	}
}

static bool writes_receive(const struct op *o)
{
	return takes_receive(o) && !is_write(o) && o->len;
}

static bool meets_bad_receive(const struct view *v, unsigned int k)
{
	const struct op *o = &v->mine->op[k];
	unsigned int n = message_number(v->mine, k);

	return writes_receive(o) && n < v->their_recvs && v->theirs->recv[n].sin;
}

/* The peer takes it for one from the future. */
static bool meets_skew(const struct view *v, const struct op *o)
{
	return v->l->ep[v->ep].skewed == 1 + !v->side && takes_receive(o);
}

bool model_send_may(const struct view *v, unsigned int k, enum ibv_wc_status s, bool failed,
		    bool moved)
{
	const struct op *o = &v->mine->op[k];
	bool rc = reliable(v->l);

	if (failed)
		return s == IBV_WC_WR_FLUSH_ERR;
	switch (s) {
	case IBV_WC_SUCCESS:
		return (!o->sin || o->sin == SIN_FICKLE) && k < v->sure && !meets_skew(v, o) &&
		       !(rc && meets_bad_receive(v, k));
	case IBV_WC_WR_FLUSH_ERR:
		return moved || v->they_break || recv_sins(v->mine, v->recvs);
	case IBV_WC_REM_OP_ERR:
		return rc && meets_bad_receive(v, k);
	case IBV_WC_RETRY_EXC_ERR:
		return rc && (moved || v->they_break || recv_sins(v->theirs, v->their_recvs) ||
			      recv_sins(v->mine, v->recvs) || s == wage(v, o));
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return rc && v->mine->rnr_retry != 7 && takes_receive(o);
	default:
		return s == wage(v, o);
	}
}

/* Without acknowledgements message @n is the earliest that it can be: others may have been lost. */
static bool long_from(const struct view *v, unsigned int n)
{
	for (unsigned int k = 0; k < v->their_ops; k++)
		if (v->theirs->op[k].sin == SIN_LONG && message_number(v->theirs, k) >= n)
			return true;
	return false;
}

/* A message of opcode @op whose key this side refuses. */
static bool bad_key(const struct op *o, enum ibv_wr_opcode op)
{
	if (!o || o->opcode != op)
		return false;
	switch (o->sin) {
	case SIN_RKEY:
	case SIN_RIGHT:
	case SIN_BOUNDS:
	case SIN_STALE:
	case SIN_WINDOW:
	case SIN_FICKLE:
		return true;
	default:
		return false;
	}
}

bool model_recv_may(const struct view *v, unsigned int r, unsigned int n, enum ibv_wc_status s,
		    bool failed, bool moved)
{
	const struct op *o = n == NONE ? NULL : &v->theirs->op[n];
	bool bad = r != NONE && v->mine->recv[r].sin;
	bool rc = reliable(v->l);

	if (failed)
		return s == IBV_WC_WR_FLUSH_ERR;
	switch (s) {
	case IBV_WC_SUCCESS:
		return rc ? o && !(bad && writes_receive(o)) && o->sin != SIN_LONG : true;
	case IBV_WC_WR_FLUSH_ERR:
		return moved || v->they_break || v->i_break;
	case IBV_WC_LOC_LEN_ERR:
		return rc ? o && o->sin == SIN_LONG : long_from(v, n);
	case IBV_WC_LOC_PROT_ERR:
		return bad && (!rc || (o && writes_receive(o)));
	case IBV_WC_LOC_ACCESS_ERR:
		return rc && bad_key(o, IBV_WR_RDMA_WRITE_WITH_IMM);
	case IBV_WC_REM_INV_REQ_ERR:
		return rc && bad_key(o, IBV_WR_SEND_WITH_INV);
	default:
		return false;
	}
}

bool model_flushed_unsent(const struct op *first, enum ibv_wc_status s)
{
	/* of what comes in: found out after the others had left; a key that went away meanwhile:
	 * found out when it was sent again, and the others were executed the first time */
	if (s == IBV_WC_LOC_PROT_ERR)
		return !brings(first) && first->sin != SIN_FICKLE;
	return s == IBV_WC_REM_ACCESS_ERR || s == IBV_WC_REM_INV_REQ_ERR || s == IBV_WC_MW_BIND_ERR;
}
