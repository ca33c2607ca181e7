// SPDX-License-Identifier: MIT
/* The engine thread, the backstop of progress (DESIGN section 3, M4, M31).
 *
 * Modes, as senders see them: POLLED - the program polls; the engine naps and looks now and then
 * whether it still does. ARMED - nobody polls; the engine sleeps in epoll until rung, on a
 * descriptor, or until the next deadline. WATCHED - it was rung, and lingers a moment for more.
 * LED - a thread blocked in a call reads the doorbell itself (wait.c); the engine naps longer and
 * longer and sleeps for good when the leader stays. */
#pragma once
#include "engine/node_state.h"

int loop_start(struct node *n); /* once, under node->lock */
/* Inbound, timers, ready QPs, ACKs, until there is nothing left. Inside no section. */
void loop_work(struct node *n);
