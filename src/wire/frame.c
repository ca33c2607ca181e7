// SPDX-License-Identifier: MIT
#include "wire/frame.h"
#include <string.h>
#include "util/be.h"
#include "util/crc.h"
#include "wire/ip.h"

enum {
	TYPE_IP4 = 0x0800,
	TYPE_IP6 = 0x86dd,
	TYPE_VLAN = 0x8100,
	TYPE_QINQ = 0x88a8,
	TYPE_MPLS = 0x8847,
	TYPE_MPLS_MCAST = 0x8848,
	TYPE_BRIDGED = 0x6558,
	PROTO_HOPS = 0,
	PROTO_TCP = 6,
	PROTO_UDP = 17,
	PROTO_ROUTE = 43,
	PROTO_FRAGMENT = 44,
	PROTO_GRE = 47,
	PROTO_ESP = 50,
	PROTO_OPTIONS = 60,
	PORT_VXLAN = 4789,
	PORT_MPLS = 6635,
	TCP_LEN = 20,
	VXLAN_LEN = 8,
};

/* What is left of a frame. */
struct rest {
	const uint8_t *p;
	uint32_t len;
};

static const uint8_t *take(struct rest *r, uint32_t n)
{
	const uint8_t *p = r->p;

	if (n > r->len)
		return NULL;
	r->p += n;
	r->len -= n;
	return p;
}

static void layer4(struct frame_layer *l, struct rest *r, uint32_t stated)
{
	static const struct {
		uint8_t proto, l4, min;
	} kinds[] = { { PROTO_TCP, FRAME_TCP, TCP_LEN },
		      { PROTO_UDP, FRAME_UDP, UDP_LEN },
		      { PROTO_ESP, FRAME_ESP, 8 } };

	l->cut = stated > r->len;
	l->l4_head = r->p;
	l->l4_len = l->cut ? r->len : stated;
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (l->proto == kinds[i].proto && r->len >= kinds[i].min)
			l->l4 = kinds[i].l4;
}

static bool layer_ip4(struct frame_layer *l, struct rest *r)
{
	const uint8_t *ip = r->p;
	uint32_t head, total;

	if (r->len < IP4_LEN || ip[0] >> 4 != 4)
		return false;
	head = (ip[0] & 15) * 4U;
	if (head < IP4_LEN || !take(r, head))
		return false;
	l->ip = ip;
	l->l3 = FRAME_IP4;
	l->proto = ip[9];
	if (get_be16(ip + 6) & 0x1fff)
		return false; /* not the first fragment */
	total = get_be16(ip + 2);
	layer4(l, r, total > head ? total - head : r->len);
	return true;
}

static bool layer_ip6(struct frame_layer *l, struct rest *r)
{
	const uint8_t *ip = take(r, IP6_LEN), *ext;
	uint32_t stated, skipped = 0, n;

	if (!ip || ip[0] >> 4 != 6)
		return false;
	l->ip = ip;
	l->l3 = FRAME_IP6;
	l->proto = ip[6];
	stated = get_be16(ip + 4);
	while (l->proto == PROTO_HOPS || l->proto == PROTO_ROUTE || l->proto == PROTO_OPTIONS ||
	       l->proto == PROTO_FRAGMENT) {
		if (r->len < 8)
			return false;
		n = l->proto == PROTO_FRAGMENT ? 8 : (r->p[1] + 1U) * 8;
		ext = take(r, n);
		if (!ext || (l->proto == PROTO_FRAGMENT && (get_be16(ext + 2) & 0xfff8)))
			return false;
		l->proto = ext[0];
		skipped += n;
	}
	layer4(l, r, stated > skipped ? stated - skipped : 0);
	return true;
}

static bool layer3(struct frame_layer *l, struct rest *r, uint16_t type)
{
	if (type == TYPE_IP4)
		return layer_ip4(l, r);
	return type == TYPE_IP6 && layer_ip6(l, r);
}

