// SPDX-License-Identifier: MIT
/* MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC and _MC: whether a RAW_PACKET queue pair gets the
 * frames that its own context sends. Those of other contexts come in any case. */
#include <infiniband/mlx5dv.h>
#include "verbs/ether.h"

#define FLAG(name) MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_##name

static struct peer_dev dev, other;
static uint32_t flags; /* MLX5DV_QP_CREATE_* */
static bool without; /* attributes of mlx5 */

static struct ibv_qp *make(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
					  .create_flags = flags };

	return mlx5dv_create_qp(ctx, attr, without ? NULL : &dv);
}

static void sends(struct ether *from, bool multicast, uint16_t number)
{
	struct ether_frame f = {
		.dst = 1, .multicast = multicast, .ip = 4, .sport = number, .len = 50
	};

	ether_send(from, &f);
}

/* From its own context, and then from another, of which the frame comes: what comes first tells. */
static void want_one(struct ether *own, struct ether *foreign, struct ether *to, bool multicast,
		     bool comes)
{
	struct ether_got got;

	ether_recv(to, 2);
	sends(own, multicast, 1);
	sends(foreign, multicast, 2);
	if (comes) {
		ether_want(to, &got);
		want_eq(got.p[34] << 8 | got.p[35], 1);
	}
	ether_want(to, &got);
	want_eq(got.p[34] << 8 | got.p[35], 2);
	ether_want_none(to);
}

static void frames(int allowed)
{
	struct ether_rule all = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct ether own, foreign, to;
	struct ibv_flow *flow;

	peer_open(&dev);
	peer_open(&other);
	ether_open(&dev, 0, &own);
	ether_open(&other, 0, &foreign);
	without = allowed < 0;
	flags = without ? 0 : (uint32_t)allowed;
	ether_make = make;
	ether_open(&dev, 0, &to);
	flow = ether_steer(&to, &all);
	want_one(&own, &foreign, &to, false, flags & FLAG(UC));
	want_one(&own, &foreign, &to, true, flags & FLAG(MC));
	want_one(&to, &foreign, &to, false, flags & FLAG(UC)); /* its own ones, too */
	want_eq(ibv_destroy_flow(flow), 0);
	ether_close(&to);
	ether_close(&foreign);
	ether_close(&own);
	peer_close(&other);
	peer_close(&dev);
}

/* The verbs have no word for it: a queue pair that ibv_create_qp_ex() makes gets all. */
static void by_the_verbs(int arg)
{
	struct ether_rule all = ether_rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	struct ether own, foreign, to;

	(void)arg;
	peer_open(&dev);
	peer_open(&other);
	ether_open(&dev, 0, &own);
	ether_open(&other, 0, &foreign);
	ether_open(&dev, 0, &to);
	ether_steer(&to, &all);
	want_one(&own, &foreign, &to, false, true);
	want_one(&own, &foreign, &to, true, true);
}

static const struct test_case cases[] = {
	CASE_ARG(frames, -1),
	CASE_ARG(frames, 0),
	CASE_ARG(frames, FLAG(UC)),
	CASE_ARG(frames, FLAG(MC)),
	CASE_ARG(frames, FLAG(UC) | FLAG(MC)),
	CASE(by_the_verbs),
};

int main(void)
{
	return CASES_RUN(cases);
}
