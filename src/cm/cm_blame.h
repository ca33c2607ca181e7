// SPDX-License-Identifier: MIT
/* Why an event tells a program that there is no connection. Under cm.lock. */
#pragma once
#include <netinet/in.h>
#include "cm/cm_state.h"

/* The address without its port; "" of another family than IPv4 and IPv6. Returns @text. */
const char *cm_blame_address(const struct sockaddr *a, char text[INET6_ADDRSTRLEN]);
/* Records a reason, where @event with @status is a failure that no program has chosen: that a peer
 * rejects a request by rdma_reject(3) is none. */
void cm_blame_event(const struct cm_id *id, int event, int status);
