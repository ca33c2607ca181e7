// SPDX-License-Identifier: MIT
/* Fate: what follows from a verdict. One table, drawn as data: verdict × service → NAK syndrome
 * to the peer, completion status and vendor error here, QP action, asynchronous event. */
#pragma once
#include <stdint.h>
#include <stdbool.h>
#include <infiniband/verbs.h>

enum verdict {
	V_OK,
	V_LOCAL_LENGTH, /* receive WQE too small; message over the limit */
	V_LOCAL_QP_OP, /* malformed WQE, opcode not of this service */
	V_LOCAL_PROT, /* an SGE's key, PD, right or range; memory not mapped */
	V_LOCAL_ACCESS,
	V_REMOTE_INVALID, /* NAK 0x61: opcode, length, alignment, operation not enabled */
	V_REMOTE_ACCESS, /* NAK 0x62: rkey, PD, right, range */
	V_REMOTE_OP, /* NAK 0x63: the responder's own queue or memory failed */
	V_BAD_RESPONSE,
	V_RETRY_EXCEEDED,
	V_RNR_EXCEEDED,
	V_FLUSHED,
	V_CQ_OVERRUN,
	V_MW_BIND, /* a window that cannot be bound or invalidated so */
	V_COUNT
};

struct fate {
	uint8_t syndrome; /* CQE syndrome (MLX5_CQE_SYNDROME_*), 0: no completion */
	uint8_t vendor;
	uint8_t nak; /* AETH syndrome to the peer, 0: none */
	bool to_err; /* the QP moves to ERR (UC/UD requester: SQE) */
	bool has_event;
	enum ibv_event_type event;
};

/* @responder: which half met the verdict. */
const struct fate *fate_of(enum verdict v, enum ibv_qp_type type, bool responder);
