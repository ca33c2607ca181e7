// SPDX-License-Identifier: MIT
/* MLX5DV_QP_CREATE_TUNNEL_OFFLOADS: of a frame in VXLAN or GRE the checksums inside count, and with
 * IBV_RX_HASH_INNER the addresses and ports inside say which work queue gets it. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>
#include <time.h>
#include "toeplitz.h"
#include "verbs/ether.h"
#include "verbs/said.h"

enum kind { PLAIN, VXLAN, GRE, KINDS };
enum { L2 = 14, L3 = 20, L4 = 8, HEAD = 8 /* of either tunnel */ };
enum { WQS = 8, SEEDS = 16, ROOM = 512, PORT_VXLAN = 4789, PROTO_GRE = 47 };

static struct peer_dev dev;
static uint32_t flags; /* MLX5DV_QP_CREATE_* */

static struct ibv_qp *make(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
					  .create_flags = flags };

	return mlx5dv_create_qp(ctx, attr, &dv);
}

/* Returns the length; *inner: where the IP header inside begins, or the only one. */
static size_t build(enum kind k, uint8_t *out, size_t *inner)
{
	static const uint8_t heads[KINDS][HEAD] = {
		[VXLAN] = { 8, 0, 0, 0, 0x12, 0x34, 0x56, 0 }, [GRE] = { 0x20, 0, 8, 0, 0, 0, 0, 9 }
	};
	struct ether_frame in = { .dst = 1, .ip = 4, .proto = 6, .sport = 5, .len = 99 };
	uint8_t frame[ETHER_ROOM], body[ETHER_ROOM];
	size_t len = ether_build(&in, k == PLAIN ? out : frame), skip = k == GRE ? L2 : 0;
	struct ether_frame around = {
		.dst = 1, .ip = 4, .proto = k == GRE ? 47 : 17, .dport = 4789, .body = body
	};

	*inner = L2;
	if (k == PLAIN)
		return len;
	memcpy(body, heads[k], HEAD);
	memcpy(body + HEAD, frame + skip, len - skip);
	around.len = (uint16_t)(HEAD + len - skip);
	*inner = L2 + L3 + (k == GRE ? 0 : L4) + HEAD + (k == GRE ? 0 : L2);
	return ether_build(&around, out);
}

static bool right(struct ether *a, struct ether *b, const uint8_t *bytes, size_t len)
{
	struct ether_got got;

	ether_send_bytes(a, bytes, len, 0);
	ether_want(b, &got);
	want_eq(got.len, len);
	return got.wc_flags & IBV_WC_IP_CSUM_OK;
}

/* One bit of the payload, the header inside, and the header outside turned over, and back. */
static void checksums(int with)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ether a, b;
	struct ibv_flow *flow;

	peer_open(&dev);
	ether_open(&dev, 0, &a);
	flags = MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC |
		(with ? MLX5DV_QP_CREATE_TUNNEL_OFFLOADS : 0);
	ether_make = make;
	ether_open(&dev, 0, &b);
	ether_recv(&b, ETHER_SLOTS);
	ether_spec_dst(&r, 1);
	flow = ether_steer(&b, &r);
	for (enum kind k = PLAIN; k < KINDS; k++) {
		bool counts = with && k != PLAIN;
		uint8_t bytes[ETHER_ROOM];
		size_t inner, len = build(k, bytes, &inner);

		peer_note("kind %d", k);
		/* of GRE nothing outside has a checksum that could be right in whole */
		want_eq(right(&a, &b, bytes, len), k != GRE || with);
		bytes[inner + 8] ^= 1; /* its TTL */
		want_eq(right(&a, &b, bytes, len), false);
		bytes[inner + 8] ^= 1;
		bytes[len - 1] ^= 1;
		want_eq(right(&a, &b, bytes, len), false);
		bytes[len - 1] ^= 1;
		bytes[L2 + 8] ^= 1;
		want_eq(right(&a, &b, bytes, len), counts);
	}
	want_eq(ibv_destroy_flow(flow), 0);
	ether_close(&a);
	ether_close(&b);
	peer_close(&dev);
}

/* --- receive side scaling --- */

