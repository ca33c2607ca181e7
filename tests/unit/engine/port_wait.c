// SPDX-License-Identifier: MIT
/* A port that somebody else holds, by a clock of our own: it is tried again as long as somebody
 * waits for it. */
#include "engine/port_wait.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "engine/node_state.h"
#include "test.h"
#include "udp/udp.h"
#include "util/clock.h"

#define SECOND 1000000000ULL
#define HOLDS  0x7f000009 /* 127.0.0.9 */

struct stand {
	struct node n;
	struct device d;
	union ibv_gid gid;
	int holder;
};

static int hold(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(UDP_ROCE_PORT),
				  .sin_addr.s_addr = htonl(HOLDS) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	if (!bind(s, (struct sockaddr *)&at, sizeof(at)))
		return s;
	close(s);
	return -1;
}

static void ignore(void *arg, const struct seg *s)
{
	(void)arg;
	(void)s;
}

/* At time 0 somebody has been refused. */
static struct stand *start(uint32_t listeners)
{
	struct udp_config cfg = { .deliver = ignore };
	struct in_addr addr = { htonl(HOLDS) };
	struct stand *s = calloc(1, sizeof(*s));

	gid_of_ipv4(&addr, &s->gid);
	spin_init(&s->n.wheel_lock);
	wheel_init(&s->n.wheel, 0);
	timer_init(&s->n.ports.timer, NULL);
	s->n.next_timer = UINT64_MAX;
	check_eq(udp_create(&cfg, &s->n.udp), 0);
	check_eq(gid_table_create("lo", &s->d.gids), 0);
	s->d.node = &s->n;
	s->d.listeners = listeners;
	s->n.devices[0] = &s->d;
	s->n.n_devices = 1;
	s->holder = hold();
	check(s->holder >= 0);
	check_eq(udp_listen(s->n.udp, &s->gid, 0), EADDRINUSE);
	port_wait_begin(&s->n, 0);
	return s;
}

static void end(struct stand *s)
{
	gid_table_destroy(s->d.gids);
	udp_destroy(s->n.udp);
	close(s->holder);
	free(s);
}

/* True: somebody has looked at @now. */
static bool looks(struct stand *s, uint64_t now)
{
	bool fired;

	wheel_run(&s->n.wheel, now);
	fired = s->n.ports.due;
	port_wait_run(&s->n, now);
	check(!s->n.ports.due);
	return fired;
}

static bool is_ours(void)
{
	int s = hold();

	if (s >= 0)
		close(s);
	return s < 0;
}

TEST(a_held_port_is_tried_less_and_less_until_it_is_had)
{
	static const unsigned int at[] = { 1, 3, 7, 15, 23, 31 };
	struct stand *s = start(1);

	for (unsigned int i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		check(!looks(s, at[i] * SECOND - SECOND / 100));
		check(looks(s, at[i] * SECOND));
	}
	close(s->holder);
	check(!is_ours());
	check(looks(s, 39 * SECOND));
	check(is_ours());
	check_eq(wheel_next(&s->n.wheel), UINT64_MAX);
	end(s);
}

TEST(nobody_wakes_for_a_port_that_nobody_waits_for)
{
	struct stand *s = start(0);

	check(looks(s, SECOND));
	check_eq(wheel_next(&s->n.wheel), UINT64_MAX);
	end(s);
}

RUN_TESTS(unit_test(a_held_port_is_tried_less_and_less_until_it_is_had),
	  unit_test(nobody_wakes_for_a_port_that_nobody_waits_for))
