// SPDX-License-Identifier: MIT
/* Frames that a flow rule steered to a QP: into its own receive queue, or by a hash into a work
 * queue. A RAW_PACKET QP without a receive keeps a frame for a moment: between processes there is
 * no wire whose time a program could use to post more. A UD QP gets the frame behind a GRH area of
 * zeros. */
#pragma once
#include "transport/tqp.h"

void raw_receive(struct tqp *q, const struct seg *s, uint64_t now);
void raw_receive_doorbell(struct tqp *q, uint64_t now); /* receives were posted */
void raw_receive_expire(struct tqp *q, uint64_t now); /* drops frames that waited too long */
void raw_receive_forget(struct tqp *q);
