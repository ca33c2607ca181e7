// SPDX-License-Identifier: MIT
/* Real packets: every RoCEv2 packet that two Linux rxe devices exchanged parses, is rebuilt to the
 * same bytes and has the ICRC that we compute. */
#include <dirent.h>
#include <stdlib.h>
#include "test.h"
#include "util/be.h"
#include "wire/captures_path.h"
#include "wire/cm_msg.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/packet.h"

enum {
	FILE_HEADER = 24,
	RECORD_HEADER = 16,
	ETH = 14,
	UDP = 8,
	ROCE_PORT = 4791,
	FRAME_MAX = 65536,
	PACKETS = 3302, /* of RoCEv2 in all files together */
	FLUSHES = 2,
};

static struct {
	int roce, flushes;
	int cm[CM_APR + 1];
} seen;

/* What the kernel's REQ of rping says. */
static struct cm_msg rping;

static uint32_t get_le32(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* Where the UDP header of a RoCEv2 packet begins in @ip; 0: it is none. */
static size_t roce_udp(const uint8_t *eth, const uint8_t *ip)
{
	uint16_t type = get_be16(eth + 12);
	size_t at = 0;

	if (type == 0x0800 && ip[9] == 17)
		at = (size_t)(ip[0] & 0xf) * 4;
	else if (type == 0x86dd && ip[6] == 17)
		at = 40;
	return at && get_be16(ip + at + 2) == ROCE_PORT ? at : 0;
}

/* rxe sums the headers of a FLUSH twice, the second time unmasked. */
static uint32_t flush_icrc_of_rxe(const uint8_t *ip, size_t udp)
{
	const uint8_t *bth = ip + udp + UDP;
	size_t ext = FETH_LEN + RETH_LEN;
	uint32_t crc = icrc_more(icrc_begin(ip, ip + udp, bth), bth + BTH_LEN, ext);

	return icrc_more(crc, bth, BTH_LEN + ext);
}

static void check_icrc(const uint8_t *ip, size_t len, size_t udp, uint8_t op)
{
	uint32_t want, got = icrc_get(ip + len - ICRC_LEN);

	check_eq(icrc_packet(ip, len, &want), 0);
	if (op == OP_FLUSH) {
		check_ne(got, want);
		want = flush_icrc_of_rxe(ip, udp);
		seen.flushes++;
	}
	check_eq(got, want);
}

/* A receiver that does not see the identification finds it in the ICRC, and in no damaged one. */
static void check_ident(const uint8_t *ip, size_t len)
{
	static uint8_t zeroed[FRAME_MAX];
	uint16_t want = get_be16(ip + 4), id = (uint16_t)~want;
	uint32_t crc, diff;

	memcpy(zeroed, ip, len);
	put_be16(zeroed + 4, 0);
	check_eq(icrc_packet(zeroed, len, &crc), 0);
	diff = crc ^ icrc_get(ip + len - ICRC_LEN);
	check(icrc_solve_id(diff, len - 6 - ICRC_LEN, &id));
	check_eq(id, want);
	check(!icrc_solve_id(diff ^ 1U << len % 32, len - 6 - ICRC_LEN, &id));
	check(!icrc_solve_id(diff, 1 << 14, &id));
}

static void check_cm(const struct pkt *p)
{
	uint8_t again[MAD_LEN];
	struct cm_msg m;

	check_eq(p->qkey, (uint32_t)CM_QKEY);
	check_eq(cm_parse(p->payload, p->payload_len, &m), 0);
	check_eq(cm_build(&m, again), 0);
	check_mem(again, p->payload, MAD_LEN);
	seen.cm[m.kind]++;
	if (m.kind == CM_REQ)
		rping = m;
}

static void check_packet(const uint8_t *ip, size_t udp)
{
	static uint8_t again[FRAME_MAX];
	size_t body = get_be16(ip + udp + 4), len = body - UDP, n;
	const uint8_t *bth = ip + udp + UDP;
	struct pkt p;

	check_eq(wire_parse(bth, len, &p), 0);
	check_icrc(ip, udp + body, udp, p.opcode);
	if (ip[0] >> 4 == 4 && p.opcode != OP_FLUSH)
		check_ident(ip, udp + body);
	check_eq(wire_build(&p, again, sizeof(again), &n), 0);
	check_eq(n, len);
	memcpy(again + n - ICRC_LEN, bth + len - ICRC_LEN, ICRC_LEN);
	check_mem(again, bth, len);
	if (p.dqpn == 1)
		check_cm(&p);
	seen.roce++;
}

static void check_file(const char *path)
{
	static uint8_t frame[FRAME_MAX];
	uint8_t h[FILE_HEADER], *ip = frame + ETH;
	FILE *f = fopen(path, "rb");

	check(f);
	check_eq(fread(h, FILE_HEADER, 1, f), 1);
	check_eq(get_le32(h), 0xa1b2c3d4); /* pcap, little-endian, us */
	check_eq(get_le32(h + 20), 1); /* Ethernet */
	while (fread(h, RECORD_HEADER, 1, f) == 1) {
		uint32_t n = get_le32(h + 8);
		size_t udp;

		check(n >= ETH + 40 && n <= sizeof(frame) && n == get_le32(h + 12));
		check_eq(fread(frame, n, 1, f), 1);
		udp = roce_udp(frame, ip);
		if (udp)
			check_packet(ip, udp);
	}
	fclose(f);
}

static void captures(char *folder, size_t n)
{
	const char *tests = getenv("SOFTHCA_TESTS"); /* the runner's copy; else the source */

	snprintf(folder, n, "%s/captures", tests ? tests : TESTS);
}

TEST(real_packets_parse_rebuild_and_sum_right)
{
	char folder[2048], path[4096];
	struct dirent *e;
	DIR *dir;

	captures(folder, sizeof(folder));
	dir = opendir(folder);
	check(dir);
	while ((e = readdir(dir))) {
		if (!strstr(e->d_name, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		check_file(path);
	}
	closedir(dir);
	check_eq(seen.roce, PACKETS);
	check_eq(seen.flushes, FLUSHES);
	check_eq(seen.cm[CM_REQ], 24);
	check_eq(seen.cm[CM_REJ], 2);
	check_eq(seen.cm[CM_REP], 22);
	check_eq(seen.cm[CM_DREP], 22);
	check_eq(seen.cm[CM_SIDR_REQ], 2);
	check_eq(seen.cm[CM_SIDR_REP], 2);
}

/* By tshark's reading; but flow label and rate, which tshark 4.0 shifts, by the bytes. */
TEST(a_real_request_says_what_tshark_reads)
{
	static const uint8_t from[16] = { [12] = 10, 77, 0, 12 }, to[16] = { [12] = 10, 77, 0, 11 };
	char folder[2048], path[4096];
	struct cm_ip ip;

	captures(folder, sizeof(folder));
	snprintf(path, sizeof(path), "%s/cm_rping.pcap", folder);
	check_file(path);
	check_eq(rping.local_id, 0xfe6098f6);
	check_eq(rping.service_id, 0x1061c06);
	check_eq(rping.ca_guid, 0x505400fffe77000c);
	check_eq(rping.qpn, 0x28);
	check_eq(rping.responder_resources, 1);
	check_eq(rping.initiator_depth, 1);
	check_eq(rping.remote_timeout, 20);
	check_eq(rping.transport, 0);
	check_eq(rping.psn, 0xe9332a);
	check_eq(rping.local_timeout, 20);
	check_eq(rping.retry_count, 7);
	check_eq(rping.pkey, 0xffff);
	check_eq(rping.path_mtu, 3);
	check_eq(rping.rnr_retry, 7);
	check_eq(rping.max_cm_retries, 15);
	check_eq(rping.path[0].local_lid, 0xffff);
	check_mem(rping.path[0].local_gid + 12, from + 12, 4);
	check_mem(rping.path[0].remote_gid + 12, to + 12, 4);
	check_eq(rping.path[0].flow_label, 0x53243);
	check_eq(rping.path[0].rate, 0);
	check_eq(rping.path[0].hop_limit, 64);
	check_eq(rping.path[0].ack_timeout, 17);
	check_eq(cm_ip_parse(rping.private_data, rping.private_len, &ip), 0);
	check_eq(ip.version, 4);
	check_eq(ip.port, 0xae23);
	check_mem(ip.from, from, 16);
	check_mem(ip.to, to, 16);
}

RUN_TESTS(unit_test(real_packets_parse_rebuild_and_sum_right),
	  unit_test(a_real_request_says_what_tshark_reads))
