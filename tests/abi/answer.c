// SPDX-License-Identifier: MIT
/* Answering a datagram: ibv_init_ah_from_wc() turns the 40 bytes before the payload into the
 * address of the sender, with the GID index that the datagram came to. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include "test.h"

enum { GRH = 40, NEXT_UDP = 17, NEXT_BTH = 0x1b, TTL = 61, TOS = 0x28 };

static struct ibv_context *ctx;
static struct ibv_device **list;
static struct ibv_pd *pd;

static int open_first(void **state)
{
	(void)state;
	list = ibv_get_device_list(NULL);
	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	return pd ? 0 : -1;
}

static int close_it(void **state)
{
	(void)state;
	check_eq(ibv_dealloc_pd(pd), 0);
	ibv_free_device_list(list);
	return ibv_close_device(ctx);
}

/* The first entry of @type; IPv4 where @ipv4. */
static struct ibv_gid_entry entry_of(uint32_t type, bool ipv4)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry table[64];
	ssize_t n = ibv_query_gid_table(ctx, table, 64, 0);

	for (ssize_t i = 0; i < n; i++)
		if (table[i].gid_type == type &&
		    (memcmp(table[i].gid.raw, mapped, 12) == 0) == ipv4)
			return table[i];
	fail_msg("no GID of type %u, IPv4 %d", type, ipv4);
	return table[0];
}

static void put_checksum(uint8_t ip[20])
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

static void ipv4_area(uint8_t area[GRH], const uint8_t from[4], const uint8_t to[4])
{
	uint8_t *ip = area + 20;

	memset(area, 0, GRH);
	ip[0] = 0x45;
	ip[1] = TOS;
	ip[3] = 100;
	ip[8] = TTL;
	ip[9] = NEXT_UDP;
	memcpy(ip + 12, from, 4);
	memcpy(ip + 16, to, 4);
	put_checksum(ip);
}

static void ipv6_area(uint8_t area[GRH], uint8_t next, const uint8_t from[16], const uint8_t to[16])
{
	struct ibv_grh grh = {
		.version_tclass_flow = htonl(6U << 28 | TOS << 20 | 0x12345),
		.paylen = htons(80),
		.next_hdr = next,
		.hop_limit = TTL,
	};

	memcpy(&grh.sgid, from, 16);
	memcpy(&grh.dgid, to, 16);
	memcpy(area, &grh, GRH);
}

static int answer(uint8_t area[GRH], struct ibv_ah_attr *attr)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .sl = 3 };

	return ibv_init_ah_from_wc(ctx, 1, &wc, (struct ibv_grh *)area, attr);
}

TEST(an_ipv4_datagram_is_answered_on_its_v2_entry)
{
	struct ibv_gid_entry own = entry_of(IBV_GID_TYPE_ROCE_V2, true);
	static const uint8_t peer[4] = { 127, 0, 0, 9 };
	uint8_t area[GRH];
	struct ibv_ah_attr attr;

	ipv4_area(area, peer, own.gid.raw + 12);
	check_eq(answer(area, &attr), 0);
	check_eq(attr.is_global, 1);
	check_eq(attr.port_num, 1);
	check_eq(attr.sl, 3);
	check_eq(attr.grh.sgid_index, own.gid_index);
	check_eq(attr.grh.traffic_class, TOS);
	check_eq(attr.grh.hop_limit, TTL);
	check_mem(attr.grh.dgid.raw, own.gid.raw, 12);
	check_mem(attr.grh.dgid.raw + 12, peer, 4);
}

TEST(the_entry_has_the_roce_version_that_it_came_by)
{
	static const uint8_t next[] = { NEXT_BTH, NEXT_UDP };
	static const uint32_t type[] = { IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2 };
	uint8_t area[GRH], peer[16] = { 0xfe, 0x80, [15] = 9 };
	struct ibv_ah_attr attr;

	for (int i = 0; i < 2; i++) {
		struct ibv_gid_entry own = entry_of(type[i], false);

		ipv6_area(area, next[i], peer, own.gid.raw);
		check_eq(answer(area, &attr), 0);
		check_eq(attr.grh.sgid_index, own.gid_index);
		check_eq(attr.grh.flow_label, 0x12345);
		check_eq(attr.grh.traffic_class, TOS);
		check_mem(attr.grh.dgid.raw, peer, 16);
	}
}

TEST(what_did_not_come_to_us_is_refused)
{
	static const uint8_t stranger[4] = { 192, 0, 2, 77 };
	uint8_t area[GRH];
	struct ibv_ah_attr attr;
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };

	ipv4_area(area, stranger, stranger);
	errno = 0;
	check_eq(answer(area, &attr), -1);
	check_eq(errno, EINVAL);
	memset(area, 0xff, GRH);
	check_eq(answer(area, &attr), -1);
	errno = 0;
	check(!ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)area, 1));
	check_eq(errno, EINVAL);
}

TEST(a_handle_can_be_made_of_it)
{
	struct ibv_gid_entry own = entry_of(IBV_GID_TYPE_ROCE_V2, true);
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	uint8_t area[GRH];
	struct ibv_ah *ah;

	ipv4_area(area, own.gid.raw + 12, own.gid.raw + 12);
	ah = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)area, 1);
	check(ah);
	check(ah->pd == pd && ah->context == ctx);
	check_eq(ibv_destroy_ah(ah), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(an_ipv4_datagram_is_answered_on_its_v2_entry),
		unit_test(the_entry_has_the_roce_version_that_it_came_by),
		unit_test(what_did_not_come_to_us_is_refused),
		unit_test(a_handle_can_be_made_of_it),
	};

	return cmocka_run_group_tests(tests, open_first, close_it) ? 1 : 0;
}
