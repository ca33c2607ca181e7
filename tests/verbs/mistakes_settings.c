// SPDX-License-Identifier: MIT
/* Mistakes explained: what is set in the environment. */
#include <errno.h>
#include <stdlib.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

static struct duo duo;

/* The near QP's move from INIT to RTR. */
static int to_rtr(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = duo.near.ep.theirs.qpn,
				 .ah_attr = { .is_global = 1,
					      .port_num = 1,
					      .grh = { .dgid = duo.near.dev.gid,
						       .sgid_index = PEER_GID_INDEX } } };

	return ibv_modify_qp(duo.near.ep.qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static void faults_that_nobody_understands(int arg)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	(void)arg;
	said_begin();
	duo_open(&duo, &o);
	want_eq(ibv_modify_qp(duo.near.ep.qp, &reset, IBV_QP_STATE), 0);
	peer_init(&duo.near.ep, &o.qp);
	setenv("SOFTHCA_FAULT", "seed=3,los=1%", 1);
	want_errno(to_rtr(), EINVAL);
	said_want(SAID_NEAR, "SOFTHCA_FAULT: 'los' is no setting; is it 'loss'?");
	setenv("SOFTHCA_FAULT", "seed=3,loss=1%", 1);
	want_eq(to_rtr(), 0);
}

static const struct test_case cases[] = {
	CASE(faults_that_nobody_understands),
};

int main(void)
{
	return CASES_RUN(cases);
}
