// SPDX-License-Identifier: MIT
/* Ids: beginning and end. Under cm.lock. */
#pragma once
#include "cm/cm_state.h"

/* ENOMEM, ENOSPC: no comm id. */
int cm_id_new(struct cm_channel *ch, uint32_t ps, int qp_type, struct cm_id **out);
/* Off all lists and tables; closes its connection. One that is kept remains until id_release(). */
void cm_id_free(struct cm_id *id);
/* Keys of the tables, each of the host at @from: the numbers are no secret, and any host may use
 * those of another. Never 0. */
uint64_t cm_id_request_key(const union ibv_gid *from, uint64_t guid, uint32_t comm_id);
uint64_t cm_id_question_key(const union ibv_gid *from, uint32_t request_id);
uint64_t cm_id_qp_key(const union ibv_gid *from, uint64_t guid, uint32_t qpn);
