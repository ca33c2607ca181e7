// SPDX-License-Identifier: MIT
/* Threads that wait for events: their polls between two sleeps are no row of polls in vain. */
#include "engine/wait.h"
#include <fcntl.h>
#include "../hca/fixture.h"
#include "engine/idle/vain.h"

enum { POLLS = 15 };

static struct fixture *f;
static struct comp_channel *ch;
static struct ibv_cq cq;

static void begin(void)
{
	f = fixture_open(8);
	check_eq(comp_channel_create(f->ctx, &ch), 0);
	vain_mine.polls = POLLS;
}

static void end(void)
{
	check_eq(comp_channel_destroy(ch), 0);
	fixture_close(f);
}

/* Else a program that waits for each message would yield at every 16th of them, and a process that
 * computes would have the core for a slice each time. */
TEST(who_waits_for_events_has_not_polled_in_vain)
{
	struct comp_event ev = { .cq = &cq };
	struct ibv_cq *got;

	begin();
	list_init(&ev.node);
	comp_channel_push(ch, &ev);
	check_eq(wait_cq_event(ch, &got), 0);
	check(got == &cq);
	check_eq(vain_mine.polls, 0);
	end();
}

TEST(who_only_looks_for_one_has)
{
	struct ibv_cq *got;

	begin();
	check_eq(fcntl(ch->ib.fd, F_SETFL, O_NONBLOCK), 0);
	check_eq(wait_cq_event(ch, &got), EAGAIN);
	check_eq(vain_mine.polls, POLLS);
	end();
}

RUN_TESTS(unit_test(who_waits_for_events_has_not_polled_in_vain),
	  unit_test(who_only_looks_for_one_has))
