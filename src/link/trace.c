// SPDX-License-Identifier: MIT
#include "link/trace.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "link/copy.h"
#include "link/seg_pkt.h"
#include "net/gid.h"
#include "obs/pcapng.h"
#include "util/be.h"
#include "util/log.h"
#include "util/output.h"
#include "wire/aeth.h"
#include "wire/cm_msg.h"
#include "wire/grh.h"
#include "wire/icrc.h"
#include "wire/ip.h"

enum {
	ETH_LEN = 14,
	MTU_MIN = 256,
	MTU_MAX = 4096,
	TTL = 64,
	COMMENT = 160,
};

static char *file; /* set once, before anything is traced */
static bool ended; /* half a packet stands at the end, behind which others would be out of place */

struct trace {
	struct dest d;
	struct trace_ends ends;
};

static struct trace *to_trace(struct dest *d)
{
	return container_of(d, struct trace, d);
}

uint64_t trace_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

bool trace_begin(const char *path)
{
	char whole[PATH_MAX];
	int err;

	if (!path || !*path)
		return false;
	err = output_path(path, whole);
	if (!err)
		err = pcapng_begin(whole);
	if (!err && !file)
		file = strdup(whole);
	if (err || !file) {
		log_warn("SOFTHCA_TRACE=%s: %s; there is no trace", path,
			 strerror(err ? err : ENOMEM));
		return false;
	}
	return true;
}

void trace_put(const struct trace_frame *f, uint64_t now, enum trace_way way, const char *comment)
{
	struct pcapng_packet p = { now, way == TRACE_OUT, f->b, f->len, comment };
	bool half;
	int err;

	if (load_relaxed(&ended))
		return;
	err = pcapng_append(file, &p, &half);
	if (err && half) {
		store_relaxed(&ended, true);
		log_warn_once("%s: %s in the middle of a packet; this process traces no more", file,
			      strerror(err));
	} else if (err) {
		log_warn_once("%s: %s; packets are missing in the trace", file, strerror(err));
	}
}

/* --- the packets of a segment --- */

/* The opcode FIRST of the messages that @op is a packet of; MIDDLE is the next number. FRAME_OP: no
 * message has such a packet. */
static uint8_t first_of(uint8_t op)
{
	uint8_t service = opcode_service(op), operation = opcode_operation(op);

	if (operation >= OP_READ_RESP_FIRST && operation <= OP_READ_RESP_ONLY)
		return service | OP_READ_RESP_FIRST;
	if (operation >= OP_WRITE_FIRST && operation <= OP_WRITE_ONLY_IMM)
		return service | OP_WRITE_FIRST;
	if (operation > OP_SEND_ONLY_INV)
		return FRAME_OP;
	return service | OP_SEND_FIRST;
}

/* The path MTU at which the payload makes npsn packets; 0: one packet, or nonsense. */
static uint32_t mtu_of(const struct seg *s)
{
	if (s->npsn < 2 || !opcode_has(s->op, WIRE_PAYLOAD) || !opcodes[first_of(s->op)].name)
		return 0;
	for (uint32_t mtu = MTU_MIN; mtu <= MTU_MAX; mtu *= 2)
		if (((uint64_t)s->len + mtu - 1) / mtu == s->npsn)
			return mtu;
	return 0;
}

uint32_t trace_count(const struct seg *s)
{
	uint32_t ack = s->op != FRAME_OP && (s->flags & SEG_ACK) ? 1 : 0;

	return ack + (s->op != FRAME_OP && mtu_of(s) ? s->npsn : 1);
}

/* The opcode of a packet in a message whose segment has @op. */
static uint8_t op_at(uint8_t op, bool first, bool last)
{
	static const struct {
		uint8_t only, last;
	} ends[] = {
		{ OP_SEND_ONLY, OP_SEND_LAST },		  { OP_SEND_ONLY_IMM, OP_SEND_LAST_IMM },
		{ OP_SEND_ONLY_INV, OP_SEND_LAST_INV },	  { OP_WRITE_ONLY, OP_WRITE_LAST },
		{ OP_WRITE_ONLY_IMM, OP_WRITE_LAST_IMM }, { OP_READ_RESP_ONLY, OP_READ_RESP_LAST }
	};
	uint8_t service = opcode_service(op), operation = opcode_operation(op);

	first = first && opcode_has(op, WIRE_FIRST);
	last = last && opcode_has(op, WIRE_LAST);
	if (first && last)
		return op;
	if (!last)
		return (uint8_t)(first_of(op) + (first ? 0 : 1));
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (operation == ends[i].only)
			operation = ends[i].last;
	return service | operation;
}

