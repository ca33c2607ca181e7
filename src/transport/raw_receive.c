// SPDX-License-Identifier: MIT
#include <errno.h>
#include "hca/async.h"
#include "link/copy.h"
#include "link/parcel.h"
#include "obs/explain.h"
#include "transport/blame.h"
#include "transport/flush.h"
#include "transport/gather.h"
#include "transport/place.h"
#include "transport/raw_receive.h"
#include "transport/receive.h"
#include "util/be.h"
#include "wire/frame.h"
#include "wire/grh.h"
#include "wire/icrc.h"

#define KEEP_NS UINT64_C(1000000000)

enum { KEEP_MAX = 4 << 20 }; /* bytes of frames, more than the largest ring has room for */
enum { MACS = 12, TYPE_VLAN = 0x8100, SHIFT = 2 };

/* The bytes that are stored for a frame: runs, one behind the other. */
struct image {
	struct {
		const uint8_t *p;
		uint32_t len;
	} part[4];
	unsigned int n;
	uint32_t len;
	uint8_t fcs[FRAME_FCS_LEN];
};

static void add(struct image *m, const uint8_t *p, uint32_t len)
{
	m->part[m->n].p = p;
	m->part[m->n++].len = len;
	m->len += len;
}

/* Options of the receiving queue. */
struct wish {
	bool grh; /* a GRH area in front of the frame */
	bool strip; /* the outermost VLAN tag goes into the completion instead */
	bool fcs; /* the frame check sequence behind the frame */
	bool shift; /* SHIFT zero bytes in front of the frame */
};

static void image_of(const struct frame *f, const struct wish *w, struct image *m, struct cqe *c)
{
	static const uint8_t none[GRH_LEN];

	m->n = 0;
	m->len = 0;
	if (w->grh)
		add(m, none, GRH_LEN);
	if (w->shift)
		add(m, none, SHIFT);
	if (w->strip && f->outer.vlan && get_be16(f->buf + MACS) == TYPE_VLAN) {
		c->vlan = get_be16(f->buf + MACS + 2);
		add(m, f->buf, MACS);
		add(m, f->buf + MACS + FRAME_VLAN_LEN, f->len - MACS - FRAME_VLAN_LEN);
	} else {
		add(m, f->buf, f->len);
	}
	if (w->fcs) {
		icrc_put(m->fcs, frame_fcs(f->buf, f->len));
		add(m, m->fcs, FRAME_FCS_LEN);
	}
}

static bool both_right(const struct tqp *q, const struct frame *f)
{
	bool inner = q->qp.tunnels && (f->vxlan || f->gre) && f->inner.l3;
	const struct frame_layer *l = inner ? &f->inner : &f->outer;

	return l->l3 == FRAME_IP4 && frame_checksums(l) == (FRAME_L3_OK | FRAME_L4_OK);
}

#define HASH_TCP (FRAME_HASH_SRC_TCP | FRAME_HASH_DST_TCP)
#define HASH_UDP (FRAME_HASH_SRC_UDP | FRAME_HASH_DST_UDP)
#define HASH_IP4 (FRAME_HASH_SRC_IP4 | FRAME_HASH_DST_IP4)
#define HASH_IP6 (FRAME_HASH_SRC_IP6 | FRAME_HASH_DST_IP6)

/* The headers that the hash is of. */
static uint8_t hash_type(const struct frame *f, uint64_t fields)
{
	static const struct {
		uint64_t fields;
		uint8_t l3, l4, type;
	} kinds[] = { { HASH_IP4, FRAME_IP4, 0, CQE_HASH_IP4 },
		      { HASH_IP6, FRAME_IP6, 0, CQE_HASH_IP6 },
		      { HASH_TCP, 0, FRAME_TCP, CQE_HASH_TCP },
		      { HASH_UDP, 0, FRAME_UDP, CQE_HASH_UDP },
		      { FRAME_HASH_SPI, 0, FRAME_ESP, CQE_HASH_SPI } };
	const struct frame_layer *l = fields & FRAME_HASH_INNER ? &f->inner : &f->outer;
	uint8_t type = 0;

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (fields & kinds[i].fields && (!kinds[i].l3 || kinds[i].l3 == l->l3) &&
		    (!kinds[i].l4 || kinds[i].l4 == l->l4))
			type |= kinds[i].type;
	return type;
}

