// SPDX-License-Identifier: MIT
/* Does what the state machine of an id (cm_fsm.h) has decided: sends its message, queues its event,
 * sets its timer. Under cm.lock. */
#pragma once
#include "cm/cm_state.h"

/* An errno: the message could not leave, for a reason that time does not mend. An id that the
 * program has destroyed may be freed. */
int cm_talk(struct cm_id *id, const struct cm_out *out);
/* @m has come to @id. */
void cm_talk_take(struct cm_id *id, const struct cm_msg *m);
/* The message @m of @id came back (gsi_returned()). */
void cm_talk_returned(struct cm_id *id, const struct cm_msg *m, int error);
/* The process ends: the peer is told once. Nothing of the id changes but its machine. */
void cm_talk_farewell(struct cm_id *id);
/* A MAD from the id to its peer, without a message. */
void cm_talk_address(const struct cm_id *id, struct gsi_mad *out);
/* The id's connection on this host, whose descriptor is in place. */
int cm_talk_connected(struct cm_id *id);
/* Fills in what an event shows of the message @m. */
void cm_talk_param(const struct cm_id *id, const struct cm_msg *m, struct cm_param *out);
void cm_talk_ah(const struct cm_id *id, struct ibv_ah_attr *out); /* to the peer */
/* One connection's next message: 0, EAGAIN, EBADMSG, EBUSY (GSI_BUSY), ENOTCONN (the peer has
 * closed it). */
int cm_talk_read(int fd, struct gsi_mad *mad, struct cm_msg *m);
