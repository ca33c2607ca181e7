// SPDX-License-Identifier: MIT
#include "hca/qp_moves.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include "hca/qp_attrs.h"
#include "hca/qp_names.h"
#include "obs/explain.h"

enum { RC, UC, UD, RAW, XS, XR, TYPES }; /* XS: XRC_SEND, XR: XRC_RECV */

enum {
	CUR = IBV_QP_CUR_STATE,
	NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACCESS = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	QKEY = IBV_QP_QKEY,
	AV = IBV_QP_AV,
	MTU = IBV_QP_PATH_MTU,
	TIMEOUT = IBV_QP_TIMEOUT,
	RETRY = IBV_QP_RETRY_CNT,
	RNR = IBV_QP_RNR_RETRY,
	RQ_PSN = IBV_QP_RQ_PSN,
	SRC_RD = IBV_QP_MAX_QP_RD_ATOMIC,
	ALT = IBV_QP_ALT_PATH,
	RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	SQ_PSN = IBV_QP_SQ_PSN,
	DST_RD = IBV_QP_MAX_DEST_RD_ATOMIC,
	MIG = IBV_QP_PATH_MIG_STATE,
	DQPN = IBV_QP_DEST_QPN,
};

enum {
	ALL = 1 << RC | 1 << UC | 1 << UD | 1 << RAW | 1 << XS | 1 << XR,
	NO_ACKS = 1 << UC | 1 << UD | 1 << RAW,
};

struct move {
	unsigned int types; /* that may make it; 0: illegal */
	int need[TYPES], may[TYPES];
};

#define RESET IBV_QPS_RESET
#define INIT  IBV_QPS_INIT
#define RTR   IBV_QPS_RTR
#define RTS   IBV_QPS_RTS
#define SQD   IBV_QPS_SQD
#define SQE   IBV_QPS_SQE
#define ERR   IBV_QPS_ERR

/* IBV_QP_STATE goes with every move, IBV_QP_RATE_LIMIT with every one to RTS of who sends. SQE is
 * where UC and UD queues come by themselves after a failed send; nothing but RESET leads out of
 * ERR, and a queue that was never initialised has no errors. */
// clang-format off
static const struct move moves[ERR + 1][ERR + 1] = {
	[RESET] = {
		[RESET] = { ALL },
		[INIT] = { ALL,
			.need = { [RC] = PKEY | PORT | ACCESS,
				  [UC] = PKEY | PORT | ACCESS,
				  [UD] = PKEY | PORT | QKEY,
				 [RAW] = PORT,
				  [XS] = PKEY | PORT | ACCESS,
				  [XR] = PKEY | PORT | ACCESS } },
	},
	[INIT] = {
		[RESET] = { ALL },
		[INIT] = { ALL,
			.may = { [RC] = PKEY | PORT | ACCESS,
				 [UC] = PKEY | PORT | ACCESS,
				 [UD] = PKEY | PORT | QKEY,
				 [RAW] = PORT,
				 [XS] = PKEY | PORT | ACCESS,
				 [XR] = PKEY | PORT | ACCESS } },
		[RTR] = { ALL,
			.need = { [RC] = AV | MTU | DQPN | RQ_PSN | DST_RD | RNR_TIMER,
				  [UC] = AV | MTU | DQPN | RQ_PSN,
				  [XS] = AV | MTU | DQPN | RQ_PSN,
				  [XR] = AV | MTU | DQPN | RQ_PSN | DST_RD | RNR_TIMER },
			.may = { [RC] = ALT | ACCESS | PKEY,
				 [UC] = ALT | ACCESS | PKEY,
				 [UD] = PKEY | QKEY,
				 [XS] = ALT | ACCESS | PKEY,
				 [XR] = ALT | ACCESS | PKEY } },
		[ERR] = { ALL },
	},
	[RTR] = {
		[RESET] = { ALL },
		[RTS] = { ALL,
			.need = { [RC] = TIMEOUT | RETRY | RNR | SQ_PSN | SRC_RD,
				  [UC] = SQ_PSN,
				  [UD] = SQ_PSN,
				  [XS] = TIMEOUT | RETRY | RNR | SQ_PSN | SRC_RD,
				  [XR] = TIMEOUT | SQ_PSN },
			.may = { [RC] = CUR | ALT | ACCESS | RNR_TIMER | MIG,
				 [UC] = CUR | ALT | ACCESS | MIG,
				 [UD] = CUR | QKEY,
				 [XS] = CUR | ALT | ACCESS | MIG,
				 [XR] = CUR | ALT | ACCESS | RNR_TIMER | MIG } },
		[ERR] = { ALL },
	},
	[RTS] = {
		[RESET] = { ALL },
		[RTS] = { ALL,
			.may = { [RC] = CUR | ALT | ACCESS | RNR_TIMER | MIG,
				 [UC] = CUR | ALT | ACCESS | MIG,
				 [UD] = CUR | QKEY,
				 [XS] = CUR | ALT | ACCESS | MIG,
				 [XR] = CUR | ALT | ACCESS | RNR_TIMER | MIG } },
		[SQD] = { ALL,
			.may = { [RC] = NOTIFY, [UC] = NOTIFY, [UD] = NOTIFY, [RAW] = NOTIFY,
				 [XS] = NOTIFY, [XR] = NOTIFY } },
		[ERR] = { ALL },
	},
	[SQD] = {
		[RESET] = { ALL },
		[RTS] = { ALL,
			.may = { [RC] = CUR | ALT | ACCESS | RNR_TIMER | MIG,
				 [UC] = CUR | ALT | ACCESS | MIG,
				 [UD] = CUR | QKEY,
				 [XS] = CUR | ALT | ACCESS | MIG,
				 [XR] = CUR | ALT | ACCESS | RNR_TIMER | MIG } },
		[SQD] = { ALL,
			.may = { [RC] = PORT | AV | TIMEOUT | RETRY | RNR | SRC_RD | DST_RD | ALT |
					ACCESS | PKEY | RNR_TIMER | MIG,
				 [UC] = AV | ALT | ACCESS | PKEY | MIG,
				 [UD] = PKEY | QKEY,
				 [XS] = PORT | AV | TIMEOUT | RETRY | RNR | SRC_RD | ALT | ACCESS |
					PKEY | MIG,
				 [XR] = PORT | AV | TIMEOUT | DST_RD | ALT | ACCESS | PKEY |
					RNR_TIMER | MIG } },
		[ERR] = { ALL },
	},
	[SQE] = {
		[RESET] = { NO_ACKS },
		[RTS] = { NO_ACKS,
			.may = { [UC] = CUR | ACCESS,
				 [UD] = CUR | QKEY } },
		[ERR] = { NO_ACKS },
	},
	[ERR] = {
		[RESET] = { ALL },
		[ERR] = { ALL },
	},
};
// clang-format on

