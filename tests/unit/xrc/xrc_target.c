// SPDX-License-Identifier: MIT
/* A target QP from creation to destruction while a member is stopped in its shared turn: a call
 * gives up after some time, and nothing has changed. The domain has no file, and naps of a call are
 * counted, not slept. */
#include <errno.h>
#include <time.h>
#include "hca/async_queue.h"
#include "util/fork.h"
#include "xrc/xrc_half.h"
#include "xrc/xrc_target.h"
#include "unit/engine/stand.h"

enum { MINE = 1, NAPS = 2000 /* of a millisecond */ };

static struct xrc_domain *domain;
static struct xrcd xrcd;
static unsigned int naps;

int nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	check_eq(t->tv_nsec, 1000000);
	naps++;
	return 0;
}

static void open_domain(void)
{
	check_eq(fork_init(), 0);
	stand_open();
	stand->ctx.epoch = fork_epoch();
	check_eq(async_queue_create(&stand->ctx.async), 0);
	domain = calloc(1, sizeof(*domain));
	domain->node = &stand->n;
	domain->ctx = &stand->ctx;
	domain->anonymous = true;
	domain->word = MINE;
	domain->page = calloc(1, xrc_page_bytes());
	mutex_init(&domain->lock);
	xrcd = (struct xrcd){ .ctx = &stand->ctx, .epoch = fork_epoch(), .domain = domain };
	naps = 0;
}

static void close_domain(void)
{
	for (unsigned int i = 0; i < XRC_TARGETS; i++)
		xrc_half_free(domain->target[i]);
	check_eq(xrcd.refs, 0);
	check_eq(stand->hca.count.qp, 0);
	async_queue_close(stand->ctx.async);
	async_queue_destroy(stand->ctx.async);
	mutex_destroy(&domain->lock);
	free(domain->page);
	free(domain);
	stand_close();
}

/* The last handle of @q is closed while its turn has the word of a living member: this one. */
static void refuse_to_close(struct tqp *q, struct xrc_handle *h)
{
	struct xrc_shared *t = xrc_turn_shared(to_xrc(to_eqp(q)));
	uint32_t qpn = q->qp.qpn;

	store_relaxed(&t->turn, MINE);
	naps = 0;
	check_eq(xrc_target_close(q, h), ETIMEDOUT);
	check_eq(naps, NAPS);
	check_eq(t->qpn, qpn);
	check_eq(t->holders[0], 1);
	check(to_xrc(to_eqp(q))->handles == h);
	check_eq(xrcd.refs, 1);
	store_relaxed(&t->turn, 0);
}

TEST(a_target_in_whose_turn_a_member_is_stopped_cannot_be_destroyed_yet)
{
	struct xrc_handle h = { 0 };
	struct tqp *q;

	open_domain();
	check_eq(xrc_target_create(&xrcd, &h, &q), 0);
	refuse_to_close(q, &h);
	check_eq(xrc_target_close(q, &h), 0);
	check_eq(xrc_turn_shared(to_xrc(to_eqp(q)))->qpn, 0);
	close_domain();
}

/* Other handles of this process close at once, whoever has the turn. */
TEST(a_handle_that_is_not_the_last_needs_no_turn)
{
	struct xrc_handle h[2] = { { 0 } };
	struct tqp *q, *same;

	open_domain();
	check_eq(xrc_target_create(&xrcd, &h[0], &q), 0);
	check_eq(xrc_target_open(&xrcd, q->qp.qpn, &h[1], &same), 0);
	store_relaxed(&xrc_turn_shared(to_xrc(to_eqp(q)))->turn, MINE);
	check_eq(xrc_target_close(q, &h[0]), 0);
	check_eq(naps, 0);
	refuse_to_close(q, &h[1]);
	check_eq(xrc_target_close(q, &h[1]), 0);
	close_domain();
}

/* The page's places are free; a member that found a QP there before is stopped in each turn. */
TEST(a_place_in_whose_turn_a_member_is_stopped_takes_no_target_yet)
{
	struct xrc_handle h = { 0 };
	struct tqp *q = NULL;

	open_domain();
	for (unsigned int i = 0; i < XRC_TARGETS; i++)
		domain->page->target[i].turn = MINE;
	check_eq(xrc_target_create(&xrcd, &h, &q), ETIMEDOUT);
	check_eq(naps, NAPS);
	check(!q);
	check_eq(xrcd.refs, 0);
	for (unsigned int i = 0; i < XRC_TARGETS; i++)
		domain->page->target[i].turn = 0;
	check_eq(xrc_target_create(&xrcd, &h, &q), 0);
	check_eq(xrc_target_close(q, &h), 0);
	close_domain();
}

RUN_TESTS(unit_test(a_target_in_whose_turn_a_member_is_stopped_cannot_be_destroyed_yet),
	  unit_test(a_handle_that_is_not_the_last_needs_no_turn),
	  unit_test(a_place_in_whose_turn_a_member_is_stopped_takes_no_target_yet))
