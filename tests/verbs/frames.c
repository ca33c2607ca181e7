// SPDX-License-Identifier: MIT
/* Ethernet frames of RAW_PACKET queue pairs: do they arrive whole, and at whom the rules say? */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "verbs/ether.h"

static struct peer_dev dev;

/* --- bytes --- */

static const size_t sizes[] = { 14, 59, 60, 61, 64, 333, 1024, 1500, 2000 };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), BURST = 300 };

static void send_sizes(struct ether *e)
{
	uint8_t bytes[ETHER_ROOM];

	for (unsigned int i = 0; i < SIZES; i++) {
		pattern_fill(bytes, sizes[i], i, 0);
		ether_mac(1, bytes);
		ether_send_bytes(e, bytes, sizes[i], 0);
	}
}

static void want_sizes(struct ether *e)
{
	uint8_t bytes[ETHER_ROOM];
	struct ether_got got;

	for (unsigned int i = 0; i < SIZES; i++) {
		ether_want(e, &got);
		memset(bytes, 0, sizeof(bytes)); /* short ones are padded with zeros */
		pattern_fill(bytes, sizes[i], i, 0);
		ether_mac(1, bytes);
		want_eq(got.len, sizes[i] < 60 ? 60 : sizes[i]);
		want(!memcmp(got.p, bytes, got.len));
	}
}

static void send_burst(struct ether *e)
{
	for (unsigned int i = 0; i < BURST; i++) {
		struct ether_frame f = { .dst = 1, .sport = (uint16_t)i, .ip = 4, .len = 100 };

		ether_send(e, &f);
	}
}

static int far_sender(int fd, void *arg)
{
	struct ether e;

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	peer_sync(fd);
	send_sizes(&e);
	send_burst(&e);
	peer_sync(fd);
	ether_close(&e);
	return 0;
}

/* More than there are receives, at once: what is posted in time takes them all, in order. */
static void want_burst(struct ether *e)
{
	struct ether_got got;

	for (unsigned int i = 0; i < BURST; i++) {
		ether_want(e, &got);
		want_eq(got.p[34] << 8 | got.p[35], i);
		ether_recv(e, 1);
	}
}

static void from_another_process(int arg)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ibv_flow *f;
	struct ether e;
	pid_t pid;
	int fd;

	(void)arg;
	pid = peer_fork(far_sender, NULL, &fd);
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	ether_spec_dst(&r, 1);
	f = ether_steer(&e, &r);
	ether_recv(&e, ETHER_SLOTS);
	peer_sync(fd);
	want_sizes(&e);
	want_burst(&e);
	peer_sync(fd);
	want_eq(peer_wait(pid), 0);
	want_eq(ibv_destroy_flow(f), 0);
	ether_close(&e);
}

struct pair {
	struct ether a, b; /* a sends */
};

static void open_pair(struct pair *p, uint32_t flags)
{
	peer_open(&dev);
	ether_open(&dev, 0, &p->a);
	ether_open(&dev, flags, &p->b);
	ether_recv(&p->b, ETHER_SLOTS);
}

static void in_one_process(int arg)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ibv_flow *f;
	struct pair p;

	(void)arg;
	open_pair(&p, 0);
	ether_spec_dst(&r, 1);
	f = ether_steer(&p.b, &r);
	send_sizes(&p.a);
	want_sizes(&p.b);
	send_burst(&p.a); /* all of it is there before the first receive of want_burst() */
	want_burst(&p.b);
	want_eq(ibv_destroy_flow(f), 0);
	send_sizes(&p.a); /* to nobody; the sends complete all the same */
	ether_want_none(&p.b);
	ether_close(&p.a);
	ether_close(&p.b);
}

/* --- specs: each selects what it names, and lets everything else pass to the default rule --- */

static const uint8_t vxlan[] = { 8, 0, 0, 0, 0x12, 0x34, 0x56, 0 };
static const uint8_t gre[] = { 0x20, 0, 8, 0, 0, 0, 0, 9 };
static const uint8_t esp[] = { 0, 0, 0, 7, 0, 0, 0, 8 };
static const uint8_t label[] = { 0, 0x12, 0x31, 64, 0x45 };

