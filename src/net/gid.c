// SPDX-License-Identifier: MIT
#include "net/gid.h"
#include <arpa/inet.h>
#include <string.h>

void gid_of_ipv4(const void *addr, union ibv_gid *out)
{
	memset(out, 0, sizeof(*out));
	out->raw[10] = out->raw[11] = 0xff;
	memcpy(out->raw + 12, addr, 4);
}

bool gid_is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

bool gid_is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

void gid_text(const union ibv_gid *gid, char *buf, uint32_t n)
{
	if (gid_is_ipv4(gid))
		inet_ntop(AF_INET, gid->raw + 12, buf, n);
	else
		inet_ntop(AF_INET6, gid->raw, buf, n);
}
