// SPDX-License-Identifier: MIT
/* Two hosts whose connection goes on from other UDP ports: messages in both directions before and
 * after each change. The first argument is the other host's network namespace (a path), the second
 * one says what changes: "rc" and "uc" the port that mlx5dv_modify_qp_udp_sport() names, "label"
 * the flow label, in SQD. */
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <string.h>
#include "verbs/duo.h"

enum { BYTES = 64, MESSAGES = 8, FIRST_PORT = 20001, CHANGES = 6, PATIENCE = 20000 };

static struct duo duo;

static void completes(struct side *s)
{
	struct ibv_wc wc;

	if (!peer_poll(s->ep.scq, &wc, PATIENCE))
		fail("no completion");
	if (wc.status != IBV_WC_SUCCESS)
		fail("%s", ibv_wc_status_str(wc.status));
}

static struct duo_answer sends(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { (uintptr_t)s->mem, o->len, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (ibv_post_send(s->ep.qp, &wr, &bad))
		die("ibv_post_send");
	completes(s);
	return (struct duo_answer){ .found = true };
}

static void exchange(void)
{
	const struct duo_order own = { .len = BYTES };
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, BYTES, duo.near.mr->lkey };

	for (int i = 0; i < MESSAGES; i++) {
		duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = BYTES });
		sends(&duo.near, &own);
		if (duo_far_wc(&duo).status != IBV_WC_SUCCESS)
			fail("the message to the other host failed");
		peer_recv(&duo.near.ep, 0, &sg, 1);
		duo_do(&duo, sends, 0, BYTES, 0);
		completes(&duo.near);
	}
}

static void move(struct side *s, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr attr = *a;

	if (ibv_modify_qp(s->ep.qp, &attr, mask))
		die("ibv_modify_qp");
}

static void relabel(struct side *s, uint32_t label)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	struct ibv_qp_init_attr init;

	move(s, &attr, IBV_QP_STATE);
	if (ibv_query_qp(s->ep.qp, &attr, IBV_QP_AV, &init))
		die("ibv_query_qp");
	attr.qp_state = IBV_QPS_SQD;
	attr.ah_attr.grh.flow_label = label;
	move(s, &attr, IBV_QP_STATE | IBV_QP_AV);
	attr.qp_state = IBV_QPS_RTS;
	move(s, &attr, IBV_QP_STATE);
}

/* @o->len: of the port; 0: the flow label. */
static struct duo_answer changes(struct side *s, const struct duo_order *o)
{
	if (!o->len)
		relabel(s, (uint32_t)o->id);
	else if (mlx5dv_modify_qp_udp_sport(s->ep.qp, (uint16_t)o->len))
		die("mlx5dv_modify_qp_udp_sport");
	return (struct duo_answer){ .found = true };
}

/* One end, the other, or both at once. Labels that follow each other have other ports. */
static void change(uint32_t n, bool label)
{
	struct duo_order own = { .len = label ? 0 : FIRST_PORT + n, .id = n + 1 };

	if (n % 3 != 1)
		changes(&duo.near, &own);
	if (n % 3)
		duo_do(&duo, changes, 0, own.len, own.id);
}

int main(int argc, char **argv)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC } };

	if (argc != 3) {
		fprintf(stderr, "usage: moved_port /proc/PID/ns/net rc|uc|label\n");
		return 2;
	}
	o.far_netns = argv[1];
	if (!strcmp(argv[2], "uc"))
		o.qp.type = IBV_QPT_UC;
	duo_open(&duo, &o);
	exchange();
	for (uint32_t n = 0; n < CHANGES; n++) {
		change(n, !strcmp(argv[2], "label"));
		exchange();
	}
	duo_close(&duo);
	return 0;
}