/* A tunnel's header and the frame or packet behind it. */
static uint16_t tunnel(const uint8_t *head, size_t n, const struct ether_frame *inner, bool bare,
		       uint8_t *out)
{
	uint8_t frame[ETHER_ROOM];
	size_t len = ether_build(inner, frame), skip = bare ? 14 : 0;

	memcpy(out, head, n);
	memcpy(out + n, frame + skip, len - skip);
	return (uint16_t)(n + len - skip);
}

enum kind { UDP4, TCP4, UDP6, TCP6, TAGGED, OTHER, ESP4, VXLAN, GRE, MPLS, KINDS };

static void make(enum kind k, struct ether_frame *f, uint8_t *body)
{
	static const struct ether_frame inner = {
		.dst = 5, .src = 6, .ip = 4, .proto = 6, .from = 7, .to = 8, .sport = 9, .dport = 10
	};

	*f = (struct ether_frame){ .dst = 1,
				   .src = 2,
				   .ip = 4,
				   .proto = 17,
				   .from = 3,
				   .to = 4,
				   .tos = 0x28,
				   .ttl = 33,
				   .sport = 1000,
				   .dport = 2000,
				   .len = 80 };
	f->ip = k == UDP6 || k == TCP6 ? 6 : k == OTHER || k == MPLS ? 0 : 4;
	f->proto = k == TCP4 || k == TCP6 ? 6 : k == ESP4 ? 50 : k == GRE ? 47 : 17;
	f->label = 0x54321;
	f->vlan = k == TAGGED ? 0x2123 : 0;
	if (k == MPLS)
		f->type = 0x8847;
	if (k == VXLAN)
		f->dport = 4789;
	if (k < ESP4)
		return;
	f->body = body;
	f->len = k == VXLAN  ? tunnel(vxlan, 8, &inner, false, body)
		 : k == GRE  ? tunnel(gre, 8, &inner, true, body)
		 : k == MPLS ? tunnel(label, 4, &inner, true, body)
			     : (uint16_t)sizeof(esp);
	if (k == ESP4)
		memcpy(body, esp, sizeof(esp));
}

struct selection {
	const char *name;
	union {
		struct ibv_flow_spec spec;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4 ip4;
		struct ibv_flow_spec_ipv4_ext ext;
		struct ibv_flow_spec_ipv6 ip6;
		struct ibv_flow_spec_tcp_udp l4;
		struct ibv_flow_spec_esp esp;
		struct ibv_flow_spec_gre gre;
		struct ibv_flow_spec_mpls mpls;
		struct ibv_flow_spec_tunnel tunnel;
	};
	unsigned int takes; /* bits of enum kind */
};

#define B(k)	 (1U << (k))
#define IP4	 (B(UDP4) | B(TCP4) | B(TAGGED) | B(ESP4) | B(VXLAN) | B(GRE))
#define IP6	 (B(UDP6) | B(TCP6))
#define TUNNELS	 (B(VXLAN) | B(GRE))
#define SIZE(s)	 sizeof(struct ibv_flow_spec_##s)
#define INNER(t) (enum ibv_flow_spec_type)(IBV_FLOW_SPEC_##t | IBV_FLOW_SPEC_INNER)
#define N16(v)	 __builtin_bswap16(v)
#define N32(v)	 __builtin_bswap32(v)

