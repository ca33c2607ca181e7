// SPDX-License-Identifier: MIT
#include "sim/net.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "link/copy.h"
#include "link/seg_pkt.h"
#include "wire/icrc.h"
#include "wire/packet.h"

static const uint8_t ip[20] = { 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17 },
		     udp[8] = { 0xc0, 0, 0x12, 0xb7 };

void net_mix(struct net *n, uint64_t x)
{
	n->hash ^= x;
	n->hash = rand_mix(&n->hash);
}

static void insert(struct net *n, struct flight *f)
{
	struct flight **p = &n->first;

	if (n->holds) {
		f->at -= n->now;
		f->next = NULL;
		for (p = &n->holds->held; *p; p = &(*p)->next)
			;
		*p = f;
		return;
	}
	f->order = n->order++;
	while (*p && (*p)->at <= f->at)
		p = &(*p)->next;
	f->next = *p;
	*p = f;
}

static struct flight *flight(struct net *n, uint32_t to, size_t len)
{
	struct flight *f = malloc(sizeof(*f) + len);

	if (!f)
		abort();
	f->at = n->now + n->cfg.delay;
	f->to = to;
	f->len = len;
	f->waiter = NULL;
	f->marked = false;
	return f;
}

static struct seg to_seg(const struct pkt *p, uint32_t mtu)
{
	struct seg s;

	seg_from_pkt(p, &s);
	if (opcode_operation(p->opcode) == OP_READ_REQUEST && p->dma_len > mtu)
		s.npsn = (p->dma_len + mtu - 1) / mtu;
	if (p->op->flags & WIRE_DETH)
		s.flags |= SEG_SQPN;
	return s;
}

static struct flight *packet(struct net *n, const struct seg *s)
{
	struct pkt p;
	struct flight *f = flight(n, s->dqpn, WIRE_HEADERS_MAX + s->len + 8);
	uint8_t *data = malloc(s->len + 1);

	seg_to_pkt(s, &p);
	p.payload = data;
	if (!data || copy_gather(data, s->pieces, s->npieces, 0, s->len) ||
	    wire_build(&p, f->bytes, f->len, &f->len))
		abort();
	free(data);
	icrc_put(f->bytes + f->len - 4,
		 icrc_more(icrc_begin(ip, udp, f->bytes), f->bytes + 12, f->len - 16));
	return f;
}

static bool is_payload(const struct seg *s)
{
	return s->len && opcode_service(s->op) != SVC_OWN && s->op != OP_CNP;
}

/* May this packet be lost? The same one only twice. */
static bool may_drop(struct net *n, const struct seg *s)
{
	uint64_t key = (uint64_t)s->dqpn << 32 | s->psn << 8 | s->op;
	uint8_t *count = &n->drops[rand_mix(&key) % sizeof(n->drops)];

	if (*count >= 2)
		return false;
	++*count;
	n->lost++;
	n->lost_payloads += is_payload(s);
	return true;
}

static void copy_flight(struct net *n, const struct flight *f)
{
	struct flight *c = flight(n, f->to, f->len);

	memcpy(c->bytes, f->bytes, f->len);
	c->at += rand_below(&n->rand, 4 * n->cfg.delay + 1);
	insert(n, c);
}

/* Through the part that all share. False: its queue is full. */
static bool pass(struct net *n, struct flight *f)
{
	uint64_t from = n->busy > n->now ? n->busy : n->now, ahead = (from - n->now) / n->cfg.slot;

	if (ahead >= n->cfg.queue) {
		n->overflows++;
		return false;
	}
	f->marked = n->cfg.mark && ahead >= n->cfg.mark;
	n->busy = from + n->cfg.slot;
	f->at += n->busy - n->now;
	return true;
}

static void send_packet(struct net *n, const struct seg *s)
{
	struct flight *f = packet(n, s);

	if (n->cfg.slot && is_payload(s) && !pass(n, f)) {
		free(f);
		return;
	}
	if (n->cut || n->sent == n->drop_at ||
	    (rand_chance(&n->rand, n->cfg.loss) && may_drop(n, s))) {
		free(f);
		return;
	}
	if (rand_chance(&n->rand, n->cfg.dup))
		copy_flight(n, f);
	if (rand_chance(&n->rand, n->cfg.late))
		f->at += rand_below(&n->rand, 4 * n->cfg.delay + 1);
	if (rand_chance(&n->rand, n->cfg.flip) && may_drop(n, s)) {
		uint64_t bit = rand_below(&n->rand, (f->len - 12) * 8);

		f->bytes[12 + bit / 8] ^= 1 << bit % 8;
	}
	insert(n, f);
}