/* What entries of a CQ that compresses say of a frame, which found its work queue by @hash. Out of
 * line: few do. */
__attribute__((noinline)) static void describe(const struct tqp *q, const struct cq *cq,
					       const struct frame *f, uint32_t hash, struct cqe *c)
{
	if (cq_brief(cq) != MLX5DV_CQE_RES_FORMAT_HASH) {
		c->brief = frame_sum(f);
		return;
	}
	c->brief = hash;
	c->hash_type = hash_type(f, q->qp.hash.fields);
}

/* A receive WQE, or its bytes from @at on, and the keys of its SGEs. */
struct slot {
	const struct key_table *keys;
	const struct rwqe *w;
	uint32_t pdn;
	uint64_t at;
};

/* Stores @m in @at, which is long enough. 0; EACCES, EFAULT: *g says what refused. */
static int store(const struct slot *at, const struct image *m, struct gather *g)
{
	struct gather_ask ask = { at->w->sge, at->w->nsge, at->at,
				  0,	      at->pdn,	   IBV_ACCESS_LOCAL_WRITE };

	for (unsigned int i = 0; i < m->n; i++) {
		ask.len = m->part[i].len;
		if (!gather(at->keys, &ask, g))
			return EACCES;
		if (ask.len && copy_scatter(g->piece, g->n, 0, m->part[i].p, ask.len)) {
			g->why = KEY_OK;
			return EFAULT;
		}
		ask.skip += ask.len;
	}
	return 0;
}

/* Stores the frame in the receive that was taken, and completes it. */
static void to_queue(struct tqp *q, const struct seg *s, const struct frame *f, uint64_t now)
{
	const struct wish wish = { !q->qp.service->frames,
				   q->qp.create_flags & IBV_QP_CREATE_CVLAN_STRIPPING,
				   q->qp.create_flags & IBV_QP_CREATE_SCATTER_FCS };
	const struct pd *pd = q->qp.srq ? q->qp.srq->pd : q->qp.pd;
	struct slot at = { q->qp.ctx->hca->keys, &q->rsp.rwqe, pd->pdn, 0 };
	struct cqe c = { .opcode = MLX5_CQE_RESP_SEND,
			 .grh = wish.grh,
			 .csum_ok = both_right(q, f),
			 .uidx = q->qp.uidx,
			 .qpn = s->flow_tag,
			 .timestamp = now };
	struct refusal no = { V_LOCAL_PROT, 0 };
	struct image m;
	struct gather g;

	image_of(f, &wish, &m, &c);
	if (m.len > q->rsp.rwqe.len) {
		no.v = V_LOCAL_LENGTH;
		no.id = blame_short(q, s, m.len, q->rsp.rwqe.len);
		place_fail(q, &no, now);
		return;
	}
	if (store(&at, &m, &g)) {
		no.id = blame_receive(q, &g);
		place_fail(q, &no, now);
		return;
	}
	c.wqe_counter = q->rsp.rwqe.idx;
	c.byte_cnt = m.len;
	if (unlikely(cq_brief(q->qp.rcq)))
		describe(q, q->qp.rcq, f, 0, &c);
	q->rsp.have_rwqe = false;
	if (receive_push(q, q->qp.rcq, &c) == EOVERFLOW)
		flush_overrun(q, q->qp.rcq, now);
}

/* --- frames that wait for a receive --- */

