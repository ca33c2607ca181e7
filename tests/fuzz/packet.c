// SPDX-License-Identifier: MIT
/* RoCEv2 packets, from the IP header to the ICRC: what parses is inside of its buffer and is
 * rebuilt to something that parses the same; a segment carries all of it. */
#include <string.h>
#include "fuzz.h"
#include "link/seg_pkt.h"
#include "util/be.h"
#include "wire/aeth.h"
#include "wire/grh.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/packet.h"

enum { UDP = 8, IP4 = 20, IP6 = 40, MAX = 2048 };

const struct fuzz_target fuzz_target = { "packet", MAX, 300000 };

static size_t ip_header(const uint8_t *data, size_t len)
{
	size_t n = len && data[0] >> 4 == 6 ? IP6 : IP4;

	return len < n + UDP + BTH_LEN ? 0 : n;
}

/* *n bytes; the ICRC stays zero. */
static void rebuild(const struct pkt *p, uint8_t *buf, size_t *n)
{
	must(!wire_build(p, buf, MAX + ICRC_LEN, n));
}

static void same_again(const struct pkt *p, const uint8_t *bytes, size_t len)
{
	uint8_t again[MAX + ICRC_LEN];
	size_t n;

	rebuild(p, again, &n);
	must(n == len && !memcmp(again, bytes, n));
}

static bool segment_has_all(const struct pkt *p)
{
	uint8_t service = opcode_service(p->opcode);

	return !p->fecn && !p->becn && !(p->op->flags & WIRE_FETH) && service != SVC_CNP &&
	       (p->migreq || service == SVC_RC || service == SVC_UC || service == SVC_XRC);
}

static void as_segment(const struct pkt *p, const uint8_t *bytes, size_t len)
{
	struct pkt q;
	struct seg s;

	seg_from_pkt(p, &s);
	must(s.len == p->payload_len && s.npsn == 1 && s.dqpn == p->dqpn);
	if (!segment_has_all(p))
		return;
	seg_to_pkt(&s, &q);
	q.payload = s.data;
	same_again(&q, bytes, len);
}

static void roce(const uint8_t *bth, size_t len)
{
	uint8_t bytes[MAX + ICRC_LEN];
	struct pkt p, q;
	size_t n;

	if (wire_parse(bth, len, &p))
		return;
	must(p.op == &opcodes[bth[0]] && p.opcode == bth[0] && p.op->name);
	must(p.pad < 4 && len >= BTH_LEN + ICRC_LEN);
	must(p.payload_len == len - BTH_LEN - p.op->ext_len - p.pad - ICRC_LEN);
	must(!p.payload_len || (p.payload >= bth && p.payload + p.payload_len <= bth + len));
	must((p.dqpn | p.psn | p.msn | p.sqpn | p.xrc_srqn) <= PSN_MASK);
	rebuild(&p, bytes, &n);
	must(!wire_parse(bytes, n, &q));
	same_again(&q, bytes, n);
	as_segment(&p, bytes, n);
	if (aeth_kind(p.syndrome) == AETH_ACK && aeth_credits(p.syndrome) != UINT32_MAX)
		must(aeth_ack(aeth_credits(p.syndrome)) == aeth_code(p.syndrome));
}

/* The identification of an IPv4 packet comes out of its ICRC. */
static void icrc(const uint8_t *data, size_t len)
{
	uint32_t crc, other;
	uint8_t copy[MAX];
	uint16_t id = 0;

	if (icrc_packet(data, len, &crc))
		return;
	memcpy(copy, data, len);
	put_be16(copy + 4, 0);
	must(!icrc_packet(copy, len, &other) || data[0] >> 4 == 6);
	if (data[0] >> 4 == 6)
		return;
	must(icrc_solve_id(crc ^ other, len - 6 - ICRC_LEN, &id) || !get_be16(data + 4));
	must(id == get_be16(data + 4));
	copy[len - ICRC_LEN - 1] ^= 1;
	must(!icrc_packet(copy, len, &crc) && crc != other);
}

static void grh(const uint8_t *area)
{
	uint8_t built[GRH_LEN];
	struct grh g, again;

	if (grh_parse(area, &g))
		return;
	must(grh_version(area) != GRH_NONE);
	grh_build(&g, built);
	/* Addresses of an IPv6 header can spell a whole IPv4 header, checksum and all: every
	 * reader, the Linux kernel's ib_get_gids_from_rdma_hdr() too, then takes it for IPv4. */
	if (built[0] >> 4 == 6 && grh_version(built) == GRH_IPV4)
		return;
	must(!grh_parse(built, &again));
	must(!memcmp(g.sgid, again.sgid, 16) && !memcmp(g.dgid, again.dgid, 16));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	size_t ip = ip_header(data, len);

	if (len > MAX)
		return 0;
	icrc(data, len);
	if (len >= GRH_LEN)
		grh(data);
	if (ip)
		roce(data + ip + UDP, len - ip - UDP);
	return 0;
}