/* clang-format off */
static const struct selection selections[] = {
	{ "destination", .eth = { IBV_FLOW_SPEC_ETH, SIZE(eth),
		{ .dst_mac = { 2, 0, 0, 0, 0, 1 } },
		{ .dst_mac = { 255, 255, 255, 255, 255, 255 } } },
	  B(KINDS) - 1 },
	{ "another destination", .eth = { IBV_FLOW_SPEC_ETH, SIZE(eth),
		{ .dst_mac = { 2, 0, 0, 0, 0, 3 } },
		{ .dst_mac = { 255, 255, 255, 255, 255, 255 } } },
	  0 },
	{ "source", .eth = { IBV_FLOW_SPEC_ETH, SIZE(eth),
		{ .src_mac = { 0, 0, 0, 0, 0, 2 } }, { .src_mac = { 0, 0, 0, 0, 0, 255 } } },
	  B(KINDS) - 1 },
	{ "ether_type", .eth = { IBV_FLOW_SPEC_ETH, SIZE(eth),
		{ .ether_type = N16(0x86dd) }, { .ether_type = 0xffff } }, IP6 },
	{ "ether_type behind a tag", .eth = { IBV_FLOW_SPEC_ETH, SIZE(eth),
		{ .ether_type = N16(0x0800) }, { .ether_type = 0xffff } }, IP4 },
	{ "vlan id", .eth = { IBV_FLOW_SPEC_ETH, SIZE(eth),
		{ .vlan_tag = N16(0x0123) }, { .vlan_tag = N16(0x0fff) } }, B(TAGGED) },
	{ "inner destination", .eth = { INNER(ETH), SIZE(eth),
		{ .dst_mac = { 0, 0, 0, 0, 0, 5 } }, { .dst_mac = { 0, 0, 0, 0, 0, 255 } } },
	  B(VXLAN) },
	{ "IPv4", .ip4 = { IBV_FLOW_SPEC_IPV4, SIZE(ipv4),
		{ N32(0x0a000003), N32(0x0a000004) }, { ~0U, ~0U } }, IP4 },
	{ "IPv4 net", .ip4 = { IBV_FLOW_SPEC_IPV4, SIZE(ipv4),
		{ N32(0x0aff0000), 0 }, { N32(0xff000000), 0 } }, IP4 | B(MPLS) },
	{ "inner IPv4", .ip4 = { INNER(IPV4), SIZE(ipv4),
		{ N32(0x0a000007), 0 }, { ~0U, 0 } }, TUNNELS },
	{ "IPv4 protocol, TOS, TTL", .ext = { IBV_FLOW_SPEC_IPV4_EXT, SIZE(ipv4_ext),
		{ .proto = 17, .tos = 0x28, .ttl = 33 }, { .proto = 255, .tos = 255, .ttl = 255 } },
	  B(UDP4) | B(TAGGED) | B(VXLAN) },
	{ "IPv6", .ip6 = { IBV_FLOW_SPEC_IPV6, SIZE(ipv6),
		{ .src_ip = { 0xfd, [15] = 3 }, .flow_label = N32(0x54321), .traffic_class = 0x28,
		  .hop_limit = 33 },
		{ .src_ip = { 255, [15] = 255 }, .flow_label = N32(0xfffff), .traffic_class = 255,
		  .hop_limit = 255 } },
	  IP6 },
	{ "IPv6 next header", .ip6 = { IBV_FLOW_SPEC_IPV6, SIZE(ipv6),
		{ .next_hdr = 6 }, { .next_hdr = 255 } }, B(TCP6) },
	{ "UDP", .l4 = { IBV_FLOW_SPEC_UDP, SIZE(tcp_udp),
		{ N16(2000), N16(1000) }, { 0xffff, 0xffff } }, B(UDP4) | B(UDP6) | B(TAGGED) },
	{ "TCP source", .l4 = { IBV_FLOW_SPEC_TCP, SIZE(tcp_udp),
		{ 0, N16(1000) }, { 0, 0xffff } }, B(TCP4) | B(TCP6) },
	{ "inner TCP", .l4 = { INNER(TCP), SIZE(tcp_udp),
		{ N16(10), 0 }, { 0xffff, 0 } }, TUNNELS },
	{ "ESP", .esp = { IBV_FLOW_SPEC_ESP, SIZE(esp),
		{ N32(7), 0 }, { ~0U, 0 } }, B(ESP4) },
	{ "another SPI", .esp = { IBV_FLOW_SPEC_ESP, SIZE(esp),
		{ N32(8), 0 }, { ~0U, 0 } }, 0 },
	{ "VXLAN", .tunnel = { IBV_FLOW_SPEC_VXLAN_TUNNEL, SIZE(tunnel),
		{ N32(0x123456) }, { ~0U } }, B(VXLAN) },
	{ "GRE key", .gre = { IBV_FLOW_SPEC_GRE, SIZE(gre),
		{ N16(0x2000), N16(0x0800), N32(9) }, { N16(0x2000), 0xffff, ~0U } }, B(GRE) },
	{ "MPLS", .mpls = { IBV_FLOW_SPEC_MPLS, SIZE(mpls),
		{ N32(0x00123000) }, { N32(0xfffff000) } }, B(MPLS) },
};
/* clang-format on */
enum { SELECTIONS = sizeof(selections) / sizeof(selections[0]) };

