// SPDX-License-Identifier: MIT
#include "verbs/ether.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint8_t *put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	return put16(put16(p, (uint16_t)(v >> 16)), (uint16_t)v);
}

void ether_mac(uint8_t last, uint8_t mac[6])
{
	memset(mac, 0, 6);
	mac[0] = 2;
	mac[5] = last;
}

static uint32_t add(const uint8_t *p, size_t n, uint32_t acc)
{
	for (; n > 1; n -= 2, p += 2)
		acc += (uint32_t)p[0] << 8 | p[1];
	return n ? acc + ((uint32_t)p[0] << 8) : acc;
}

static uint16_t fold(uint32_t acc)
{
	while (acc >> 16)
		acc = (acc & 0xffff) + (acc >> 16);
	return (uint16_t)~acc;
}

static size_t head_of(uint8_t proto)
{
	return proto == 17 ? 8 : proto == 6 ? 20 : 0;
}

static uint8_t *put_ip(const struct ether_frame *f, uint8_t proto, size_t len, uint8_t *p)
{
	memset(p, 0, 40);
	if (f->ip == 4) {
		p[0] = 0x45;
		p[1] = f->tos;
		put16(p + 2, (uint16_t)(20 + len));
		p[8] = f->ttl ? f->ttl : 64;
		p[9] = proto;
		put32(p + 12, 0x0a000000 | f->from);
		put32(p + 16, 0x0a000000 | f->to);
		put16(p + 10, fold(add(p, 20, 0)));
		return p + 20;
	}
	put32(p, 6U << 28 | (uint32_t)f->tos << 20 | f->label);
	put16(p + 4, (uint16_t)len);
	p[6] = proto;
	p[7] = f->ttl ? f->ttl : 64;
	p[8] = p[24] = 0xfd;
	p[23] = f->from;
	p[39] = f->to;
	return p + 40;
}

/* The checksum of what stands at @p, behind the IP header @ip. */
static uint16_t l4_sum(const uint8_t *ip, uint8_t proto, const uint8_t *p, size_t len)
{
	uint32_t acc = ip[0] >> 4 == 4 ? add(ip + 12, 8, 0) : add(ip + 8, 32, 0);

	return fold(add(p, len, acc + proto + (uint32_t)len));
}

size_t ether_build(const struct ether_frame *f, uint8_t *out)
{
	uint8_t proto = f->proto ? f->proto : 17, *p = out + 12, *ip, *l4;
	size_t len = f->len + (f->ip ? head_of(proto) : 0);

	ether_mac(f->dst, out);
	ether_mac(f->src, out + 6);
	if (f->multicast)
		memcpy(out, "\x01\x00\x5e\x00\x00", 5);
	if (f->vlan)
		p = put16(put16(p, 0x8100), f->vlan);
	p = put16(p, f->type ? f->type : f->ip == 6 ? 0x86dd : f->ip ? 0x0800 : 0x88b5);
	ip = p;
	if (f->ip)
		p = put_ip(f, proto, len, p);
	l4 = p;
	if (f->ip && head_of(proto)) {
		memset(p, 0, 20);
		put16(put16(p, f->sport), f->dport);
		if (proto == 17)
			put16(p + 4, (uint16_t)len);
		else
			p[12] = 0x50;
		p += head_of(proto);
	}
	if (f->body)
		memcpy(p, f->body, f->len);
	else
		pattern_fill(p, f->len, 1, 0);
	p += f->len;
	if (f->ip && head_of(proto))
		put16(l4 + (proto == 17 ? 6 : 16), l4_sum(ip, proto, l4, len));
	return (size_t)(p - out);
}

static void to(struct ibv_qp *qp, enum ibv_qp_state state, int more)
{
	struct ibv_qp_attr a = { .qp_state = state, .port_num = 1 };

	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | more))
		die("ibv_modify_qp");
}

struct ibv_qp *(*ether_make)(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);

