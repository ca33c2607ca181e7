// SPDX-License-Identifier: MIT
/* Automatic path migration: the states of both sides, migration by modify, by the peer, and when
 * the primary path's retries are exhausted. The paths of a test differ in their hop limits: 64 the
 * primary's, 65 the alternate's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { TOGETHER, APART };
enum { PRIMARY = 64, ALTERNATE = 65 };

static struct duo duo;

static void begin_type(int where, enum ibv_qp_type type)
{
	struct duo_opts o = { .qp = { .type = type, .timeout = 8, .retry = 1 },
			      .together = where == TOGETHER };

	if (type == IBV_QPT_UC)
		o.qp.access = IBV_ACCESS_REMOTE_WRITE;
	duo_open(&duo, &o);
}

static void begin(int where)
{
	begin_type(where, IBV_QPT_RC);
}

static struct ibv_qp_attr near(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	want_eq(ibv_query_qp(duo.near.ep.qp, &a, 0x1ffffff, &init), 0);
	return a;
}

static enum ibv_mig_state near_state(void)
{
	return near().path_mig_state;
}

static struct duo_answer far(uint32_t hop_limit)
{
	return duo_tell(&duo, (struct duo_order){ DUO_MIG, .len = hop_limit });
}

static enum ibv_mig_state far_state(void)
{
	return (enum ibv_mig_state)far(0).value;
}

static int set(enum ibv_mig_state state)
{
	struct ibv_qp_attr a = { .path_mig_state = state };

	return ibv_modify_qp(duo.near.ep.qp, &a, IBV_QP_PATH_MIG_STATE);
}

static void rearm_far(void)
{
	duo_tell(&duo, (struct duo_order){ DUO_REARM, .len = ALTERNATE });
}

/* A message there, and on RC its acknowledgement back. */
static void message(void)
{
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
	duo_send(&duo, IBV_WR_SEND, 8);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
}

static void near_event(enum ibv_event_type type)
{
	struct ibv_async_event ev;

	do
		want(side_event(&duo.near, &ev, 10000));
	while (ev.event_type == IBV_EVENT_COMM_EST);
	want_eq(ev.event_type, type);
	want(ev.element.qp == duo.near.ep.qp);
}

static void far_event(enum ibv_event_type type)
{
	struct duo_answer a;

	do
		a = duo_tell(&duo, (struct duo_order){ DUO_EVENT, .len = 10000 });
	while (a.found && a.value == IBV_EVENT_COMM_EST);
	want(a.found);
	want_eq(a.value, type);
}

static void arm(void)
{
	side_rearm(&duo.near, ALTERNATE);
	rearm_far();
	message();
	message();
	want_eq(near_state(), IBV_MIG_ARMED);
	want_eq(far_state(), IBV_MIG_ARMED);
}

static void migrated(void)
{
	struct ibv_qp_attr a = near();

	want_eq(a.path_mig_state, IBV_MIG_MIGRATED);
	want_eq(a.ah_attr.grh.hop_limit, ALTERNATE);
	want_eq(a.timeout, 10);
	want_eq(a.alt_ah_attr.grh.hop_limit, PRIMARY); /* the old one */
	want_eq(a.alt_timeout, 8);
	want_eq(far(ALTERNATE).value, IBV_MIG_MIGRATED);
	want(far(ALTERNATE).found);
}

/* One side alone waits; a message of the other, when it is rearmed too, arms it. */
static void both_sides_arm(int where)
{
	begin(where);
	want_eq(near_state(), IBV_MIG_MIGRATED);
	side_rearm(&duo.near, ALTERNATE);
	want_eq(near_state(), IBV_MIG_REARM);
	message();
	want_eq(near_state(), IBV_MIG_REARM);
	want_eq(far_state(), IBV_MIG_MIGRATED);
	rearm_far();
	want_eq(far_state(), IBV_MIG_REARM);
	message();
	want_eq(far_state(), IBV_MIG_ARMED);
	want_eq(near_state(), IBV_MIG_ARMED); /* by the acknowledgement */
	duo_close(&duo);
}

/* The side that modifies tells the other by its next message. */
static void migration_by_modify(int where)
{
	begin(where);
	arm();
	want_eq(set(IBV_MIG_MIGRATED), 0);
	near_event(IBV_EVENT_PATH_MIG);
	want_eq(near_state(), IBV_MIG_MIGRATED);
	want_eq(far_state(), IBV_MIG_ARMED);
	message();
	far_event(IBV_EVENT_PATH_MIG);
	migrated();
	message();
	duo_close(&duo);
}

