// SPDX-License-Identifier: MIT
/* Fields of every message are where the specification puts them (captures.c reads real ones). */
#include <errno.h>
#include <string.h>
#include "test.h"
#include "util/be.h"
#include "util/rand.h"
#include "wire/cm_msg.h"

enum { DATA = 24 };

static uint8_t mad[MAD_LEN];
static struct cm_msg m;

static void begin(uint16_t kind)
{
	static const uint8_t head[4] = { 1, 7, 2, 3 };

	memset(mad, 0, sizeof(mad));
	memcpy(mad, head, sizeof(head));
	put_be16(mad + 16, kind);
}

static void parsed(void)
{
	uint8_t again[MAD_LEN];

	check_eq(cm_parse(mad, MAD_LEN, &m), 0);
	check_eq(cm_build(&m, again), 0);
	check_mem(again, mad, MAD_LEN);
}

TEST(what_is_no_message_of_cm_is_refused)
{
	for (unsigned int i = 0; i < 4; i++) {
		begin(CM_REQ);
		check_eq(cm_parse(mad, MAD_LEN, &m), 0);
		check_eq(cm_parse(mad, MAD_LEN - 1, &m), EBADMSG);
		check_eq(cm_parse(mad, 0, &m), EBADMSG);
		mad[i]++;
		check_eq(cm_parse(mad, MAD_LEN, &m), EBADMSG);
	}
	for (uint32_t kind = 0; kind < 0x10000; kind++) {
		bool known = kind >= CM_REQ && kind <= CM_APR;

		begin((uint16_t)kind);
		check_eq(cm_parse(mad, MAD_LEN, &m), known ? 0 : EBADMSG);
		m.kind = (uint16_t)kind;
		check_eq(cm_build(&m, mad), known ? 0 : EINVAL);
		check_eq(cm_name((uint16_t)kind) != NULL, known);
		check_eq(cm_private_room((uint16_t)kind) != 0, known);
	}
}

TEST(the_header_carries_status_transaction_and_modifier)
{
	begin(CM_RTU);
	put_be16(mad + 4, 0x1234);
	put_be64(mad + 8, 0x0102030405060708);
	put_be32(mad + 20, 0x8badf00d);
	parsed();
	check_eq(m.status, 0x1234);
	check_eq(m.tid, 0x0102030405060708);
	check_eq(m.modifier, 0x8badf00d);
}

TEST(mra_and_rej)
{
	begin(CM_MRA);
	put_be32(mad + DATA, 0x11223344);
	put_be32(mad + DATA + 4, 0x55667788);
	mad[DATA + 8] = 0x80;
	mad[DATA + 9] = 0xa8;
	parsed();
	check_eq(m.local_id, 0x11223344);
	check_eq(m.remote_id, 0x55667788);
	check_eq(m.about, 2);
	check_eq(m.service_timeout, 21);
	begin(CM_REJ);
	mad[DATA + 8] = 0x40;
	mad[DATA + 9] = 72 << 1;
	put_be16(mad + DATA + 10, 28);
	memset(mad + DATA + 12, 0xa5, 72);
	memset(mad + DATA + 84, 0x5a, 148);
	parsed();
	check_eq(m.about, 1);
	check_eq(m.info_len, 72);
	check_eq(m.reason, 28);
	check_eq(m.info[71], 0xa5);
	check_eq(m.private_len, 148);
	check_eq(m.private_data[0], 0x5a);
}

TEST(the_vendor_of_a_reply_comes_in_parts)
{
	begin(CM_REP);
	mad[DATA + 15] = 0x01;
	mad[DATA + 19] = 0x02;
	mad[DATA + 23] = 0x03;
	mad[DATA + 26] = 15 << 3 | 2 << 1 | 1;
	mad[DATA + 27] = 6 << 5 | 1 << 4;
	parsed();
	check_eq(m.vendor_id, 0x010203);
	check_eq(m.ack_delay, 15);
	check_eq(m.failover, 2);
	check_eq(m.flow_control, 1);
	check_eq(m.rnr_retry, 6);
	check_eq(m.srq, 1);
	begin(CM_SIDR_REP);
	put_be16(mad + DATA + 6, 0x0102);
	mad[DATA + 11] = 0x03;
	mad[DATA + 4] = 3;
	mad[DATA + 5] = 72;
	parsed();
	check_eq(m.vendor_id, 0x010203);
	check_eq(m.reason, 3);
	check_eq(m.info_len, 72);
}