static void carried_ack(const struct seg *s, struct seg *out)
{
	*out = (struct seg){
		.op = (opcode_service(s->op) == SVC_XRC ? SVC_XRC : SVC_RC) | OP_ACKNOWLEDGE,
		.syndrome = AETH_ACK | AETH_UNLIMITED,
		.pkey = s->pkey,
		.dqpn = s->dqpn,
		.sqpn = s->sqpn,
		.psn = s->ack_psn,
		.npsn = 1,
		.msn = s->ack_msn,
	};
}

/* The part of @s that is its @k-th packet; *skip: where its payload begins. */
static void cut(const struct seg *s, uint32_t k, struct seg *out, uint64_t *skip)
{
	uint32_t mtu = mtu_of(s);
	bool last = !mtu || k == s->npsn - 1;

	*out = *s;
	*skip = (uint64_t)k * mtu;
	if (mtu) {
		out->op = op_at(s->op, !k, last);
		out->psn = psn_add(s->psn, k);
		out->len = last ? s->len - (uint32_t)*skip : mtu;
	} else if (s->len > MTU_MAX) {
		out->len = MTU_MAX;
	}
	if (!last)
		out->flags &= ~(SEG_SOLICITED | SEG_ACKREQ);
	if (!opcode_has(out->op, WIRE_PAYLOAD))
		out->len = 0;
}

static int payload(const struct seg *s, uint64_t skip, enum trace_way way, struct piece to)
{
	uint8_t *at = (uint8_t *)(uintptr_t)to.addr;

	if (!to.len)
		return 0;
	if (s->npieces && way == TRACE_OUT)
		return copy_gather(at, s->pieces, s->npieces, skip, to.len);
	if (s->npieces)
		return s->from->ops->fetch(s->from, s, (uint32_t)skip, &to, 1);
	memcpy(at, s->data + skip, to.len);
	return 0;
}

/* --- headers --- */

static size_t put_ip(uint8_t *ip, const union ibv_gid *from, const union ibv_gid *to, size_t behind)
{
	memset(ip, 0, IP6_LEN);
	if (gid_is_ipv4(from) && gid_is_ipv4(to)) {
		ip[0] = 0x45;
		put_be16(ip + 2, (uint16_t)(IP4_LEN + behind));
		ip[6] = 0x40; /* not to be fragmented */
		ip[8] = TTL;
		ip[9] = GRH_NEXT_UDP;
		memcpy(ip + 12, from->raw + 12, 4);
		memcpy(ip + 16, to->raw + 12, 4);
		put_be16(ip + 10, grh_ipv4_checksum(ip));
		return IP4_LEN;
	}
	ip[0] = 0x60;
	put_be16(ip + 4, (uint16_t)behind);
	ip[6] = GRH_NEXT_UDP;
	ip[7] = TTL;
	memcpy(ip + 8, from->raw, 16);
	memcpy(ip + 24, to->raw, 16);
	return IP6_LEN;
}

/* Made-up MAC addresses (locally administered), from the IP addresses. */
static void put_eth(uint8_t *eth, const union ibv_gid *from, const union ibv_gid *to, bool ipv4)
{
	static const uint8_t local[2] = { 2, 0 };

	memcpy(eth, local, 2);
	memcpy(eth + 2, to->raw + 12, 4);
	memcpy(eth + 6, local, 2);
	memcpy(eth + 8, from->raw + 12, 4);
	put_be16(eth + 12, ipv4 ? 0x0800 : 0x86dd);
}

/* Ethernet, IP and UDP headers around the RoCE packet at @b, out->len bytes with the place of the
 * ICRC, and the ICRC. */
static void wrap_up(uint8_t *b, const struct trace_ends *e, enum trace_way way, uint32_t dqpn,
		    struct trace_frame *out)
{
	const union ibv_gid *from = way == TRACE_OUT ? &e->local : &e->remote;
	const union ibv_gid *to = way == TRACE_OUT ? &e->remote : &e->local;
	size_t n = out->len, ip;
	uint8_t *udp;
	uint32_t crc;

	ip = put_ip(out->b + ETH_LEN, from, to, UDP_LEN + n);
	udp = out->b + ETH_LEN + ip;
	put_eth(out->b, from, to, ip == IP4_LEN);
	put_be16(udp, udp_sport(e->qpn ^ dqpn));
	put_be16(udp + 2, UDP_ROCE_PORT);
	put_be16(udp + 4, (uint16_t)(UDP_LEN + n));
	put_be16(udp + 6, 0);
	memmove(udp + UDP_LEN, b, n);
	out->len = ETH_LEN + ip + UDP_LEN + n;
	if (!icrc_packet(out->b + ETH_LEN, out->len - ETH_LEN, &crc))
		icrc_put(out->b + out->len - ICRC_LEN, crc);
}

