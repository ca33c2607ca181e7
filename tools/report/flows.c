// SPDX-License-Identifier: MIT
#include "flows.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "util/be.h"
#include "wire/aeth.h"
#include "wire/ip.h"
#include "wire/packet.h"

enum { ETH_LEN = 14, UDP = 17 };

#define NOBODY UINT32_MAX

struct parsed {
	struct pkt pkt;
	char from[FLOWS_ADDR], to[FLOWS_ADDR];
};

/* --- what stands in a packet --- */

static size_t parse_ip(const uint8_t *ip, size_t len, struct parsed *out)
{
	int family = AF_INET;
	size_t head = IP4_LEN;

	if (len >= IP6_LEN && ip[0] >> 4 == 6 && ip[6] == UDP) {
		family = AF_INET6;
		head = IP6_LEN;
	} else if (len < IP4_LEN || ip[0] != 0x45 || ip[9] != UDP) {
		return 0;
	}
	inet_ntop(family, ip + (head == IP4_LEN ? 12 : 8), out->from, sizeof(out->from));
	inet_ntop(family, ip + (head == IP4_LEN ? 16 : 24), out->to, sizeof(out->to));
	return head;
}

static bool parse(const struct capture_packet *p, struct parsed *out)
{
	const uint8_t *udp;
	size_t len, ip;

	if (p->len < ETH_LEN)
		return false;
	len = p->len - ETH_LEN;
	ip = parse_ip(p->frame + ETH_LEN, len, out);
	if (!ip || len < ip + UDP_LEN)
		return false;
	udp = p->frame + ETH_LEN + ip;
	return get_be16(udp + 2) == UDP_ROCE_PORT &&
	       !wire_parse(udp + UDP_LEN, len - ip - UDP_LEN, &out->pkt);
}

/* Where @text stands in the comment, or NULL. */
static const char *said(const struct capture_packet *p, const char *text)
{
	return p->comment ? memmem(p->comment, p->comment_len, text, strlen(text)) : NULL;
}

/* The queue pair that has written the comment; 0: it does not say so. */
static uint32_t own_qpn(const struct capture_packet *p)
{
	char digits[9] = "";
	size_t n;

	if (!said(p, "QP 0x") || said(p, "QP 0x") != p->comment)
		return 0;
	n = p->comment_len - 5;
	memcpy(digits, p->comment + 5, n < sizeof(digits) - 1 ? n : sizeof(digits) - 1);
	return (uint32_t)strtoul(digits, NULL, 16);
}

/* --- ends --- */

static int find_end(struct flows *f, const char *addr, uint32_t qpn, uint32_t *out)
{
	struct flows_end *more;

	for (*out = 0; *out < f->n_ends; ++*out)
		if (f->ends[*out].qpn == qpn && !strcmp(f->ends[*out].addr, addr))
			return 0;
	more = reallocarray(f->ends, f->n_ends + 1, sizeof(*more));
	if (!more)
		return ENOMEM;
	f->ends = more;
	f->ends[*out] = (struct flows_end){ .qpn = qpn, .peer = NOBODY };
	strcpy(f->ends[*out].addr, addr);
	f->n_ends++;
	return 0;
}

static void describe(const struct parsed *p, struct flows_hop *h)
{
	uint8_t syndrome = p->pkt.syndrome;

	h->op = p->pkt.opcode;
	h->psn = p->pkt.psn;
	h->bytes = (uint32_t)p->pkt.payload_len;
	if (!opcode_has(h->op, WIRE_AETH))
		return;
	if (aeth_kind(syndrome) == AETH_RNR)
		h->fate |= FLOWS_RNR;
	else if (aeth_kind(syndrome) == AETH_NAK)
		h->fate |= FLOWS_NAK;
}

