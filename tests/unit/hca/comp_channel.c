// SPDX-License-Identifier: MIT
#include "fixture.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "hca/comp_channel.h"

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static struct comp_event event_of(struct ibv_cq *cq)
{
	return (struct comp_event){ .cq = cq };
}

TEST(the_descriptor_is_readable_while_events_wait)
{
	struct fixture *f = fixture_open(8);
	struct comp_channel *ch;
	struct ibv_cq cq, *got;

	check_eq(comp_channel_create(f->ctx, &ch), 0);
	check(ch->ib.context == &f->ctx->ib.context);
	struct comp_event ev = event_of(&cq);

	list_init(&ev.node);
	check(!readable(ch->ib.fd));
	comp_channel_push(ch, &ev);
	comp_channel_push(ch, &ev);
	check(readable(ch->ib.fd));
	check_eq(comp_channel_pop(ch, &got), 0);
	check(got == &cq);
	check(readable(ch->ib.fd));
	check_eq(comp_channel_pop(ch, &got), 0);
	check(!readable(ch->ib.fd));
	check_eq(comp_channel_pop(ch, &got), EAGAIN);
	check_eq(comp_channel_destroy(ch), 0);
	fixture_close(f);
}

TEST(queues_of_a_channel_take_turns)
{
	struct fixture *f = fixture_open(8);
	struct comp_channel *ch;
	struct ibv_cq cq[2], *got;
	struct comp_event ev[2];

	check_eq(comp_channel_create(f->ctx, &ch), 0);
	for (int i = 0; i < 2; i++) {
		ev[i] = event_of(&cq[i]);
		list_init(&ev[i].node);
		comp_channel_push(ch, &ev[i]);
		comp_channel_push(ch, &ev[i]);
	}
	for (int i = 0; i < 4; i++) {
		check_eq(comp_channel_pop(ch, &got), 0);
		check(got == &cq[i % 2]);
	}
	check_eq(comp_channel_pop(ch, &got), EAGAIN);
	check_eq(comp_channel_destroy(ch), 0);
	fixture_close(f);
}

TEST(what_is_held_wakes_nobody_until_it_is_released)
{
	struct fixture *f = fixture_open(8);
	struct comp_channel *ch;
	struct ibv_cq cq[6], *got;
	struct comp_event ev[6];

	check_eq(comp_channel_create(f->ctx, &ch), 0);
	comp_delay();
	for (int i = 0; i < 6; i++) {
		ev[i] = event_of(&cq[i]);
		list_init(&ev[i].node);
		if (i == 4)
			check(!readable(ch->ib.fd)); /* it has no room for more */
		comp_channel_push(ch, &ev[i]);
	}
	comp_release();
	for (int i = 0; i < 6; i++)
		check_eq(comp_channel_pop(ch, &got), 0);
	check_eq(comp_channel_pop(ch, &got), EAGAIN);
	comp_channel_push(ch, &ev[0]);
	check(readable(ch->ib.fd));
	check_eq(comp_channel_pop(ch, &got), 0);
	check_eq(comp_channel_destroy(ch), 0);
	fixture_close(f);
}

TEST(drop_takes_one_queues_events_and_their_counts)
{
	struct fixture *f = fixture_open(8);
	struct comp_channel *ch;
	struct ibv_cq a, b, *got;
	struct comp_event ea = event_of(&a), eb = event_of(&b);

	check_eq(comp_channel_create(f->ctx, &ch), 0);
	list_init(&ea.node);
	list_init(&eb.node);
	for (int i = 0; i < 3; i++)
		comp_channel_push(ch, &ea);
	comp_channel_push(ch, &eb);
	check_eq(comp_channel_drop(ch, &a), 3);
	check_eq(comp_channel_drop(ch, &a), 0);
	check_eq(comp_channel_pop(ch, &got), 0);
	check(got == &b);
	check(!readable(ch->ib.fd));
	check_eq(comp_channel_destroy(ch), 0);
	fixture_close(f);
}

TEST(waiting_honours_a_nonblocking_descriptor)
{
	struct fixture *f = fixture_open(8);
	struct comp_channel *ch;
	struct ibv_cq cq, *got;
	struct comp_event e = event_of(&cq);

	list_init(&e.node);
	check_eq(comp_channel_create(f->ctx, &ch), 0);
	check_eq(fcntl(ch->ib.fd, F_SETFL, O_NONBLOCK), 0);
	check_eq(comp_channel_wait(ch, &got), EAGAIN);
	comp_channel_push(ch, &e);
	check_eq(comp_channel_wait(ch, &got), 0);
	check_eq(comp_channel_wait(ch, &got), EAGAIN);
	check_eq(comp_channel_destroy(ch), 0);
	fixture_close(f);
}

