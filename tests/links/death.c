// SPDX-License-Identifier: MIT
/* A peer that is killed, stopped or exits at any moment: the others go on, and what it had
 * published before arrives. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "peers/contact_talk.h"
#include "peers/host_state.h"
#include "station.h"
#include "util/barrier.h"
#include "util/clock.h"
#include "util/quiesce.h"
#include "util/rand.h"

enum { ROUNDS = 200, LAST = 300, SOMEBODY = 61011, FILES = 64, TRIES = 20 };
#define SECOND UINT64_C(1000000000)

static struct seg send_of(const struct station *st, uint32_t to, const struct piece *p)
{
	return (struct seg){ .op = 4,
			     .flags = SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = to,
			     .sqpn = station_number(st),
			     .npsn = 1,
			     .len = p ? p->len : 0,
			     .npieces = p ? 1 : 0,
			     .pieces = p };
}

static void stream(struct station *st, uint32_t peer)
{
	static char buf[1000];
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	struct dest *d = station_dest(st, peer);
	struct seg s = send_of(st, peer, &p);

	for (int err = 0; !err; st->arg = (char *)st->arg + 1) {
		err = dest_send(d, &s, NULL);
		if (err == EAGAIN) {
			station_turn(st);
			err = 0;
		}
	}
	d->ops->put(d);
}

static int streamer(int talk, void *arg)
{
	struct station st = { 0 };

	(void)arg;
	station_open(&st);
	child_tell(talk, station_number(&st));
	stream(&st, (uint32_t)child_hear(talk));
	return 0;
}

TEST(killed_in_the_middle_of_anything_a_peer_is_noticed_and_cleaned_up)
{
	char buf[64] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	struct station st = { 0 };
	uint64_t fds = 0;
	struct rand r;

	rand_init(&r, 5);
	station_open(&st);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct child c = child_start(streamer, NULL);
		uint32_t peer = (uint32_t)child_hear(c.talk);
		struct dest *d = station_dest(&st, peer);
		uint64_t turns = rand_below(&r, 2000);
		struct seg s = send_of(&st, peer, &p);
		int err;

		child_tell(c.talk, station_number(&st));
		for (uint64_t i = 0; i < turns; i++)
			station_turn(&st);
		kill(c.pid, SIGKILL);
		do {
			err = dest_send(d, &s, NULL);
			station_turn(&st);
		} while (err != ENETUNREACH);
		check(d->dead);
		d->ops->put(d);
		check_eq(child_wait(&c), 128 + SIGKILL);
		station_turn(&st);
		if (!round)
			fds = station_descriptors();
	}
	while (still(station_descriptors() > fds + 1)) /* what the last ones left behind */
		station_turn(&st);
	station_close(&st);
}

static int last_words(int talk, void *arg)
{
	char buf[100] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	struct station st = { 0 };
	struct dest *d;
	struct seg s;
	uint32_t peer;

	(void)arg;
	station_open(&st);
	child_tell(talk, station_number(&st));
	peer = (uint32_t)child_hear(talk);
	d = station_dest(&st, peer);
	s = send_of(&st, peer, &p);
	if (station_send(&st, d, &s))
		return 1;
	child_hear(talk);
	for (int i = 0; i < LAST - 1; i++)
		if (dest_send(d, &s, NULL))
			return 2;
	return 0;
}

static void count_deaths(struct station *st, const struct seg *s)
{
	uint64_t *late = st->arg;

	(void)s;
	*late += st->deaths;
}

TEST(what_was_published_before_the_end_arrives_before_the_death_is_told)
{
	struct child c = child_start(last_words, NULL);
	struct station st = { .got = count_deaths };
	uint64_t late = 0;

	st.arg = &late;
	station_open(&st);
	child_hear(c.talk);
	child_tell(c.talk, station_number(&st));
	station_until(&st, &st.count, 1);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0); /* it is gone before we look */
	while (!st.deaths)
		host_control(st.h, clock_now()); /* nobody drains but the end itself */
	check_eq(st.count, LAST);
	check_eq(late, 0);
	station_close(&st);
}

static int idle(int talk, void *arg)
{
	struct station st = { 0 };

	(void)arg;
	station_open(&st);
	child_tell(talk, station_number(&st));
	station_thread(&st);
	child_hear(talk);
	station_close(&st);
	return 0;
}

static void suspend(pid_t pid)
{
	int status;

	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
}