static void select_by(struct pair *p, struct ether *rest, const struct selection *s)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ibv_flow *f;

	ether_spec(&r, &s->spec, s->spec.hdr.size);
	f = ether_steer(&p->b, &r);
	for (enum kind k = 0; k < KINDS; k++) {
		bool takes = s->takes & 1U << k;
		uint8_t body[ETHER_ROOM];
		struct ether_frame frame;

		peer_note("%s, frame %d", s->name, k);
		make(k, &frame, body);
		ether_send(&p->a, &frame);
		ether_want(takes ? &p->b : rest, NULL);
		ether_want_none(takes ? rest : &p->b);
		ether_recv(takes ? &p->b : rest, 1);
	}
	want_eq(ibv_destroy_flow(f), 0);
}

static void each_spec_selects(int arg)
{
	struct ether_rule all = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct ether rest;
	struct ibv_flow *f;
	struct pair p;

	(void)arg;
	open_pair(&p, 0);
	ether_open(&dev, 0, &rest);
	ether_recv(&rest, ETHER_SLOTS);
	f = ether_steer(&rest, &all);
	for (unsigned int i = 0; i < SELECTIONS; i++)
		select_by(&p, &rest, &selections[i]);
	want_eq(ibv_destroy_flow(f), 0);
	ether_close(&rest);
	ether_close(&p.a);
	ether_close(&p.b);
}

/* --- who gets it when several rules match --- */

struct setting {
	enum ibv_flow_attr_type type;
	uint16_t priority;
	uint32_t flags;
	uint8_t dst; /* of the ETH spec; 0 none */
	bool drop;
};

static const struct contest {
	const char *name;
	struct setting rule[3];
	bool multicast;
	bool gets[3];
} contests[] = {
	{ "the lower priority number",
	  { { .priority = 2, .dst = 1 }, { .priority = 1, .dst = 1 } },
	  .gets = { false, true } },
	{ "the older of different ones", { { .dst = 1 }, { .dst = 0 } }, .gets = { true } },
	{ "both of equal ones", { { .dst = 1 }, { .dst = 1 } }, .gets = { true, true } },
	{ "who does not trap, and the next",
	  { { .dst = 1, .flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP },
	    { .priority = 1 },
	    { .priority = 2 } },
	  .gets = { true, true } },
	{ "the sniffer too",
	  { { .type = IBV_FLOW_ATTR_SNIFFER }, { .dst = 1 } },
	  .gets = { true, true } },
	{ "nobody of a dropped one but the sniffer",
	  { { .type = IBV_FLOW_ATTR_SNIFFER }, { .dst = 1, .drop = true }, { .priority = 1 } },
	  .gets = { true } },
	{ "the default of what no rule took",
	  { { .dst = 9 },
	    { .type = IBV_FLOW_ATTR_MC_DEFAULT },
	    { .type = IBV_FLOW_ATTR_ALL_DEFAULT } },
	  .gets = { false, false, true } },
	{ "the multicast default of a multicast",
	  { { .dst = 9 },
	    { .type = IBV_FLOW_ATTR_MC_DEFAULT },
	    { .type = IBV_FLOW_ATTR_ALL_DEFAULT } },
	  true,
	  { false, true, false } },
	{ "the default of a multicast without one of its own",
	  { { .dst = 9 }, { .type = IBV_FLOW_ATTR_ALL_DEFAULT } },
	  true,
	  { false, true } },
};