/* A hop of which one end is known: the other packet of it is looked for later. */
static int add(struct flows *f, const struct capture_packet *c)
{
	struct flows_hop *h = &f->hops[f->n_hops];
	uint32_t own = own_qpn(c);
	struct parsed p = { 0 };
	int err;

	if (!own || !parse(c, &p)) {
		f->others++;
		return 0;
	}
	*h = (struct flows_hop){ .from = NOBODY };
	describe(&p, h);
	err = find_end(f, p.to, p.pkt.dqpn, &h->to);
	if (!err && c->outbound)
		err = find_end(f, p.from, own, &h->from);
	else if (!err)
		err = find_end(f, p.from, 0, &h->from); /* the header does not say more */
	if (err)
		return err;
	f->ends[c->outbound ? h->from : h->to].traced = true;
	if (c->outbound) {
		h->sent = c->time;
		h->out = c;
	} else {
		h->came = c->time;
		h->in = c;
		h->fate |= said(c, "; reason: ") ? FLOWS_REFUSED : 0;
	}
	f->n_hops++;
	return 0;
}

/* --- both packets of a hop become one --- */

uint64_t flows_time(const struct flows_hop *h)
{
	return h->sent ? h->sent : h->came;
}

static int by_time(const void *a, const void *b)
{
	const struct flows_hop *p = a, *q = b;

	if (flows_time(p) != flows_time(q))
		return flows_time(p) < flows_time(q) ? -1 : 1;
	return p->sent && q->sent ? (p->out > q->out) - (p->out < q->out) : !!q->sent - !!p->sent;
}

/* Hops that may be the same packet stand together, by time. */
static int by_packet(const void *a, const void *b)
{
	const struct flows_hop *p = a, *q = b;

	if (p->to != q->to)
		return p->to < q->to ? -1 : 1;
	if (p->psn != q->psn)
		return p->psn < q->psn ? -1 : 1;
	if (p->op != q->op)
		return p->op < q->op ? -1 : 1;
	if (p->bytes != q->bytes)
		return p->bytes < q->bytes ? -1 : 1;
	return by_time(a, b);
}

static bool same_packet(const struct flows *f, const struct flows_hop *out,
			const struct flows_hop *in)
{
	return out->to == in->to && out->psn == in->psn && out->op == in->op &&
	       out->bytes == in->bytes && out->out && !out->in && in->in && !in->out &&
	       !strcmp(f->ends[out->from].addr, f->ends[in->from].addr);
}

/* The packet that came at @in is the one that left at @i. */
static bool join(struct flows *f, size_t i, size_t in)
{
	struct flows_hop *h = &f->hops[i], *came = &f->hops[in];

	if (!same_packet(f, h, came) || said(h->out, "verdict: lost"))
		return false;
	h->in = came->in;
	h->came = came->came;
	h->fate |= came->fate;
	came->from = NOBODY;
	return true;
}

/* The latest that left before it came, and has not come: of a packet that was sent again, what was
 * lost is what was sent first. If the clocks of two hosts differ, the next that left. */
static void join_one(struct flows *f, size_t in)
{
	uint32_t psn = f->hops[in].psn, to = f->hops[in].to;

	for (size_t i = in; i-- && f->hops[i].psn == psn && f->hops[i].to == to;)
		if (join(f, i, in))
			return;
	for (size_t i = in + 1; i < f->n_hops && f->hops[i].psn == psn && f->hops[i].to == to; i++)
		if (join(f, i, in))
			return;
}

static void join_all(struct flows *f)
{
	size_t kept = 0;

	qsort(f->hops, f->n_hops, sizeof(*f->hops), by_packet);
	for (size_t i = 0; i < f->n_hops; i++)
		if (!f->hops[i].out)
			join_one(f, i);
	for (size_t i = 0; i < f->n_hops; i++)
		if (f->hops[i].from != NOBODY)
			f->hops[kept++] = f->hops[i];
	f->n_hops = kept;
	qsort(f->hops, f->n_hops, sizeof(*f->hops), by_time);
}

