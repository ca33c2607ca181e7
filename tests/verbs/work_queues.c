// SPDX-License-Identifier: MIT
/* Work queues, indirection tables, and queue pairs that spread frames over them by a hash. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "toeplitz.h"
#include "verbs/ether.h"

enum { WQS = 4, TABLE = 8, RECVS = 16, ROOM = 256 };
enum { RACES = 100000, OFFSETS = 1024 /* between its two sides, in turns of a loop */ };

static struct peer_dev dev;

/* The key of the well-known verification suite. */
static uint8_t key[40] = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
			   0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
			   0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
			   0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa };

struct queue {
	struct ibv_cq *cq;
	struct ibv_wq *wq;
};

struct spread {
	struct queue q[WQS];
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *qp;
	struct ibv_flow *flow;
	struct ibv_mr *mr;
	uint8_t *mem;
};

static int move(struct ibv_wq *wq, enum ibv_wq_state to)
{
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to };

	return ibv_modify_wq(wq, &a);
}

static void queue_open(struct queue *q, uint32_t flags)
{
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ,
				      .max_wr = RECVS,
				      .max_sge = 1,
				      .pd = dev.pd,
				      .comp_mask = IBV_WQ_INIT_ATTR_FLAGS,
				      .create_flags = flags };

	q->cq = a.cq = ibv_create_cq(dev.ctx, 2 * RECVS, NULL, NULL, 0);
	want(q->cq);
	q->wq = ibv_create_wq(dev.ctx, &a);
	want(q->wq);
	want(a.max_wr >= RECVS && a.max_sge >= 1);
	want_eq(q->wq->state, IBV_WQS_RESET);
}

static void post(struct spread *s, unsigned int i, unsigned int n)
{
	struct ibv_recv_wr *bad;

	for (unsigned int k = 0; k < n; k++) {
		struct ibv_sge sg = { (uintptr_t)(s->mem + (i * RECVS + k) * (size_t)ROOM), ROOM,
				      s->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i * RECVS + k, .sg_list = &sg, .num_sge = 1 };

		want_eq(ibv_post_wq_recv(s->q[i].wq, &wr, &bad), 0);
	}
}

static struct ibv_qp_init_attr_ex rss_attr(struct spread *s, uint64_t fields)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = dev.pd,
		.rwq_ind_tbl = s->table,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, fields },
	};
}

static struct ibv_qp *rss_qp(struct spread *s, uint64_t fields, int *err)
{
	struct ibv_qp_init_attr_ex a = rss_attr(s, fields);
	struct ibv_qp *qp;

	errno = 0;
	qp = ibv_create_qp_ex(dev.ctx, &a);
	*err = qp ? 0 : errno;
	return qp;
}

static void spread_open(struct spread *s, uint64_t fields, uint32_t flags)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct ibv_rwq_ind_table_init_attr t = { .log_ind_tbl_size = 3 };
	size_t bytes = (size_t)WQS * RECVS * ROOM;
	struct ibv_wq *wqs[TABLE];
	int err;

	s->mem = calloc(1, bytes);
	s->mr = ibv_reg_mr(dev.pd, s->mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	want(s->mr);
	for (unsigned int i = 0; i < WQS; i++) {
		queue_open(&s->q[i], flags);
		want_eq(move(s->q[i].wq, IBV_WQS_RDY), 0);
		post(s, i, RECVS);
	}
	for (unsigned int i = 0; i < TABLE; i++)
		wqs[i] = s->q[i % WQS].wq;
	t.ind_tbl = wqs;
	s->table = ibv_create_rwq_ind_table(dev.ctx, &t);
	want(s->table);
	s->qp = rss_qp(s, fields, &err);
	want(s->qp);
	s->flow = ibv_create_flow(s->qp, &r.attr);
	want(s->flow);
}

static void spread_close(struct spread *s)
{
	want_errno(ibv_destroy_qp(s->qp), EBUSY);
	want_eq(ibv_destroy_flow(s->flow), 0);
	want_errno(ibv_destroy_rwq_ind_table(s->table), EBUSY);
	want_eq(ibv_destroy_qp(s->qp), 0);
	want_errno(ibv_destroy_wq(s->q[0].wq), EBUSY);
	want_eq(ibv_destroy_rwq_ind_table(s->table), 0);
	for (unsigned int i = 0; i < WQS; i++) {
		want_errno(ibv_destroy_cq(s->q[i].cq), EBUSY);
		want_eq(ibv_destroy_wq(s->q[i].wq), 0);
		want_eq(ibv_destroy_cq(s->q[i].cq), 0);
	}
	want_eq(ibv_dereg_mr(s->mr), 0);
	free(s->mem);
}

