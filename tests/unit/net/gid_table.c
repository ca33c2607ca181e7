// SPDX-License-Identifier: MIT
/* The GID table over pictures of a network that the test draws itself. */
#include <arpa/inet.h>
#include <errno.h>
#include "gid_netns.h"
#include "net/gid_table.h"

static struct netdev_scan net;

static struct netdev ethernet(uint32_t index, const char *name)
{
	struct netdev dev = { .index = index,
			      .mtu = 1500,
			      .up = true,
			      .carrier = true,
			      .mac = { 0x02, 0x11, 0x22, 0x33, 0x44, (uint8_t)index } };

	strcpy(dev.name, name);
	return dev;
}

static void add_addr(uint32_t index, const char *text)
{
	union ibv_gid gid = netns_gid(text);

	check_eq(netdev_scan_add_addr(&net, index, &gid), 0);
}

static void del_addr(const char *text)
{
	union ibv_gid gid = netns_gid(text);

	for (unsigned int i = 0; i < net.addrs; i++)
		if (!memcmp(&net.addr[i].gid, &gid, sizeof(gid)))
			net.addr[i].index = 0;
}

/* An interface eth7 that stands in @net; the table is made over lo, which every namespace has. */
static struct gid_table *table_on_eth7(void)
{
	struct netdev dev = ethernet(7, "lo");
	struct gid_table *t;

	netdev_scan_free(&net);
	check_eq(netdev_scan_add(&net, &dev), 0);
	check_eq(gid_table_create("lo", &t), 0);
	return t;
}

static void check_pair(struct gid_table *t, unsigned int index, const char *text)
{
	union ibv_gid want = { 0 };
	struct gid_entry e;

	if (text)
		want = netns_gid(text);
	for (unsigned int i = 0; i < 2; i++) {
		check_eq(gid_table_get(t, index + i, &e), 0);
		check_mem(&e.gid, &want, sizeof(want));
		check_eq(e.used, text != NULL);
		check_eq(e.type, text && i ? GID_V2 : GID_V1);
		check_eq(e.ifindex, text ? 7 : 0);
	}
}

TEST(link_local_then_ipv4_then_ipv6)
{
	struct gid_table *t = table_on_eth7();

	add_addr(7, "2001:db8::1");
	add_addr(7, "10.0.0.1");
	add_addr(9, "10.9.9.9");
	add_addr(7, "10.0.0.2");
	check_eq(gid_table_apply(t, &net) & GID_CHANGE, GID_CHANGE);
	check_pair(t, 0, "fe80::11:22ff:fe33:4407");
	check_pair(t, 2, "10.0.0.1");
	check_pair(t, 4, "10.0.0.2");
	check_pair(t, 6, "2001:db8::1");
	for (unsigned int i = 8; i < GID_TABLE_LEN; i += 2)
		check_pair(t, i, NULL);
	gid_table_destroy(t);
}

TEST(a_gid_keeps_its_index_and_holes_are_filled_first)
{
	struct gid_table *t = table_on_eth7();

	add_addr(7, "10.0.0.1");
	add_addr(7, "10.0.0.2");
	add_addr(7, "2001:db8::1");
	gid_table_apply(t, &net);
	del_addr("10.0.0.1");
	check_eq(gid_table_apply(t, &net), GID_CHANGE);
	check_pair(t, 2, NULL);
	check_pair(t, 4, "10.0.0.2");
	check_pair(t, 6, "2001:db8::1");
	check_eq(gid_table_apply(t, &net), 0);
	add_addr(7, "2001:db8::2");
	add_addr(7, "10.0.0.3");
	check_eq(gid_table_apply(t, &net), GID_CHANGE);
	check_pair(t, 2, "10.0.0.3");
	check_pair(t, 4, "10.0.0.2");
	check_pair(t, 6, "2001:db8::1");
	check_pair(t, 8, "2001:db8::2");
	gid_table_destroy(t);
}

TEST(a_kernel_address_equal_to_the_link_local_takes_no_second_place)
{
	struct gid_table *t = table_on_eth7();

	add_addr(7, "fe80::11:22ff:fe33:4407");
	add_addr(7, "fe80::1");
	gid_table_apply(t, &net);
	check_pair(t, 2, "fe80::1");
	check_pair(t, 4, NULL);
	gid_table_destroy(t);
}

TEST(a_full_table_takes_no_more_until_one_leaves)
{
	struct gid_table *t = table_on_eth7();
	char text[32];

	for (int i = 1; i <= GID_TABLE_LEN / 2; i++) {
		snprintf(text, sizeof(text), "10.0.0.%d", i);
		add_addr(7, text);
	}
	gid_table_apply(t, &net);
	check_pair(t, GID_TABLE_LEN - 2, "10.0.0.7");
	del_addr("10.0.0.3");
	check_eq(gid_table_apply(t, &net), GID_CHANGE);
	check_pair(t, 6, "10.0.0.8");
	gid_table_destroy(t);
}

TEST(state_and_mtu_are_reported_and_a_removed_interface_is_down)
{
	struct gid_table *t = table_on_eth7();
	struct netdev dev;

	add_addr(7, "10.0.0.1");
	gid_table_apply(t, &net);
	net.dev[0].carrier = false;
	check_eq(gid_table_apply(t, &net), GID_PORT_ERR);
	net.dev[0].carrier = true;
	net.dev[0].mtu = 1499;
	check_eq(gid_table_apply(t, &net), GID_PORT_ACTIVE);
	net.dev[0].mtu = 9000;
	check_eq(gid_table_apply(t, &net), GID_MTU);
	net.devs = 0;
	check_eq(gid_table_apply(t, &net), GID_CHANGE | GID_PORT_ERR | GID_GONE);
	check_pair(t, 2, NULL);
	gid_table_netdev(t, &dev);
	check_eq(dev.index, 0);
	check_eq(netdev_active(&dev), false);
	net.devs = 1;
	check_eq(gid_table_apply(t, &net), GID_CHANGE | GID_PORT_ACTIVE);
	check_pair(t, 2, "10.0.0.1");
	gid_table_destroy(t);
}

TEST(find_wants_gid_and_type_and_get_refuses_what_is_outside)
{
	struct gid_table *t = table_on_eth7();
	union ibv_gid gid = netns_gid("10.0.0.1"), zero = { 0 };
	struct gid_entry e;
	unsigned int index;

	add_addr(7, "10.0.0.1");
	gid_table_apply(t, &net);
	check_eq(gid_table_find(t, &gid, GID_V1, &index), 0);
	check_eq(index, 2);
	check_eq(gid_table_find(t, &gid, GID_V2, &index), 0);
	check_eq(index, 3);
	gid = netns_gid("10.0.0.2");
	check_eq(gid_table_find(t, &gid, GID_V2, &index), ENOENT);
	check_eq(gid_table_find(t, &zero, GID_V1, &index), ENOENT);
	check_eq(gid_table_get(t, GID_TABLE_LEN, &e), EINVAL);
	gid_table_destroy(t);
	check_eq(gid_table_create("nosuch", &t), ENODEV);
}

RUN_TESTS(unit_test(link_local_then_ipv4_then_ipv6),
	  unit_test(a_gid_keeps_its_index_and_holes_are_filled_first),
	  unit_test(a_kernel_address_equal_to_the_link_local_takes_no_second_place),
	  unit_test(a_full_table_takes_no_more_until_one_leaves),
	  unit_test(state_and_mtu_are_reported_and_a_removed_interface_is_down),
	  unit_test(find_wants_gid_and_type_and_get_refuses_what_is_outside))
