// SPDX-License-Identifier: MIT
#include "cm/cm_addr.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "test.h"

static struct hca *const some = (struct hca *)&some; /* looked at by nobody */

static enum ibv_mtu mtu(void *arg)
{
	(void)arg;
	return IBV_MTU_1024;
}

static struct cm_id id_on(const char *address)
{
	struct cm_id id = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&id.src;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&id.src;

	if (strchr(address, ':')) {
		v6->sin6_family = AF_INET6;
		check_eq(inet_pton(AF_INET6, address, &v6->sin6_addr), 1);
	} else {
		v4->sin_family = AF_INET;
		check_eq(inet_pton(AF_INET, address, &v4->sin_addr), 1);
	}
	return id;
}

static bool wide(const char *address, struct hca *hca)
{
	struct cm_id id = id_on(address);

	id.way.hca = hca;
	return cm_addr_wide(&id);
}

/* As in Linux: an id on lo hears through every interface, unless lo has a device here. */
TEST(which_ids_have_all_addresses)
{
	check(wide("0.0.0.0", NULL));
	check(wide("::", NULL));
	check(wide("127.0.0.1", NULL));
	check(wide("127.1.2.3", NULL));
	check(wide("::1", NULL));
	check(!wide("127.0.0.1", some));
	check(!wide("::1", some));
	check(!wide("10.0.0.1", NULL));
	check(!wide("fe80::1", some));
}

TEST(addresses_as_gids_and_back)
{
	static const char *const all[] = { "10.9.0.1", "fd09::1", "127.0.0.1", "239.1.2.3" };
	struct sockaddr_storage back;
	union ibv_gid gid;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct cm_id id = id_on(all[i]);

		cm_addr_set_port(&id.src, 7471);
		cm_addr_gid(&id.src, &gid);
		cm_addr_of_gid(&gid, 7471, 0, &back);
		check_eq(back.ss_family, id.src.ss_family);
		check_eq(cm_addr_port(&back), 7471);
		check(!memcmp(&back, &id.src, sizeof(back)));
	}
}

/* A port at that interface, with an address that it has, too. */
static void open_device(struct device *d, uint32_t ifindex, const union ibv_gid *address)
{
	static const struct hca_ports ports = { .active_mtu = mtu };
	const struct netdev dev = { .index = ifindex, .name = "lo", .up = true };
	struct netdev_scan picture = { 0 };

	check_eq(gid_table_create("lo", &d->gids), 0);
	check_eq(netdev_scan_add(&picture, &dev), 0);
	check_eq(netdev_scan_add_addr(&picture, ifindex, address), 0);
	gid_table_apply(d->gids, &picture);
	netdev_scan_free(&picture);
	d->hca.ports = &ports;
	cm.hca[cm.n_hcas++] = &d->hca;
}

TEST(a_link_local_address_is_one_of_an_interface)
{
	enum { FIRST = 7, SECOND, NONE };
	static const char *const both[] = { "fe80::1", "fd09::1" };
	struct device d[2] = { 0 };
	struct sockaddr_storage a;
	union ibv_gid gid;
	struct cm_way way;

	for (int global = 0; global < 2; global++) {
		check_eq(inet_pton(AF_INET6, both[global], &gid), 1);
		cm.n_hcas = 0;
		for (uint32_t i = FIRST; i < NONE; i++)
			open_device(&d[i - FIRST], i, &gid);
		for (uint32_t i = 0; i <= NONE; i += i ? 1 : FIRST) {
			cm_addr_of_gid(&gid, 0, 0, &a);
			((struct sockaddr_in6 *)&a)->sin6_scope_id = i;
			check_eq(cm_addr_own_device(&a, &way), !global && i == NONE ? ENODEV : 0);
			if (i < NONE)
				check_eq(way.ifindex, global || !i ? FIRST : i);
		}
		for (int i = 0; i < 2; i++)
			gid_table_destroy(d[i].gids);
	}
}

RUN_TESTS(unit_test(which_ids_have_all_addresses), unit_test(addresses_as_gids_and_back),
	  unit_test(a_link_local_address_is_one_of_an_interface))
