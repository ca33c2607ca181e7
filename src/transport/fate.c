// SPDX-License-Identifier: MIT
#include "transport/fate.h"
#include "prm/cqe.h"
#include "wire/aeth.h"

#define NAK(code)   (AETH_NAK | NAK_##code)
#define SYN(name)   MLX5_CQE_SYNDROME_##name
#define NAK_OP	    NAK(REMOTE_OPERATIONAL)
#define NAK_INVALID NAK(INVALID_REQUEST)
#define NAK_ACCESS  NAK(REMOTE_ACCESS)
#define EVENT(e)    .has_event = true, .event = IBV_EVENT_##e

/* clang-format off */

/* A send that failed: the CQE tells everything. */
static const struct fate_code requester[V_RESPONDER] = {
	[V_LOCAL_LENGTH]   = { SYN(LOCAL_LENGTH_ERR), VENDOR_LOC_LEN },
	[V_LOCAL_QP_OP]    = { SYN(LOCAL_QP_OP_ERR), VENDOR_LOC_QP_OP },
	[V_LOCAL_PROT]     = { SYN(LOCAL_PROT_ERR), VENDOR_LOC_PROT },
	[V_REMOTE_INVALID] = { SYN(REMOTE_INVAL_REQ_ERR), VENDOR_REM_INV_REQ },
	[V_REMOTE_ACCESS]  = { SYN(REMOTE_ACCESS_ERR), VENDOR_REM_ACCESS },
	[V_REMOTE_OP]      = { SYN(REMOTE_OP_ERR), VENDOR_REM_OP },
	[V_BAD_RESPONSE]   = { SYN(BAD_RESP_ERR), VENDOR_BAD_RESP },
	[V_RETRY_EXCEEDED] = { SYN(TRANSPORT_RETRY_EXC_ERR), VENDOR_TRANSPORT_RETRY },
	[V_RNR_EXCEEDED]   = { SYN(RNR_RETRY_EXC_ERR), VENDOR_RNR_RETRY },
	[V_FLUSHED]        = { SYN(WR_FLUSH_ERR), VENDOR_SEND_FLUSH },
	[V_MW_BIND]        = { SYN(MW_BIND_ERR), VENDOR_MW_BIND },
};

/* The peer of an RC QP is told by a NAK; a refusal that no receive WQE reports raises an event. */
static const struct fate responder_rc[V_COUNT] = {
	[V_LOCAL_LENGTH]   = { { SYN(LOCAL_LENGTH_ERR), VENDOR_LOC_LEN }, NAK_INVALID, true },
	[V_LOCAL_PROT]     = { { SYN(LOCAL_PROT_ERR), VENDOR_LOC_PROT }, NAK_OP, true },
	[V_REMOTE_INVALID] = { { 0, 0 }, NAK_INVALID, true, EVENT(QP_REQ_ERR) },
	[V_REMOTE_ACCESS]  = { { 0, 0 }, NAK_ACCESS, true, EVENT(QP_ACCESS_ERR) },
	[V_REMOTE_OP]      = { { 0, 0 }, NAK_OP, true, EVENT(QP_FATAL) },
	[V_LOCAL_ACCESS]   = { { SYN(LOCAL_ACCESS_ERR), VENDOR_REM_ACCESS }, NAK_ACCESS, true },
	[V_INVALIDATE]     = { { SYN(REMOTE_INVAL_REQ_ERR), VENDOR_REM_INV_REQ }, 0, true },
	[V_FLUSHED]        = { { SYN(WR_FLUSH_ERR), VENDOR_RECV_FLUSH } },
};

/* UC, UD and RAW_PACKET: wrong requests of the peer are dropped in silence; a message that this
 * side's receive WQE cannot take completes it with an error. */
static const struct fate responder_silent[V_COUNT] = {
	[V_LOCAL_LENGTH]   = { { SYN(LOCAL_LENGTH_ERR), VENDOR_LOC_LEN }, 0, true },
	[V_LOCAL_PROT]     = { { SYN(LOCAL_PROT_ERR), VENDOR_LOC_PROT }, 0, true },
	[V_FLUSHED]        = { { SYN(WR_FLUSH_ERR), VENDOR_RECV_FLUSH } },
};
/* clang-format on */

const struct fate_code *fate_at_requester(enum verdict v)
{
	return &requester[v];
}

const struct fate *fate_at_responder(enum verdict v, bool reliable)
{
	return reliable ? &responder_rc[v] : &responder_silent[v];
}
