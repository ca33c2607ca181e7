// SPDX-License-Identifier: MIT
#include "hca/qp_moves.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include "hca/qp_attrs.h"
#include "hca/qp_names.h"
#include "obs/explain.h"

#define RESET IBV_QPS_RESET
#define INIT  IBV_QPS_INIT
#define RTR   IBV_QPS_RTR
#define RTS   IBV_QPS_RTS
#define SQD   IBV_QPS_SQD
#define SQE   IBV_QPS_SQE
#define ERR   IBV_QPS_ERR

enum { NONE, BARE, STEP }; /* BARE: a move without attributes; from STEP on: of enum service_move */

/* Only RESET leads out of ERR, and a queue that was never initialised cannot enter it. */
static const uint8_t diagram[ERR + 1][ERR + 1] = {
	[RESET] = { [RESET] = BARE, [INIT] = STEP + MOVE_INIT },
	[INIT] = { [RESET] = BARE,
		   [INIT] = STEP + MOVE_INIT_AGAIN,
		   [RTR] = STEP + MOVE_RTR,
		   [ERR] = BARE },
	[RTR] = { [RESET] = BARE, [RTS] = STEP + MOVE_RTS, [ERR] = BARE },
	[RTS] = { [RESET] = BARE,
		  [RTS] = STEP + MOVE_RTS_AGAIN,
		  [SQD] = STEP + MOVE_DRAIN,
		  [ERR] = BARE },
	[SQD] = { [RESET] = BARE,
		  [RTS] = STEP + MOVE_UNDRAIN,
		  [SQD] = STEP + MOVE_DRAIN_AGAIN,
		  [ERR] = BARE },
	[SQE] = { [RESET] = BARE, [RTS] = STEP + MOVE_REPAIR, [ERR] = BARE },
	[ERR] = { [RESET] = BARE, [ERR] = BARE },
};

/* NULL: not a move of this service. A service without SQE never is there. */
static const struct service_step *find(const struct service *s, enum ibv_qp_state from,
				       enum ibv_qp_state to)
{
	static const struct service_step bare = { .legal = true };
	const struct service_step *step;
	uint8_t move;

	if ((unsigned int)from > ERR || (unsigned int)to > ERR)
		return NULL;
	move = diagram[from][to];
	if (move == NONE || (from == SQE && !s->moves[MOVE_REPAIR].legal))
		return NULL;
	step = move == BARE ? &bare : &s->moves[move - STEP];
	return step->legal ? step : NULL;
}

/* "INIT, ERR" */
static const char *ways_text(const struct service *s, enum ibv_qp_state from, char *buf, size_t n)
{
	size_t at = 0;

	snprintf(buf, n, "nowhere");
	for (int to = RESET; to <= ERR && at < n; to++)
		if (find(s, from, to))
			at += (size_t)snprintf(buf + at, n - at, "%s%s", at ? ", " : "",
					       qp_state_name(to));
	return buf;
}

int qp_moves_check(uint32_t qpn, const struct service *s, enum ibv_qp_state from,
		   enum ibv_qp_state to, int mask)
{
	const struct service_step *step = find(s, from, to);
	int missing, foreign;
	char text[200];

	if (!step)
		return refuse(EINVAL,
			      "ibv_modify_qp: QP 0x%x: %s to %s is not a move of %s QPs; from %s "
			      "they go to: %s",
			      qpn, qp_state_name(from), qp_state_name(to), s->name,
			      qp_state_name(from), ways_text(s, from, text, sizeof(text)));
	missing = step->need & ~mask;
	if (missing)
		return refuse(EINVAL,
			      "ibv_modify_qp: QP 0x%x: %s to %s of %s QPs needs %s; add it to "
			      "attr_mask",
			      qpn, qp_state_name(from), qp_state_name(to), s->name,
			      qp_attrs_text(missing, text, sizeof(text)));
	foreign = mask & ~(step->need | step->may | IBV_QP_STATE);
	if (foreign)
		return refuse(EINVAL,
			      "ibv_modify_qp: QP 0x%x: %s to %s of %s QPs does not take %s; "
			      "leave it out of attr_mask",
			      qpn, qp_state_name(from), qp_state_name(to), s->name,
			      qp_attrs_text(foreign, text, sizeof(text)));
	return 0;
}