TEST(another_path_and_its_answer)
{
	begin(CM_LAP);
	put_be24(mad + DATA + 12, 0x123456);
	mad[DATA + 15] = 20 << 3;
	put_be16(mad + DATA + 22, 7);
	mad[DATA + 40] = 0xfe;
	put_be32(mad + DATA + 56, 0xabcdeU << 12 | 9);
	mad[DATA + 60] = 64;
	mad[DATA + 61] = 0x13;
	mad[DATA + 62] = 5 << 4 | 1 << 3;
	mad[DATA + 63] = 17 << 3;
	parsed();
	check_eq(m.qpn, 0x123456);
	check_eq(m.remote_timeout, 20);
	check_eq(m.path[1].remote_lid, 7);
	check_eq(m.path[1].remote_gid[0], 0xfe);
	check_eq(m.path[1].flow_label, 0xabcde);
	check_eq(m.path[1].tclass, 9);
	check_eq(m.path[1].hop_limit, 64);
	check_eq(m.path[1].rate, 0x13);
	check_eq(m.path[1].sl, 5);
	check_eq(m.path[1].subnet_local, 1);
	check_eq(m.path[1].ack_timeout, 17);
	begin(CM_APR);
	mad[DATA + 8] = 4;
	mad[DATA + 9] = 2;
	parsed();
	check_eq(m.info_len, 4);
	check_eq(m.reason, 2);
}

/* What is built of any bytes parses to the same message, and no field lies on another. */
TEST(any_bytes_come_back)
{
	struct rand r;

	rand_init(&r, 1);
	for (unsigned int i = 0; i < 20000; i++) {
		uint8_t built[MAD_LEN];
		struct cm_msg again;

		begin((uint16_t)(CM_REQ + i % (CM_APR - CM_REQ + 1)));
		for (unsigned int k = DATA; k < MAD_LEN; k++)
			mad[k] = (uint8_t)rand_u64(&r);
		check_eq(cm_parse(mad, MAD_LEN, &m), 0);
		check_eq(cm_build(&m, built), 0);
		check_eq(cm_parse(built, MAD_LEN, &again), 0);
		check_mem(&again, &m, sizeof(m));
		for (unsigned int k = DATA; k < MAD_LEN; k++)
			check_eq(built[k] & ~mad[k], 0);
	}
}

TEST(private_data_keeps_to_its_room)
{
	memset(&m, 0, sizeof(m));
	m.kind = CM_REQ;
	m.private_len = CM_PRIVATE_MAX;
	memset(m.private_data, 0xff, sizeof(m.private_data));
	check_eq(cm_build(&m, mad), 0);
	check_eq(mad[DATA + 139], 0);
	check_eq(mad[DATA + 140], 0xff);
	check_eq(mad[MAD_LEN - 1], 0xff);
	check_eq(cm_private_room(CM_REQ), 92);
	m.kind = CM_DREQ;
	m.private_len = 1;
	check_eq(cm_build(&m, mad), 0);
	check_eq(mad[DATA + 12], 0xff);
	check_eq(mad[DATA + 13], 0);
}

TEST(addresses_of_the_ip_service)
{
	struct cm_ip ip = { .port = 18515, .version = 6 }, again;
	uint8_t data[CM_IP_LEN];

	memset(ip.from, 1, sizeof(ip.from));
	memset(ip.to, 2, sizeof(ip.to));
	cm_ip_build(&ip, data);
	check_eq(cm_ip_parse(data, sizeof(data), &again), 0);
	check_eq(again.port, 18515);
	check_eq(again.version, 6);
	check_mem(again.from, ip.from, 16);
	check_mem(again.to, ip.to, 16);
	check_eq(cm_ip_parse(data, sizeof(data) - 1, &again), EBADMSG);
	data[1] = 0x50;
	check_eq(cm_ip_parse(data, sizeof(data), &again), EBADMSG);
	data[1] = 0x40;
	data[0] = 1;
	check_eq(cm_ip_parse(data, sizeof(data), &again), EBADMSG);
}

RUN_TESTS(unit_test(what_is_no_message_of_cm_is_refused),
	  unit_test(the_header_carries_status_transaction_and_modifier), unit_test(mra_and_rej),
	  unit_test(the_vendor_of_a_reply_comes_in_parts), unit_test(another_path_and_its_answer),
	  unit_test(any_bytes_come_back), unit_test(private_data_keeps_to_its_room),
	  unit_test(addresses_of_the_ip_service))
