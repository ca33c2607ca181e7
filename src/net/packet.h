// SPDX-License-Identifier: MIT
/* The Ethernet of a network interface, by AF_PACKET: needs CAP_NET_RAW in the network namespace.
 * Plain descriptors, non-blocking; any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @receive: frames that arrive at the interface, to any address, not those that leave it.
 * EPERM: no CAP_NET_RAW; or another errno. */
int packet_open(uint32_t ifindex, bool receive, int *fd);
/* 0; EAGAIN, ENOBUFS: no room just now; EMSGSIZE: longer than the MTU allows; ENETDOWN, … */
int packet_send(int fd, const uint8_t *frame, size_t len);
/* The next frame, with the VLAN tag that the kernel took off put back. EAGAIN: none. EMSGSIZE: one
 * longer than @size is lost. *@summed: its checksums are not to be checked, since the kernel has
 * not filled them in. */
int packet_recv(int fd, uint8_t *frame, size_t size, size_t *len, bool *summed);