static bool layer2(struct frame_layer *l, struct rest *r)
{
	const uint8_t *eth = take(r, FRAME_ETH_LEN), *tag;

	if (!eth)
		return false;
	l->eth = eth;
	l->ether_type = get_be16(eth + 12);
	while (l->ether_type == TYPE_VLAN || l->ether_type == TYPE_QINQ) {
		tag = take(r, FRAME_VLAN_LEN);
		if (!tag)
			return false;
		l->vlan = tag;
		l->ether_type = get_be16(tag + 2);
	}
	return true;
}

/* Labels down to the last; then IP, as its version says. */
static bool labels(struct frame *f, struct frame_layer *l, struct rest *r)
{
	const uint8_t *label;

	do {
		label = take(r, 4);
		if (!label)
			return false;
		if (!f->mpls)
			f->mpls = label;
	} while (!(label[2] & 1));
	if (!r->len)
		return false;
	return layer3(l, r, r->p[0] >> 4 == 4 ? TYPE_IP4 : r->p[0] >> 4 == 6 ? TYPE_IP6 : 0);
}

static void in_gre(struct frame *f, struct rest *r)
{
	const uint8_t *gre = take(r, 4);
	uint32_t more;
	uint16_t type;

	if (!gre)
		return;
	more = (gre[0] & 0x80 ? 4 : 0) + (gre[0] & 0x20 ? 4 : 0) + (gre[0] & 0x10 ? 4 : 0);
	if (!take(r, more))
		return;
	f->gre = gre;
	type = get_be16(gre + 2);
	if (type == TYPE_MPLS || type == TYPE_MPLS_MCAST)
		labels(f, &f->inner, r);
	else if (type != TYPE_BRIDGED)
		layer3(&f->inner, r, type);
	else if (layer2(&f->inner, r))
		layer3(&f->inner, r, f->inner.ether_type);
}

static void in_udp(struct frame *f, struct rest *r)
{
	uint16_t port = get_be16(r->p + 2);

	take(r, UDP_LEN);
	if (port == PORT_MPLS) {
		labels(f, &f->inner, r);
	} else if (port == PORT_VXLAN) {
		f->vxlan = take(r, VXLAN_LEN);
		if (f->vxlan && layer2(&f->inner, r))
			layer3(&f->inner, r, f->inner.ether_type);
	}
}

void frame_parse(const uint8_t *buf, uint32_t len, struct frame *f)
{
	struct rest r = { buf, len };
	struct frame_layer *o = &f->outer;
	bool ip;

	*f = (struct frame){ .buf = buf, .len = len };
	if (!layer2(o, &r))
		return;
	ip = o->ether_type == TYPE_MPLS || o->ether_type == TYPE_MPLS_MCAST
		     ? labels(f, o, &r)
		     : layer3(o, &r, o->ether_type);
	if (!ip)
		return;
	if (o->proto == PROTO_GRE)
		in_gre(f, &r);
	else if (o->l4 == FRAME_UDP)
		in_udp(f, &r);
}

bool frame_is_multicast(const struct frame *f)
{
	return f->outer.eth && (f->outer.eth[0] & 1);
}

/* --- checksums: sums of 16-bit words as they stand in memory; order does not matter to them --- */

static uint64_t sum(const uint8_t *p, size_t n, uint64_t acc)
{
	uint32_t v;
	uint16_t w = 0;

	for (; n >= sizeof(v); n -= sizeof(v), p += sizeof(v)) {
		memcpy(&v, p, sizeof(v));
		acc += v;
	}
	if (n >= sizeof(w)) {
		memcpy(&w, p, sizeof(w));
		acc += w;
		p += sizeof(w);
		n -= sizeof(w);
	}
	w = 0;
	memcpy(&w, p, n);
	return acc + w;
}

static uint16_t fold(uint64_t acc)
{
	while (acc >> 16)
		acc = (acc & 0xffff) + (acc >> 16);
	return (uint16_t)~acc;
}

static uint64_t pseudo(const struct frame_layer *l)
{
	uint8_t tail[8] = { 0 };
	uint64_t acc = l->l3 == FRAME_IP4 ? sum(l->ip + 12, 8, 0) : sum(l->ip + 8, 32, 0);

	put_be32(tail, l->l4_len);
	tail[7] = l->proto;
	return sum(tail, sizeof(tail), acc);
}

static uint16_t l4_sum(const struct frame_layer *l)
{
	return fold(sum(l->l4_head, l->l4_len, pseudo(l)));
}

