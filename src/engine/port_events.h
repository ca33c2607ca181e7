// SPDX-License-Identifier: MIT
/* Changes of the netdev become asynchronous events of every context on the device. */
#pragma once
#include "engine/node_state.h"

void port_events_read(struct node *n, int watch_fd); /* the netlink descriptor is readable */
