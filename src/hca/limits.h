// SPDX-License-Identifier: MIT
/* Every advertised limit. Each can be reached, and a test reaches it. */
#pragma once
#include "prm/cqe_session.h"
#include "prm/wqe.h"

enum {
	LIMIT_QP_WR = 32768, /* blocks: half of what 16 bits count (docs/design/work-requests.md) */
	LIMIT_SGE = WQE_MAX_SGE,
	LIMIT_SGE_RD = WQE_MAX_SGE,
	LIMIT_INLINE = WQE_INLINE_MAX,
	LIMIT_QP = 65536, /* per host; QPN: 10 bits of slot, 14 of index, several slots a process */
	LIMIT_DC_RESPONDERS = 1024, /* connections of a DC target at a time */
	LIMIT_DCI_STREAMS_LOG = 6, /* of a DC initiator: streams that it keeps apart, log2 */
	LIMIT_DCI_ERRORED_LOG = 6, /* streams in error at which the initiator goes to ERR, log2 */
	LIMIT_CQ = 16384,
	LIMIT_CQE = (1 << 20) - 1,
	LIMIT_CQE_SESSION = CQE_SESSION_MAX, /* completions in a compressed session */
	LIMIT_CQE_FORMATS = MLX5DV_CQE_RES_FORMAT_HASH | MLX5DV_CQE_RES_FORMAT_CSUM |
			    MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX,
	LIMIT_MR = 65536,
	LIMIT_MW = 65536,
	LIMIT_MEMCPY = 4 << 20, /* bytes of a copy from memory to memory */
	LIMIT_DM = 4 << 20, /* bytes of device memory */
	LIMIT_KEYS = LIMIT_MR + LIMIT_MW + 1, /* of a process; no window has index 0 */
	LIMIT_PD = 16384,
	LIMIT_AH = 65536,
	LIMIT_SRQ = 4096,
	LIMIT_SRQ_WR = 32767,
	LIMIT_SRQ_SGE = WQE_MAX_SGE,
	LIMIT_TM_TAGS = 256, /* tagged buffers of a tag-matching SRQ */
	LIMIT_TM_OPS = 1024, /* its list operations whose completion was not polled */
	LIMIT_TM_RNDV = 64, /* bytes of a rendezvous message: headers and the program's own data */
	LIMIT_RD_ATOMIC = 16, /* per QP, either direction */
	LIMIT_MCAST_GRP = 256,
	LIMIT_MCAST_QP_ATTACH = 240,
	LIMIT_PKEYS = 1,
	LIMIT_GIDS = 16,
	LIMIT_COMP_VECTORS = 8,
	LIMIT_RATE = 100000000, /* kbit/s: the port's 100 Gbit/s */
	LIMIT_RATE_MIN = 1,
	LIMIT_MODERATE = 65535, /* completions, or microseconds, that one event may stand for */
	LIMIT_FLOWS = 4096, /* rules of one process on a device */
	LIMIT_WQ = 4096,
	/* Striding WQs: bytes of a stride, strides of a receive, log2. Entries of completions have
	 * 14 bits for the strides that a frame takes. */
	LIMIT_STRIDE_LOG_MIN = 6,
	LIMIT_STRIDE_LOG = 13,
	LIMIT_STRIDES_LOG_MIN = 3,
	LIMIT_STRIDES_LOG = 16,
	LIMIT_RWQ_TABLES = 1024,
	LIMIT_RWQ_TABLE_LOG = 10,
	LIMIT_TSO = 256 << 10, /* payload bytes of one TSO send */
	LIMIT_TSO_HEADER = 512,
};
#define LIMIT_MR_SIZE	 (1ULL << 38)
#define LIMIT_CLOCK_MASK ((1ULL << 63) - 1) /* bits of a timestamp */
#define LIMIT_CLOCK_KHZ	 1000000 /* hca_core_clock: a tick is a nanosecond */
#define LIMIT_MSG	 (1U << 31) /* bytes of one message; UD: the MTU */