static int type_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_UD:
		return UD;
	case IBV_QPT_RAW_PACKET:
		return RAW;
	case IBV_QPT_XRC_SEND:
		return XS;
	case IBV_QPT_XRC_RECV:
		return XR;
	default:
		return TYPES;
	}
}

static const struct move *find(enum ibv_qp_state from, enum ibv_qp_state to, int t)
{
	const struct move *m;

	if ((unsigned int)from > ERR || (unsigned int)to > ERR || t == TYPES)
		return NULL;
	m = &moves[from][to];
	return m->types & 1U << t ? m : NULL;
}

/* "INIT, ERR" */
static const char *ways_text(enum ibv_qp_state from, int t, char *buf, size_t n)
{
	size_t at = 0;

	snprintf(buf, n, "nowhere");
	for (int to = RESET; to <= ERR && at < n; to++)
		if (find(from, to, t))
			at += (size_t)snprintf(buf + at, n - at, "%s%s", at ? ", " : "",
					       qp_state_name(to));
	return buf;
}

int qp_moves_used(enum ibv_qp_type type, int mask)
{
	if (type == IBV_QPT_XRC_SEND)
		return mask & ~(DST_RD | RNR_TIMER);
	if (type == IBV_QPT_XRC_RECV)
		return mask & ~(SRC_RD | RETRY | RNR);
	return mask;
}

int qp_moves_check(uint32_t qpn, enum ibv_qp_state from, enum ibv_qp_state to,
		   enum ibv_qp_type type, int mask)
{
	int t = type_of(type), missing, foreign;
	const struct move *m = find(from, to, t);
	char text[200];

	if (!m)
		return refuse(EINVAL,
			      "ibv_modify_qp: QP 0x%x: %s to %s is not a move of %s QPs; from %s "
			      "they go to: %s",
			      qpn, qp_state_name(from), qp_state_name(to), qp_type_name(type),
			      qp_state_name(from), ways_text(from, t, text, sizeof(text)));
	missing = m->need[t] & ~mask;
	if (missing)
		return refuse(EINVAL,
			      "ibv_modify_qp: QP 0x%x: %s to %s of %s QPs needs %s; add it to "
			      "attr_mask",
			      qpn, qp_state_name(from), qp_state_name(to), qp_type_name(type),
			      qp_attrs_text(missing, text, sizeof(text)));
	foreign = mask & ~(m->need[t] | m->may[t] | IBV_QP_STATE |
			   (to == RTS && t != XR ? IBV_QP_RATE_LIMIT : 0));
	if (foreign)
		return refuse(EINVAL,
			      "ibv_modify_qp: QP 0x%x: %s to %s of %s QPs does not take %s; "
			      "leave it out of attr_mask",
			      qpn, qp_state_name(from), qp_state_name(to), qp_type_name(type),
			      qp_attrs_text(foreign, text, sizeof(text)));
	return 0;
}
