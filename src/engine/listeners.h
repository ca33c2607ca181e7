// SPDX-License-Identifier: MIT
/* UD QPs that may receive from a network: for them the ports of all addresses of their device are
 * opened. If another program has a port, or no descriptor is left, the log says so, traffic on this
 * host goes on, and the port is tried again (port_wait.h). Outside any turn. */
#pragma once
#include "engine/node_state.h"

void listeners_add(struct eqp *e); /* a UD QP is about to receive */
void listeners_del(struct eqp *e); /* it ends; fine for a QP that is none */
/* The device's interface or its addresses have changed: ports come and go with them. True: some are
 * to be tried later (port_wait.h). */
bool listeners_follow(struct device *d);
void listeners_hold(struct device *d); /* the device receives for QP 1, for good */
