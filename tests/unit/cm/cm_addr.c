// SPDX-License-Identifier: MIT
#include "cm/cm_addr.h"
#include <arpa/inet.h>
#include <string.h>
#include "test.h"

static struct hca *const some = (struct hca *)&some; /* looked at by nobody */

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

RUN_TESTS(unit_test(which_ids_have_all_addresses), unit_test(addresses_as_gids_and_back))
