// SPDX-License-Identifier: MIT
/* Which user has UDP 4791 where it cannot be bound. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "net/gid.h"
#include "obs/explain.h"
#include "udp/udp_state.h"
#include "wire/ip.h"

/* The address as /proc/net/udp and udp6 write it: words in host order, in hexadecimal. */
static bool line_matches(const char *local, const union ibv_gid *gid)
{
	bool ipv4 = gid_is_ipv4(gid);
	size_t words = ipv4 ? 1 : 4, digits = words * 8;
	char want[33], any[33];

	if (strlen(local) != digits + 5 || strcmp(local + digits, ":12B7"))
		return false;
	for (size_t i = 0; i < words; i++) {
		uint32_t w;

		memcpy(&w, gid->raw + (ipv4 ? 12 : 4 * i), sizeof(w));
		snprintf(want + 8 * i, 9, "%08X", w);
		snprintf(any + 8 * i, 9, "%08X", 0);
	}
	return !strncmp(local, want, digits) || !strncmp(local, any, digits);
}

int udp_port_user(const union ibv_gid *local, uint32_t *uid)
{
	FILE *f = fopen(gid_is_ipv4(local) ? "/proc/net/udp" : "/proc/net/udp6", "re");
	char line[256], where[64];
	int err = ENOENT;
	unsigned int who;

	while (err && f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*[^:]: %63s %*s %*s %*s %*s %*s %u", where, &who) != 2 ||
		    !line_matches(where, local))
			continue;
		*uid = who;
		err = 0;
	}
	if (f)
		fclose(f);
	return err;
}

const char *udp_holder(const union ibv_gid *local, char *buf, size_t n)
{
	uint32_t uid;

	if (udp_port_user(local, &uid))
		snprintf(buf, n, "%s", "somebody else");
	else if (uid)
		snprintf(buf, n, "uid %u", uid);
	else
		snprintf(buf, n, "%s", "uid 0 (root, or the kernel's rdma_rxe)");
	return buf;
}

int udp_refuse_port(int err, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN], who[64];

	gid_text(gid, text, sizeof(text));
	if (err == EADDRINUSE)
		return refuse(err,
			      "UDP %d on %s is held by %s, so there is no link to the network; end "
			      "it, or run as the same user; traffic on this host goes on",
			      UDP_ROCE_PORT, text, udp_holder(gid, who, sizeof(who)));
	if (err == EADDRNOTAVAIL)
		return refuse(err,
			      "UDP %d on %s cannot be bound: the kernel does not use that address "
			      "(yet); choose another GID index",
			      UDP_ROCE_PORT, text);
	return refuse(
		err,
		"UDP %d on %s cannot be bound: error %d; free what is short, and connect again",
		UDP_ROCE_PORT, text, err);
}