static int send_segment(struct net *n, const struct seg *s)
{
	bool ref = n->cfg.max_ref && s->len > n->cfg.inline_max && s->pieces[0].key;
	struct flight *f = flight(n, s->dqpn, ref ? 0 : s->len);

	f->seg = *s;
	for (unsigned int i = 0; i < s->npieces; i++)
		f->pieces[i] = s->pieces[i];
	if (!ref && copy_gather(f->bytes, s->pieces, s->npieces, 0, s->len)) {
		free(f);
		return EFAULT;
	}
	if (ref)
		f->seg.flags |= SEG_BYREF;
	if (n->cut)
		free(f);
	else
		insert(n, f);
	return 0;
}

static void wait_for_space(struct net *n, struct waiter *w)
{
	struct flight *f = flight(n, 0, 0);

	f->waiter = w;
	insert(n, f);
}

static void end_flush(struct dest *d)
{
	struct net_end *e = (struct net_end *)d;
	struct flight *f;

	while ((f = e->held)) {
		e->held = f->next;
		f->at += e->net->now;
		insert(e->net, f);
	}
}

/* With seg.more a segment leaves by flush(). */
static int send_or_hold(struct net_end *e, const struct seg *s)
{
	struct net *n = e->net;
	int err = 0;

	if (s->more && e->d.ops->flush)
		n->holds = e;
	else
		end_flush(&e->d);
	if (n->cfg.same_host)
		err = send_segment(n, s);
	else
		send_packet(n, s);
	n->holds = NULL;
	return err;
}

static int end_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	struct net_end *e = (struct net_end *)d;
	struct net *n = e->net;

	if (e->refuse)
		return e->refuse;
	if (w && rand_chance(&n->rand, n->cfg.again)) {
		wait_for_space(n, w);
		return EAGAIN;
	}
	if (n->watch)
		n->watch(n->watch_arg, s);
	n->sent++;
	n->payloads += is_payload(s);
	net_mix(n, n->now);
	net_mix(n, (uint64_t)s->op << 56 | (uint64_t)s->psn << 32 | s->len << 8 | s->syndrome);
	return e->mute ? 0 : send_or_hold(e, s);
}

/* All that a link reads of such a segment. */
static int end_send_plain(struct dest *d, const struct seg *s)
{
	struct net *n = ((struct net_end *)d)->net;
	struct seg only = { .op = s->op,
			    .flags = s->flags,
			    .syndrome = s->syndrome,
			    .pkey = s->pkey,
			    .dqpn = s->dqpn,
			    .sqpn = s->sqpn,
			    .psn = s->psn,
			    .npsn = s->npsn,
			    .len = s->len,
			    .pieces = s->pieces,
			    .npieces = s->npieces,
			    .more = true };
	int err;

	if (s->flags & SEG_ACK) {
		only.ack_psn = s->ack_psn;
		only.ack_msn = s->ack_msn;
	}
	if (opcode_service(s->op) == SVC_UD) {
		only.qkey = s->qkey;
		only.grh = s->grh;
		only.l3 = s->l3;
		only.sl = s->sl;
		only.sport = s->sport;
	}
	if (rand_chance(&n->rand, n->cfg.again))
		return EAGAIN;
	err = end_send(d, &only, NULL);
	n->plain += !err;
	return err;
}

static int end_fetch(struct dest *d, const struct seg *s, uint32_t skip, const struct piece *dst,
		     unsigned int ndst)
{
	struct net_end *e = (struct net_end *)d;

	if (e->net->cfg.cannot_fetch) {
		e->net->no_reference++;
		return EPERM;
	}
	return copy_pieces(dst, ndst, s->pieces, s->npieces, skip);
}

