// SPDX-License-Identifier: MIT
/* What a network adds: addresses tell who may speak to a connected QP, a READ request does not say
 * how many PSNs it asks for, and a long READ is asked for in parts. */
#include "pair.h"
#include "wire/grh.h"

enum { WINDOW = 8, MTU = 256 };

static struct dest_net ab, ba;

static struct pair *open_pair(void)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);

	memset(&ab, 0, sizeof(ab));
	ab.local = (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 } };
	ab.remote = (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 10, 0, 0, 2 } };
	ba = (struct dest_net){ ab.remote, ab.local };
	p->a->end.d.net = &ab;
	p->b->end.d.net = &ba;
	p->a->end.d.window = p->b->end.d.window = WINDOW;
	return p;
}

/* As if @from had sent it to b over the network. */
static void arrive(struct pair *p, struct seg *s, const union ibv_gid *from)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	uint8_t area[GRH_LEN];

	memcpy(g.sgid, from->raw, sizeof(g.sgid));
	memcpy(g.dgid, ba.local.raw, sizeof(g.dgid));
	grh_build(&g, area);
	s->flags = SEG_ACKREQ | SEG_NET;
	s->pkey = 0xffff;
	s->dqpn = p->b->q.qp.qpn;
	s->npsn = 1;
	s->rkey = p->b->mr->ib.rkey;
	s->va = RIG_IOVA;
	s->l3 = GRH_L3_IPV4;
	s->grh = area;
	tqp_input(&p->b->q, s, p->rig.net.now);
}

TEST(only_the_peers_address_is_heard)
{
	struct pair *p = open_pair();
	struct seg s = { .op = OP_FETCH_ADD, .swap_add = 5 };
	union ibv_gid stranger = ba.remote;
	uint64_t before, now;

	stranger.raw[15] = 9;
	memcpy(&before, p->b->mem, sizeof(before));
	arrive(p, &s, &stranger);
	check_eq(p->n, 0);
	arrive(p, &s, &ba.remote);
	check_eq(p->n, 1);
	memcpy(&now, p->b->mem, sizeof(now));
	check_eq(now, before + 5);
	pair_close(p);
}

TEST(a_qp_of_this_host_hears_nobody_from_the_network)
{
	struct pair *p = open_pair();
	struct seg s = { .op = OP_FETCH_ADD, .swap_add = 5 };

	p->b->end.d.net = NULL;
	arrive(p, &s, &ba.remote);
	check_eq(p->n, 0);
	pair_close(p);
}

TEST(a_read_request_stands_for_all_psns_of_its_response)
{
	struct pair *p = open_pair();
	struct seg s = { .op = OP_READ_REQUEST, .dma_len = 3 * MTU + 1 };

	arrive(p, &s, &ba.remote);
	check_eq(p->n, 4);
	check_eq(p->log[3].op, OP_READ_RESP_LAST);
	check_eq(p->log[3].psn, 3);
	s = (struct seg){ .op = OP_FETCH_ADD, .psn = 4 };
	arrive(p, &s, &ba.remote);
	check_eq(p->log[4].op, OP_ATOMIC_ACK);
	pair_close(p);
}

TEST(a_long_read_is_asked_for_in_parts_that_fit_the_window)
{
	struct pair *p = open_pair();
	uint32_t len = 2 * WINDOW * MTU + 100;
	struct rig_wr wr = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, len);

	rig_post(p->a, &wr);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(pair_count(p, p->b, OP_READ_REQUEST), 3);
	check_mem(p->a->mem, p->b->mem + 0x8000, len);
	pair_close(p);
}

/* The last ACK may be lost, and who sent it is gone: so it goes out more than once. */
TEST(who_leaves_repeats_the_last_ack)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_send(p->a, 0, 100);
	unsigned int before;

	pair_receive(p->b, 0x4000, 100);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	before = pair_count(p, p->a, OP_ACKNOWLEDGE);
	rig_move(p->b, IBV_QPS_RESET);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), before + 3);
	check_eq(p->log[p->n - 1].psn, p->log[0].psn);
	before = pair_count(p, p->b, OP_ACKNOWLEDGE);
	rig_move(p->a, IBV_QPS_RESET); /* it has received nothing */
	check_eq(pair_count(p, p->b, OP_ACKNOWLEDGE), before);
	pair_close(p);
}

RUN_TESTS(unit_test(only_the_peers_address_is_heard),
	  unit_test(a_qp_of_this_host_hears_nobody_from_the_network),
	  unit_test(a_read_request_stands_for_all_psns_of_its_response),
	  unit_test(a_long_read_is_asked_for_in_parts_that_fit_the_window),
	  unit_test(who_leaves_repeats_the_last_ack))
