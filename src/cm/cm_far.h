// SPDX-License-Identifier: MIT
/* The processes of other hosts to which ids are connected. A killed process cannot say so: one of
 * the ids connected to it asks it every two seconds, and when it is gone the others ask at once.
 * Under cm.lock. */
#pragma once
#include "cm/cm_state.h"

/* @id is connected through a network, or is not any more. @ask is called for an id whose process is
 * to be asked; it may end the id, and free it. */
void cm_far_follow(struct cm_id *id, void (*ask)(struct cm_id *id));
void cm_far_leave(struct cm_id *id);