TEST(a_stopped_peer_blocks_neither_send_nor_revoke)
{
	struct child c = child_start(idle, NULL);
	static char buf[1000];
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	uint32_t peer = (uint32_t)child_hear(c.talk), key, sent = 0;
	struct station st = { 0 };
	struct dest *d;
	struct seg s;
	uint64_t start;
	int err = 0;

	station_open(&st);
	d = station_dest(&st, peer);
	s = send_of(&st, peer, &p);
	check_eq(station_send(&st, d, &s), 0);
	suspend(c.pid);
	start = clock_now();
	for (; !err; sent++)
		err = dest_send(d, &s, NULL);
	check_eq(err, EAGAIN);
	check(sent > 10);
	key = station_key(&st, 3, buf, sizeof(buf));
	station_unkey(&st, 3);
	host_revoke(st.h, key);
	check(clock_now() - start < 30 * SECOND); /* not until it goes on */
	kill(c.pid, SIGCONT);
	check_eq(station_send(&st, d, &s), 0);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
}

TEST(contact_to_a_stopped_process_ends_at_its_deadline)
{
	struct child c = child_start(idle, NULL);
	char buf[8] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	uint32_t peer = (uint32_t)child_hear(c.talk);
	struct station st = { 0 };
	struct dest *d;
	struct seg s;
	uint64_t start;

	station_open(&st);
	suspend(c.pid);
	d = station_dest(&st, peer);
	s = send_of(&st, peer, &p);
	start = clock_now();
	check_eq(dest_send(d, &s, NULL), EAGAIN);
	check_eq(station_send(&st, d, &s), ENETUNREACH);
	check(clock_now() - start < 30 * SECOND);
	kill(c.pid, SIGKILL);
	kill(c.pid, SIGCONT);
	child_wait(&c);
	d->ops->put(d);
	station_close(&st);
}

/* As many may be open, and if the user has more in flight, nobody adds to them (unix(7),
 * ETOOMANYREFS). */
static bool limit_files(rlim_t n)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return false;
	files.rlim_cur = n < files.rlim_max ? n : files.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &files);
}

/* A user without capabilities, who may have few descriptors in flight. */
static bool become_limited(void)
{
	return limit_files(FILES) &&
	       (geteuid() || (!setresgid(SOMEBODY, SOMEBODY, SOMEBODY) &&
			      !setresuid(SOMEBODY, SOMEBODY, SOMEBODY))) &&
	       !prctl(PR_SET_DUMPABLE, 1) && !prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static int try_once(struct station *st, uint32_t peer, bool in_vain)
{
	struct dest *d = station_dest(st, peer);
	char buf[8] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	struct seg s = send_of(st, peer, &p);
	int err;

	while ((err = dest_send(d, &s, NULL)) == EAGAIN) {
		station_turn(st);
		if (in_vain)
			st->ahead += HOST_CONTACT_NS / 64;
	}
	d->ops->put(d);
	return err;
}

/* Exits with 0 if one process that is stopped keeps no other from being reached, and is reached
 * itself once it goes on. */
static int tries_in_vain(int talk, void *arg)
{
	struct child stopped, fresh;
	struct station st = { 0 };
	uint32_t peer;

	(void)talk;
	(void)arg;
	if (!become_limited())
		return 2;
	stopped = child_start(idle, NULL);
	peer = (uint32_t)child_hear(stopped.talk);
	suspend(stopped.pid);
	station_open(&st);
	for (int i = 0; i < TRIES; i++)
		if (try_once(&st, peer, true) != ENETUNREACH)
			return 3;
	fresh = child_start(idle, NULL);
	if (try_once(&st, (uint32_t)child_hear(fresh.talk), false))
		return 4;
	kill(stopped.pid, SIGCONT);
	if (try_once(&st, peer, false))
		return 5;
	child_tell(stopped.talk, 1);
	child_tell(fresh.talk, 1);
	return child_wait(&stopped) || child_wait(&fresh) ? 6 : 0;
}

TEST(a_stopped_process_that_is_tried_again_and_again_keeps_nobody_out)
{
	struct child c = child_start(tries_in_vain, NULL);

	check_eq(child_wait(&c), 0);
}

enum { PAIRS = 4, AT_ONCE = 6 };

/* Puts more descriptors under way than the limit: ours alone, since those of the user's other
 * processes come and go. */
static bool fill(int pairs[PAIRS][2])
{
	const int fds[AT_ONCE] = { 0 };
	int err = limit_files(RLIM_INFINITY) ? 0 : EPERM;

	for (int i = 0; i <= FILES / AT_ONCE && !err; i++)
		err = contact_talk_send(pairs[i % PAIRS][0], &(struct contact_message){ 0 }, fds,
					AT_ONCE);
	return !err && limit_files(FILES) &&
	       contact_talk_send(pairs[0][0], &(struct contact_message){ 0 }, fds, AT_ONCE) ==
		       ETOOMANYREFS;
}

/* Exits with 0 if two stations, which can send no descriptor once WELCOME has been sent, keep their
 * contact, and reach each other's memory later. */
static int crowded(int talk, void *arg)
{
	struct station a = { 0 }, b = { 0 };
	int pairs[PAIRS][2];
	struct dest *d;
	struct seg s;

	(void)talk;
	(void)arg;
	if (!become_limited())
		return 2;
	for (int i = 0; i < PAIRS; i++)
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pairs[i]))
			return 3;
	station_open(&a);
	station_open(&b);
	d = station_dest(&a, station_number(&b));
	s = send_of(&a, station_number(&b), NULL);
	while (!load_acquire(&b.h->top)) {
		if (dest_send(d, &s, NULL) != EAGAIN)
			return 4;
		station_turn(&a);
		station_turn(&b);
	}
	for (bool full = false; !b.h->contact[0]->trusted; full = true) {
		station_turn(&a);
		if (!full && !fill(pairs))
			return 5;
		station_turn(&b);
	}
	if (!b.h->contact[0] || b.h->contact[0]->broken || b.h->contact[0]->told)
		return 6;
	for (int i = 0; i < PAIRS; i++) {
		close(pairs[i][0]);
		close(pairs[i][1]);
	}
	while (!b.h->contact[0]->mutual) {
		station_turn(&a);
		station_turn(&b);
		if (!b.h->top)
			return 7;
	}
	d->ops->put(d);
	station_close(&a);
	station_close(&b);
	return 0;
}