#define ADDR4 (IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)
#define ADDR6 (IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6)
#define TCP   (IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP)
#define UDP   (IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP)
#define INNER ((uint64_t)IBV_RX_HASH_INNER)

static uint8_t key[40] = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
			   0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
			   0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
			   0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa };

static struct {
	struct ibv_cq *cq[WQS];
	struct ibv_wq *wq[WQS];
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *qp;
	struct ibv_flow *flow;
	struct ibv_mr *mr;
	uint8_t *mem;
} rss;

static void post(struct ibv_wq *wq)
{
	struct ibv_sge sg = { (uintptr_t)rss.mem, ROOM, rss.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sg, .num_sge = 1 }, *bad;

	want_eq(ibv_post_wq_recv(wq, &wr, &bad), 0);
}

static void work_queue(unsigned int i)
{
	struct ibv_wq_attr ready = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ, .max_wr = SEEDS, .max_sge = 1, .pd = dev.pd
	};

	init.cq = rss.cq[i] = ibv_create_cq(dev.ctx, SEEDS, NULL, NULL, 0);
	want(init.cq);
	rss.wq[i] = ibv_create_wq(dev.ctx, &init);
	want(rss.wq[i]);
	want_eq(ibv_modify_wq(rss.wq[i], &ready), 0);
	for (unsigned int n = 0; n < SEEDS; n++)
		post(rss.wq[i]);
}

static void rss_begin(void)
{
	struct ibv_rwq_ind_table_init_attr t = { .log_ind_tbl_size = 3, .ind_tbl = rss.wq };

	peer_open(&dev);
	rss.mem = peer_memory(ROOM, false);
	rss.mr = ibv_reg_mr(dev.pd, rss.mem, ROOM, IBV_ACCESS_LOCAL_WRITE);
	want(rss.mr);
	for (unsigned int i = 0; i < WQS; i++)
		work_queue(i);
	rss.table = ibv_create_rwq_ind_table(dev.ctx, &t);
	want(rss.table);
	flags = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS | MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC;
}

static void rss_end(void)
{
	want_eq(ibv_destroy_rwq_ind_table(rss.table), 0);
	for (unsigned int i = 0; i < WQS; i++) {
		want_eq(ibv_destroy_wq(rss.wq[i]), 0);
		want_eq(ibv_destroy_cq(rss.cq[i]), 0);
	}
	want_eq(ibv_dereg_mr(rss.mr), 0);
	peer_close(&dev);
}

static struct ibv_qp_init_attr_ex rss_attr(uint64_t fields)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = dev.pd,
		.rwq_ind_tbl = rss.table,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, fields },
	};
}

static void steer(uint64_t fields)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct ibv_qp_init_attr_ex attr = rss_attr(fields);

	rss.qp = make(dev.ctx, &attr);
	want(rss.qp);
	rss.flow = ibv_create_flow(rss.qp, &r.attr);
	want(rss.flow);
}

/* A packet in a tunnel in a packet. */
struct tunneled {
	enum kind kind;
	struct ether_frame in, out;
};

/* Addresses and ports by a seed, other ones inside than outside. */
static struct tunneled tunneled(enum kind k, uint8_t ip, uint8_t proto, uint8_t out_ip,
				unsigned int seed)
{
	return (struct tunneled){
		.kind = k,
		.in = { .ip = ip,
			.proto = proto,
			.from = (uint8_t)(seed * 13 + 3),
			.to = (uint8_t)(seed * 29 + 1),
			.sport = (uint16_t)(seed * 251 + 7),
			.dport = (uint16_t)(seed * 6301 + 5),
			.len = 20 },
		.out = { .dst = 1,
			 .ip = out_ip,
			 .proto = k == GRE ? PROTO_GRE : 17,
			 .from = (uint8_t)(seed * 7 + 40),
			 .to = (uint8_t)(seed * 5 + 90),
			 .sport = (uint16_t)(seed * 1021 + 11),
			 .dport = PORT_VXLAN },
	};
}