static struct ibv_flow *set(struct ether *e, const struct setting *s)
{
	struct ibv_flow_spec_action_drop drop = { IBV_FLOW_SPEC_ACTION_DROP, sizeof(drop) };
	struct ether_rule r = ether_rule(s->type, s->priority);

	r.attr.flags = s->flags;
	if (s->dst)
		ether_spec_dst(&r, s->dst);
	if (s->drop)
		ether_spec(&r, &drop, sizeof(drop));
	return ether_steer(e, &r);
}

static void decide(const struct contest *c)
{
	struct ether_frame f = { .dst = 1, .multicast = c->multicast, .ip = 4, .len = 50 };
	struct ibv_flow *flow[3];
	struct ether e[3], sender;

	peer_note("%s", c->name);
	ether_open(&dev, 0, &sender);
	for (int i = 0; i < 3; i++) {
		bool used = c->rule[i].type || c->rule[i].dst || c->rule[i].priority || i < 2;

		ether_open(&dev, 0, &e[i]);
		ether_recv(&e[i], 1);
		flow[i] = used ? set(&e[i], &c->rule[i]) : NULL;
	}
	ether_send(&sender, &f);
	for (int i = 0; i < 3; i++) {
		if (c->gets[i])
			ether_want(&e[i], NULL);
		else
			ether_want_none(&e[i]);
		if (flow[i])
			want_eq(ibv_destroy_flow(flow[i]), 0);
		ether_close(&e[i]);
	}
	ether_close(&sender);
}

static void contests_are_decided(int arg)
{
	(void)arg;
	peer_open(&dev);
	for (unsigned int i = 0; i < sizeof(contests) / sizeof(contests[0]); i++)
		decide(&contests[i]);
}

static void own_multicast_is_blocked(int arg)
{
	struct ether_rule all = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct ether_frame f = { .dst = 1, .multicast = true, .ip = 4, .len = 50 };
	struct ether loud, deaf;
	struct ibv_flow *flow[2];

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &loud);
	ether_open(&dev, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, &deaf);
	ether_recv(&loud, 4);
	ether_recv(&deaf, 4);
	flow[0] = ether_steer(&loud, &all);
	flow[1] = ether_steer(&deaf, &all);
	ether_send(&deaf, &f);
	ether_want(&loud, NULL);
	ether_want_none(&deaf);
	f.multicast = false;
	f.dst = 2;
	ether_send(&deaf, &f);
	ether_want(&loud, NULL);
	ether_want(&deaf, NULL);
	want_eq(ibv_destroy_flow(flow[0]), 0);
	want_eq(ibv_destroy_flow(flow[1]), 0);
	ether_close(&loud);
	ether_close(&deaf);
}

/* --- tags and counters --- */

