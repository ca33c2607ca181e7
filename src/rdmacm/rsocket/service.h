// SPDX-License-Identifier: MIT
/* What happens to sockets while no call is in progress. A thread accepts what connects to
 * listeners, as far as their backlog goes, so that a client need not wait for raccept(); and it
 * sends a write of no bytes on each idle time of a connection with SO_KEEPALIVE, which a peer that
 * is gone does not acknowledge. It starts with the first socket that needs it; where it cannot
 * start, raccept() accepts itself. */
#pragma once
#include "rdmacm/rsocket/sock.h"

/* Under the lock of @s; also again, when there is something new to look at. */
void service_add(struct sock *s);
/* The thread has left @s alone when this returns. Not under the socket's lock. */
void service_remove(struct sock *s);
/* The oldest that was accepted, with a reference; NULL: there is none. Under the lock of @s. */
struct sock *service_take(struct sock *s);