static size_t wrap(const struct tunneled *t, uint8_t *bytes)
{
	uint8_t frame[ROOM], body[ROOM] = { 8 }; /* VXLAN's flags */
	size_t len = ether_build(&t->in, frame), skip = t->kind == GRE ? L2 : 0;
	size_t head = t->kind == GRE ? 4 : HEAD;
	struct ether_frame out = t->out;

	if (t->kind == GRE) { /* IP alone, and no option */
		uint16_t type = htobe16(t->in.ip == 4 ? 0x0800 : 0x86dd);

		body[0] = 0;
		memcpy(body + 2, &type, sizeof(type));
	}
	memcpy(body + head, frame + skip, len - skip);
	out.body = body;
	out.len = (uint16_t)(head + len - skip);
	return ether_build(&out, bytes);
}

/* What is hashed of a packet with all of its fields: addresses, then ports if it has any. */
static size_t input(const struct ether_frame *f, uint8_t *in)
{
	size_t n = f->ip == 4 ? 4 : 16;
	uint16_t ports[] = { htobe16(f->sport), htobe16(f->dport) };

	memset(in, 0, 2 * n);
	in[0] = in[n] = f->ip == 4 ? 10 : 0xfd;
	in[n - 1] = f->from;
	in[2 * n - 1] = f->to;
	if (f->proto == PROTO_GRE)
		return 2 * n;
	memcpy(in + 2 * n, ports, sizeof(ports));
	return 2 * n + sizeof(ports);
}

/* The next completion, whichever work queue it is of. That queue. */
static unsigned int next(struct ibv_wc *wc)
{
	time_t limit = time(NULL) + 10;

	while (time(NULL) <= limit)
		for (unsigned int i = 0; i < WQS; i++)
			if (ibv_poll_cq(rss.cq[i], 1, wc)) {
				want_eq(wc->status, IBV_WC_SUCCESS);
				post(rss.wq[i]);
				return i;
			}
	fail("no work queue gets it");
}

/* The work queue @at gets it. */
static void goes_to(struct ether *tx, const struct tunneled *t, unsigned int at)
{
	uint8_t bytes[ROOM];
	size_t len = wrap(t, bytes);
	struct ibv_wc wc;

	if (t->out.ip == 4)
		bytes[L2 + 8] ^= 1; /* the checksum outside is wrong, and does not count */
	ether_send_bytes(tx, bytes, len, 0);
	want_eq(next(&wc), at);
	want_eq(wc.qp_num, rss.wq[at]->wq_num);
	want_eq(wc.byte_len, len);
	want(!memcmp(rss.mem, bytes, len));
	want_eq(!!(wc.wc_flags & IBV_WC_IP_CSUM_OK), t->in.ip == 4);
}

static const struct {
	uint8_t ip, proto, out_ip; /* inside, outside */
} packets[] = {
	{ 4, 6, 4 }, { 4, 17, 4 }, { 6, 6, 4 }, { 6, 17, 4 }, { 4, 6, 6 }, { 6, 17, 6 },
};

/* With @inner, by all fields of the packet inside; else outside. */
static void spread(int inner)
{
	struct ether tx;

	rss_begin();
	ether_open(&dev, 0, &tx);
	for (unsigned int n = 0; n < 2 * sizeof(packets) / sizeof(packets[0]); n++) {
		enum kind k = n % 2 ? GRE : VXLAN;
		uint8_t ip = packets[n / 2].ip, proto = packets[n / 2].proto;
		uint8_t out_ip = packets[n / 2].out_ip;
		unsigned int seen = 0;

		if (inner)
			steer((ip == 4 ? ADDR4 : ADDR6) | (proto == 6 ? TCP : UDP) | INNER);
		else
			steer((out_ip == 4 ? ADDR4 : ADDR6) | UDP);
		for (unsigned int seed = 0; seed < SEEDS; seed++) {
			struct tunneled t = tunneled(k, ip, proto, out_ip, seed);
			uint8_t in[36];
			size_t len = input(inner ? &t.in : &t.out, in);
			unsigned int at = toeplitz(key, in, len) % WQS;

			peer_note("packet %u, seed %u, WQ %u", n, seed, at);
			goes_to(&tx, &t, at);
			seen |= 1U << at;
		}
		want(seen & (seen - 1)); /* not all to one */
		want_eq(ibv_destroy_flow(rss.flow), 0);
		want_eq(ibv_destroy_qp(rss.qp), 0);
	}
	ether_close(&tx);
	rss_end();
}