TEST(a_contact_outlives_a_time_in_which_no_descriptor_can_be_sent)
{
	struct child c = child_start(crowded, NULL);

	check_eq(child_wait(&c), 0);
}

/* Sets a hazard on the key it is told and never clears it. */
static int holder(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d;
	uint32_t peer;
	char buf[8] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	struct seg s;

	(void)arg;
	station_open(&st);
	child_tell(talk, station_number(&st));
	peer = (uint32_t)child_hear(talk);
	d = station_dest(&st, peer);
	s = send_of(&st, peer, &p);
	if (station_send(&st, d, &s))
		return 1;
	station_hold(&st, d, (uint32_t)child_hear(talk));
	child_tell(talk, 1);
	for (;;)
		pause();
}

static void *kill_later(void *arg)
{
	struct child *c = arg;
	uint64_t until = clock_now() + SECOND / 5;

	while (clock_now() < until)
		sched_yield();
	kill(c->pid, SIGKILL);
	return NULL;
}

TEST(a_revoke_waits_for_the_holder_of_a_hazard_until_it_dies)
{
	struct child c = child_start(holder, NULL);
	static char buf[4096];
	struct station st = { 0 };
	pthread_t killer;
	uint64_t start;
	uint32_t key;

	station_open(&st);
	key = station_key(&st, 4, buf, sizeof(buf));
	child_hear(c.talk);
	child_tell(c.talk, station_number(&st));
	station_until(&st, &st.count, 1);
	child_tell(c.talk, key);
	check_eq(child_hear(c.talk), 1);
	station_unkey(&st, 4);
	start = clock_now();
	check_eq(pthread_create(&killer, NULL, kill_later, &c), 0);
	host_revoke(st.h, key);
	check(clock_now() - start >= SECOND / 5);
	check(clock_now() - start < 30 * SECOND);
	pthread_join(killer, NULL);
	check_eq(child_wait(&c), 128 + SIGKILL);
	station_close(&st);
}

/* Sets a hazard on the key it is told, and does nothing else until it is told to clear it. */
static int copier(int talk, void *arg)
{
	struct station st = { 0 };
	char buf[8] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	struct dest *d;
	uint32_t peer;
	struct seg s;

	(void)arg;
	station_open(&st);
	child_tell(talk, station_number(&st));
	peer = (uint32_t)child_hear(talk);
	d = station_dest(&st, peer);
	s = send_of(&st, peer, &p);
	if (station_send(&st, d, &s))
		return 1;
	station_mutual(&st, d);
	station_hold(&st, d, (uint32_t)child_hear(talk));
	child_tell(talk, 1);
	child_hear(talk);
	for (unsigned int i = 0; i < HAZARDS; i++)
		hazard_clear(&st.h->page->hazard[i]);
	while (!st.deaths)
		station_turn(&st);
	if (try_once(&st, peer, false)) /* it may come again */
		return 2;
	child_hear(talk);
	d->ops->put(d);
	station_close(&st);
	return 0;
}

static void *clear_later(void *arg)
{
	struct child *c = arg;
	uint64_t until = clock_now() + SECOND / 5;

	while (clock_now() < until)
		sched_yield();
	child_tell(c->talk, 1);
	return NULL;
}

