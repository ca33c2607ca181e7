// SPDX-License-Identifier: MIT
#include "fixture.h"
#include "hca/qp_moves.h"
#include "hca/qp_names.h"

/* The state diagram once more, as a list: what is not in it is illegal. */
#define CUR    IBV_QP_CUR_STATE
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY
#define ACC    IBV_QP_ACCESS_FLAGS
#define PKEY   IBV_QP_PKEY_INDEX
#define PORT   IBV_QP_PORT
#define QKEY   IBV_QP_QKEY
#define ALT    IBV_QP_ALT_PATH
#define MIG    IBV_QP_PATH_MIG_STATE
#define TIMER  IBV_QP_MIN_RNR_TIMER
#define PATH   (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RETRY  (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)
#define SRC_RD IBV_QP_MAX_QP_RD_ATOMIC
#define DST_RD IBV_QP_MAX_DEST_RD_ATOMIC
#define SQ_PSN IBV_QP_SQ_PSN

enum {
	RC = IBV_QPT_RC,
	UC = IBV_QPT_UC,
	UD = IBV_QPT_UD,
	XS = IBV_QPT_XRC_SEND,
	XR = IBV_QPT_XRC_RECV
};
enum { RESET, INIT, RTR, RTS, SQD, SQE, ERR, STATES };

static const struct row {
	int from, to, type, need, may;
} rows[] = {
	{ RESET, INIT, RC, PKEY | PORT | ACC, 0 },
	{ RESET, INIT, UC, PKEY | PORT | ACC, 0 },
	{ RESET, INIT, UD, PKEY | PORT | QKEY, 0 },
	{ INIT, INIT, RC, 0, PKEY | PORT | ACC },
	{ INIT, INIT, UC, 0, PKEY | PORT | ACC },
	{ INIT, INIT, UD, 0, PKEY | PORT | QKEY },
	{ INIT, RTR, RC, PATH | DST_RD | TIMER, ALT | ACC | PKEY },
	{ INIT, RTR, UC, PATH, ALT | ACC | PKEY },
	{ INIT, RTR, UD, 0, PKEY | QKEY },
	{ RTR, RTS, RC, RETRY | SQ_PSN | SRC_RD, CUR | ALT | ACC | TIMER | MIG },
	{ RTR, RTS, UC, SQ_PSN, CUR | ALT | ACC | MIG },
	{ RTR, RTS, UD, SQ_PSN, CUR | QKEY },
	{ RTS, RTS, RC, 0, CUR | ALT | ACC | TIMER | MIG },
	{ RTS, RTS, UC, 0, CUR | ALT | ACC | MIG },
	{ RTS, RTS, UD, 0, CUR | QKEY },
	{ RTS, SQD, RC, 0, NOTIFY },
	{ RTS, SQD, UC, 0, NOTIFY },
	{ RTS, SQD, UD, 0, NOTIFY },
	{ SQD, RTS, RC, 0, CUR | ALT | ACC | TIMER | MIG },
	{ SQD, RTS, UC, 0, CUR | ALT | ACC | MIG },
	{ SQD, RTS, UD, 0, CUR | QKEY },
	{ SQD, SQD, RC, 0,
	  PORT | IBV_QP_AV | RETRY | SRC_RD | DST_RD | ALT | ACC | PKEY | TIMER | MIG },
	{ SQD, SQD, UC, 0, IBV_QP_AV | ALT | ACC | PKEY | MIG },
	{ SQD, SQD, UD, 0, PKEY | QKEY },
	{ RESET, INIT, XS, PKEY | PORT | ACC, 0 },
	{ RESET, INIT, XR, PKEY | PORT | ACC, 0 },
	{ INIT, INIT, XS, 0, PKEY | PORT | ACC },
	{ INIT, INIT, XR, 0, PKEY | PORT | ACC },
	{ INIT, RTR, XS, PATH, ALT | ACC | PKEY },
	{ INIT, RTR, XR, PATH | DST_RD | TIMER, ALT | ACC | PKEY },
	{ RTR, RTS, XS, RETRY | SQ_PSN | SRC_RD, CUR | ALT | ACC | MIG },
	{ RTR, RTS, XR, IBV_QP_TIMEOUT | SQ_PSN, CUR | ALT | ACC | TIMER | MIG },
	{ RTS, RTS, XS, 0, CUR | ALT | ACC | MIG },
	{ RTS, RTS, XR, 0, CUR | ALT | ACC | TIMER | MIG },
	{ RTS, SQD, XS, 0, NOTIFY },
	{ RTS, SQD, XR, 0, NOTIFY },
	{ SQD, RTS, XS, 0, CUR | ALT | ACC | MIG },
	{ SQD, RTS, XR, 0, CUR | ALT | ACC | TIMER | MIG },
	{ SQD, SQD, XS, 0, PORT | IBV_QP_AV | RETRY | SRC_RD | ALT | ACC | PKEY | MIG },
	{ SQD, SQD, XR, 0,
	  PORT | IBV_QP_AV | IBV_QP_TIMEOUT | DST_RD | ALT | ACC | PKEY | TIMER | MIG },
	{ SQE, RTS, UC, 0, CUR | ACC },
	{ SQE, RTS, UD, 0, CUR | QKEY },
};

