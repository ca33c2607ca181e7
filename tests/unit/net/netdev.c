// SPDX-License-Identifier: MIT
/* Choice, map, MTU and GUIDs: pure functions of a picture of the network. */
#include <errno.h>
#include "net/netdev.h"
#include "test.h"

static void add(struct netdev_scan *s, struct netdev dev, const char *name)
{
	strcpy(dev.name, name);
	check_eq(netdev_scan_add(s, &dev), 0);
}

TEST(choice_is_default_route_then_first_up_then_lo)
{
	struct netdev_scan s = { 0 };

	check(!netdev_choose(&s));
	add(&s, (struct netdev){ .index = 1, .loopback = true }, "lo");
	check_str(netdev_choose(&s)->name, "lo");
	add(&s, (struct netdev){ .index = 2 }, "down");
	check_str(netdev_choose(&s)->name, "lo");
	add(&s, (struct netdev){ .index = 3, .up = true }, "eth0");
	add(&s, (struct netdev){ .index = 4, .up = true }, "eth1");
	check_str(netdev_choose(&s)->name, "eth0");
	s.default_index = 4;
	check_str(netdev_choose(&s)->name, "eth1");
	s.default_index = 99;
	check_str(netdev_choose(&s)->name, "eth0");
	netdev_scan_free(&s);
}

TEST(a_scan_holds_many)
{
	struct netdev_scan s = { 0 };

	for (uint32_t i = 1; i <= 100; i++) {
		union ibv_gid gid = { .raw = { [15] = (uint8_t)i } };

		add(&s, (struct netdev){ .index = i }, "x");
		check_eq(netdev_scan_add_addr(&s, i, &gid), 0);
	}
	for (uint32_t i = 1; i <= 100; i++) {
		check_eq(netdev_by_index(&s, i)->index, i);
		check_eq(s.addr[i - 1].gid.raw[15], i);
	}
	netdev_scan_free(&s);
}

TEST(map_takes_several_and_refuses_what_is_malformed)
{
	static const char *const bad[] = {
		"",
		"mlx5_0",
		"mlx5_0=",
		"=eth0",
		"mlx5_0=eth0,",
		",mlx5_0=eth0",
		"mlx5_0==eth0",
		"mlx5_0=a,mlx5_0=b",
		"mlx5_0=abcdefghijklmnop",
		"../x=eth0",
		"mlx5_0=e th0",
		"a=b,c=d,e=f,g=h,i=j,k=l,m=n,o=p,q=r",
	};
	struct netdev_map map = { .count = 77 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		check_eq(netdev_map_parse(bad[i], &map), EINVAL);
	check_eq(map.count, 77);
	check_eq(netdev_map_parse("mlx5_0=eth0,mlx5_1=lo", &map), 0);
	check_eq(map.count, 2);
	check_str(map.entry[0].device, "mlx5_0");
	check_str(map.entry[0].netdev, "eth0");
	check_str(map.entry[1].device, "mlx5_1");
	check_str(map.entry[1].netdev, "lo");
}

TEST(map_names_interfaces_that_exist)
{
	struct netdev_scan s = { 0 };
	struct netdev_map map;

	unsetenv("SOFTHCA_DEVICES");
	check_eq(netdev_map_get(&s, &map), ENODEV);
	add(&s, (struct netdev){ .index = 1, .loopback = true }, "lo");
	check_eq(netdev_map_get(&s, &map), 0);
	check_eq(map.count, 1);
	check_str(map.entry[0].device, "mlx5_0");
	check_str(map.entry[0].netdev, "lo");
	setenv("SOFTHCA_DEVICES", "mlx5_0=lo,mlx5_1=eth0", 1);
	check_eq(netdev_map_get(&s, &map), ENODEV);
	setenv("SOFTHCA_DEVICES", "mlx5_3=lo", 1);
	check_eq(netdev_map_get(&s, &map), 0);
	check_str(map.entry[0].device, "mlx5_3");
	setenv("SOFTHCA_DEVICES", "lo", 1);
	check_eq(netdev_map_get(&s, &map), EINVAL);
	netdev_scan_free(&s);
}

TEST(active_mtu_leaves_room_for_the_headers)
{
	static const struct {
		uint32_t mtu;
		enum ibv_mtu active;
	} want[] = {
		{ 68, IBV_MTU_256 },	{ 336, IBV_MTU_256 },	{ 591, IBV_MTU_256 },
		{ 592, IBV_MTU_512 },	{ 1103, IBV_MTU_512 },	{ 1104, IBV_MTU_1024 },
		{ 1500, IBV_MTU_1024 }, { 2127, IBV_MTU_1024 }, { 2128, IBV_MTU_2048 },
		{ 4175, IBV_MTU_2048 }, { 4176, IBV_MTU_4096 }, { 65536, IBV_MTU_4096 },
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
		check_eq(netdev_active_mtu(&(struct netdev){ .mtu = want[i].mtu }), want[i].active);
}

TEST(guids_come_from_the_mac)
{
	static const uint8_t eui[] = { 0x9a, 0x03, 0x9b, 0xff, 0xfe, 0x67, 0xab, 0x58 };
	static const uint8_t prefix[8] = { 0xfe, 0x80 };
	struct netdev dev = { .mac = { 0x98, 0x03, 0x9b, 0x67, 0xab, 0x58 } };
	uint64_t guid = netdev_guid(&dev, 0);
	union ibv_gid gid;

	check_mem(&guid, eui, sizeof(eui));
	check_ne(netdev_guid(&dev, 1), guid);
	netdev_link_local(&dev, &gid);
	check_mem(gid.raw, prefix, sizeof(prefix));
	check_mem(gid.raw + 8, eui, sizeof(eui));
}

TEST(an_interface_without_mac_has_them_too)
{
	struct netdev lo = { .index = 1, .loopback = true }, tun = { .index = 2 };
	union ibv_gid a, b;

	netdev_link_local(&lo, &a);
	netdev_link_local(&tun, &b);
	check_ne(a.global.interface_id, 0);
	check_ne(a.global.interface_id, b.global.interface_id);
	check_ne(netdev_guid(&lo, 0), 0);
	check_ne(netdev_guid(&lo, 0), netdev_guid(&tun, 0));
	check_eq(netdev_guid(&lo, 0), netdev_guid(&lo, 0));
}

RUN_TESTS(unit_test(choice_is_default_route_then_first_up_then_lo), unit_test(a_scan_holds_many),
	  unit_test(map_takes_several_and_refuses_what_is_malformed),
	  unit_test(map_names_interfaces_that_exist),
	  unit_test(active_mtu_leaves_room_for_the_headers), unit_test(guids_come_from_the_mac),
	  unit_test(an_interface_without_mac_has_them_too))
