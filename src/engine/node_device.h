// SPDX-License-Identifier: MIT
/* A device of the node: an HCA on a netdev, as SOFTHCA_DEVICES or the default rule maps them. */
#pragma once
#include "engine/node_state.h"

/* The device @name of this machine, with its GID table and its flow table, not in node->devices
 * yet. An errno with a reason: ENODEV, there is none. */
int node_device_make(struct node *n, const char *name, struct device **out);
/* The engine thread wakes when @fd is readable. */
int node_device_watch(struct node *n, int fd);