struct hashing {
	uint64_t fields;
	uint8_t ip, proto;
	bool inner;
};

/* What is hashed of a frame: the fields that it has, in this order. */
static size_t input(const struct hashing *h, const uint8_t *ip, uint8_t *in)
{
	const uint8_t *l4 = ip + (h->ip == 4 ? 20 : 40);
	size_t n = 0;
	const struct {
		uint64_t field;
		const uint8_t *at;
		size_t len;
		bool has;
	} part[] = {
		{ IBV_RX_HASH_SRC_IPV4, ip + 12, 4, h->ip == 4 },
		{ IBV_RX_HASH_DST_IPV4, ip + 16, 4, h->ip == 4 },
		{ IBV_RX_HASH_SRC_IPV6, ip + 8, 16, h->ip == 6 },
		{ IBV_RX_HASH_DST_IPV6, ip + 24, 16, h->ip == 6 },
		{ IBV_RX_HASH_SRC_PORT_TCP, l4, 2, h->proto == 6 },
		{ IBV_RX_HASH_DST_PORT_TCP, l4 + 2, 2, h->proto == 6 },
		{ IBV_RX_HASH_SRC_PORT_UDP, l4, 2, h->proto == 17 },
		{ IBV_RX_HASH_DST_PORT_UDP, l4 + 2, 2, h->proto == 17 },
		{ IBV_RX_HASH_IPSEC_SPI, l4, 4, h->proto == 50 },
	};

	for (unsigned int i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		if ((h->fields & part[i].field) && part[i].has) {
			memcpy(in + n, part[i].at, part[i].len);
			n += part[i].len;
		}
	return n;
}

#define ADDR4 (IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)
#define ADDR6 (IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6)
#define TCP   (IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP)
#define UDP   (IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP)

static const struct hashing hashings[] = {
	{ IBV_RX_HASH_SRC_IPV4, 4, 17, false },
	{ IBV_RX_HASH_DST_IPV4, 4, 6, false },
	{ ADDR4 | TCP, 4, 6, false },
	{ ADDR4 | TCP, 4, 17, false }, /* no TCP in it: the addresses alone */
	{ IBV_RX_HASH_SRC_PORT_UDP, 4, 17, false },
	{ IBV_RX_HASH_DST_PORT_UDP, 6, 17, false },
	{ ADDR6 | UDP, 6, 17, false },
	{ ADDR6 | TCP, 6, 6, false },
	{ ADDR4 | IBV_RX_HASH_IPSEC_SPI, 4, 50, false },
	{ ADDR6, 4, 6, false }, /* nothing of it: the first entry */
	{ ADDR4 | TCP | IBV_RX_HASH_INNER, 4, 6, true },
};

/* A frame by seed; with @inner behind a VXLAN header. Where its IP header is. */
static const uint8_t *build(const struct hashing *h, unsigned int seed, uint8_t *out, size_t *len)
{
	uint8_t body[ROOM], spi[8] = { 0, 0, (uint8_t)(seed * 7), (uint8_t)seed };
	struct ether_frame f = { .dst = 1,
				 .ip = h->ip,
				 .proto = h->proto,
				 .from = (uint8_t)(seed * 13),
				 .to = (uint8_t)(seed * 29 + 1),
				 .sport = (uint16_t)(seed * 251),
				 .dport = (uint16_t)(seed * 63 + 5),
				 .len = 20 };
	struct ether_frame outer = { .dst = 1, .ip = 4, .dport = 4789, .body = body };

	if (h->proto == 50) {
		f.body = spi;
		f.len = sizeof(spi);
	}
	*len = ether_build(&f, h->inner ? body + 8 : out);
	if (!h->inner)
		return out + 14;
	memset(body, 0, 8);
	body[0] = 8;
	outer.len = (uint16_t)(8 + *len);
	*len = ether_build(&outer, out);
	return out + 14 + 20 + 8 + 8 + 14;
}

static void frames_go_by_their_hash(int arg)
{
	struct spread s;
	struct ether e;

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	for (unsigned int k = 0; k < sizeof(hashings) / sizeof(hashings[0]); k++) {
		const struct hashing *h = &hashings[k];

		spread_open(&s, h->fields, 0);
		for (unsigned int seed = 0; seed < RECVS; seed++) {
			uint8_t frame[ROOM], in[36];
			size_t len;
			const uint8_t *ip = build(h, seed, frame, &len);
			unsigned int want_at = toeplitz(key, in, input(h, ip, in)) % TABLE % WQS;
			struct ibv_wc wc;

			peer_note("hashing %u, seed %u, WQ %u", k, seed, want_at);
			ether_send_bytes(&e, frame, len, 0);
			peer_poll_ok(s.q[want_at].cq, &wc);
			want_eq(wc.wr_id / RECVS, want_at);
			want_eq(wc.byte_len, len < 60 ? 60 : len);
			want_eq(wc.qp_num, s.q[want_at].wq->wq_num);
			want(!memcmp(s.mem + wc.wr_id * ROOM, frame, len));
		}
		spread_close(&s);
	}
	ether_close(&e);
}

static void states_and_flush(int arg)
{
	struct ether_frame f = { .dst = 1, .ip = 4, .len = 100 };
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_async_event ev;
	struct spread s;
	struct ether e;
	struct ibv_wc wc;

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	spread_open(&s, 0, 0);
	want_eq(move(s.q[0].wq, IBV_WQS_RDY), 0);
	want_eq(move(s.q[0].wq, IBV_WQS_ERR), 0);
	for (unsigned int i = 0; i < RECVS; i++) {
		want(peer_poll(s.q[0].cq, &wc, 10000));
		want_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
		want_eq(wc.wr_id, i);
	}
	post(&s, 0, 1); /* in ERR: flushed at once */
	want(peer_poll(s.q[0].cq, &wc, 10000) && wc.status == IBV_WC_WR_FLUSH_ERR);
	want_eq(move(s.q[0].wq, IBV_WQS_RDY), EINVAL);
	want_eq(move(s.q[0].wq, IBV_WQS_RESET), 0);
	want_eq(ibv_post_wq_recv(s.q[0].wq, &wr, &bad), EINVAL);
	want_eq(move(s.q[0].wq, IBV_WQS_ERR), EINVAL);
	want_eq(move(s.q[0].wq, IBV_WQS_RDY), 0);
	post(&s, 0, 1);
	ether_send(&e, &f);
	peer_poll_ok(s.q[0].cq, &wc);
	wr.num_sge = 0; /* too small for any frame */
	want_eq(ibv_post_wq_recv(s.q[0].wq, &wr, &bad), 0);
	ether_send(&e, &f);
	want(peer_poll(s.q[0].cq, &wc, 10000) && wc.status == IBV_WC_LOC_LEN_ERR);
	want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
	want_eq(ev.event_type, IBV_EVENT_WQ_FATAL);
	want(ev.element.wq == s.q[0].wq);
	ibv_ack_async_event(&ev);
	spread_close(&s);
	ether_close(&e);
}

/* --- a receive that is posted while its WQ goes to ERR --- */

static struct race {
	struct queue q;
	unsigned int n;
	unsigned int begun, posted; /* races, atomic */
} race;

static void wait_for(const unsigned int *word, unsigned int n)
{
	for (unsigned int looks = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != n; looks++)
		if (!(looks % 4096))
			sched_yield();
}

static void walk(unsigned int steps)
{
	while (steps--)
		__asm__ volatile("" ::: "memory");
}

static void *posts(void *arg)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	(void)arg;
	for (unsigned int i = 1; i <= race.n; i++) {
		wait_for(&race.begun, i);
		want_eq(ibv_post_wq_recv(race.q.wq, &wr, &bad), 0);
		__atomic_store_n(&race.posted, i, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Who comes second of the two flushes it. */
static void flushed_at_the_move(int arg)
{
	pthread_t thread;
	struct ibv_wc wc;

	(void)arg;
	peer_open(&dev);
	queue_open(&race.q, 0);
	race.n = cases_sanitized() ? RACES / 10 : RACES;
	want_eq(pthread_create(&thread, NULL, posts, NULL), 0);
	for (unsigned int i = 1; i <= race.n; i++) {
		want_eq(move(race.q.wq, IBV_WQS_RDY), 0);
		__atomic_store_n(&race.begun, i, __ATOMIC_RELEASE);
		walk(i % OFFSETS);
		want_eq(move(race.q.wq, IBV_WQS_ERR), 0);
		wait_for(&race.posted, i);
		peer_note("race %u", i);
		want_eq(ibv_poll_cq(race.q.cq, 1, &wc), 1);
		want_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
		want_eq(move(race.q.wq, IBV_WQS_RESET), 0);
	}
	want_eq(pthread_join(thread, NULL), 0);
	want_eq(ibv_destroy_wq(race.q.wq), 0);
	want_eq(ibv_destroy_cq(race.q.cq), 0);
}

static void tags_are_stripped_on_demand(int arg)
{
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_FLAGS,
				 .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING };
	struct ether_frame f = { .dst = 1, .vlan = 0x111, .ip = 4, .len = 100 };
	struct spread s;
	struct ether e;
	struct ibv_wc wc;

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	spread_open(&s, 0, IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS);
	ether_send(&e, &f);
	peer_poll_ok(s.q[0].cq, &wc);
	want_eq(wc.byte_len, 14 + 20 + 8 + 100 + 4);
	want_eq(ibv_modify_wq(s.q[0].wq, &a), 0);
	ether_send(&e, &f);
	peer_poll_ok(s.q[0].cq, &wc);
	want_eq(wc.byte_len, 14 + 4 + 20 + 8 + 100 + 4);
	a.flags_mask = IBV_WQ_FLAGS_SCATTER_FCS;
	want_errno(ibv_modify_wq(s.q[0].wq, &a), EOPNOTSUPP);
	spread_close(&s);
	ether_close(&e);
}

/* A QP that only receives, by queues that have flags of their own. */
static void not_of_the_qp(struct spread *s)
{
	static const uint32_t flags[] = { IBV_QP_CREATE_SCATTER_FCS,
					  IBV_QP_CREATE_CVLAN_STRIPPING };
	struct ibv_qp_init_attr_ex a = rss_attr(s, ADDR4);

	a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		a.create_flags = flags[i];
		want_null(ibv_create_qp_ex(dev.ctx, &a), EINVAL);
	}
	a = rss_attr(s, ADDR4);
	a.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	a.max_tso_header = 64;
	want_null(ibv_create_qp_ex(dev.ctx, &a), EINVAL);
}

static void wrong_ones_are_refused(int arg)
{
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1 }, b;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_device_attr_ex x;
	struct spread s;
	int err;

	(void)arg;
	peer_open(&dev);
	want_eq(ibv_query_device_ex(dev.ctx, NULL, &x), 0);
	spread_open(&s, ADDR4, 0);
	a.pd = dev.pd;
	a.cq = s.q[0].cq;
#define WRONG(err, change)                                                                         \
	do {                                                                                       \
		b = a;                                                                             \
		change;                                                                            \
		want_null(ibv_create_wq(dev.ctx, &b), err);                                        \
	} while (0)
	WRONG(EINVAL, b.pd = NULL);
	WRONG(EINVAL, b.cq = NULL);
	WRONG(EINVAL, b.max_wr = 0);
	WRONG(EINVAL, b.max_wr = (uint32_t)x.orig_attr.max_qp_wr + 1);
	WRONG(EINVAL, b.max_sge = (uint32_t)x.orig_attr.max_sge + 1);
	WRONG(EOPNOTSUPP, b.comp_mask = 2);
	a.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	WRONG(EOPNOTSUPP, b.create_flags = IBV_WQ_FLAGS_DELAY_DROP);
	want(!rss_qp(&s, ADDR4 | ADDR6, &err) && err == EINVAL);
	want(!rss_qp(&s, TCP | UDP, &err) && err == EINVAL);
	want(!rss_qp(&s, 1 << 20, &err) && err == EOPNOTSUPP);
	not_of_the_qp(&s);
	want_errno(ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EOPNOTSUPP);
	spread_close(&s);
}

static const struct test_case list[] = {
	CASE(frames_go_by_their_hash),	   CASE(states_and_flush),	 CASE(flushed_at_the_move),
	CASE(tags_are_stripped_on_demand), CASE(wrong_ones_are_refused),
};

int main(void)
{
	return CASES_RUN(list);
}
