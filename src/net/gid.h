// SPDX-License-Identifier: MIT
/* GIDs as addresses: a GID is an IPv6 address, or an IPv4 one as ::ffff:a.b.c.d. Pure. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

void gid_of_ipv4(const void *addr, union ibv_gid *out); /* 4 bytes in network order */
bool gid_is_ipv4(const union ibv_gid *gid);
bool gid_is_link_local(const union ibv_gid *gid);
/* As people write it: IPv4 with dots; @n: INET6_ADDRSTRLEN. */
void gid_text(const union ibv_gid *gid, char *buf, uint32_t n);
