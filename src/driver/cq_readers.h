// SPDX-License-Identifier: MIT
/* The functions of struct ibv_cq_ex: start, next and end of a poll, and the readers of the current
 * entry, cq->cur, which they describe also after ibv_end_poll(). */
#pragma once
#include "driver/dcq_ring.h"

void cq_readers_attach(struct dcq *cq); /* sets the functions that cq->wc_flags ask for */