void ether_open(struct peer_dev *d, uint32_t flags, struct ether *e)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 4 * ETHER_SLOTS,
					  .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
						      IBV_WC_EX_WITH_CVLAN |
						      IBV_WC_EX_WITH_FLOW_TAG };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = { ETHER_SLOTS, ETHER_SLOTS, 4, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO,
		.max_tso_header = 128,
		.create_flags = flags,
		.pd = d->pd,
	};
	size_t bytes = (ETHER_SLOTS + 16) * ETHER_ROOM;

	*e = (struct ether){ .mem = calloc(1, bytes) };
	e->cq = ibv_create_cq_ex(d->ctx, &cq);
	if (!e->cq)
		die("ibv_create_cq_ex");
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(e->cq);
	e->qp = ether_make ? ether_make(d->ctx, &init) : ibv_create_qp_ex(d->ctx, &init);
	if (!e->qp)
		die("ibv_create_qp_ex");
	e->mr = ibv_reg_mr(d->pd, e->mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!e->mr)
		die("ibv_reg_mr");
	to(e->qp, IBV_QPS_INIT, IBV_QP_PORT);
	to(e->qp, IBV_QPS_RTR, 0);
	to(e->qp, IBV_QPS_RTS, 0);
}

void ether_close(struct ether *e)
{
	want_eq(ibv_destroy_qp(e->qp), 0);
	want_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(e->cq)), 0);
	want_eq(ibv_dereg_mr(e->mr), 0);
	free(e->mem);
}

void ether_recv(struct ether *e, unsigned int n)
{
	struct ibv_recv_wr *bad;

	for (; n; n--) {
		unsigned int slot = e->posted++ % ETHER_SLOTS;
		struct ibv_sge sg = { (uintptr_t)(e->mem + slot * (size_t)ETHER_ROOM), ETHER_ROOM,
				      e->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sg, .num_sge = 1 };

		want_eq(ibv_post_recv(e->qp, &wr, &bad), 0);
	}
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* One completion of @opcode; of the other it is an error that it comes. */
static bool poll_one(struct ether *e, enum ibv_wc_opcode opcode, struct ether_got *got, int ms)
{
	uint64_t until = now_ms() + (uint64_t)ms;
	struct ibv_poll_cq_attr attr = { 0 };

	while (ibv_start_poll(e->cq, &attr)) {
		if (now_ms() >= until)
			return false;
	}
	want_eq(e->cq->status, IBV_WC_SUCCESS);
	want_eq(ibv_wc_read_opcode(e->cq), opcode);
	if (got)
		*got = (struct ether_got){ e->mem + e->cq->wr_id * ETHER_ROOM,
					   ibv_wc_read_byte_len(e->cq), ibv_wc_read_flow_tag(e->cq),
					   ibv_wc_read_cvlan(e->cq), ibv_wc_read_wc_flags(e->cq) };
	ibv_end_poll(e->cq);
	return true;
}

void ether_send_bytes(struct ether *e, const void *frame, size_t len, unsigned int send_flags)
{
	uint8_t *at = e->mem + (size_t)ETHER_SLOTS * ETHER_ROOM;
	struct ibv_sge sg = { (uintptr_t)at, (uint32_t)len, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | send_flags },
			   *bad;

	memcpy(at, frame, len);
	want_eq(ibv_post_send(e->qp, &wr, &bad), 0);
	want(poll_one(e, IBV_WC_SEND, NULL, 10000));
}

void ether_send(struct ether *e, const struct ether_frame *f)
{
	uint8_t bytes[ETHER_ROOM];

	ether_send_bytes(e, bytes, ether_build(f, bytes), 0);
}

bool ether_poll(struct ether *e, struct ether_got *got, int ms)
{
	return poll_one(e, IBV_WC_RECV, got, ms);
}

void ether_want(struct ether *e, struct ether_got *got)
{
	struct ether_got none;

	if (!ether_poll(e, got ? got : &none, 10000))
		fail("no frame came");
}

void ether_want_none(struct ether *e)
{
	want(!ether_poll(e, NULL, 0));
}

struct ether_rule ether_rule(enum ibv_flow_attr_type type, uint16_t priority)
{
	struct ether_rule r = { .attr = { .type = type, .priority = priority, .port = 1 } };

	r.attr.size = sizeof(r.attr);
	return r;
}

void ether_spec(struct ether_rule *r, const void *spec, size_t size)
{
	memcpy(r->specs + r->at, spec, size);
	r->at += size;
	r->attr.num_of_specs++;
	r->attr.size = (uint16_t)(sizeof(r->attr) + r->at);
}

void ether_spec_dst(struct ether_rule *r, uint8_t last)
{
	struct ibv_flow_spec_eth s = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(s) };

	ether_mac(last, s.val.dst_mac);
	memset(s.mask.dst_mac, 0xff, 6);
	ether_spec(r, &s, sizeof(s));
}

struct ibv_flow *ether_steer(struct ether *e, struct ether_rule *r)
{
	struct ibv_flow *f = ibv_create_flow(e->qp, &r->attr);

	if (!f)
		die("ibv_create_flow");
	return f;
}
