// SPDX-License-Identifier: MIT
#include "fixture.h"
#include <fcntl.h>
#include <poll.h>
#include "hca/async.h"

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

TEST(async_events_come_in_order_and_can_be_dropped)
{
	struct fixture *f = fixture_open(8);
	struct ibv_async_event ev;
	struct ibv_qp a, b;
	int fd = f->ctx->ib.context.async_fd;

	check(!readable(fd));
	async_push(f->ctx, IBV_EVENT_COMM_EST, &a);
	async_push(f->ctx, IBV_EVENT_QP_FATAL, &b);
	async_push(f->ctx, IBV_EVENT_SQ_DRAINED, &a);
	check_eq(async_pop(f->ctx, &ev), 0);
	check_eq(ev.event_type, IBV_EVENT_COMM_EST);
	check(ev.element.qp == &a);
	check_eq(async_drop(f->ctx, &a), 1);
	check_eq(async_drop(f->ctx, &a), 0);
	check_eq(async_pop(f->ctx, &ev), 0);
	check(ev.element.qp == &b);
	check(!readable(fd));
	check_eq(async_pop(f->ctx, &ev), EAGAIN);
	fixture_close(f);
}

TEST(what_a_peer_may_cause_at_will_waits_once)
{
	struct fixture *f = fixture_open(8);
	struct ibv_async_event ev;
	struct ibv_qp a, b;

	for (int round = 0; round < 2; round++) { /* once it was taken it may come again */
		for (int i = 0; i < 3; i++) {
			async_push_once(f->ctx, IBV_EVENT_QP_ACCESS_ERR, &a);
			async_push_once(f->ctx, IBV_EVENT_QP_ACCESS_ERR, &b);
			async_push_once(f->ctx, IBV_EVENT_COMM_EST, &a);
		}
		check_eq(async_pop(f->ctx, &ev), 0);
		check(ev.event_type == IBV_EVENT_QP_ACCESS_ERR && ev.element.qp == &a);
		check_eq(async_pop(f->ctx, &ev), 0);
		check(ev.event_type == IBV_EVENT_QP_ACCESS_ERR && ev.element.qp == &b);
		check_eq(async_pop(f->ctx, &ev), 0);
		check(ev.event_type == IBV_EVENT_COMM_EST && ev.element.qp == &a);
		check_eq(async_pop(f->ctx, &ev), EAGAIN);
		check(!readable(f->ctx->ib.context.async_fd));
	}
	fixture_close(f);
}

TEST(a_port_event_reaches_every_open_context)
{
	struct fixture *f = fixture_open(8);
	struct ibv_async_event ev;
	struct context *second, *closed;

	check_eq(context_create(&f->hca, NULL, &second), 0);
	check_eq(context_create(&f->hca, NULL, &closed), 0);
	context_destroy(closed);
	device_event(&f->hca, IBV_EVENT_GID_CHANGE);
	check_eq(async_pop(f->ctx, &ev), 0);
	check_eq(ev.event_type, IBV_EVENT_GID_CHANGE);
	check_eq(ev.element.port_num, 1);
	check_eq(async_pop(second, &ev), 0);
	context_destroy(second);
	fixture_close(f);
}

TEST(events_after_close_vanish)
{
	struct fixture *f = fixture_open(8);
	struct ibv_async_event ev;
	struct context *ctx;
	struct pd *pd;

	check_eq(context_create(&f->hca, NULL, &ctx), 0);
	check_eq(pd_create(ctx, &pd), 0);
	context_destroy(ctx); /* the PD keeps its memory */
	async_push(ctx, IBV_EVENT_GID_CHANGE, NULL);
	check_eq(async_pop(ctx, &ev), EIO);
	check_eq(pd_destroy(pd), 0);
	fixture_close(f);
}

TEST(waiting_honours_a_nonblocking_descriptor)
{
	struct fixture *f = fixture_open(8);
	struct ibv_async_event ev;

	check_eq(fcntl(f->ctx->ib.context.async_fd, F_SETFL, O_NONBLOCK), 0);
	check_eq(async_wait(f->ctx, &ev), EAGAIN);
	async_push(f->ctx, IBV_EVENT_GID_CHANGE, NULL);
	check_eq(async_wait(f->ctx, &ev), 0);
	fixture_close(f);
}

RUN_TESTS(unit_test(async_events_come_in_order_and_can_be_dropped),
	  unit_test(what_a_peer_may_cause_at_will_waits_once),
	  unit_test(a_port_event_reaches_every_open_context), unit_test(events_after_close_vanish),
	  unit_test(waiting_honours_a_nonblocking_descriptor))
