// SPDX-License-Identifier: MIT
/* What a RAW_PACKET queue pair does to frames beyond carrying them: checksums, VLAN tags, the check
 * sequence, segmentation. */
#include <errno.h>
#include <string.h>
#include "verbs/ether.h"

static struct peer_dev dev;

struct pair {
	struct ether a, b; /* a sends, b gets what goes to 02:00:00:00:00:01 */
	struct ibv_flow *flow;
};

static void open_pair(struct pair *p, uint32_t flags)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);

	peer_open(&dev);
	ether_open(&dev, 0, &p->a);
	ether_open(&dev, flags, &p->b);
	ether_recv(&p->b, ETHER_SLOTS);
	ether_spec_dst(&r, 1);
	p->flow = ether_steer(&p->b, &r);
}

static void close_pair(struct pair *p)
{
	want_eq(ibv_destroy_flow(p->flow), 0);
	ether_close(&p->a);
	ether_close(&p->b);
}

/* --- checksums --- */

static const struct ether_frame framed[] = {
	{ .dst = 1, .ip = 4, .proto = 17, .sport = 5, .len = 101 },
	{ .dst = 1, .ip = 4, .proto = 6, .sport = 5, .len = 100 },
	{ .dst = 1, .ip = 4, .proto = 6, .vlan = 0x2005, .len = 33 },
	{ .dst = 1, .ip = 6, .proto = 17, .len = 77 },
	{ .dst = 1, .ip = 6, .proto = 6, .len = 500 },
};
enum { FRAMED = sizeof(framed) / sizeof(framed[0]) };

/* Where the checksums stand; 0: none. */
static size_t ip_sum_at(const struct ether_frame *f)
{
	return f->ip == 4 ? 14 + 10 + (f->vlan ? 4 : 0) : 0;
}

static size_t l4_sum_at(const struct ether_frame *f)
{
	return 14 + (f->vlan ? 4 : 0) + (f->ip == 4 ? 20 : 40) + (f->proto == 6 ? 16 : 6);
}

static void checksums_are_filled_in(int arg)
{
	uint8_t right[ETHER_ROOM], blank[ETHER_ROOM];
	struct ether_got got;
	struct pair p;

	(void)arg;
	open_pair(&p, 0);
	for (unsigned int i = 0; i < FRAMED; i++) {
		const struct ether_frame *f = &framed[i];
		size_t len = ether_build(f, right);

		peer_note("frame %u", i);
		memcpy(blank, right, len);
		memset(blank + l4_sum_at(f), 0xee, 2);
		if (ip_sum_at(f))
			memset(blank + ip_sum_at(f), 0xee, 2);
		ether_send_bytes(&p.a, blank, len, IBV_SEND_IP_CSUM);
		ether_want(&p.b, &got);
		want(!memcmp(got.p, right, len));
		want_eq(!!(got.wc_flags & IBV_WC_IP_CSUM_OK), f->ip == 4);
		ether_send_bytes(&p.a, blank, len, 0); /* not asked for: as it is */
		ether_want(&p.b, &got);
		want(!memcmp(got.p, blank, len));
		want(!(got.wc_flags & IBV_WC_IP_CSUM_OK));
	}
	close_pair(&p);
}

static void wrong_checksums_are_told(int arg)
{
	uint8_t bytes[ETHER_ROOM];
	struct ether_got got;
	struct pair p;

	(void)arg;
	open_pair(&p, 0);
	for (unsigned int i = 0; i < 3; i++) {
		size_t len = ether_build(&framed[i], bytes);
		const size_t at[] = { 0, ip_sum_at(&framed[i]), l4_sum_at(&framed[i]), len - 1 };

		for (unsigned int k = 0; k < 4; k++) {
			peer_note("frame %u, byte %zu", i, at[k]);
			if (k)
				bytes[at[k]] ^= 1;
			ether_send_bytes(&p.a, bytes, len, 0);
			ether_want(&p.b, &got);
			want_eq(!!(got.wc_flags & IBV_WC_IP_CSUM_OK), !k);
			if (k)
				bytes[at[k]] ^= 1;
		}
	}
	close_pair(&p);
}

/* --- VLAN tags and the check sequence --- */

