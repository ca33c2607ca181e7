// SPDX-License-Identifier: MIT
#include "cm/cm_addr.h"
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "net/gid.h"

static const struct sockaddr_in *in4(const void *a)
{
	return a;
}

static const struct sockaddr_in6 *in6(const void *a)
{
	return a;
}

static bool is4(const void *a)
{
	return in4(a)->sin_family == AF_INET;
}

bool cm_addr_known(const struct sockaddr *a)
{
	return a->sa_family == AF_INET || a->sa_family == AF_INET6;
}

bool cm_addr_infiniband(const struct sockaddr *a)
{
	static const struct ib_addr any;

	return a->sa_family == AF_IB &&
	       memcmp(&((const struct sockaddr_ib *)a)->sib_addr, &any, sizeof(any)) != 0;
}

uint16_t cm_addr_port(const void *a)
{
	return ntohs(in4(a)->sin_port); /* at the same place in both */
}

void cm_addr_set_port(void *a, uint16_t port)
{
	((struct sockaddr_in *)a)->sin_port = htons(port);
}

bool cm_addr_any(const void *a)
{
	return is4(a) ? !in4(a)->sin_addr.s_addr : IN6_IS_ADDR_UNSPECIFIED(&in6(a)->sin6_addr);
}

bool cm_addr_loop(const void *a)
{
	return is4(a) ? ntohl(in4(a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
		      : IN6_IS_ADDR_LOOPBACK(&in6(a)->sin6_addr);
}

bool cm_addr_wide(const struct cm_id *id)
{
	return cm_addr_any(&id->src) || (cm_addr_loop(&id->src) && !id->way.hca);
}

bool cm_addr_group(const void *a)
{
	return is4(a) ? IN_MULTICAST(ntohl(in4(a)->sin_addr.s_addr))
		      : IN6_IS_ADDR_MULTICAST(&in6(a)->sin6_addr);
}

void cm_addr_gid(const void *a, union ibv_gid *out)
{
	if (is4(a))
		gid_of_ipv4(&in4(a)->sin_addr, out);
	else
		memcpy(out->raw, &in6(a)->sin6_addr, 16);
}

void cm_addr_of_gid(const union ibv_gid *gid, uint16_t port, uint32_t scope,
		    struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (gid_is_ipv4(gid)) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, gid->raw + 12, 4);
	} else {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, gid->raw, 16);
		v6->sin6_scope_id = gid_is_link_local(gid) ? scope : 0;
	}
	v4->sin_port = htons(port);
}

void cm_addr_copy(struct sockaddr_storage *to, const struct sockaddr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, from,
	       from->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6));
}

void cm_addr_ip(const void *a, uint8_t out[16])
{
	memset(out, 0, 16);
	if (is4(a))
		memcpy(out + 12, &in4(a)->sin_addr, 4);
	else
		memcpy(out, &in6(a)->sin6_addr, 16);
}

void cm_addr_of_ip(unsigned int version, const uint8_t ip[16], uint16_t port,
		   struct sockaddr_storage *out)
{
	union ibv_gid gid;

	if (version == 4)
		gid_of_ipv4(ip + 12, &gid);
	else
		memcpy(gid.raw, ip, 16);
	cm_addr_of_gid(&gid, port, 0, out);
}

/* --- devices --- */

static struct device *device(struct hca *hca)
{
	return container_of(hca, struct device, hca);
}

static void fill(struct hca *hca, unsigned int index, struct cm_way *out)
{
	struct gid_entry e;

	out->hca = hca;
	out->sgid_index = (uint8_t)index;
	out->mtu = (uint8_t)hca->ports->active_mtu(hca->ports_arg);
	out->hop_limit = 64;
	if (gid_table_get(device(hca)->gids, index, &e))
		return;
	out->sgid = e.gid;
	out->ifindex = e.ifindex;
}

static bool is_on(struct hca *hca, uint32_t ifindex)
{
	struct netdev dev;

	gid_table_netdev(device(hca)->gids, &dev);
	return dev.index == ifindex;
}

int cm_addr_gid_device(const union ibv_gid *gid, uint32_t ifindex, struct cm_way *out)
{
	bool any = !ifindex || !gid_is_link_local(gid);
	unsigned int index;

	for (unsigned int i = 0; i < cm.n_hcas; i++)
		if (!gid_table_find(device(cm.hca[i])->gids, gid, GID_V2, &index) &&
		    (any || is_on(cm.hca[i], ifindex))) {
			fill(cm.hca[i], index, out);
			return 0;
		}
	return ENODEV;
}

static struct hca *loop_device(void)
{
	struct netdev dev;

	for (unsigned int i = 0; i < cm.n_hcas; i++) {
		gid_table_netdev(device(cm.hca[i])->gids, &dev);
		if (dev.loopback)
			return cm.hca[i];
	}
	return NULL;
}

/* Its first address of that family, or of the other one. */
static unsigned int first_address(struct hca *hca, bool v4)
{
	unsigned int other = 1; /* the link-local one is always there */
	struct gid_entry e;

	for (unsigned int i = 3; i < GID_TABLE_LEN; i += 2) {
		if (gid_table_get(device(hca)->gids, i, &e) || !e.used || e.type != GID_V2)
			continue;
		if (gid_is_ipv4(&e.gid) == v4)
			return i;
		other = other == 1 ? i : other;
	}
	return other;
}

int cm_addr_own_device(const void *a, struct cm_way *out)
{
	struct hca *hca = cm_addr_loop(a) ? loop_device() : NULL;
	union ibv_gid gid;

	cm_addr_gid(a, &gid);
	if (!cm_addr_gid_device(&gid, is4(a) ? 0 : in6(a)->sin6_scope_id, out))
		return 0;
	if (!hca)
		return ENODEV;
	fill(hca, first_address(hca, is4(a)), out);
	return 0;
}

int cm_addr_device(const void *a, struct cm_way *out)
{
	if (!cm_addr_own_device(a, out))
		return 0;
	if (!cm_addr_loop(a))
		return ENODEV;
	fill(cm.hca[0], first_address(cm.hca[0], is4(a)), out);
	return 0;
}

/* --- the kernel's view --- */

static socklen_t length(const void *a)
{
	return is4(a) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

int cm_addr_source(const struct sockaddr *dst, const struct sockaddr_storage *bound,
		   struct sockaddr_storage *src)
{
	struct sockaddr_storage to, from = bound ? *bound : (struct sockaddr_storage){ 0 };
	socklen_t len = sizeof(*src);
	int s = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (s < 0)
		return errno;
	cm_addr_copy(&to, dst);
	if (!cm_addr_port(&to))
		cm_addr_set_port(&to, 9); /* it is not sent to */
	memset(src, 0, sizeof(*src));
	cm_addr_set_port(&from, 0);
	if ((bound && bind(s, (struct sockaddr *)&from, length(&from))) ||
	    connect(s, (struct sockaddr *)&to, length(&to)) ||
	    getsockname(s, (struct sockaddr *)src, &len))
		err = errno;
	close(s);
	cm_addr_set_port(src, 0);
	return err;
}

bool cm_addr_exists(const void *a)
{
	struct sockaddr_storage to;
	int s = socket(in4(a)->sin_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (s < 0)
		return true;
	cm_addr_copy(&to, a);
	cm_addr_set_port(&to, 0);
	err = bind(s, (struct sockaddr *)&to, length(&to));
	close(s);
	return !err;
}
