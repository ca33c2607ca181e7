// SPDX-License-Identifier: MIT
/* SRQs of XRC domains, from creation to destruction, as the driver asks for them. */
#pragma once
#include "engine/node_state.h"

/* @attr: with xrcd and cq; the number is given here. */
int xrc_srq_create(struct pd *pd, struct srq_attr *attr, struct srq **out);
int xrc_srq_destroy(struct srq *srq);