/* Of a packet without a tunnel, or whose tunnel has nothing of the fields, the hash is 0. */
static void nothing_inside(int arg)
{
	struct ether tx;

	(void)arg;
	rss_begin();
	ether_open(&dev, 0, &tx);
	steer(ADDR4 | TCP | INNER);
	for (unsigned int seed = 0; seed < SEEDS; seed++) {
		struct tunneled t = tunneled(seed % 2 ? VXLAN : GRE, 6, 17, 4, seed);
		struct ether_frame plain = t.in;
		struct ibv_wc wc;

		goes_to(&tx, &t, 0);
		plain.ip = 4;
		plain.proto = 6;
		ether_send(&tx, &plain);
		want_eq(next(&wc), 0);
	}
	want_eq(ibv_destroy_flow(rss.flow), 0);
	want_eq(ibv_destroy_qp(rss.qp), 0);
	ether_close(&tx);
	rss_end();
}

static void refused(struct ibv_qp_init_attr_ex *attr, int err)
{
	want_null(make(dev.ctx, attr), err);
}

/* Fields that no packet has at once, whichever of its two headers they are of. */
static void unfit(int arg)
{
	static const uint64_t at_once[] = { ADDR4 | ADDR6, ADDR4 | TCP | UDP,
					    TCP | IBV_RX_HASH_IPSEC_SPI };
	uint64_t known = ADDR4 | ADDR6 | TCP | UDP | IBV_RX_HASH_IPSEC_SPI | INNER;
	struct ibv_qp_init_attr_ex attr;

	(void)arg;
	said_begin();
	rss_begin();
	for (size_t i = 0; i < sizeof(at_once) / sizeof(at_once[0]); i++) {
		attr = rss_attr(at_once[i] | INNER);
		refused(&attr, EINVAL);
		said_want(SAID_NEAR,
			  "ibv_create_qp_ex: rx_hash_fields_mask 0x%llx has fields that no packet "
			  "has at once; take one of IPv4 and IPv6, and one of TCP, UDP and IPsec, "
			  "and another QP for the rest",
			  (unsigned long long)(at_once[i] | INNER));
	}
	attr = rss_attr(ADDR4 | INNER | 1 << 9);
	refused(&attr, EOPNOTSUPP);
	said_want(SAID_NEAR,
		  "ibv_create_qp_ex: rx_hash_fields_mask 0x%llx, known are 0x%llx; leave the rest "
		  "out",
		  (unsigned long long)(ADDR4 | INNER | 1 << 9), (unsigned long long)known);
	attr = rss_attr(ADDR4 | INNER);
	attr.rx_hash_conf.rx_hash_function = 2;
	refused(&attr, EOPNOTSUPP);
	said_want(SAID_NEAR, "ibv_create_qp_ex: rx_hash_function 2; IBV_RX_HASH_FUNC_TOEPLITZ is "
			     "what there is");
	attr = rss_attr(ADDR4 | INNER);
	attr.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_IND_TABLE;
	attr.recv_cq = attr.send_cq = rss.cq[0];
	refused(&attr, EINVAL);
	said_want(SAID_NEAR, "ibv_create_qp_ex: rx_hash_conf without rwq_ind_tbl "
			     "(IBV_QP_INIT_ATTR_IND_TABLE); set both");
	attr = rss_attr(ADDR4 | INNER);
	attr.qp_type = IBV_QPT_UD;
	refused(&attr, EINVAL);
	said_want(SAID_NEAR,
		  "mlx5dv_create_qp: create_flags 0x%x with qp_type %d, of which 0x%x are for "
		  "IBV_QPT_RAW_PACKET; leave them out",
		  flags, IBV_QPT_UD, flags);
	rss_end();
}

static const struct test_case cases[] = {
	CASE_ARG(checksums, false), CASE_ARG(checksums, true), CASE_ARG(spread, false),
	CASE_ARG(spread, true),	    CASE(nothing_inside),      CASE(unfit),
};

int main(void)
{
	return CASES_RUN(cases);
}
