// SPDX-License-Identifier: MIT
#include "mlx5dv/garbage_far.h"
#include <string.h>
#include <unistd.h>
#include "mlx5dv/dc_duo.h"
#include "mlx5dv/garbage_write.h"

enum { RECEIVES = 16 };

static struct far {
	struct peer_dev dev;
	struct far_side side;
	struct peer_ep ep;
	struct ibv_srq *srq; /* of a DC target */
} f;

void far_meet(int fd, const struct peer_dev *on, bool near, struct far_side *s)
{
	for (int i = 0; i < 2; i++) {
		s->pd[i] = ibv_alloc_pd(on->ctx);
		want(s->pd[i]);
	}
	plots_make(&s->plots, s->pd[0], s->pd[1]);
	memcpy(s->mine.plot, s->plots.key, sizeof(s->mine.plot));
	witness_begin(on, fd, near, &s->mine.witness);
	peer_swap(fd, &s->mine, &s->theirs, sizeof(s->mine));
}

struct peer_addr far_tell(int fd, struct far_order o)
{
	struct far_order answer;

	peer_swap(fd, &o, &answer, sizeof(o));
	return answer.to;
}

static void destroy(void)
{
	if (!f.ep.qp)
		return;
	want_eq(ibv_destroy_qp(f.ep.qp), 0);
	want_eq(ibv_destroy_cq(f.ep.scq), 0);
	if (f.srq)
		want_eq(ibv_destroy_srq(f.srq), 0);
	memset(&f.ep, 0, sizeof(f.ep));
	f.srq = NULL;
}

static void target(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	struct peer_dev in = { f.dev.ctx, pd, f.dev.gid };

	f.ep.scq = f.ep.rcq = ibv_create_cq(f.dev.ctx, 255, NULL, NULL, 0);
	f.srq = ibv_create_srq(pd, &attr);
	want(f.ep.scq && f.srq);
	f.ep.qp = dc_target_make(&in, f.ep.scq, f.srq, ACCESS_KEY);
	f.ep.mine = (struct peer_addr){ .qpn = f.ep.qp->qp_num, .gid = f.dev.gid };
	dc_target_rtr(f.ep.qp);
	f.ep.mine.qpn = f.ep.qp->qp_num; /* it has one from RTR on */
}

static struct peer_opts opts_of(const struct far_order *o)
{
	return (struct peer_opts){ .type = o->type,
				   .cap = { RECEIVES, RECEIVES, 1, 1, 0 },
				   .mtu = IBV_MTU_1024,
				   .retry = 1,
				   .rnr = 2,
				   .min_rnr_timer = 1,
				   .timeout = 8,
				   .access = o->shut ? IBV_ACCESS_REMOTE_READ : 0 };
}

static void make(const struct far_order *o)
{
	struct peer_dev in = { f.dev.ctx, f.side.pd[o->shut], f.dev.gid };
	struct peer_opts opts = opts_of(o);

	destroy();
	if (o->type == IBV_QPT_DRIVER)
		target(in.pd);
	else
		peer_ep_create(&in, &opts, &f.ep);
}

static void receive(void)
{
	struct ibv_sge sge = { f.side.plots.key[PLOT_RECEIVES].va, PLOT_BYTES,
			       f.side.plots.key[PLOT_RECEIVES].key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (int i = 0; i < RECEIVES; i++)
		if (f.srq ? ibv_post_srq_recv(f.srq, &wr, &bad) : ibv_post_recv(f.ep.qp, &wr, &bad))
			return; /* as many as it takes */
}

static void connect(const struct far_order *o)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct peer_opts opts = opts_of(o);
	struct ibv_wc wc[RECEIVES];

	while (ibv_poll_cq(f.ep.scq, RECEIVES, wc) > 0)
		;
	if (!f.srq) {
		f.ep.theirs = o->to;
		want_eq(ibv_modify_qp(f.ep.qp, &reset, IBV_QP_STATE), 0);
		peer_connect(&f.ep, &opts);
	}
	if (!o->shut)
		receive();
}

static void follow(const struct far_order *o)
{
	if (o->op == FAR_MAKE)
		make(o);
	else if (o->op == FAR_CONNECT)
		connect(o);
	else if (o->op == FAR_CHECK)
		plots_want_kept(&f.side.plots, 1 << PLOT_OPEN | 1 << PLOT_RECEIVES);
}

static void get(int fd, struct far_order *o)
{
	size_t got = 0;

	while (got < sizeof(*o)) {
		ssize_t n = read(fd, (uint8_t *)o + got, sizeof(*o) - got);

		if (n <= 0)
			fail("the process that is given garbage has ended");
		got += (size_t)n;
	}
}

int far_main(int fd, void *arg)
{
	struct far_order o;

	(void)arg;
	peer_note("the other process");
	peer_open(&f.dev);
	far_meet(fd, &f.dev, false, &f.side);
	do {
		get(fd, &o);
		follow(&o);
		o.to = f.ep.mine;
		if (write(fd, &o, sizeof(o)) != sizeof(o))
			die("write to the process that is given garbage");
	} while (o.op != FAR_QUIT);
	witness_end();
	destroy();
	return 0;
}
