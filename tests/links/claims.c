// SPDX-License-Identifier: MIT
/* A slot is its owner's: a process of our own user that says in its HELLO or WELCOME that it has
 * another one's is refused. Where pids tell who is who, and in PID namespaces beside each other,
 * where every pid is 0 and the owner of the slot is asked. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "peers/host_target.h"
#include "station.h"

enum { CANNOT = 70 /* exit status: no namespaces here */ };

struct task {
	int (*f)(int talk);
	bool apart; /* in a PID namespace of its own */
};

static int begun(int talk, void *arg)
{
	const struct task *t = arg;
	int status;
	pid_t pid;

	if (!t->apart)
		return t->f(talk);
	if (unshare(CLONE_NEWPID))
		return CANNOT;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(t->f(talk));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 71;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 72;
}

static struct child start(int (*f)(int talk), bool apart)
{
	struct task t = { f, apart };

	return child_start(begun, &t);
}

static struct seg to(const struct station *st, uint32_t number)
{
	return (struct seg){
		.op = 4, .pkey = 0xffff, .dqpn = number, .sqpn = station_number(st), .npsn = 1
	};
}

/* Has a slot, and then a second one, and answers who comes, until it is told how many segments
 * there shall have been. Before that it may be told to say that it has another slot than the
 * first. */
static int host_of_others(int talk)
{
	struct station st = { 0 };
	unsigned int second;
	uint64_t claimed, shall;

	station_open(&st);
	if (host_take_slot(st.h, &second))
		return 2;
	child_tell(talk, st.slot);
	child_tell(talk, second);
	claimed = child_hear(talk);
	if (claimed < NUMBER_SLOTS)
		st.h->listener[0].slot = (unsigned int)claimed;
	station_thread(&st);
	child_tell(talk, 1);
	shall = child_hear(talk);
	while (load_acquire(&st.count) < shall)
		sched_yield();
	if (load_acquire(&st.count) != shall)
		return 3;
	station_stop(&st);
	st.h->listener[0].slot = st.slot;
	station_close(&st);
	return 0;
}

/* Sends to a slot, having said that it has the one, and the cookie, that it is told; says whether
 * it could. */
static int guest(int talk)
{
	struct station st = { 0 };
	uint64_t claimed = child_hear(talk), cookie = child_hear(talk);
	struct dest *d;
	struct seg s;
	int err;

	station_open(&st);
	if (claimed < NUMBER_SLOTS)
		st.h->listener[0].slot = (unsigned int)claimed;
	if (cookie)
		st.h->page->cookie = cookie;
	d = station_dest(&st, (uint32_t)child_hear(talk) << 14 | 2);
	s = to(&st, d ? to_target(d)->slot << 14 | 2 : 0);
	while (to_target(d)->state != TARGET_UP &&
	       (!to_target(d)->retry || to_target(d)->state != TARGET_WANTED))
		station_turn(&st);
	if (to_target(d)->state != TARGET_UP)
		st.ahead = HOST_CONTACT_NS; /* refused once: until its deadline */
	err = station_send(&st, d, &s);
	child_tell(talk, (uint64_t)err);
	child_hear(talk);
	d->ops->put(d);
	st.h->listener[0].slot = st.slot;
	station_close(&st);
	return 0;
}

struct scene {
	bool apart, second; /* PID namespaces; the guest asks for the host's second slot */
	bool guest_lies, host_lies; /* claim the slot of a third process */
};

enum { TRUTH = UINT16_MAX }; /* no slot: each says which it has */

static void play(struct scene scene)
{
	struct child owner = start(host_of_others, scene.apart);
	struct child host = start(host_of_others, scene.apart);
	struct child other = start(guest, scene.apart);
	uint64_t theirs = child_hear(owner.talk), slot, second;
	bool refused = scene.guest_lies || scene.host_lies;

	if (theirs == UINT64_MAX) { /* no namespaces here */
		close(host.talk);
		close(other.talk);
		check_eq(child_wait(&owner), CANNOT);
		check_eq(child_wait(&host), CANNOT);
		check_eq(child_wait(&other), CANNOT);
		return;
	}
	child_hear(owner.talk);
	child_tell(owner.talk, TRUTH);
	child_hear(owner.talk);
	slot = child_hear(host.talk);
	second = child_hear(host.talk);
	child_tell(host.talk, scene.host_lies ? theirs : TRUTH);
	child_hear(host.talk);
	child_tell(other.talk, scene.guest_lies ? theirs : TRUTH);
	child_tell(other.talk, 0);
	child_tell(other.talk, scene.second ? second : slot);
	check_eq(child_hear(other.talk), refused ? ENETUNREACH : 0);
	child_tell(other.talk, 1);
	check_eq(child_wait(&other), 0);
	child_tell(host.talk, !refused);
	check_eq(child_wait(&host), 0);
	child_tell(owner.talk, 0);
	check_eq(child_wait(&owner), 0);
}

TEST(whose_slot_it_is_may_say_so)
{
	play((struct scene){ 0 });
	play((struct scene){ .second = true });
}

TEST(a_process_of_our_user_has_no_slot_but_its_own)
{
	play((struct scene){ .guest_lies = true });
	play((struct scene){ .host_lies = true });
	play((struct scene){ .second = true, .host_lies = true });
}

TEST(where_no_pid_is_seen_the_owner_says_so)
{
	play((struct scene){ .apart = true });
	play((struct scene){ .apart = true, .second = true });
}

TEST(where_no_pid_is_seen_the_owner_contradicts)
{
	play((struct scene){ .apart = true, .guest_lies = true });
	play((struct scene){ .apart = true, .host_lies = true });
	play((struct scene){ .apart = true, .second = true, .host_lies = true });
}

/* The second has had it all the time, and the first has read it in the second's page. */
TEST(a_cookie_that_another_process_repeats_keeps_nobody_out)
{
	struct child host = start(host_of_others, false);
	struct child a = start(guest, false), b = start(guest, false), *both[] = { &a, &b };
	uint64_t slot = child_hear(host.talk);

	child_hear(host.talk);
	child_tell(host.talk, TRUTH);
	child_hear(host.talk);
	for (int i = 0; i < 2; i++) {
		child_tell(both[i]->talk, TRUTH);
		child_tell(both[i]->talk, UINT64_C(0x1234567890abcdef));
		child_tell(both[i]->talk, slot);
		check_eq(child_hear(both[i]->talk), 0);
	}
	for (int i = 0; i < 2; i++) {
		child_tell(both[i]->talk, 1);
		check_eq(child_wait(both[i]), 0);
	}
	child_tell(host.talk, 2);
	check_eq(child_wait(&host), 0);
}

RUN_TESTS(unit_test(whose_slot_it_is_may_say_so),
	  unit_test(a_process_of_our_user_has_no_slot_but_its_own),
	  unit_test(where_no_pid_is_seen_the_owner_says_so),
	  unit_test(where_no_pid_is_seen_the_owner_contradicts),
	  unit_test(a_cookie_that_another_process_repeats_keeps_nobody_out))