static bool end_taken(struct dest *d, struct link_mark *mark)
{
	bool asked = mark->process;

	mark->process = 1;
	return asked && !((struct net_end *)d)->net->stopped;
}

static void end_cancel(struct dest *d, struct waiter *w)
{
	struct net_end *e = (struct net_end *)d;

	for (struct flight **p = &e->net->first; *p;) {
		struct flight *f = *p;

		if (f->waiter == w) {
			*p = f->next;
			free(f);
		} else {
			p = &f->next;
		}
	}
}

static void end_put(struct dest *d)
{
	(void)d;
}

static int end_direct(struct dest *d, struct direct_ask *ask)
{
	struct net *n = ((struct net_end *)d)->net;
	int err;

	if (!rand_chance(&n->rand, n->cfg.direct))
		return EAGAIN;
	err = n->direct(n->arg, ask);
	if (err)
		return err;
	net_mix(n, n->now);
	net_mix(n, (uint64_t)ask->sqpn << 33 | (uint64_t)ask->write << 32 | ask->len);
	net_mix(n, ask->va);
	return 0;
}

static struct link_ops ops_of(const struct net_config *cfg)
{
	bool predicted = cfg->prediction == NET_PREDICTED,
	     sends_many = cfg->prediction != NET_NO_PREDICTION || cfg->cork > 0;

	return (struct link_ops){
		.name = "net",
		.send = end_send,
		.send_plain = predicted ? end_send_plain : NULL,
		.fetch = end_fetch,
		.direct = cfg->direct > 0 ? end_direct : NULL,
		.flush = sends_many ? end_flush : NULL,
		.taken = cfg->cork > 0 ? NULL : end_taken,
		.cancel = end_cancel,
		.put = end_put,
	};
}

void net_end_init(struct net_end *e, struct net *n, uint32_t qpn)
{
	static const struct dest_net net;

	*e = (struct net_end){ .d = { .ops = &n->ops,
				      .refs = 1,
				      .max_seg = n->cfg.max_seg,
				      .max_ref = n->cfg.max_ref,
				      .inline_max = n->cfg.inline_max,
				      .same_host = n->cfg.same_host,
				      .net = n->cfg.window ? &net : NULL,
				      .window = n->cfg.window,
				      .abilities = n->cfg.abilities[n->ends++ % 2] },
			       .net = n,
			       .qpn = qpn };
}

void net_init(struct net *n, const struct net_config *cfg, uint64_t seed,
	      void (*deliver)(void *, uint32_t, struct seg *, uint64_t), void *arg)
{
	memset(n, 0, sizeof(*n));
	n->cfg = *cfg;
	n->ops = ops_of(cfg);
	n->deliver = deliver;
	n->arg = arg;
	rand_init(&n->rand, seed);
}

void net_end_fini(struct net_end *e)
{
	struct flight *f;

	while ((f = e->held)) {
		e->held = f->next;
		free(f);
	}
}

void net_fini(struct net *n)
{
	while (n->first) {
		struct flight *f = n->first;

		n->first = f->next;
		free(f);
	}
}

uint64_t net_next(const struct net *n)
{
	return n->first ? n->first->at : UINT64_MAX;
}

static void land_packet(struct net *n, struct flight *f)
{
	struct pkt p;
	struct seg s;

	if (icrc_get(f->bytes + f->len - 4) !=
		    icrc_more(icrc_begin(ip, udp, f->bytes), f->bytes + 12, f->len - 16) ||
	    wire_parse(f->bytes, f->len, &p))
		return;
	s = to_seg(&p, n->cfg.max_seg);
	s.marked = f->marked;
	n->deliver(n->arg, f->to, &s, n->now);
}

void net_step(struct net *n)
{
	struct flight *f = n->first;

	n->first = f->next;
	if (f->at > n->now)
		n->now = f->at;
	if (f->waiter) {
		f->waiter->resume(f->waiter);
	} else if (n->cfg.same_host) {
		f->seg.pieces = f->pieces;
		f->seg.data = f->bytes;
		if (n->cfg.prediction == NET_ORDINARY)
			f->seg.pkey = 0x7fff; /* a limited member's, which is taken as well */
		n->deliver(n->arg, f->to, &f->seg, n->now);
	} else {
		land_packet(n, f);
	}
	free(f);
}
