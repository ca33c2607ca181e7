// SPDX-License-Identifier: MIT
/* Numbers of queue pairs, and QPs by their number. */
#include "engine/qp_table.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "stand.h"
#include "util/quiesce.h"

TEST(numbers_are_of_a_block_of_ours_and_never_special)
{
	static bool seen[NUMBER_INDEXES];
	uint32_t qpn = 0;

	stand_open();
	memset(seen, 0, sizeof(seen));
	for (unsigned int i = FIRST_INDEX; i < NUMBER_INDEXES; i++) {
		check_eq(qp_table_take(&stand->n, &qpn), 0);
		check_eq(number_slot(qpn), STAND_SLOT);
		check(number_index(qpn) >= FIRST_INDEX);
		check(!seen[number_index(qpn)]);
		seen[number_index(qpn)] = true;
	}
	stand_close();
}

TEST(a_number_that_was_given_back_is_handed_out_late)
{
	uint32_t first, qpn;

	stand_open();
	check_eq(qp_table_take(&stand->n, &first), 0);
	qp_table_give(&stand->n, first);
	for (unsigned int i = FIRST_INDEX + 1; i < NUMBER_INDEXES; i++) {
		check_eq(qp_table_take(&stand->n, &qpn), 0);
		check_ne(qpn, first);
	}
	check_eq(qp_table_take(&stand->n, &qpn), 0);
	check_eq(qpn, first);
	stand_close();
}

TEST(a_second_block_is_used_when_the_first_is_full)
{
	struct block *more = calloc(1, sizeof(*more));
	uint32_t qpn = 0;

	stand_open();
	check_eq(bitmap_init(&more->used, FIRST_INDEX, NUMBER_INDEXES - FIRST_INDEX), 0);
	stand->n.blocks[STAND_SLOT + 4] = more;
	for (unsigned int i = FIRST_INDEX; i < NUMBER_INDEXES; i++)
		check_eq(qp_table_take(&stand->n, &qpn), 0);
	check_eq(qp_table_take(&stand->n, &qpn), 0);
	check_eq(number_slot(qpn), STAND_SLOT + 4);
	bitmap_fini(&more->used);
	free(more);
	stand_close();
}

/* All the same by chance: once in 2^98 runs. */
TEST(numbers_of_two_processes_begin_at_different_places)
{
	struct node n[8] = { 0 };
	uint32_t qpn[8], next;
	bool differ = false;

	stand_open();
	stand->host.listener[0].slot = STAND_SLOT;
	for (unsigned int i = 0; i < 8; i++) {
		n[i].host = &stand->host;
		mutex_init(&n[i].lock);
		mutex_init(&n[i].grow_lock);
		check_eq(qp_table_begin(&n[i]), 0);
		check_eq(qp_table_take(&n[i], &qpn[i]), 0);
		check_eq(qp_table_take(&n[i], &next), 0);
		check_eq(number_slot(qpn[i]), STAND_SLOT);
		check(next == qpn[i] + 1 || number_index(next) == FIRST_INDEX);
		differ |= qpn[i] != qpn[0];
		qp_table_end(&n[i]);
		mutex_destroy(&n[i].lock);
		mutex_destroy(&n[i].grow_lock);
	}
	check(differ);
	stand_close();
}

TEST(a_QP_is_found_by_its_number_alone)
{
	struct eqp *e;
	uint32_t qpn;

	stand_open();
	e = stand_qp();
	check_eq(qp_table_take(&stand->n, &qpn), 0);
	check(!node_qp(&stand->n, qpn));
	qp_table_set(&stand->n, qpn, e);
	check(node_qp(&stand->n, qpn) == e);
	check(!node_qp(&stand->n, qpn + 1));
	check(!node_qp(&stand->n, number_make(STAND_SLOT + 1, number_index(qpn))));
	check(!node_qp(&stand->n, 0xffffff));
	qp_table_set(&stand->n, qpn, NULL);
	check(!node_qp(&stand->n, qpn));
	free(e);
	stand_close();
}

/* --- one more slot --- */

static struct {
	pid_t tid; /* of the thread that takes the number; atomic */
	uint32_t qpn;
	int err;
} grower;

static void *grows(void *arg)
{
	(void)arg;
	store_release(&grower.tid, (pid_t)syscall(SYS_gettid));
	grower.err = qp_table_take(&stand->n, &grower.qpn);
	return NULL;
}

static bool sleeps(pid_t tid)
{
	char path[64], stat[64] = { 0 };
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "re");
	check(f && fread(stat, 1, sizeof(stat) - 1, f));
	fclose(f);
	return strstr(stat, ") S ");
}

/* A thread with host->control delivers a dead process' last requests, or waits for one that does.
 * One of them wants a number for a responder. */
TEST(a_thread_that_waits_for_one_more_slot_keeps_no_section_waiting)
{
	uint32_t qpn;
	pthread_t t;

	stand_open();
	stand->host.alone = true;
	mutex_init(&stand->host.control);
	for (unsigned int i = FIRST_INDEX; i < NUMBER_INDEXES; i++)
		check_eq(qp_table_take(&stand->n, &qpn), 0);
	grower.tid = 0;
	mutex_lock(&stand->host.control);
	check_eq(pthread_create(&t, NULL, grows, NULL), 0);
	while (still(!load_acquire(&grower.tid) || !sleeps(grower.tid)))
		sched_yield();
	quiesce_enter();
	check_eq(mutex_trylock(&stand->n.lock), 0);
	mutex_unlock(&stand->n.lock);
	check_eq(qp_table_spare(&stand->n, &qpn), ENOSPC);
	quiesce_exit();
	mutex_unlock(&stand->host.control);
	check_eq(pthread_join(t, NULL), 0);
	check_eq(grower.err, 0);
	check_eq(number_slot(grower.qpn), 0);
	check_eq(stand->host.n_slots, 1);
	bitmap_fini(&stand->n.blocks[0]->used);
	free(stand->n.blocks[0]);
	mutex_destroy(&stand->host.control);
	stand_close();
}

RUN_TESTS(unit_test(numbers_are_of_a_block_of_ours_and_never_special),
	  unit_test(a_number_that_was_given_back_is_handed_out_late),
	  unit_test(a_second_block_is_used_when_the_first_is_full),
	  unit_test(numbers_of_two_processes_begin_at_different_places),
	  unit_test(a_QP_is_found_by_its_number_alone),
	  unit_test(a_thread_that_waits_for_one_more_slot_keeps_no_section_waiting))