static void tags_and_counters(int arg)
{
	struct ibv_flow_spec_action_tag tag = { IBV_FLOW_SPEC_ACTION_TAG, sizeof(tag), 0xabcdef };
	struct ibv_flow_spec_counter_action count = { .type = IBV_FLOW_SPEC_ACTION_COUNT,
						      .size = sizeof(count) };
	struct ibv_counters_init_attr init = { 0 };
	struct ibv_counter_attach_attr packets = { IBV_COUNTER_PACKETS, 1, 0 },
				       bytes = { IBV_COUNTER_BYTES, 0, 0 };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ether_frame f = { .dst = 1, .ip = 4, .len = 100 };
	struct ether_got got;
	struct ibv_counters *c;
	struct ibv_flow *flow;
	uint64_t values[2];
	struct pair p;
	pid_t child;

	(void)arg;
	open_pair(&p, 0);
	c = ibv_create_counters(dev.ctx, &init);
	want(c);
	want_eq(ibv_attach_counters_point_flow(c, &packets, NULL), 0);
	want_eq(ibv_attach_counters_point_flow(c, &bytes, NULL), 0);
	count.counters = c;
	ether_spec_dst(&r, 1);
	ether_spec(&r, &tag, sizeof(tag));
	ether_spec(&r, &count, sizeof(count));
	flow = ether_steer(&p.b, &r);
	want_eq(ibv_attach_counters_point_flow(c, &packets, NULL), EBUSY);
	want_errno(ibv_destroy_counters(c), EBUSY);
	for (int i = 0; i < 5; i++) {
		ether_send(&p.a, &f);
		ether_want(&p.b, &got);
		want_eq(got.tag, 0xabcdef);
	}
	f.dst = 7;
	ether_send(&p.a, &f);
	want_eq(ibv_read_counters(c, values, 2, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	want_eq(values[0], 5 * 142);
	want_eq(values[1], 5);
	want_eq(ibv_read_counters(c, values, 1, 0), EINVAL);
	want_errno(ibv_destroy_qp(p.b.qp), EBUSY);
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) { /* it destroys its copies */
		want_eq(ibv_destroy_flow(flow), 0);
		want_eq(ibv_destroy_counters(c), 0);
		ether_close(&p.a);
		ether_close(&p.b);
		_exit(0);
	}
	want_eq(peer_wait(child), 0);
	want_errno(ibv_destroy_counters(c), EBUSY);
	want_eq(ibv_destroy_flow(flow), 0);
	want_eq(ibv_destroy_counters(c), 0);
	ether_close(&p.a);
	ether_close(&p.b);
}

/* --- UD queue pairs get frames too, behind 40 bytes --- */

static void ud_gets_the_frame(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_UD, .cap = { 1, 4, 1, 1, 0 } };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ether_frame f = { .dst = 1, .ip = 4, .len = 200 };
	uint8_t frame[ETHER_ROOM], area[1024];
	struct ibv_flow *flow;
	struct peer_ep ep;
	struct ether e;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	peer_ep_create(&dev, &o, &ep);
	peer_init(&ep, &o);
	peer_rtr(&ep, &o);
	mr = ibv_reg_mr(dev.pd, area, sizeof(area), IBV_ACCESS_LOCAL_WRITE);
	want(mr);
	struct ibv_sge sg = { (uintptr_t)area, sizeof(area), mr->lkey };

	peer_recv(&ep, 7, &sg, 1);
	ether_spec_dst(&r, 1);
	flow = ibv_create_flow(ep.qp, &r.attr);
	want(flow);
	ether_send(&e, &f);
	peer_poll_ok(ep.rcq, &wc);
	want_eq(wc.wr_id, 7);
	want_eq(wc.byte_len, 40 + ether_build(&f, frame));
	want(wc.wc_flags & IBV_WC_GRH);
	want(!memcmp(area + 40, frame, wc.byte_len - 40));
	want_eq(ibv_destroy_flow(flow), 0);
	peer_ep_destroy(&ep);
	want_eq(ibv_dereg_mr(mr), 0);
	ether_close(&e);
}