static bool has_l4_sum(const struct frame_layer *l)
{
	return (l->l4 == FRAME_TCP && l->l4_len >= TCP_LEN) ||
	       (l->l4 == FRAME_UDP && l->l4_len >= UDP_LEN);
}

static bool l4_right(const struct frame_layer *l)
{
	if (!has_l4_sum(l) || l->cut || (l->l3 == FRAME_IP4 && (l->ip[6] & 0x20)))
		return false; /* none, or of more than this fragment */
	if (l->l4 == FRAME_UDP && l->l3 == FRAME_IP4 && !get_be16(l->l4_head + 6))
		return true;
	return !l4_sum(l);
}

unsigned int frame_checksums(const struct frame_layer *l)
{
	unsigned int ok = 0;

	if (l->l3 == FRAME_IP6 ||
	    (l->l3 == FRAME_IP4 && !fold(sum(l->ip, (l->ip[0] & 15) * 4U, 0))))
		ok |= FRAME_L3_OK;
	if (l->l3 && l4_right(l))
		ok |= FRAME_L4_OK;
	return ok;
}

void frame_checksums_fill(uint8_t *buf, uint32_t len, unsigned int which)
{
	const struct frame_layer *l;
	struct frame f;
	uint8_t *at;
	uint16_t v;

	frame_parse(buf, len, &f);
	l = &f.outer;
	if ((which & FRAME_L3_OK) && l->l3 == FRAME_IP4) {
		at = buf + (l->ip - buf) + 10;
		memset(at, 0, 2);
		v = fold(sum(l->ip, (l->ip[0] & 15) * 4U, 0));
		memcpy(at, &v, sizeof(v));
	}
	if (!(which & FRAME_L4_OK) || !l->l3 || !has_l4_sum(l))
		return;
	at = buf + (l->l4_head - buf) + (l->l4 == FRAME_TCP ? 16 : 6);
	memset(at, 0, 2);
	v = l4_sum(l);
	if (!v && l->l4 == FRAME_UDP)
		v = 0xffff; /* 0 says that there is none */
	memcpy(at, &v, sizeof(v));
}

bool frame_checksum_complete(uint8_t *buf, uint32_t len, uint32_t at, uint32_t offset)
{
	uint16_t v;

	if (len < sizeof(v) || at > len || offset > len - sizeof(v) ||
	    at + offset > len - sizeof(v))
		return false;
	v = fold(sum(buf + at, len - at, 0));
	if (!v)
		v = 0xffff; /* the same number, and of UDP 0 says that there is none */
	memcpy(buf + at + offset, &v, sizeof(v));
	return true;
}

uint16_t frame_sum(const struct frame *f)
{
	const struct frame_layer *l = &f->outer;
	uint16_t v;

	if (!l->l3 || !l->l4_head)
		return 0;
	v = (uint16_t)~fold(sum(l->ip, (size_t)(l->l4_head + l->l4_len - l->ip), 0));
	return get_be16(&v);
}

uint32_t frame_fcs(const uint8_t *buf, uint32_t len)
{
	return crc_update(0, buf, len);
}

/* --- hashing --- */

struct tuple {
	uint8_t b[36]; /* as long as a key of 40 bytes can hash */
	unsigned int n;
};

static void append(struct tuple *t, const uint8_t *p, unsigned int n)
{
	memcpy(t->b + t->n, p, n);
	t->n += n;
}

static void append_ports(struct tuple *t, const uint8_t *ports, bool src, bool dst)
{
	if (src)
		append(t, ports, 2);
	if (dst)
		append(t, ports + 2, 2);
}

