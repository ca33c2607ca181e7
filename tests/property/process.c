// SPDX-License-Identifier: MIT
/* A process: one device, the sides that live in it, a thread for each, and one that meddles. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include "property/side.h"
#include "verbs/peer.h"

static void open_process(struct process *pr)
{
	static const char *const faults[WAYS] = { [WAY_FAULTLESS] = "", [WAY_LATE] = "delay=20us" };
	const char *fault = faults[pr->p->way];
	struct peer_dev d;

	if (fault && setenv("SOFTHCA_FAULT", fault, 1))
		die("setenv");
	pthread_mutex_init(&pr->events_lock, NULL);
	pthread_mutex_init(&pr->shared.lock, NULL);
	peer_open(&d);
	pr->ctx = d.ctx;
	if (fcntl(d.ctx->async_fd, F_SETFL, O_NONBLOCK)) /* an event may go with its QP */
		die("fcntl");
	pr->pd = d.pd;
	pr->gid = d.gid;
	pr->shared.cq = ibv_create_cq(pr->ctx, SITS_IN * (OPS + RECVS), NULL, NULL, 0);
	if (!pr->shared.cq)
		die("ibv_create_cq");
	domain_open(pr);
	pr->pool.id = pool_id(NULL);
	pool_open(pr, &pr->pool, NULL);
	for (unsigned int i = 0; i < pr->sides; i++)
		connect_open(pr->side[i]);
}

static void close_process(struct process *pr)
{
	for (unsigned int i = 0; i < pr->sides; i++)
		connect_close(pr->side[i]);
	pool_close(&pr->pool);
	domain_close(pr);
	if (ibv_destroy_cq(pr->shared.cq) || ibv_dealloc_pd(pr->pd) || ibv_close_device(pr->ctx))
		board_fail("process %u: an object stays in use: errno %d", pr->number, errno);
}

static void seat_all(struct process *pr)
{
	for (unsigned int l = 0; l < pr->p->links; l++)
		for (unsigned int s = 0; s < SIDES; s++) {
			struct side *side;

			if (pr->p->link[l].proc[s] != pr->number)
				continue;
			side = calloc(1, sizeof(*side));
			if (!side)
				die("calloc");
			side->pr = pr;
			side->link = l;
			side->s = s;
			pr->side[pr->sides++] = side;
		}
}

int process_run(unsigned int number)
{
	static struct process pr;
	pthread_t thread[SITS_IN], meddler;

	pr.number = number;
	pr.p = &board->program;
	seat_all(&pr);
	open_process(&pr);
	if (pthread_create(&meddler, NULL, meddle, &pr))
		die("pthread_create");
	for (unsigned int i = 0; i < pr.sides; i++)
		if (pthread_create(&thread[i], NULL, side_run, pr.side[i]))
			die("pthread_create");
	for (unsigned int i = 0; i < pr.sides; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&pr.over, true);
	pthread_join(meddler, NULL);
	close_process(&pr);
	for (unsigned int i = 0; i < pr.sides; i++)
		free(pr.side[i]);
	return 0;
}
