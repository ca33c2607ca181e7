// SPDX-License-Identifier: MIT
/* For handles.c: every kind of object, how one is made and ended, and every control verb with one
 * in each of its places. */
#pragma once
#include "verbs/ether.h"

enum kind {
	PD,
	TD,
	MR,
	MW,
	DM,
	AH,
	CHANNEL,
	CQ,
	SRQ,
	QP,
	WQ,
	TABLE,
	XRCD,
	FLOW,
	COUNTERS,
	CONTEXT
};

struct handles_kind {
	const char *name, *ended, *number; /* words of the sentences */
	size_t handle; /* offset of the member; 0: not looked at */
	size_t context;
	int absent; /* errno where none is alive */
};
extern const struct handles_kind handles_kinds[]; /* by enum kind */

/* A device with the parts that other objects are made of. */
struct side {
	struct peer_dev dev;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_wq *wq;
	struct ibv_counters *counters;
	struct ether ether;
	struct verbs_context *ops;
};
extern struct side near; /* the calls below are this one's */
void handles_open(struct side *s);

void *handles_make(struct side *s, enum kind kind);
extern int (*const handles_end[])(void *obj); /* by enum kind */

extern const struct handles_row {
	const char *name, *call; /* of the case; as sentences say it */
	enum kind kind;
	int (*fn)(void *obj); /* returns 0 or the errno */
	bool beside; /* the call has another object, whose context counts */
} handles_rows[];
extern const unsigned int handles_n;
