// SPDX-License-Identifier: MIT
/* From an event to the account of the object that it names (account.h). */
#pragma once
#include "hca/device.h"

extern const struct event_takers events_taken; /* for hca->taken */

void events_ack_cq(struct ibv_cq *cq, unsigned int n);
void events_ack_async(struct ibv_async_event *ev);
