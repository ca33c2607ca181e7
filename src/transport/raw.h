// SPDX-License-Identifier: MIT
/* RAW_PACKET queue pairs: Ethernet frames, as the program wrote them. The sending half builds
 * each frame in a buffer of the QP (inline headers, data, padding, checksums where asked for; of
 * a TSO send one frame after the other) and hands it to cast_send(). The receiving half also
 * serves UD QPs that a flow rule names: they get the frame behind a GRH area of zeros. Sends
 * never fail for what becomes of the frame. Under the QP's turn, as everything here. */
#pragma once
#include "transport/fate.h"
#include "transport/tqp.h"

enum verdict raw_allowed(const struct wqe *w); /* opcode and lengths */
/* Sends the entry's frames. False: it waits for room, or the QP has stopped. */
bool raw_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now);
void raw_timer(struct tqp *q, uint64_t now);
/* A frame that a rule steered here. A RAW_PACKET QP without a receive keeps it for a moment:
 * between processes there is no wire whose time a program could use to post more. */
void raw_receive(struct tqp *q, const struct seg *s, uint64_t now);
void raw_rq_doorbell(struct tqp *q, uint64_t now); /* receives were posted */
void raw_held_expire(struct tqp *q, uint64_t now); /* who waited too long is lost */
void raw_held_forget(struct tqp *q);
