// SPDX-License-Identifier: MIT
/* costs reg_mr|create_qp|connect COUNT: makes COUNT objects and prints what one of them takes in
 * microseconds, as the mean of the last half: those that are made where many stand already. Of
 * connect, an object is a pair of RC queue pairs of this process, both moved to RTS. */
#include "meet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static struct peer_dev dev;
static uint8_t page[PAGE];
static const struct peer_opts opts = {
	.type = IBV_QPT_RC,
	.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
};
static struct ibv_cq *cq;

struct object {
	struct ibv_mr *mr;
	struct peer_ep one, other;
};

static void region(struct object *o)
{
	o->mr = ibv_reg_mr(dev.pd, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE);
	if (!o->mr)
		die("ibv_reg_mr");
}

static void queue_pair(struct peer_ep *ep)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = opts.type, .cap = opts.cap, .send_cq = cq, .recv_cq = cq
	};

	ep->qp = ibv_create_qp(dev.pd, &attr);
	if (!ep->qp)
		die("ibv_create_qp");
	ep->mine = (struct peer_addr){ .qpn = ep->qp->qp_num, .gid = dev.gid };
}

static void one_queue_pair(struct object *o)
{
	queue_pair(&o->one);
}

static void two_queue_pairs(struct object *o)
{
	queue_pair(&o->one);
	queue_pair(&o->other);
	o->one.theirs = o->other.mine;
	o->other.theirs = o->one.mine;
}

static void connect_them(struct object *o)
{
	peer_connect(&o->one, &opts);
	peer_connect(&o->other, &opts);
}

static void nothing(struct object *o)
{
	(void)o;
}

static const struct cost {
	const char *name;
	void (*before)(struct object *o); /* not measured */
	void (*make)(struct object *o);
} costs[] = {
	{ "reg_mr", nothing, region },
	{ "create_qp", nothing, one_queue_pair },
	{ "connect", two_queue_pairs, connect_them },
};

static double measured(const struct cost *cost, size_t count)
{
	struct object *all = calloc(count, sizeof(*all));
	double from = 0;

	if (!all)
		die("calloc");
	for (size_t i = 0; i < count; i++)
		cost->before(&all[i]);
	for (size_t i = 0; i < count; i++) {
		if (i == count / 2)
			from = seconds();
		cost->make(&all[i]);
	}
	from = seconds() - from;
	for (size_t i = 0; i < count; i++) {
		if ((all[i].mr && ibv_dereg_mr(all[i].mr)) ||
		    (all[i].one.qp && ibv_destroy_qp(all[i].one.qp)) ||
		    (all[i].other.qp && ibv_destroy_qp(all[i].other.qp)))
			die("end");
	}
	free(all);
	return from * 1e6 / (count - count / 2);
}

int main(int argc, char **argv)
{
	const struct cost *cost = costs, *end = costs + sizeof(costs) / sizeof(costs[0]);
	size_t count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;

	while (cost < end && count && strcmp(cost->name, argv[1]))
		cost++;
	if (!count || cost == end)
		fail("usage: costs reg_mr|create_qp|connect COUNT");
	peer_open(&dev);
	cq = ibv_create_cq(dev.ctx, 1, NULL, NULL, 0);
	if (!cq)
		die("ibv_create_cq");
	measured(cost, 1); /* what happens once, happens now */
	printf("%.3f us\n", measured(cost, count));
	if (ibv_destroy_cq(cq))
		die("ibv_destroy_cq");
	peer_close(&dev);
	return 0;
}