/* --- what went wrong --- */

/* The sender of what came alone: the QP that @h->to sends to. */
static void guess_sender(struct flows *f, struct flows_hop *h)
{
	uint32_t peer = f->ends[h->to].peer;

	if (!h->out && peer != NOBODY && !strcmp(f->ends[peer].addr, f->ends[h->from].addr))
		h->from = peer;
}

/* Of services that repeat. */
static void note_order(struct flows *f, struct flows_hop *h)
{
	struct flows_end *from = &f->ends[h->from], *to = &f->ends[h->to];
	uint8_t service = opcode_service(h->op);

	from->peer = h->to;
	if (service != SVC_RC && service != SVC_XRC)
		return;
	if (opcode_has(h->op, WIRE_REQUEST)) {
		if (from->asked && !psn_after(h->psn, from->max_psn))
			h->fate |= FLOWS_AGAIN;
		else
			from->max_psn = h->psn;
		from->asked = from->open = true;
	} else if (!(h->fate & (FLOWS_NAK | FLOWS_RNR | FLOWS_LOST)) && to->asked &&
		   !psn_before(h->psn, to->max_psn) &&
		   (!opcode_has(h->op, WIRE_PAYLOAD) || opcode_has(h->op, WIRE_LAST))) {
		to->open = false;
	}
}

static const char *why_stalled(const struct flows_hop *last, const struct flows_hop *next)
{
	if (last->fate & FLOWS_RNR)
		return "the receiver had no receive posted (RNR)";
	if (last->fate & FLOWS_LOST)
		return next->fate & FLOWS_AGAIN ? "a packet was lost; it went again"
						: "a packet was lost";
	if (next->fate & FLOWS_AGAIN)
		return "no answer came; the request went again";
	return "no packet, though an answer is due";
}

static void note_stall(struct flows *f, const struct flows_hop *last, size_t at)
{
	const struct flows_hop *h = &f->hops[at];

	if (flows_time(h) - flows_time(last) < FLOWS_STALL_NS)
		return;
	f->stalls[f->n_stalls++] =
		(struct flows_stall){ flows_time(last), flows_time(h), at, why_stalled(last, h) };
}

static bool is_between(const struct flows_hop *h, const struct flows_hop *other)
{
	return (h->from == other->from && h->to == other->to) ||
	       (h->from == other->to && h->to == other->from);
}

/* The hop before @at of the same two ends; it is looked for among the latest only. */
static const struct flows_hop *last_before(const struct flows *f, size_t at)
{
	for (size_t i = at; i-- && at - i < 4096;)
		if (is_between(&f->hops[i], &f->hops[at]))
			return &f->hops[i];
	return NULL;
}

static void judge(struct flows *f)
{
	for (size_t i = 0; i < f->n_hops; i++) {
		struct flows_hop *h = &f->hops[i];
		const struct flows_hop *last;
		bool open;

		guess_sender(f, h);
		if (h->out && !h->in && f->ends[h->to].traced)
			h->fate |= FLOWS_LOST;
		last = last_before(f, i);
		open = f->ends[h->from].open || f->ends[h->to].open;
		note_order(f, h);
		if (last && open)
			note_stall(f, last, i);
	}
}

int flows_make(const struct capture *c, struct flows *out)
{
	int err = 0;

	*out = (struct flows){ .hops = calloc(c->count + 1, sizeof(*out->hops)),
			       .stalls = calloc(c->count + 1, sizeof(*out->stalls)) };
	if (!out->hops || !out->stalls)
		err = ENOMEM;
	for (size_t i = 0; !err && i < c->count; i++)
		err = add(out, &c->packets[i]);
	if (err) {
		flows_free(out);
		return err;
	}
	join_all(out);
	judge(out);
	return 0;
}

void flows_free(struct flows *f)
{
	free(f->ends);
	free(f->hops);
	free(f->stalls);
	*f = (struct flows){ 0 };
}
