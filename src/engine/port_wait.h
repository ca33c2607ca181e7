// SPDX-License-Identifier: MIT
/* When to try for a port again. UDP 4791 of an address may belong to another user's program, or to
 * the kernel's rdma_rxe, or this process lacks a descriptor for it, for a group or for the network
 * itself, and no event tells when that is over. While UD QPs wait for datagrams, it is tried again
 * after a second, then after twice as long each time, up to eight seconds (port_events.h).
 * Locking: node->wheel_lock. Any thread, outside any turn. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct node;

/* Is @err of a network's call of this moment? Another program has the port, or this process lacks a
 * descriptor or memory. */
bool port_wait_helps(int err);
void port_wait_begin(struct node *n, uint64_t now); /* a call has failed with such an error */
/* True, once: it is time to try again, and there are still receivers. A load in most cases. */
bool port_wait_due(struct node *n);
void port_wait_longer(struct node *n, uint64_t now); /* it was tried in vain */
