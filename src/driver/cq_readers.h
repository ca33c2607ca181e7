// SPDX-License-Identifier: MIT
/* The ibv_cq_ex functions: start, next, end, and the readers, which describe cq->cur also after
 * ibv_end_poll(). */
#pragma once
#include "driver/dcq_ring.h"

void cq_readers_attach(struct dcq *cq); /* sets the functions that cq->wc_flags ask for */