static void tuple_of(const struct frame_layer *l, uint64_t fields, struct tuple *t)
{
	t->n = 0;
	if (l->l3 == FRAME_IP4) {
		if (fields & FRAME_HASH_SRC_IP4)
			append(t, l->ip + 12, 4);
		if (fields & FRAME_HASH_DST_IP4)
			append(t, l->ip + 16, 4);
	} else if (l->l3 == FRAME_IP6) {
		if (fields & FRAME_HASH_SRC_IP6)
			append(t, l->ip + 8, 16);
		if (fields & FRAME_HASH_DST_IP6)
			append(t, l->ip + 24, 16);
	}
	if (l->l4 == FRAME_TCP)
		append_ports(t, l->l4_head, fields & FRAME_HASH_SRC_TCP,
			     fields & FRAME_HASH_DST_TCP);
	else if (l->l4 == FRAME_UDP)
		append_ports(t, l->l4_head, fields & FRAME_HASH_SRC_UDP,
			     fields & FRAME_HASH_DST_UDP);
	else if (l->l4 == FRAME_ESP && (fields & FRAME_HASH_SPI))
		append(t, l->l4_head, 4);
}

/* Each bit of the input that is set adds the 32 bits of the key that begin there. */
uint32_t frame_hash(const struct frame *f, uint64_t fields, const uint8_t key[FRAME_HASH_KEY])
{
	uint32_t hash = 0, window = get_be32(key);
	struct tuple t;

	tuple_of(fields & FRAME_HASH_INNER ? &f->inner : &f->outer, fields, &t);
	for (unsigned int i = 0; i < t.n; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (t.b[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	}
	return hash;
}

/* --- segmentation --- */

enum { TCP_FIN = 1, TCP_PSH = 8, TCP_CWR = 0x80 };

static void segment_tcp(uint8_t *tcp, const struct frame_cut *c)
{
	put_be32(tcp + 4, get_be32(tcp + 4) + c->done);
	if (c->done + c->n < c->total)
		tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
	if (c->index)
		tcp[13] &= (uint8_t)~TCP_CWR;
}

static void segment(uint8_t *buf, const struct frame_layer *l, const struct frame_cut *c)
{
	uint32_t len = c->head + c->n;
	uint8_t *ip = buf + (l->ip - buf), *l4 = buf + (l->l4_head - buf);

	if (l->l3 == FRAME_IP4) {
		put_be16(ip + 2, (uint16_t)(len - (ip - buf)));
		put_be16(ip + 4, (uint16_t)(get_be16(ip + 4) + c->index));
	} else {
		put_be16(ip + 4, (uint16_t)(len - (ip - buf) - IP6_LEN));
	}
	if (l->l4 == FRAME_TCP)
		segment_tcp(l4, c);
	else
		put_be16(l4 + 4, (uint16_t)(len - (l4 - buf)));
}

bool frame_segment(uint8_t *buf, const struct frame_cut *c)
{
	struct frame f;

	frame_parse(buf, c->head + c->n, &f);
	if (f.outer.l4 != FRAME_TCP)
		return false;
	segment(buf, &f.outer, c);
	return true;
}

bool frame_merged(const struct frame *f, uint8_t proto, uint32_t l4, uint32_t step,
		  struct frame_merged *out)
{
	const struct frame_layer *l = &f->outer;
	uint32_t at, head;

	if ((l->l4 != FRAME_TCP && l->l4 != FRAME_UDP) || l->proto != proto || !step)
		return false;
	at = (uint32_t)(l->l4_head - f->buf);
	head = l->l4 == FRAME_UDP ? UDP_LEN : (l->l4_head[12] >> 4) * 4U;
	if ((l4 && l4 != at) || head > l->l4_len || (l->l4 == FRAME_TCP && head < TCP_LEN))
		return false;
	if (step > FRAME_MAX || at + head > FRAME_MAX - step)
		return false;
	*out = (struct frame_merged){ f->buf, at + head, l->l4_len - head, step };
	return true;
}

uint32_t frame_of_merged(const struct frame_merged *m, uint32_t index, uint8_t *out)
{
	struct frame_cut c = { m->head, index * m->step, m->step, m->total, index };
	struct frame f;

	if (index && c.done >= m->total)
		return 0;
	if (c.n > m->total - c.done)
		c.n = m->total - c.done;
	memcpy(out, m->buf, m->head);
	memcpy(out + m->head, m->buf + m->head + c.done, c.n);
	frame_parse(out, m->head + c.n, &f);
	segment(out, &f.outer, &c);
	frame_checksums_fill(out, m->head + c.n, FRAME_L3_OK | FRAME_L4_OK);
	return m->head + c.n;
}