TEST(a_revoke_waits_for_a_copy_by_a_contact_that_was_ended_here)
{
	struct child c = child_start(copier, NULL);
	static char buf[4096];
	struct station st = { 0 };
	pthread_t clearer;
	struct dest *d;
	uint64_t start;
	uint32_t key;

	station_open(&st);
	key = station_key(&st, 4, buf, sizeof(buf));
	d = station_dest(&st, (uint32_t)child_hear(c.talk));
	child_tell(c.talk, station_number(&st));
	station_until(&st, &st.count, 1);
	station_mutual(&st, d);
	child_tell(c.talk, key);
	check_eq(child_hear(c.talk), 1);
	contact_break(to_target(d)->c, "the test says so");
	while (still(!st.deaths))
		station_turn(&st);
	station_unkey(&st, 4);
	start = clock_now();
	check_eq(pthread_create(&clearer, NULL, clear_later, &c), 0);
	host_revoke(st.h, key);
	check(clock_now() - start >= SECOND / 5);
	pthread_join(clearer, NULL);
	station_until(&st, &st.count, 2);
	child_tell(c.talk, 1);
	while (still(load_acquire(&st.h->top))) { /* nothing is left of both contacts */
		station_turn(&st);
		st.ahead += HOST_LIVENESS_NS / 64;
	}
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
}

/* --- fork() while a contact goes --- */

enum { BLOCKS = 8, CHILD_S = 10 };
static struct host *forking; /* munmap() forks, and the child leaves this host */
static unsigned int forks, harmed;

/* Of the sizes that a contact's parts have. The allocator ends a process whose lists are broken. */
static void allocate(void)
{
	for (size_t size = 16; size < 512; size += 16)
		for (int i = 0; i < BLOCKS; i++) {
			void *p = malloc(size);

			if (!p)
				abort();
			memset(p, 0, size);
		}
}

static void fork_here(void)
{
	struct host *h = forking;
	int status;
	pid_t pid;

	forking = NULL;
	host_fork_begin(h);
	pid = fork();
	if (!pid) {
		alarm(CHILD_S); /* broken lists may also have no end */
		host_leave(h);
		allocate();
		_exit(0);
	}
	host_fork_end(h);
	check_eq(waitpid(pid, &status, 0), pid);
	harmed += status != 0;
	forks++;
	forking = h;
}

#pragma GCC visibility push(default)
/* In the place of the C library's: a contact that is freed unmaps what the peer has shown it. */
int munmap(void *p, size_t n)
{
	if (forking)
		fork_here();
	return (int)syscall(SYS_munmap, p, n);
}
#pragma GCC visibility pop

static bool inside; /* atomic: the thread is in a section, and shall stay there */

static void *stay_inside(void *arg)
{
	quiesce_enter();
	__atomic_store_n(&inside, true, __ATOMIC_RELEASE);
	while (__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
		sched_yield();
	quiesce_exit();
	return arg;
}

/* What a thread may still be inside of waits in a list, which the child goes through. */
TEST(a_child_that_is_forked_while_a_contact_goes_is_not_harmed)
{
	struct child c = child_start(idle, NULL);
	struct station st = { 0 };
	uint32_t peer = (uint32_t)child_hear(c.talk);
	struct dest *d;
	struct seg s;
	pthread_t t;

	station_open(&st);
	d = station_dest(&st, peer);
	s = send_of(&st, peer, NULL);
	check_eq(station_send(&st, d, &s), 0);
	check_eq(pthread_create(&t, NULL, stay_inside, NULL), 0);
	while (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
		sched_yield();
	kill(c.pid, SIGKILL);
	while (dest_send(d, &s, NULL) != ENETUNREACH)
		station_turn(&st);
	d->ops->put(d);
	child_wait(&c);
	check(st.h->leaving);
	__atomic_store_n(&inside, false, __ATOMIC_RELEASE);
	check_eq(pthread_join(t, NULL), 0);
	forking = st.h;
	while (st.h->leaving)
		station_turn(&st);
	forking = NULL;
	check(forks);
	check_eq(harmed, 0);
	station_close(&st);
}

RUN_TESTS(unit_test(killed_in_the_middle_of_anything_a_peer_is_noticed_and_cleaned_up),
	  unit_test(what_was_published_before_the_end_arrives_before_the_death_is_told),
	  unit_test(a_stopped_peer_blocks_neither_send_nor_revoke),
	  unit_test(contact_to_a_stopped_process_ends_at_its_deadline),
	  unit_test(a_stopped_process_that_is_tried_again_and_again_keeps_nobody_out),
	  unit_test(a_contact_outlives_a_time_in_which_no_descriptor_can_be_sent),
	  unit_test(a_revoke_waits_for_the_holder_of_a_hazard_until_it_dies),
	  unit_test(a_revoke_waits_for_a_copy_by_a_contact_that_was_ended_here),
	  unit_test(a_child_that_is_forked_while_a_contact_goes_is_not_harmed))
