// SPDX-License-Identifier: MIT
/* Events in their channels: whose they are, and where they go. */
#include "cm/cm_event.h"
#include <errno.h>
#include <unistd.h>
#include "cm/cm_id.h"
#include "cm/cm_watch.h"
#include "hca/event_fd.h"
#include "util/fork.h"
#include "test.h"

static struct cm_channel one, two;
static struct cm_id *a, *b;

static void open_channel(struct cm_channel *ch)
{
	check_eq(event_fd_open("test", &ch->fd), 0);
	list_init(&ch->events);
}

static void open_ids(void)
{
	cm_clear();
	open_channel(&one);
	open_channel(&two);
	check_eq(cm_id_new(&one, RDMA_PS_UDP, IBV_QPT_UD, &a), 0);
	check_eq(cm_id_new(&one, RDMA_PS_UDP, IBV_QPT_UD, &b), 0);
}

static void queue(struct cm_id *id, uint64_t number, void *join)
{
	struct cm_event *e = cm_event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);

	check(e);
	e->news.arg = number;
	e->news.join = join;
	cm_event_queue(e);
}

/* The numbers of the events in a list, which go, as decimal digits. */
static uint64_t numbers(struct list *events)
{
	struct list *pos, *tmp;
	uint64_t all = 0;

	list_for_each_safe(pos, tmp, events)
	{
		struct cm_event *e = container_of(pos, struct cm_event, node);

		all = 10 * all + e->news.arg;
		list_del(pos);
		free(e);
	}
	return all;
}

/* The descriptor counts what is queued. */
static uint64_t numbers_in(struct cm_channel *ch)
{
	struct list *pos;

	list_for_each(pos, &ch->events) event_fd_down(ch->fd);
	return numbers(&ch->events);
}

static void close_ids(void)
{
	cm_id_free(a);
	cm_id_free(b);
	close(one.fd);
	close(two.fd);
	hash_fini(&cm.by_id);
}

TEST(events_of_an_id_or_of_one_of_its_joins_leave_the_channel)
{
	struct list gone;
	int first, second;

	open_ids();
	list_init(&gone);
	queue(a, 1, &first);
	queue(b, 2, &first);
	queue(a, 3, &second);
	queue(a, 4, NULL);
	queue(a, 5, &first);
	cm_event_purge(a, &first, &gone);
	check_eq(numbers(&gone), 15);
	check(cm_event_waits(a));
	cm_event_purge(a, NULL, &gone);
	check_eq(numbers(&gone), 34);
	check(!cm_event_waits(a));
	check_eq(numbers_in(&one), 2);
	close_ids();
}

TEST(events_follow_their_id_in_their_order)
{
	open_ids();
	queue(a, 1, NULL);
	queue(b, 2, NULL);
	queue(a, 3, NULL);
	cm_event_move(a, &one);
	check(cm_event_waits(a));
	cm_event_move(a, &two);
	check_eq(numbers_in(&two), 13);
	check_eq(numbers_in(&one), 2);
	close_ids();
}

/* The program has destroyed the channel while something of the id was under way. */
TEST(an_id_without_a_channel_has_no_events)
{
	struct list gone;

	open_ids();
	list_init(&gone);
	a->channel = NULL;
	check(!cm_event_new(a, RDMA_CM_EVENT_ADDR_ERROR, 0));
	check(!cm_event_waits(a));
	cm_event_purge(a, NULL, &gone);
	check(list_empty(&gone));
	cm_event_move(a, &two);
	queue(a, 1, NULL);
	check_eq(numbers_in(&two), 1);
	close_ids();
}

/* It was destroyed while a thread waited for this event. */
TEST(a_channel_that_is_gone_is_not_touched)
{
	struct cm_news n;

	open_ids();
	check_eq(fork_init(), 0);
	one.epoch = fork_epoch();
	event_fd_up(one.fd);
	check_eq(cm_channel_next(&one, &n), EBADF);
	close_ids();
}

RUN_TESTS(unit_test(events_of_an_id_or_of_one_of_its_joins_leave_the_channel),
	  unit_test(events_follow_their_id_in_their_order),
	  unit_test(an_id_without_a_channel_has_no_events),
	  unit_test(a_channel_that_is_gone_is_not_touched))