static void tags_are_stripped(int arg)
{
	struct ether_frame f = { .dst = 1, .vlan = 0x6abc, .ip = 4, .len = 200 };
	uint8_t plain[ETHER_ROOM];
	struct ether_got got;
	struct pair p;
	size_t len;

	(void)arg;
	open_pair(&p, IBV_QP_CREATE_CVLAN_STRIPPING);
	ether_send(&p.a, &f);
	ether_want(&p.b, &got);
	want_eq(got.vlan, 0x6abc);
	f.vlan = 0;
	len = ether_build(&f, plain);
	want_eq(got.len, len);
	want(!memcmp(got.p, plain, len));
	ether_send(&p.a, &f);
	ether_want(&p.b, &got);
	want_eq(got.vlan, 0);
	want_eq(got.len, len);
	close_pair(&p);
}

/* The CRC of a frame and its FCS is a constant. */
static uint32_t crc(const uint8_t *p, size_t n)
{
	uint32_t c = 0xffffffff;

	for (; n; n--) {
		c ^= *p++;
		for (int i = 0; i < 8; i++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320 : 0);
	}
	return ~c;
}

static void check_sequences_are_scattered(int arg)
{
	struct ether_frame f = { .dst = 1, .ip = 4, .len = 123 };
	struct ether_got got;
	struct pair p;

	(void)arg;
	open_pair(&p, IBV_QP_CREATE_SCATTER_FCS);
	ether_send(&p.a, &f);
	ether_want(&p.b, &got);
	want_eq(got.len, 14 + 20 + 8 + 123 + 4);
	want_eq(crc(got.p, got.len), 0x2144df1c);
	close_pair(&p);
}

/* --- segmentation --- */

enum { PAYLOAD = 5100, MSS = 1000, FLAGS = 0x99 /* CWR, ACK, PSH, FIN */ };

static void post_tso(struct ether *e, struct ibv_send_wr *wr, bool ex)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(e->qp);
	struct ibv_send_wr *bad;

	if (!ex) {
		want_eq(ibv_post_send(e->qp, wr, &bad), 0);
		return;
	}
	ibv_wr_start(qpx);
	qpx->wr_id = 0;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_tso(qpx, wr->tso.hdr, wr->tso.hdr_sz, wr->tso.mss);
	ibv_wr_set_sge_list(qpx, 1, wr->sg_list);
	want_eq(ibv_wr_complete(qpx), 0);
}

static void want_segment(const struct ether_got *got, const struct ether_frame *f, unsigned int i)
{
	unsigned int tcp = f->ip == 4 ? 34 : 54, last = (PAYLOAD - 1) / MSS;
	unsigned int n = i == last ? PAYLOAD - last * MSS : MSS;
	const uint8_t *t = got->p + tcp;

	want_eq(got->len, tcp + 20 + n);
	want_eq(f->ip == 4 ? got->p[16] << 8 | got->p[17] : got->p[18] << 8 | got->p[19],
		f->ip == 4 ? got->len - 14 : n + 20);
	if (f->ip == 4) {
		want_eq(got->p[18] << 8 | got->p[19], 0xffff & (0xfffe + i));
		want(got->wc_flags & IBV_WC_IP_CSUM_OK);
	}
	want_eq((uint32_t)t[4] << 24 | t[5] << 16 | t[6] << 8 | t[7], 0xfffffe00U + i * MSS);
	want_eq(t[13], 0x10 | (i == 0 ? 0x80 : 0) | (i == last ? 0x09 : 0));
	want_eq(pattern_check(t + 20, n, 3, (uint64_t)i * MSS), n);
}

