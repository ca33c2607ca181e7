// SPDX-License-Identifier: MIT
#include "hca/flow_counters.h"
#include <pthread.h>
#include "fixture.h"

enum { RULES = 1000000, ROUNDS = 30 };

static void *make(void *c)
{
	for (int i = 0; i < RULES; i++)
		flow_counters_get(c);
	return NULL;
}

static void end(struct flow_counters *c)
{
	for (int i = 0; i < RULES; i++)
		flow_counters_put(c);
}

/* One thread makes rules while another destroys as many. */
TEST(counters_without_rules_can_be_destroyed)
{
	struct ibv_counters_init_attr init = { 0 };
	struct fixture *f = fixture_open(8);
	struct flow_counters *c;
	pthread_t other;

	check_eq(flow_counters_create(f->ctx, &init, &c), 0);
	make(c);
	for (int i = 0; i < ROUNDS; i++) {
		check_eq(pthread_create(&other, NULL, make, c), 0);
		end(c);
		check_eq(pthread_join(other, NULL), 0);
	}
	check_eq(flow_counters_destroy(c), EBUSY);
	end(c);
	check_eq(flow_counters_destroy(c), 0);
	fixture_close(f);
}

RUN_TESTS(unit_test(counters_without_rules_can_be_destroyed))
