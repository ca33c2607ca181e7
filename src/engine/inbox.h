// SPDX-License-Identifier: MIT
/* A QP's inbox: parcels that came while another thread had the QP's turn, in their order. */
#pragma once
#include "engine/eqp.h"

enum { INBOX_MAX = 4096 }; /* parcels; when it is full a drain waits for the turn */

void inbox_put(struct eqp *e, struct parcel *p); /* any thread */
struct parcel *inbox_take_all(struct eqp *e); /* the first, which leads to the others */
