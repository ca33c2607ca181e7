// SPDX-License-Identifier: MIT
/* A port that another program has, by a clock of our own: it is tried again as long as a listener
 * waits for it. The network is a link of ours. */
#include "engine/port_wait.h"
#include "engine/links.h"
#include "engine/port_events.h"
#include "hca/mcast.h"
#include "stand.h"

#define SECOND 1000000000ULL

static struct device *device;
static bool is_free;
static unsigned int tries;

static int open_link(struct link *l)
{
	(void)l;
	return 0;
}

static bool again(struct link *l)
{
	(void)l;
	tries++;
	return !is_free;
}

/* At time 0 a listener has been refused. */
static void start(uint32_t listeners)
{
	static const struct link_net_ops ops = { .again = again };
	static struct link host, net = { .name = "test", .open = open_link, .net = &ops };

	stand_open();
	links_add(&stand->n, &host);
	links_add(&stand->n, &net);
	check_eq(mcast_table_create(&stand->n.mcast), 0);
	check_eq(links_open(&stand->n), 0);
	device = calloc(1, sizeof(*device));
	device->node = &stand->n;
	device->listeners = listeners;
	check_eq(gid_table_create("lo", &device->gids), 0);
	stand->n.devices[0] = device;
	stand->n.n_devices = 1;
	is_free = false;
	tries = 0;
	port_wait_begin(&stand->n, 0);
}

static void end(void)
{
	mcast_table_destroy(stand->n.mcast);
	gid_table_destroy(device->gids);
	free(device);
	stand_close();
}

/* True: the port was tried at @now. */
static bool tries_at(uint64_t now)
{
	unsigned int before = tries;

	wheel_run(&stand->n.wheel, now);
	port_events_retry(&stand->n, now);
	check(!stand->n.ports.due);
	return tries != before;
}

TEST(a_held_port_is_tried_less_and_less_until_it_is_had)
{
	static const unsigned int at[] = { 1, 3, 7, 15, 23, 31 };

	start(1);
	for (unsigned int i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		check(!tries_at(at[i] * SECOND - SECOND / 100));
		check(tries_at(at[i] * SECOND));
	}
	is_free = true;
	check(tries_at(39 * SECOND));
	check_eq(wheel_next(&stand->n.wheel), UINT64_MAX);
	check_eq(tries, 7);
	end();
}

TEST(a_new_refusal_begins_anew)
{
	start(1);
	check(tries_at(SECOND));
	check(tries_at(3 * SECOND));
	port_wait_begin(&stand->n, 4 * SECOND);
	check(!tries_at(5 * SECOND - SECOND / 100));
	check(tries_at(5 * SECOND));
	check(!tries_at(7 * SECOND - SECOND / 100));
	check(tries_at(7 * SECOND));
	wheel_del(&stand->n.wheel, &stand->n.ports.timer);
	end();
}

TEST(nobody_wakes_for_a_port_that_nobody_waits_for)
{
	start(0);
	check(!tries_at(SECOND));
	check_eq(wheel_next(&stand->n.wheel), UINT64_MAX);
	end();
}

RUN_TESTS(unit_test(a_held_port_is_tried_less_and_less_until_it_is_had),
	  unit_test(a_new_refusal_begins_anew),
	  unit_test(nobody_wakes_for_a_port_that_nobody_waits_for))
