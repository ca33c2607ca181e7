// SPDX-License-Identifier: MIT
/* Fate: what follows from a verdict. The tables are data. At the requester each verdict completes
 * the work request with a status and stops the queue (ERR; the SQ of UC and UD: SQE). At the
 * responder the service decides: NAK to the peer, completion of the receive, asynchronous event,
 * ERR. */
#pragma once
#include <stdint.h>
#include <stdbool.h>
#include <infiniband/verbs.h>

enum verdict {
	V_OK,
	V_LOCAL_LENGTH, /* receive WQE too small; message over the limit */
	V_LOCAL_QP_OP, /* malformed WQE, opcode not of this service */
	V_LOCAL_PROT, /* an SGE's key, PD, right or range; memory not mapped */
	V_REMOTE_INVALID, /* NAK 0x61: opcode, length, alignment, operation not enabled */
	V_REMOTE_ACCESS, /* NAK 0x62: rkey, PD, right, range */
	V_REMOTE_OP, /* NAK 0x63: the responder's own queue or memory failed */
	V_BAD_RESPONSE,
	V_RETRY_EXCEEDED,
	V_RNR_EXCEEDED,
	V_FLUSHED,
	V_MW_BIND, /* a window that cannot be bound or invalidated so */
	V_RESPONDER, /* this and the following verdicts are responders' only */
	V_LOCAL_ACCESS = V_RESPONDER, /* V_REMOTE_ACCESS that a receive WQE reports */
	V_INVALIDATE, /* SEND with invalidate of a key that may not be invalidated; no NAK */
	V_COUNT
};

/* The error codes of a completion. */
struct fate_code {
	uint8_t syndrome; /* MLX5_CQE_SYNDROME_*; 0: no completion */
	uint8_t vendor; /* VENDOR_* */
};

/* What a responder does. */
struct fate {
	struct fate_code receive; /* the completion of the receive WQE */
	uint8_t nak; /* AETH syndrome to the peer, 0: none */
	bool to_err; /* the QP moves to ERR */
	bool has_event; /* @event is raised */
	enum ibv_event_type event;
};

const struct fate_code *fate_at_requester(enum verdict v);
const struct fate *fate_at_responder(enum verdict v, bool reliable);