static void segments(struct pair *p, const struct ether_frame *f, bool ex)
{
	uint8_t hdr[128], *data = p->a.mem + (size_t)ETHER_SLOTS * ETHER_ROOM;
	struct ibv_sge sg = { (uintptr_t)data, PAYLOAD, p->a.mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_TSO, .send_flags = IBV_SEND_SIGNALED
	};
	struct ibv_wc wc;
	struct ether_got got;

	wr.tso.hdr = hdr;
	wr.tso.hdr_sz = (uint16_t)ether_build(f, hdr);
	wr.tso.mss = MSS;
	if (f->ip == 4)
		memset(hdr + 18, 0xff, 2), hdr[19] = 0xfe; /* the identification */
	memset(hdr + wr.tso.hdr_sz - 16, 0xff, 3); /* the sequence number */
	hdr[wr.tso.hdr_sz - 14] = 0xfe;
	hdr[wr.tso.hdr_sz - 13] = 0;
	hdr[wr.tso.hdr_sz - 7] = FLAGS;
	pattern_fill(data, PAYLOAD, 3, 0);
	post_tso(&p->a, &wr, ex);
	peer_poll_ok(ibv_cq_ex_to_cq(p->a.cq), &wc);
	want_eq(wc.opcode, IBV_WC_TSO);
	for (unsigned int i = 0; i <= (PAYLOAD - 1) / MSS; i++) {
		peer_note("IPv%u, segment %u", f->ip, i);
		ether_want(&p->b, &got);
		want_segment(&got, f, i);
	}
	ether_want_none(&p->b);
	ether_recv(&p->b, 6);
}

static void large_sends_are_segmented(int arg)
{
	static const struct ether_frame four = { .dst = 1, .ip = 4, .proto = 6 },
					six = { .dst = 1, .ip = 6, .proto = 6 };
	struct pair p;

	open_pair(&p, 0);
	segments(&p, &four, arg);
	segments(&p, &six, arg);
	close_pair(&p);
}

/* Headers that wrap at the end of the send queue, again and again: each takes two blocks of it, so
 * one of one block goes before. */
static void headers_wrap(int arg)
{
	static const struct ether_frame odd = { .dst = 1, .ip = 4, .len = 50 };
	static const struct ether_frame four = { .dst = 1, .ip = 4, .proto = 6 };
	struct pair p;

	(void)arg;
	open_pair(&p, 0);
	ether_send(&p.a, &odd);
	ether_want(&p.b, NULL);
	ether_recv(&p.b, 1);
	for (int i = 0; i < 200; i++)
		segments(&p, &four, i & 1);
	close_pair(&p);
}

static void wrong_sends_fail(int arg)
{
	struct ibv_sge sg = { 0, 100, 0 };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_TSO,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	uint8_t hdr[200] = { 0 };
	struct ibv_wc wc;
	struct pair p;

	open_pair(&p, 0);
	sg.addr = (uintptr_t)p.a.mem;
	sg.lkey = p.a.mr->lkey;
	wr.tso.hdr = hdr;
	wr.tso.hdr_sz = 200;
	want_eq(ibv_post_send(p.a.qp, &wr, &bad), EINVAL); /* max_tso_header is 128 */
	want_eq(ibv_post_send(p.a.qp, (wr.opcode = IBV_WR_RDMA_WRITE, &wr), &bad), EINVAL);
	wr.opcode = IBV_WR_TSO;
	wr.tso.hdr_sz = 54; /* zeros: no TCP in it */
	wr.tso.mss = arg == 1 ? 0 : 50;
	if (arg == 2)
		wr.opcode = IBV_WR_SEND, sg.length = 13;
	if (arg == 3)
		wr.opcode = IBV_WR_SEND, sg.length = 10001;
	want_eq(ibv_post_send(p.a.qp, &wr, &bad), 0);
	want(peer_poll(ibv_cq_ex_to_cq(p.a.cq), &wc, 10000));
	want_eq(wc.status, IBV_WC_LOC_LEN_ERR);
	ether_want_none(&p.b);
	close_pair(&p);
}

static const struct test_case list[] = {
	CASE(checksums_are_filled_in),
	CASE(wrong_checksums_are_told),
	CASE(tags_are_stripped),
	CASE(check_sequences_are_scattered),
	{ "large_sends_are_segmented (ibv_post_send)", large_sends_are_segmented, 0 },
	{ "large_sends_are_segmented (ibv_wr_send_tso)", large_sends_are_segmented, 1 },
	CASE(headers_wrap),
	{ "TSO without TCP fails", wrong_sends_fail, 0 },
	{ "TSO without mss fails", wrong_sends_fail, 1 },
	{ "a frame without a header fails", wrong_sends_fail, 2 },
	{ "a frame that is too long fails", wrong_sends_fail, 3 },
};

int main(void)
{
	return CASES_RUN(list);
}
