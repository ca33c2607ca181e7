// SPDX-License-Identifier: MIT
/* Turns: whoever has work for a QP takes its turn and does it, or leaves a note for the holder.
 * Requester, responder and completer run only under it. One word per QP: a holder bit and a bit
 * for each kind of note. Two turns are never held at once by one thread; nothing here blocks.
 * Everything runs inside a quiesce section. */
#pragma once
#include "engine/node_state.h"

/* Leaves @notes and, when nobody has the turn, takes it and works them off. */
void turn_note(struct eqp *e, uint32_t notes);
/* Takes the turn for the caller, waiting for a holder by yielding. Notes stay for turn_leave(). */
void turn_take(struct eqp *e);
/* Works off the notes so far, under the turn. */
void turn_catch_up(struct eqp *e);
/* Takes it if it is free; earlier notes have been worked off then. */
bool turn_try(struct eqp *e);
/* Works off the notes that came in meanwhile and gives the turn back. */
void turn_leave(struct eqp *e);
/* Takes the turn for good: later notes are dropped, and so is the inbox. */
void turn_close(struct eqp *e);

/* Under the turn: a segment for the QP. */
void turn_input(struct eqp *e, const struct seg *s, uint64_t now);
/* Under the turn, after any transport call: arms the timer, counts held-back ACKs. */
void turn_after(struct eqp *e);

void inbox_put(struct eqp *e, struct parcel *p);
#define INBOX_MAX 4096 /* parcels; above it a drain waits for the turn */

/* QPs whose notes or long work the holder has not finished: the engine or the next poll goes on. */
void turn_run_ready(struct node *n);
