// SPDX-License-Identifier: MIT
/* Socket addresses as GIDs, and the devices behind them. cm_addr_device() under cm.lock. */
#pragma once
#include "cm/cm_state.h"

bool cm_addr_known(const struct sockaddr *a); /* a family that we have: IPv4, IPv6 */
bool cm_addr_infiniband(const struct sockaddr *a); /* AF_IB, and the address of some port */
uint16_t cm_addr_port(const void *a); /* host order */
void cm_addr_set_port(void *a, uint16_t port);
bool cm_addr_any(const void *a); /* 0.0.0.0, :: */
bool cm_addr_loop(const void *a); /* 127/8, ::1 */
/* The id has all addresses: its own is 0.0.0.0, :: or, as in Linux, a loopback one of no device. */
bool cm_addr_wide(const struct cm_id *id);
bool cm_addr_group(const void *a);
void cm_addr_gid(const void *a, union ibv_gid *out); /* IPv4 as ::ffff:a.b.c.d */
void cm_addr_of_gid(const union ibv_gid *gid, uint16_t port, uint32_t scope,
		    struct sockaddr_storage *out);
void cm_addr_copy(struct sockaddr_storage *to, const struct sockaddr *from);
/* As the header of a REQ carries it (struct cm_ip). */
void cm_addr_ip(const void *a, uint8_t out[16]);
void cm_addr_of_ip(unsigned int version, const uint8_t ip[16], uint16_t port,
		   struct sockaddr_storage *out);
/* The device with that address, and its entry in the GID table. Of 127/8 and ::1 the one on lo,
 * else the first; cm_addr_own_device(): on lo only. ENODEV: no device has it. */
int cm_addr_device(const void *a, struct cm_way *out);
int cm_addr_own_device(const void *a, struct cm_way *out);
/* @ifindex: the interface of a link-local address; 0: any. */
int cm_addr_gid_device(const union ibv_gid *gid, uint32_t ifindex, struct cm_way *out);
/* The address from which the kernel would send to @dst. @bound: one that is given; NULL: none.
 * ENETUNREACH … */
int cm_addr_source(const struct sockaddr *dst, const struct sockaddr_storage *bound,
		   struct sockaddr_storage *src);
bool cm_addr_exists(const void *a); /* some interface has it */