static void keep(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct responder *r = &q->rsp;
	struct parcel *p;
	uint32_t size = (uint32_t)sizeof(*p) + s->len;

	if (r->frame_bytes + size > KEEP_MAX || !q->qp.service->frames ||
	    parcel_make(s, false, &p)) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_OUT_OF_BUFFER);
		return;
	}
	p->next = NULL;
	p->at = now + KEEP_NS;
	if (r->frames)
		r->last_frame->next = p;
	else
		r->frames = p;
	r->last_frame = p;
	r->frame_bytes += size;
	store_relaxed(&q->rnr_waiting, true); /* doorbell_rq() notes it */
	if (p->at < q->deadline)
		q->deadline = p->at;
}

static void drop_first(struct tqp *q)
{
	struct responder *r = &q->rsp;
	struct parcel *p = r->frames;

	r->frames = p->next;
	r->frame_bytes -= (uint32_t)sizeof(*p) + p->seg.len;
	parcel_free(p);
	if (!r->frames)
		store_relaxed(&q->rnr_waiting, false);
}

void raw_receive_forget(struct tqp *q)
{
	while (q->rsp.frames)
		drop_first(q);
}

void raw_receive_expire(struct tqp *q, uint64_t now)
{
	while (q->rsp.frames && q->rsp.frames->at <= now) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_OUT_OF_BUFFER);
		drop_first(q);
	}
	if (q->rsp.frames && q->rsp.frames->at < q->deadline)
		q->deadline = q->rsp.frames->at;
}

void raw_receive_doorbell(struct tqp *q, uint64_t now)
{
	struct frame f;

	while (q->rsp.frames && q->qp.state != IBV_QPS_ERR && !receive_take(q)) {
		const struct seg *s = &q->rsp.frames->seg;

		frame_parse(s->data, s->len, &f);
		to_queue(q, s, &f, now);
		if (q->rsp.frames)
			drop_first(q);
	}
}

/* --- work queues --- */

static struct wish wish_of(const struct wq *wq)
{
	return (struct wish){ .strip = wq->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING,
			      .fcs = wq->flags & IBV_WQ_FLAGS_SCATTER_FCS,
			      .shift = wq->strides.form.shift };
}

/* The WQE @w cannot take the frame: completes it with an error and stops the WQ. Under the WQ's
 * lock. */
static void wq_refuse(struct wq *wq, const struct rwqe *w, struct cqe *c, enum verdict v,
		      uint64_t id)
{
	const struct fate *f = fate_at_responder(v, false);

	c->opcode = MLX5_CQE_RESP_ERR;
	c->syndrome = f->receive.syndrome;
	c->vendor_err = f->receive.vendor;
	c->reason = id;
	c->app_op = 0;
	c->wqe_counter = w->idx;
	strides_end(&wq->strides); /* it gets no second entry */
	cq_push(wq->cq, c);
	wq_stop(wq);
}

/* Under the WQ's lock. Stores the frame from byte @at of @w on, and writes its entry. */
static void wq_store(struct tqp *q, struct wq *wq, const struct rwqe *w, uint64_t at,
		     const struct image *m, struct cqe *c)
{
	struct slot slot = { q->qp.ctx->hca->keys, w, wq->pd->pdn, at };
	struct gather g;

	if (at + m->len > w->len) {
		wq_refuse(wq, w, c, V_LOCAL_LENGTH, blame_wq_short(wq, w, at, m->len));
		return;
	}
	if (store(&slot, m, &g)) {
		wq_refuse(wq, w, c, V_LOCAL_PROT, blame_wq_receive(wq, w, &g));
		return;
	}
	if (receive_push(q, wq->cq, c) == EOVERFLOW)
		wq_stop(wq);
}

/* Under the WQ's lock. ENOENT: no receive is posted. */
static int to_wqe(struct tqp *q, struct wq *wq, const struct frame *f, struct cqe *c)
{
	const struct wish wish = wish_of(wq);
	struct image m;
	struct rwqe w;

	if (rq_take(&wq->rq, &w))
		return ENOENT;
	image_of(f, &wish, &m, c);
	c->wqe_counter = w.idx;
	c->byte_cnt = m.len;
	wq_store(q, wq, &w, 0, &m, c);
	return 0;
}

