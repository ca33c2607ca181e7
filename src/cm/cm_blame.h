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
/* The same where the peer's process has ended in this @state, unless that is the end that the
 * program has asked for. */
void cm_blame_end(const struct cm_id *id, enum cm_state state);

/* At the passive end, the first, 10th, 100th time. The request of @from to @to is answered with
 * @rej (a REJ's reason). @of_type: because the queue pair is of another type than the listener's.
 */
void cm_blame_refusal(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		      unsigned int rej, bool of_type);
/* A message of @from is dropped, as it names no connection, or @named, one with another host. */
void cm_blame_stray(const union ibv_gid *from, const struct cm_msg *m, const struct cm_id *named);
/* A request of @from to @listener waits at its sender: for a place in the backlog, or for memory.
 */
void cm_blame_wait(const struct sockaddr_storage *from, const struct cm_id *listener);
