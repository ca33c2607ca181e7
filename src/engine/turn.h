// SPDX-License-Identifier: MIT
/* Turns (docs/design/turns.md): a thread that has work for a QP takes its turn and does it, or
 * leaves a note for the holder. Requester, responder and completer run only under it. One word per
 * QP: a holder bit and a bit for each kind of note. A thread never has two turns at once. Only
 * turn_take() and turn_close() wait for a holder. Everything runs inside a quiesce section. */
#pragma once
#include "engine/eqp.h"

/* Leaves @notes and, when the turn is free, takes it and works them off. */
void turn_note(struct eqp *e, uint32_t notes);
/* Takes the turn for the caller, waiting for a holder by yielding. Notes stay for turn_leave(). */
void turn_take(struct eqp *e);
/* Works off the notes so far, under the turn. */
void turn_catch_up(struct eqp *e);
/* True: the turn was free and is the caller's; earlier notes have been worked off. */
bool turn_try(struct eqp *e);
/* Works off the notes that came in meanwhile and gives the turn back. */
void turn_leave(struct eqp *e);
/* Takes the turn for good: later notes are dropped, and so is the inbox, whose senders are told. */
void turn_close(struct eqp *e);

/* Under the turn: a segment for the QP. */
void turn_input(struct eqp *e, const struct seg *s, uint64_t now);
/* Under the turn, after any call of the transport: arms the timer, counts ACKs that are owed. */
void turn_after(struct eqp *e);