/* A frame has the tag of its rule, a datagram beside it has none. */
static void ud_reads_the_tag(int arg)
{
	struct ibv_flow_spec_action_tag tag = { IBV_FLOW_SPEC_ACTION_TAG, sizeof(tag), 0x1234 };
	struct peer_opts o = { .type = IBV_QPT_UD,
			       .cap = { 1, 2, 1, 1, 0 },
			       .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_FLOW_TAG };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ether_frame f = { .dst = 1, .ip = 4, .len = 200 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	static uint8_t area[ETHER_ROOM];
	struct ether e, ud = { .mem = area };
	struct ether_got got;
	struct ibv_flow *flow;
	struct peer_ep ep;

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	peer_ep_create(&dev, &o, &ep);
	peer_connect(&ep, &o);
	ud.cq = (struct ibv_cq_ex *)ep.rcq;
	ud.mr = ibv_reg_mr(dev.pd, area, sizeof(area), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sg = { (uintptr_t)area, sizeof(area), ud.mr->lkey };

	peer_recv(&ep, 0, &sg, 1);
	peer_recv(&ep, 0, &sg, 1);
	ether_spec_dst(&r, 1);
	ether_spec(&r, &tag, sizeof(tag));
	flow = ibv_create_flow(ep.qp, &r.attr);
	want(flow);
	ether_send(&e, &f);
	ether_want(&ud, &got);
	want_eq(got.tag, 0x1234);
	wr.wr.ud.ah = peer_ah(&dev, &ep.mine);
	wr.wr.ud.remote_qpn = ep.mine.qpn;
	wr.wr.ud.remote_qkey = 0x11111111;
	want_eq(ibv_post_send(ep.qp, &wr, &bad), 0);
	ether_want(&ud, &got);
	want_eq(got.tag, 0);
	want_eq(ibv_destroy_flow(flow), 0);
	want_eq(ibv_destroy_ah(wr.wr.ud.ah), 0);
	peer_ep_destroy(&ep);
	want_eq(ibv_dereg_mr(ud.mr), 0);
	ether_close(&e);
}

/* --- refusals --- */

static void refused_rule(struct ibv_qp *qp, struct ether_rule *r, const char *what, int err)
{
	peer_note("%s", what);
	want_null(ibv_create_flow(qp, &r->attr), err);
}

static void wrong_rules_are_refused(int arg)
{
	struct ibv_flow_spec_action_handle handle = { .type = IBV_FLOW_SPEC_ACTION_HANDLE,
						      .size = sizeof(handle) };
	struct ibv_flow_spec_action_tag tag = { IBV_FLOW_SPEC_ACTION_TAG, sizeof(tag), 1 << 24 };
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0), ok = r;
	struct peer_ep rc;
	struct ether e;

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	peer_ep_create(&dev, &o, &rc);
	refused_rule(rc.qp, &r, "RC", EINVAL);
	r.attr.port = 2;
	refused_rule(e.qp, &r, "port", EINVAL);
	r = ok;
	r.attr.comp_mask = 1;
	refused_rule(e.qp, &r, "comp_mask", EINVAL);
	r = ether_rule(4, 0);
	refused_rule(e.qp, &r, "type", EINVAL);
	r = ok;
	r.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	refused_rule(e.qp, &r, "egress", EOPNOTSUPP);
	r = ether_rule(IBV_FLOW_ATTR_SNIFFER, 0);
	r.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	refused_rule(e.qp, &r, "DONT_TRAP of a sniffer", EINVAL);
	r = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	ether_spec_dst(&r, 1);
	refused_rule(e.qp, &r, "a default with specs", EINVAL);
	r = ok;
	ether_spec(&r, &handle, sizeof(handle));
	refused_rule(e.qp, &r, "handle", EOPNOTSUPP);
	r = ok;
	ether_spec(&r, &tag, sizeof(tag));
	refused_rule(e.qp, &r, "tag", EINVAL);
	r = ok;
	ether_spec_dst(&r, 1);
	r.specs[4]++;
	refused_rule(e.qp, &r, "size of a spec", EINVAL);
	r = ok;
	ether_spec_dst(&r, 1);
	r.specs[0] = 0x22;
	refused_rule(e.qp, &r, "type of a spec", EINVAL);
	peer_ep_destroy(&rc);
	ether_close(&e);
}

static const struct test_case list[] = {
	CASE(in_one_process),	    CASE(from_another_process),	    CASE(each_spec_selects),
	CASE(contests_are_decided), CASE(own_multicast_is_blocked), CASE(tags_and_counters),
	CASE(ud_gets_the_frame),    CASE(ud_reads_the_tag),	    CASE(wrong_rules_are_refused),
};

int main(void)
{
	return CASES_RUN(list);
}
