// SPDX-License-Identifier: MIT
/* A leader comes and goes: how it tells senders, and when it ends the engine thread's sleep. */
#include "engine/leader.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "stand.h"

static void open_node(void)
{
	stand_open();
	stand->n.kick_fd = eventfd(0, EFD_NONBLOCK);
}

static void close_node(void)
{
	close(stand->n.kick_fd);
	stand_close();
}

static bool kicked(void)
{
	uint64_t count;

	return read(stand->n.kick_fd, &count, sizeof(count)) == sizeof(count);
}

TEST(there_is_one_leader)
{
	open_node();
	check(!leader_is_me());
	check(leader_begin(&stand->n));
	check(leader_is_me());
	check(!leader_begin(&stand->n));
	leader_end(&stand->n);
	check(!leader_is_me());
	stand->n.led = 1; /* another thread leads */
	check(!leader_begin(&stand->n));
	check(!leader_is_me());
	close_node();
}

TEST(it_takes_over_from_an_engine_that_sleeps)
{
	static const struct {
		uint32_t asleep;
		bool kicks;
	} cases[] = {
		{ LOOP_AWAKE, false },
		{ LOOP_ARMED, true },
		{ LOOP_NAPPING, false },
		{ LOOP_UNDER_LEADER, false },
	};

	open_node();
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		stand->n.asleep = cases[i].asleep;
		check(leader_begin(&stand->n));
		check_eq(kicked(), cases[i].kicks);
		stand->n.asleep = LOOP_AWAKE;
		leader_end(&stand->n);
		check(!kicked());
	}
	close_node();
}

/* A nap under a leader is short; but threads that wait behind this leader need the engine now. */
TEST(its_end_is_told_to_an_engine_that_would_not_see_it)
{
	static const struct {
		uint32_t asleep, followers;
		bool kicks;
	} cases[] = {
		{ LOOP_AWAKE, 1, false },
		{ LOOP_NAPPING, 0, false },
		{ LOOP_NAPPING, 1, true },
		{ LOOP_UNDER_LEADER, 0, true },
	};

	open_node();
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check(leader_begin(&stand->n));
		stand->n.asleep = cases[i].asleep;
		stand->n.followers = cases[i].followers;
		leader_end(&stand->n);
		check_eq(kicked(), cases[i].kicks);
		stand->n.asleep = LOOP_AWAKE;
	}
	close_node();
}

TEST(senders_need_not_ring_for_a_program_that_polls_again)
{
	open_node();
	check(leader_begin(&stand->n));
	host_set_mode(&stand->host, HOST_LED);
	leader_end(&stand->n);
	check_eq(stand->page.mode & HOST_MODE_MASK, HOST_POLLED);
	check_eq(stand->n.led_seq, 1);
	close_node();
}

/* --- the doorbell --- */

static bool old_kernel; /* preadv2() knows no RWF_NOWAIT */
static void (*during)(void); /* behind the look at the doorbell: what another thread does */

ssize_t preadv2(int fd, const struct iovec *to, int n, off_t at, int flags)
{
	if (!old_kernel)
		return syscall(SYS_preadv2, fd, to, n, at, 0, flags);
	errno = EOPNOTSUPP;
	return -1;
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	const struct timespec limit = { .tv_nsec = ms * 1000000L };
	int got = ppoll(fds, n, &limit, NULL);

	if (during)
		during();
	return got;
}

static bool rung(void)
{
	struct pollfd p = { .fd = stand->host.bell, .events = POLLIN };
	const struct timespec none = { 0 };

	return ppoll(&p, 1, &none, NULL) == 1;
}

static void open_doorbell(bool old)
{
	open_node();
	stand->host.bell = eventfd(0, 0);
	old_kernel = old;
	during = NULL;
}

static void close_doorbell(void)
{
	close(stand->host.bell);
	stand->host.bell = -1;
	old_kernel = false;
	during = NULL;
	close_node();
}

/* It would end each sleep from there on. */
TEST(a_ring_that_no_leader_waits_for_is_taken)
{
	for (int old = 0; old < 2; old++) {
		open_doorbell(old);
		leader_take_ring(&stand->n); /* nothing was rung */
		host_ring_self(&stand->host);
		host_ring_self(&stand->host);
		leader_take_ring(&stand->n);
		check(!rung());
		close_doorbell();
	}
}

TEST(a_ring_for_a_leader_stays)
{
	for (int old = 0; old < 2; old++) {
		open_doorbell(old);
		stand->n.led = 1;
		host_ring_self(&stand->host);
		leader_take_ring(&stand->n);
		check(rung());
		close_doorbell();
	}
}

static struct {
	pthread_t thread;
	uint32_t leads; /* atomic */
	bool early;
} comer;

static void *comes(void *arg)
{
	(void)arg;
	leader_begin(&stand->n);
	store_release(&comer.leads, 1);
	return NULL;
}

static void a_leader_comes(void)
{
	during = NULL;
	comer.leads = 0;
	check_eq(pthread_create(&comer.thread, NULL, comes, NULL), 0);
	while (still(!load_acquire(&stand->n.led)))
		sched_yield();
	for (unsigned int i = 0; i < 10000 && !load_acquire(&comer.leads); i++)
		sched_yield();
	comer.early = load_acquire(&comer.leads);
}

/* Its read would take the count that this thread has seen, which would wait for the next one. */
TEST(a_leader_that_comes_meanwhile_waits_for_the_look)
{
	open_doorbell(true);
	host_ring_self(&stand->host);
	during = a_leader_comes;
	leader_take_ring(&stand->n);
	check(!during);
	check_eq(pthread_join(comer.thread, NULL), 0);
	check(!comer.early);
	check(comer.leads);
	check(!rung());
	stand->n.led = 0;
	close_doorbell();
}

RUN_TESTS(unit_test(there_is_one_leader), unit_test(it_takes_over_from_an_engine_that_sleeps),
	  unit_test(its_end_is_told_to_an_engine_that_would_not_see_it),
	  unit_test(senders_need_not_ring_for_a_program_that_polls_again),
	  unit_test(a_ring_that_no_leader_waits_for_is_taken), unit_test(a_ring_for_a_leader_stays),
	  unit_test(a_leader_that_comes_meanwhile_waits_for_the_look))
