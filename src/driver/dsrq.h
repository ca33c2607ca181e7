// SPDX-License-Identifier: MIT
/* Life and attributes of shared receive queues, the driver's half. */
#pragma once
#include "driver/dsrq_ring.h"

/* comp_mask chooses the type: with IBV_SRQ_INIT_ATTR_TM it matches tags, with
 * IBV_SRQ_INIT_ATTR_XRCD it is of an XRC domain, else it is basic. @attr gets the granted
 * values. */
int dsrq_create(struct pd *pd, struct ibv_srq_init_attr_ex *attr, struct dsrq **out);
int dsrq_destroy(struct dsrq *srq);
int dsrq_modify(struct dsrq *srq, const struct ibv_srq_attr *attr, int mask);
int dsrq_query(struct dsrq *srq, struct ibv_srq_attr *attr);
