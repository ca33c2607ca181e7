// SPDX-License-Identifier: MIT
/* Header prediction (docs/design/prediction.md): an RC SEND or a datagram of one short piece
 * between two processes of a host, which is most messages, is sent and received in few steps. What
 * is not exactly as predicted takes the ordinary way, for which these functions have changed
 * nothing. Under the QP's turn, inside a quiesce section, as all of the transport. */
#pragma once
#include "transport/tqp.h"

struct sent;
struct wqe_single;

/* Sends what was posted. False: a part of it may be sent, and the rest is not of the predicted
 * form, the link has no room, or the requester has other work. Reads no clock. */
bool predicted_doorbell(struct tqp *q);
/* Executes @s, a segment for the QP, and takes the ACK on it. False: it is not the predicted one,
 * or that ACK has moved the QP to ERR. */
bool predicted_receive(struct tqp *q, const struct seg *s, uint64_t now);

/* The same of datagrams, in RTS. False: something posted is left for the ordinary way. */
bool predicted_datagrams(struct tqp *q, uint64_t now);
bool predicted_datagram(struct tqp *q, const struct seg *s, uint64_t now);

/* WRITEs and READs of an RC QP that direct access executes, in RTS: the same. */
bool predicted_one_sided(struct tqp *q, uint64_t now);

/* What they have in common. An RC QP, whose SQ has no other writer than the library: */
bool predicted_is_rc(const struct tqp *q);
/* the bytes of this process that @w names, if its key gives the rights @need, IBV_ACCESS_*; */
bool predicted_piece(const struct tqp *q, const struct wqe_single *w, unsigned int need,
		     struct piece *out);
/* the record of @w, which has been sent in one segment; */
struct sent *predicted_sent(struct tqp *q, const struct wqe_single *w);
/* where ask->len bytes go in the next receive, which is not taken yet, if it is one piece and its
 * key allows it. Sets @ask's key and va. */
bool predicted_room(const struct tqp *q, struct key_ask *ask, uint64_t *addr);
