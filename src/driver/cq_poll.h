// SPDX-License-Identifier: MIT
/* Consuming a CQ: decoding CQEs and crediting the queues they complete. */
#pragma once
#include "driver/dcq.h"

void cq_poll_attach(struct dcq *cq); /* sets the ibv_cq_ex functions that wc_flags ask for */