static void build_roce(const struct seg *s, uint64_t skip, enum trace_way way,
		       const struct trace_ends *ends, struct trace_frame *out)
{
	uint8_t *bth = out->b + ETH_LEN + IP6_LEN + UDP_LEN;
	struct pkt p;
	size_t head;

	seg_to_pkt(s, &p);
	p.xrc_srqn = s->srqn;
	out->len = 0;
	if (wire_build_headers(&p, bth, WIRE_HEADERS_MAX, &head))
		return; /* no such opcode: from a hostile peer */
	if (payload(s, skip, way, (struct piece){ (uintptr_t)bth + head, s->len, 0 })) {
		memset(bth + head, 0, s->len);
		out->payload_lost = true;
	}
	if (wire_build(&p, bth, TRACE_FRAME - (size_t)(bth - out->b), &out->len))
		return;
	wrap_up(bth, ends, way, s->dqpn, out);
}

void trace_build(const struct seg *s, uint32_t k, enum trace_way way, const struct trace_ends *ends,
		 struct trace_frame *out)
{
	struct seg part;
	uint64_t skip = 0;

	out->payload_lost = out->carried = false;
	out->psn = s->psn;
	if (s->op == FRAME_OP) {
		out->len = s->len < TRACE_FRAME ? s->len : TRACE_FRAME;
		out->payload_lost =
			payload(s, 0, way, (struct piece){ (uintptr_t)out->b, out->len, 0 });
		return;
	}
	if ((s->flags & SEG_ACK) && !k--) {
		carried_ack(s, &part);
		out->carried = true;
	} else {
		cut(s, k, &part, &skip);
	}
	out->psn = part.psn;
	build_roce(&part, skip, way, ends, out);
}

const char *trace_message(const struct trace_ends *ends, const struct trace_frame *f, char *out,
			  size_t n)
{
	struct cm_msg m;

	*out = '\0';
	if (ends->qpn == GSI_QPN && f->len > MAD_LEN + ICRC_LEN &&
	    !cm_parse(f->b + f->len - ICRC_LEN - MAD_LEN, MAD_LEN, &m))
		snprintf(out, n, " CM %s", cm_name(m.kind));
	return out;
}

void trace_sent(const struct trace_ends *ends, const char *by, const struct seg *s,
		const char *verdict, uint64_t now)
{
	uint32_t n = trace_count(s);
	char comment[COMMENT], what[TRACE_MESSAGE];
	struct trace_frame f;

	for (uint32_t k = 0; k < n; k++) {
		trace_build(s, k, TRACE_OUT, ends, &f);
		snprintf(comment, sizeof(comment), "QP 0x%x sends%s PSN %u%s by %s; verdict: %s%s",
			 ends->qpn, trace_message(ends, &f, what, sizeof(what)), f.psn,
			 f.carried ? " (with the next packet)" : "", by, verdict,
			 f.payload_lost ? "; the payload could not be read" : "");
		if (f.len)
			trace_put(&f, now, TRACE_OUT, comment);
	}
}

/* --- the destination --- */

static int trace_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	struct trace *t = to_trace(d);
	struct seg by_value = *s;
	uint64_t now = trace_now();
	int err;

	by_value.flags |= SEG_NO_REF;
	err = dest_send(d->inner, &by_value, w);
	if (!err)
		trace_sent(&t->ends, d->inner->ops->name, s, "sent", now);
	else if (err == ENETUNREACH)
		trace_sent(&t->ends, d->inner->ops->name, s, "lost; reason: nobody is there", now);
	return err;
}

static int trace_fetch(struct dest *from, const struct seg *s, uint32_t skip,
		       const struct piece *dst, unsigned int ndst)
{
	return from->inner->ops->fetch(from->inner, s, skip, dst, ndst);
}

static bool trace_taken(struct dest *d, struct link_mark *mark)
{
	return dest_has_taken(d->inner, mark);
}

static void trace_cancel(struct dest *d, struct waiter *w)
{
	d->inner->ops->cancel(d->inner, w);
}

static void trace_unref(struct dest *d)
{
	if (fetch_sub_acq_rel(&d->refs, 1) != 1)
		return;
	d->inner->ops->put(d->inner);
	free(to_trace(d));
}

/* No direct access. */
static const struct link_ops trace_ops = {
	.name = "trace",
	.send = trace_send,
	.fetch = trace_fetch,
	.taken = trace_taken,
	.cancel = trace_cancel,
	.put = trace_unref,
};

int trace_wrap(struct dest *inner, const struct trace_ends *ends, struct dest **out)
{
	struct trace *t = calloc(1, sizeof(*t));

	if (!t)
		return ENOMEM;
	t->d = (struct dest){ .ops = &trace_ops,
			      .refs = 1,
			      .max_seg = inner->max_seg,
			      .inline_max = UINT32_MAX,
			      .net = inner->net,
			      .same_host = inner->same_host,
			      .inner = inner };
	t->ends = *ends;
	*out = &t->d;
	return 0;
}
