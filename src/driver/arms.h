// SPDX-License-Identifier: MIT
/* Arming of CQs that are laid open: a program writes a record and stores the CQ's number into the
 * doorbell page. The store finds the CQ here, or, where two of such CQs want one place in the
 * table, the engine thread does at its next look.
 * Locking: none; a CQ is found and armed inside one quiesce section. */
#pragma once
#include "driver/dcq_ring.h"

void arms_none(struct dcq *cq); /* the record has none from now on */
/* Takes the arm out of the record, so that the same may be stored again, and arms the CQ. False:
 * there was none. */
bool arms_take(struct dcq *cq);

void arms_add(struct dcq *cq);
void arms_del(struct dcq *cq); /* no store arms it after the call */
/* Takes the arm of CQ @cqn. False: it is not in the table. From a signal handler that may do what
 * the program may. */
bool arms_by_number(uint32_t cqn);
