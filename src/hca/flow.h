// SPDX-License-Identifier: MIT
/* Flow steering: which queue pairs get an Ethernet frame that comes to a device's port. One table
 * per device and process.
 *
 * Order. SNIFFER rules get every frame. Of the NORMAL rules the one with the lowest priority number
 * takes the frame, among equal ones the oldest; rules of the same priority with the very same specs
 * share the frame (each QP gets a copy). With DONT_TRAP the search goes on behind the rule. A frame
 * that no NORMAL rule took goes to the MC_DEFAULT rules if it is a multicast and there are any,
 * else to the ALL_DEFAULT rules. A rule with ACTION_DROP takes the frame and drops it.
 *
 * Locking: lookups run in a quiesce section on an array that is replaced whole; @lock guards the
 * replacing. A rule keeps a reference on its QP (qp.flows). */
#pragma once
#include "hca/flow_spec.h"
#include "hca/qp.h"

struct flow_table;
struct flow;

/* @changed: called without locks when the table got its first rule, or lost its last. */
int flow_table_create(void (*changed)(void *arg, bool any), void *arg, struct flow_table **out);
void flow_table_destroy(struct flow_table *t);

/* As ibv_create_flow(). */
int flow_create(struct flow_table *t, struct qp *qp, const struct ibv_flow_attr *attr,
		struct ibv_flow **out);
int flow_destroy(struct ibv_flow *flow);

struct flow_hit {
	const struct qp *qp;
	uint32_t qpn;
	uint32_t tag;
};
/* Calls @fn for each QP that gets the frame; returns how many. In a quiesce section. */
unsigned int flow_steer(struct flow_table *t, const struct frame *f,
			void (*fn)(void *arg, const struct flow_hit *hit), void *arg);
