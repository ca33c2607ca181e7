// SPDX-License-Identifier: MIT
/* Ends the sleep of the engine thread (loop.h). */
#pragma once
#include "engine/node_state.h"

/* A sleeping engine must look again: at timers_next(), the lists of work, the links. */
void wake_engine(struct node *n);
void wake_kick(struct node *n); /* unconditionally: one system call */
