// SPDX-License-Identifier: MIT
#include <pthread.h>
#include "test.h"
#include "obs/counters.h"

TEST(names_and_numbers_agree)
{
	for (int i = 0; i < COUNTER_N; i++) {
		const char *name = counters_name((enum counter)i);

		check(name);
		check_eq(counters_find(name), i); /* so no two have one name */
	}
	check(!counters_name(COUNTER_N));
	check_eq(counters_find("no_such_counter"), COUNTER_N);
	check_eq(counters_find(""), COUNTER_N);
}

TEST(names_are_the_kernels)
{
	check_str(counters_name(COUNTER_OUT_OF_SEQUENCE), "out_of_sequence");
	check_str(counters_name(COUNTER_RNR_NAK_RETRY_ERR), "rnr_nak_retry_err");
	check_eq(counters_folder(COUNTER_PORT_RCV_PACKETS), COUNTER_PORT);
	check_eq(counters_folder(COUNTER_LOCAL_ACK_TIMEOUT_ERR), COUNTER_HW);
}

TEST(adding_changes_one_counter)
{
	struct counters c = { { 0 } };

	counters_add(&c, COUNTER_DUPLICATE_REQUEST, 5);
	counters_inc(&c, COUNTER_DUPLICATE_REQUEST);
	for (int i = 0; i < COUNTER_N; i++)
		check_eq(counters_read(&c, (enum counter)i),
			 i == COUNTER_DUPLICATE_REQUEST ? 6 : 0);
}

TEST(port_data_is_shown_in_words)
{
	struct counters c = { { 0 } };

	counters_add(&c, COUNTER_PORT_XMIT_DATA, 6);
	counters_add(&c, COUNTER_PORT_XMIT_DATA, 6);
	counters_add(&c, COUNTER_PORT_RCV_DATA, 4);
	check_eq(counters_read(&c, COUNTER_PORT_XMIT_DATA), 3);
	check_eq(counters_read(&c, COUNTER_PORT_RCV_DATA), 1);
}

static void *add_many(void *arg)
{
	for (int i = 0; i < 20000; i++)
		counters_inc(arg, COUNTER_REQ_CQE_ERROR);
	return NULL;
}

TEST(no_increment_is_lost_between_threads)
{
	struct counters c = { { 0 } };
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		check_eq(pthread_create(&t[i], NULL, add_many, &c), 0);
	for (int i = 0; i < 3; i++)
		check_eq(pthread_join(t[i], NULL), 0);
	check_eq(counters_read(&c, COUNTER_REQ_CQE_ERROR), 60000);
}

RUN_TESTS(unit_test(names_and_numbers_agree), unit_test(names_are_the_kernels),
	  unit_test(adding_changes_one_counter), unit_test(port_data_is_shown_in_words),
	  unit_test(no_increment_is_lost_between_threads))