static const int types[] = { RC, UC, UD, XS, XR };

/* False: illegal. To RESET from anywhere, to ERR from anywhere but RESET; RC knows no SQE. */
static bool expected(int from, int to, int type, struct row *out)
{
	*out = (struct row){ from, to, type, 0, 0 };
	if (from == SQE && type != UC && type != UD)
		return false;
	if (to == RESET || (to == ERR && from != RESET))
		return true;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].from != from || rows[i].to != to || rows[i].type != type)
			continue;
		*out = rows[i];
		return true;
	}
	return false;
}

static int moves(const struct row *r, int mask)
{
	return qp_moves_check(1, service_find((enum ibv_qp_type)r->type), r->from, r->to,
			      mask | IBV_QP_STATE);
}

static void walk(void (*fn)(const struct row *r, bool legal))
{
	for (int from = RESET; from < STATES; from++)
		for (int to = RESET; to < STATES; to++)
			for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
				struct row r;
				bool legal = expected(from, to, types[t], &r);

				fn(&r, legal);
			}
}

static void legal_moves_pass(const struct row *r, bool legal)
{
	int err = moves(r, r->need);

	if (err != (legal ? 0 : EINVAL))
		fail_msg("%s %s to %s: %d", qp_type_name(r->type), qp_state_name(r->from),
			 qp_state_name(r->to), err);
	if (legal)
		check_eq(moves(r, r->need | r->may), 0);
}

TEST(exactly_the_diagram_is_legal)
{
	walk(legal_moves_pass);
}

static void each_bit_is_needed(const struct row *r, bool legal)
{
	for (int bit = 0; bit < 31 && legal; bit++)
		if (r->need & 1 << bit)
			check_eq(moves(r, r->need & ~(1 << bit)), EINVAL);
}

TEST(a_move_without_one_required_attribute_is_refused)
{
	walk(each_bit_is_needed);
}

static void foreign_bits_are_refused(const struct row *r, bool legal)
{
	for (int bit = 1; bit < 31 && legal; bit++) {
		int mask = 1 << bit;

		bool paced = r->to == IBV_QPS_RTS && r->type != IBV_QPT_XRC_RECV;
		int may = r->may | (paced ? IBV_QP_RATE_LIMIT : 0);

		check_eq(moves(r, r->need | mask), mask & (r->need | may) ? 0 : EINVAL);
	}
}

TEST(a_move_with_one_foreign_attribute_is_refused)
{
	walk(foreign_bits_are_refused);
}

TEST(the_reason_names_the_attribute_or_the_ways_out)
{
	const struct service *rc = &services[SERVICE_RC];

	qp_moves_check(1, rc, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE | PATH | DST_RD);
	check_reason("needs IBV_QP_MIN_RNR_TIMER;");
	qp_moves_check(1, rc, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QP_STATE);
	check_reason("RESET to RTR is not a move of RC QPs; from RESET they go to: RESET, INIT");
	qp_moves_check(1, &services[SERVICE_UD], IBV_QPS_RTS, IBV_QPS_RTS,
		       IBV_QP_STATE | IBV_QP_CAP);
	check_reason("does not take IBV_QP_CAP;");
}

TEST(states_outside_the_table_are_refused)
{
	const struct service *rc = &services[SERVICE_RC];

	check_eq(qp_moves_check(1, rc, IBV_QPS_UNKNOWN, IBV_QPS_RESET, IBV_QP_STATE), EINVAL);
	check_eq(qp_moves_check(1, rc, IBV_QPS_RESET, (enum ibv_qp_state)99, IBV_QP_STATE), EINVAL);
}

RUN_TESTS(unit_test(exactly_the_diagram_is_legal),
	  unit_test(a_move_without_one_required_attribute_is_refused),
	  unit_test(a_move_with_one_foreign_attribute_is_refused),
	  unit_test(the_reason_names_the_attribute_or_the_ways_out),
	  unit_test(states_outside_the_table_are_refused))
