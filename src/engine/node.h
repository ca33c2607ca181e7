// SPDX-License-Identifier: MIT
/* The node: this process as the engine sees it. Made at the first ibv_open_device(), one per
 * process and epoch (a forked child starts afresh), never torn down: a program just exits. It owns
 * the links, the key table, the multicast table, the QP table, the timer wheel, the devices and the
 * engine thread. */
#pragma once
#include "hca/device.h"

struct node;

#define NODE_DEVICES 16

/* The devices of this machine as SOFTHCA_DEVICES or the default rule says; makes nothing. Returns
 * how many names were written (at most NODE_DEVICES). @guid: node GUID, big-endian. */
unsigned int node_device_names(char names[][IBV_SYSFS_NAME_MAX], uint64_t *guids);
/* The device @name of this process, made on demand. ENODEV: no such device. */
int node_hca(const char *name, struct hca **out);
/* What exit() does first, behind all handlers and destructors of the program. */
void node_at_exit(void (*farewell)(void));
