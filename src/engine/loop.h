// SPDX-License-Identifier: MIT
/* The engine thread, the backstop of progress (docs/design/wakeups.md).
 *
 * Modes, as senders see them: POLLED - the program polls; the engine naps and looks now and then
 * whether it still does. ARMED - the program does not poll; the engine sleeps in epoll until a
 * sender rings, a descriptor is readable, or the next deadline comes. WATCHED - a sender rang, or
 * the network brought a request, and the engine looks for more for a moment (linger.h). LED - a
 * thread blocked in a call reads the doorbell itself (wait.c); the engine naps longer and longer
 * (nap.h), and sleeps for good when the leader stays. */
#pragma once
#include "engine/node_state.h"

int loop_start(struct node *n); /* once, when the node is made */
/* Rounds of progress_round() until there is nothing left, for some 2 ms at most. Outside any
 * quiesce section. */
void loop_work(struct node *n);
/* Takes packets from the networks until there are none. True: there were some. As above. */
bool loop_network(struct node *n);