TEST(a_push_counts_a_second_descriptor_up_while_there_is_one)
{
	struct fixture *f = fixture_open(8);
	int bell = eventfd(0, EFD_CLOEXEC);
	uint64_t count;
	struct comp_channel *ch;
	struct ibv_cq cq;
	struct comp_event e = event_of(&cq);

	list_init(&e.node);
	check_eq(comp_channel_create(f->ctx, &ch), 0);
	comp_channel_push(ch, &e);
	check(!readable(bell));
	comp_channel_also(ch, bell);
	comp_channel_push(ch, &e);
	check(readable(bell));
	check_eq(read(bell, &count, sizeof(count)), sizeof(count));
	comp_channel_also(ch, -1);
	comp_channel_push(ch, &e);
	check(!readable(bell));
	check_eq(comp_channel_drop(ch, &cq), 3);
	check_eq(comp_channel_destroy(ch), 0);
	close(bell);
	fixture_close(f);
}

/* Else the pop would wait for a count, with the mutex that the next push takes. */
TEST(a_count_that_the_program_has_read_holds_nobody_up)
{
	struct fixture *f = fixture_open(8);
	struct comp_channel *ch;
	struct ibv_cq cq, *got;
	struct comp_event e = event_of(&cq);
	uint64_t count;

	list_init(&e.node);
	check_eq(comp_channel_create(f->ctx, &ch), 0);
	comp_channel_push(ch, &e);
	check_eq(read(ch->ib.fd, &count, sizeof(count)), sizeof(count));
	alarm(30);
	check_eq(comp_channel_pop(ch, &got), 0);
	alarm(0);
	check(got == &cq);
	check_eq(comp_channel_destroy(ch), 0);
	fixture_close(f);
}

/* As ibv_destroy_comp_channel() does beside a thread that waits. */
TEST(a_channel_stays_until_the_last_wait_ends)
{
	struct fixture *f = fixture_open(8);
	int bell = eventfd(0, EFD_CLOEXEC), fd;
	struct comp_channel *ch;
	struct ibv_cq *got;

	check_eq(comp_channel_create(f->ctx, &ch), 0);
	fd = ch->ib.fd;
	comp_channel_enter(ch);
	comp_channel_enter(ch);
	comp_channel_also(ch, bell);
	check_eq(comp_channel_destroy(ch), 0);
	check(readable(bell));
	comp_channel_also(ch, -1);
	check_eq(comp_channel_pop(ch, &got), EBADF);
	comp_channel_leave(ch);
	check_eq(comp_channel_wait(ch, &got), EBADF);
	check(readable(fd));
	comp_channel_leave(ch);
	check_eq(fcntl(fd, F_GETFD), -1);
	close(bell);
	fixture_close(f);
}

enum { WAITERS = 3, EVENTS = 2000 };

static void *wait_for_events(void *arg)
{
	struct ibv_cq *cq;

	for (int i = 0; i < EVENTS; i++)
		if (comp_channel_wait(arg, &cq))
			return arg;
	return NULL;
}

TEST(each_event_wakes_one_waiter_and_the_count_stays_true)
{
	struct fixture *f = fixture_open(8);
	struct comp_channel *ch;
	struct ibv_cq cq, *got;
	struct comp_event e = event_of(&cq);
	pthread_t thread[WAITERS];

	list_init(&e.node);
	check_eq(comp_channel_create(f->ctx, &ch), 0);
	for (int i = 0; i < WAITERS; i++)
		check_eq(pthread_create(&thread[i], NULL, wait_for_events, ch), 0);
	for (int i = 0, more = 0; i < WAITERS * EVENTS + more; i++) {
		comp_channel_push(ch, &e);
		more += !comp_channel_pop(ch, &got); /* a rival that does not wait */
	}
	for (int i = 0; i < WAITERS; i++) {
		void *failed;

		check_eq(pthread_join(thread[i], &failed), 0);
		check(!failed);
	}
	check(!readable(ch->ib.fd));
	check_eq(comp_channel_pop(ch, &got), EAGAIN);
	check_eq(comp_channel_destroy(ch), 0);
	fixture_close(f);
}

RUN_TESTS(unit_test(the_descriptor_is_readable_while_events_wait),
	  unit_test(queues_of_a_channel_take_turns),
	  unit_test(what_is_held_wakes_nobody_until_it_is_released),
	  unit_test(drop_takes_one_queues_events_and_their_counts),
	  unit_test(waiting_honours_a_nonblocking_descriptor),
	  unit_test(a_push_counts_a_second_descriptor_up_while_there_is_one),
	  unit_test(a_count_that_the_program_has_read_holds_nobody_up),
	  unit_test(a_channel_stays_until_the_last_wait_ends),
	  unit_test(each_event_wakes_one_waiter_and_the_count_stays_true))