/* WRITEs, which may go past the ring, tell it too. */
static void migration_told_by_a_write(int where)
{
	begin(where);
	for (int i = 0; i < 3; i++) {
		duo_send(&duo, IBV_WR_RDMA_WRITE, 4096);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
	arm();
	want_eq(set(IBV_MIG_MIGRATED), 0);
	duo_send(&duo, IBV_WR_RDMA_WRITE, 4096);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	far_event(IBV_EVENT_PATH_MIG);
	near_event(IBV_EVENT_PATH_MIG);
	migrated();
	duo_close(&duo);
}

static void there_and_back_again(int where)
{
	begin(where);
	for (int i = 0; i < 4; i++) {
		arm();
		want_eq(set(IBV_MIG_MIGRATED), 0);
		message();
		near_event(IBV_EVENT_PATH_MIG);
		far_event(IBV_EVENT_PATH_MIG);
		want_eq(far_state(), IBV_MIG_MIGRATED);
	}
	duo_close(&duo);
}

/* Everything on the primary path is lost from now on. */
static void break_primary(void)
{
	struct ibv_qp_attr a = near();

	a.qp_state = IBV_QPS_SQD;
	want_eq(ibv_modify_qp(duo.near.ep.qp, &a, IBV_QP_STATE), 0);
	setenv("SOFTHCA_FAULT", "loss=100%", 1);
	want_eq(ibv_modify_qp(duo.near.ep.qp, &a, IBV_QP_AV), 0);
	unsetenv("SOFTHCA_FAULT");
	a.qp_state = IBV_QPS_RTS;
	want_eq(ibv_modify_qp(duo.near.ep.qp, &a, IBV_QP_STATE), 0);
}

/* Work that the primary path has lost is done by the alternate: no completion fails. */
static void migration_when_retries_are_exhausted(int where)
{
	begin(where);
	arm();
	break_primary();
	for (uint64_t i = 0; i < 8; i++)
		duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64, .id = i });
	for (int i = 0; i < 4; i++) {
		duo_send(&duo, IBV_WR_RDMA_WRITE, 8);
		duo_send(&duo, IBV_WR_SEND, 8);
		duo_send(&duo, IBV_WR_RDMA_READ, 8);
	}
	for (int i = 0; i < 12; i++)
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 4; i++)
		want_eq(duo_far_wc(&duo).wr_id, i);
	near_event(IBV_EVENT_PATH_MIG);
	far_event(IBV_EVENT_PATH_MIG);
	migrated();
	duo_close(&duo);
}

/* Not armed: the retries are what they always are. */
static void no_migration_unless_armed(int where)
{
	begin(where);
	side_rearm(&duo.near, ALTERNATE);
	message();
	break_primary();
	duo_send(&duo, IBV_WR_SEND, 8);
	want_eq(duo_wc(&duo).status, IBV_WC_RETRY_EXC_ERR);
	want_eq(near_state(), IBV_MIG_REARM);
	duo_close(&duo);
}

/* Once: the alternate path's retries end in the completion. */
static void the_alternate_may_fail_too(int where)
{
	begin(where);
	arm();
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_RESET });
	duo_send(&duo, IBV_WR_SEND, 8);
	want_eq(duo_wc(&duo).status, IBV_WC_RETRY_EXC_ERR);
	near_event(IBV_EVENT_PATH_MIG);
	want_eq(near_state(), IBV_MIG_MIGRATED);
	duo_close(&duo);
}

/* UC has no retries: the peer and modify migrate it. */
static void unreliable_connections_migrate_too(int where)
{
	begin_type(where, IBV_QPT_UC);
	side_rearm(&duo.near, ALTERNATE);
	rearm_far();
	message();
	want_eq(far_state(), IBV_MIG_ARMED);
	want_eq(near_state(), IBV_MIG_REARM); /* nothing has come back */
	duo_close(&duo);
}

static void reset_forgets(int where)
{
	begin(where);
	arm();
	duo_reconnect(&duo);
	want_eq(near_state(), IBV_MIG_MIGRATED);
	want_eq(near().alt_ah_attr.is_global, 0);
	want_eq(set(IBV_MIG_REARM), EINVAL);
	message();
	duo_close(&duo);
}

static void refused(int where)
{
	struct ibv_qp_attr a = { .path_mig_state = IBV_MIG_REARM, .alt_port_num = 1 };
	struct ibv_qp *qp;

	begin(where);
	qp = duo.near.ep.qp;
	want_eq(set(IBV_MIG_REARM), EINVAL); /* no alternate path */
	want_eq(set(IBV_MIG_ARMED), EINVAL);
	want_errno(ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH), EINVAL); /* no GRH */
	side_rearm(&duo.near, ALTERNATE);
	want_eq(set(IBV_MIG_ARMED), EINVAL);
	want_eq(set(IBV_MIG_MIGRATED), EINVAL); /* the peer has not agreed */
	a = near();
	a.alt_port_num = 2;
	want_errno(ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH), EINVAL);
	a.alt_port_num = 1;
	a.alt_timeout = 32;
	want_errno(ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH), EINVAL);
	a.alt_timeout = 31;
	want_eq(ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH), 0);
	message();
	duo_close(&duo);
}

#define BOTH(f)                                                                                    \
	{ #f " in one process", f, TOGETHER },                                                     \
	{                                                                                          \
#f " between two", f, APART                                                        \
	}

static const struct test_case cases[] = {
	BOTH(both_sides_arm),
	BOTH(migration_by_modify),
	BOTH(migration_told_by_a_write),
	BOTH(there_and_back_again),
	BOTH(migration_when_retries_are_exhausted),
	BOTH(no_migration_unless_armed),
	BOTH(the_alternate_may_fail_too),
	BOTH(unreliable_connections_migrate_too),
	BOTH(reset_forgets),
	BOTH(refused),
};

int main(void)
{
	return CASES_RUN(cases);
}