_Static_assert(FRAME_MAX + FRAME_FCS_LEN < 1 << CQE_STRIDES_SHIFT, "bytes of an entry's count");

static void strided(const struct wq *wq, const struct stride_run *r, uint32_t low, struct cqe *c)
{
	c->app_op = CQE_STRIDED;
	c->wqe_id = wq->strides.wqe.idx;
	c->wqe_counter = (uint16_t)r->first;
	c->byte_cnt = low | r->n << CQE_STRIDES_SHIFT;
}

/* Under the WQ's lock. The strides of @r stay empty; the WQE that they end is the program's. */
static void pass_over(struct wq *wq, const struct stride_run *r, uint64_t now)
{
	struct cqe c = { .opcode = MLX5_CQE_RESP_SEND, .uidx = wq->uidx, .timestamp = now };

	strided(wq, r, CQE_FILLER, &c);
	if (cq_push(wq->cq, &c) == EOVERFLOW)
		wq_stop(wq);
}

/* As to_wqe(), to a striding WQ. */
static int to_strides(struct tqp *q, struct wq *wq, const struct frame *f, struct cqe *c)
{
	const struct wish wish = wish_of(wq);
	const struct rwqe *w = &wq->strides.wqe;
	enum strides_found found;
	struct stride_run run;
	struct image m;

	image_of(f, &wish, &m, c);
	found = strides_take(&wq->strides, &wq->rq, m.len, &run);
	if (found == STRIDES_REST) {
		pass_over(wq, &run, c->timestamp);
		if (wq->state != IBV_WQS_RDY)
			return ENOENT;
		found = strides_take(&wq->strides, &wq->rq, m.len, &run);
	}
	if (found == STRIDES_NONE)
		return ENOENT;
	if (found == STRIDES_LONG) {
		wq_refuse(wq, w, c, V_LOCAL_LENGTH, blame_wq_short(wq, w, 0, m.len));
		return 0;
	}
	strided(wq, &run, m.len - (wish.shift ? SHIFT : 0), c);
	wq_store(q, wq, w, strides_at(&wq->strides, run.first), &m, c);
	return 0;
}

static void to_work_queue(struct tqp *q, const struct seg *s, const struct frame *f, uint64_t now)
{
	const struct qp_hash *h = &q->qp.hash;
	uint32_t hash = frame_hash(f, h->fields, h->key);
	struct wq *wq = h->table->wq[hash & (h->table->n - 1)];
	struct cqe c = { .opcode = MLX5_CQE_RESP_SEND,
			 .csum_ok = both_right(q, f),
			 .uidx = wq->uidx,
			 .qpn = s->flow_tag,
			 .timestamp = now };
	bool failed = false;
	int err = ENOENT;

	spin_lock(&wq->lock);
	if (wq->state == IBV_WQS_RDY) {
		if (unlikely(cq_brief(wq->cq)))
			describe(q, wq->cq, f, hash, &c);
		err = wq_strides(wq) ? to_strides(q, wq, f, &c) : to_wqe(q, wq, f, &c);
		failed = wq->state == IBV_WQS_ERR;
	}
	spin_unlock(&wq->lock);
	if (err)
		counters_inc(q->qp.ctx->hca->counters, COUNTER_OUT_OF_BUFFER);
	if (failed)
		async_push(wq->pd->ctx, IBV_EVENT_WQ_FATAL, wq->user);
}

void raw_receive(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct frame f;

	frame_parse(s->data, s->len, &f);
	if (s->sqpn == q->qp.qpn && frame_is_multicast(&f) &&
	    (q->qp.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB))
		return;
	if (q->qp.hash.table)
		to_work_queue(q, s, &f, now);
	else if (q->rsp.frames || receive_take(q))
		keep(q, s, now);
	else
		to_queue(q, s, &f, now);
}
