// SPDX-License-Identifier: MIT
/* Changes of the netdev: ports and groups follow them, and they become asynchronous events of every
 * context on the device. Ports that other programs have are tried again in time, and so is what
 * lacked a descriptor or memory: a port, a group, the network, a listing of the addresses. */
#pragma once
#include "engine/node_state.h"

void port_events_read(struct node *n, int watch_fd); /* the netlink descriptor is readable */
/* After each run of the timers, outside any turn: a load unless a port is to be tried now. */
void port_events_retry(struct node *n, uint64_t now);
