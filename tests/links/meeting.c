// SPDX-License-Identifier: MIT
/* Meetings: processes go to the door one at a time, those that wait do not wait for one that comes
 * and goes, members that are stopped hide none that runs, and a forked child keeps nothing open. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "peers/meeting.h"
#include "station.h"
#include "util/barrier.h"

enum {
	STAY_US = 5000,
	ENTRIES = 20,
	VISITORS = 4,
	CANNOT = 70, /* exit status: this system lets nobody filter system calls */
};

static char name[32];

static struct {
	void (*bind)(void), (*listen)(void); /* called once, before the next such call; or NULL */
	int talk; /* of the process that enters meanwhile */
} hook;

static void once(void (**f)(void))
{
	void (*now)(void) = *f;

	*f = NULL;
	if (now)
		now();
}

/* In place of the library's. */
int bind(int fd, __CONST_SOCKADDR_ARG sa, socklen_t len)
{
	once(&hook.bind);
	return (int)syscall(SYS_bind, fd, sa.__sockaddr__, len);
}

int listen(int fd, int backlog)
{
	once(&hook.listen);
	return (int)syscall(SYS_listen, fd, backlog);
}

struct shared {
	uint32_t stop, left;
};

static struct shared *share(void)
{
	void *p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	check(p != MAP_FAILED);
	return p;
}

static int enter(struct station *st, struct meeting **m, int *fd)
{
	struct meeting_other who;

	return meeting_enter(st->h, name, m, fd, &who);
}

/* Enters, and there is no member. */
static void enters_alone(struct station *st)
{
	struct meeting *m;
	int fd;

	check_eq(enter(st, &m, &fd), 0);
	check_eq(fd, -1);
	meeting_leave(m);
}

static int stay(struct station *st)
{
	struct meeting *m;
	int fd, err = enter(st, &m, &fd);

	if (err)
		return err;
	usleep(STAY_US);
	meeting_leave(m);
	return 0;
}

/* --- the door --- */

static int come_again(int talk, void *arg)
{
	struct shared *s = arg;
	struct station st = { 0 };

	station_open(&st);
	child_tell(talk, 1);
	while (!load_acquire(&s->stop))
		if (stay(&st))
			return 1;
	station_close(&st);
	return 0;
}

TEST(a_process_that_comes_again_at_once_lets_others_enter)
{
	struct shared *s = share();
	struct child c = child_start(come_again, s);
	struct station st = { 0 };

	station_open(&st);
	check_eq(child_hear(c.talk), 1);
	for (int i = 0; i < ENTRIES; i++)
		check_eq(stay(&st), 0);
	store_release(&s->stop, 1);
	check_eq(child_wait(&c), 0);
	station_close(&st);
	munmap(s, sizeof(*s));
}

/* Stays until it is told to go, and tells then whether it lets others enter first. */
static int stay_and_tell(int talk, void *arg)
{
	struct station st = { 0 };
	struct meeting *m;
	uint64_t before;
	int fd;

	(void)arg;
	station_open(&st);
	for (int i = 0; i < 2; i++) {
		if (enter(&st, &m, &fd))
			return 1;
		child_tell(talk, 1);
		if (child_hear(talk) != 1)
			return 1;
		before = load_relaxed(&st.h->gives_way);
		meeting_leave(m);
		child_tell(talk, load_relaxed(&st.h->gives_way) > before);
	}
	station_close(&st);
	return 0;
}

TEST(who_has_kept_another_waiting_gives_way)
{
	struct child c = child_start(stay_and_tell, NULL);
	struct pollfd door = { .events = 0 };
	struct station st = { 0 };
	char stem[64];

	station_open(&st);
	snprintf(stem, sizeof(stem), "%s.new.", name);
	for (uint64_t waits = 0; waits < 2; waits++) {
		check_eq(child_hear(c.talk), 1);
		if (waits)
			check_eq(host_names_find(st.h->uid, stem, 0, 1, &door.fd), 0);
		child_tell(c.talk, 1);
		check_eq(child_hear(c.talk), waits);
	}
	check_eq(poll(&door, 1, -1), 1);
	close(door.fd);
	check_eq(child_wait(&c), 0);
	station_close(&st);
}

/* Enters when it is told to, and goes again. */
static int slip_in(int talk, void *arg)
{
	struct shared *s = arg;
	struct station st = { 0 };
	struct meeting *m;
	int fd;

	station_open(&st);
	child_tell(talk, 1);
	child_hear(talk);
	if (enter(&st, &m, &fd))
		return 1;
	child_tell(talk, 1);
	usleep(STAY_US);
	store_release(&s->left, 1);
	meeting_leave(m);
	return 0;
}

static void let_it_in(void)
{
	child_tell(hook.talk, 1);
	check_eq(child_hear(hook.talk), 1);
}

/* Another process enters while this one is about to call @f. */
static void enters_behind_it(void (**f)(void))
{
	struct shared *s = share();
	struct child c = child_start(slip_in, s);
	struct station st = { 0 };
	struct meeting *m;
	int fd;

	check_eq(child_hear(c.talk), 1);
	station_open(&st);
	hook.talk = c.talk;
	*f = let_it_in;
	check_eq(enter(&st, &m, &fd), 0);
	check(!*f);
	check(load_acquire(&s->left));
	meeting_leave(m);
	check_eq(child_wait(&c), 0);
	station_close(&st);
	munmap(s, sizeof(*s));
}

TEST(of_two_at_once_one_enters_behind_the_other)
{
	enters_behind_it(&hook.bind); /* by a higher door */
	enters_behind_it(&hook.listen); /* by a lower one */
}

static int stay_often(int talk, void *arg)
{
	struct station st = { 0 };

	(void)talk;
	(void)arg;
	station_open(&st);
	for (int i = 0; i < ENTRIES; i++)
		if (stay(&st))
			return 1;
	station_close(&st);
	return 0;
}

TEST(all_of_many_that_come_again_enter)
{
	struct child c[VISITORS];

	for (int i = 0; i < VISITORS; i++)
		c[i] = child_start(stay_often, NULL);
	for (int i = 0; i < VISITORS; i++)
		check_eq(child_wait(&c[i]), 0);
}

/* From now on the kernel does not say whose sockets are. */
static bool refuse_netlink(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Enters when the one at the door has left, and not before. */
static int come_in_the_dark(int talk, void *arg)
{
	struct shared *s = arg;
	struct station st = { 0 };
	struct meeting *m;
	int fd;

	station_open(&st);
	child_tell(talk, 1);
	child_hear(talk);
	if (!refuse_netlink())
		return CANNOT;
	if (enter(&st, &m, &fd))
		return 1;
	return load_acquire(&s->left) ? 0 : 2;
}

TEST(a_door_to_which_nobody_can_connect_is_taken_whoever_has_it)
{
	struct shared *s = share();
	struct child c = child_start(come_in_the_dark, s);
	struct station st = { 0 };
	int fd, conn, status;
	char door[64];

	check_eq(child_hear(c.talk), 1);
	station_open(&st);
	snprintf(door, sizeof(door), "%s.new.0", name);
	check_eq(host_name_bind_any(st.h->uid, door, &fd), 0);
	check_eq(listen(fd, 0), 0);
	while (!host_name_connect_any(st.h->uid, door, &conn))
		;
	child_tell(c.talk, 1);
	usleep(10 * STAY_US); /* in which it would enter */
	store_release(&s->left, 1);
	close(fd);
	shutdown(conn, SHUT_RDWR);
	status = child_wait(&c);
	station_close(&st);
	munmap(s, sizeof(*s));
	if (status == CANNOT)
		skip();
	check_eq(status, 0);
}

/* --- members --- */

static int memory(void)
{
	int fd = memfd_create("meeting", MFD_CLOEXEC);

	check(fd >= 0);
	return fd;
}

static int be_member(int talk, void *arg)
{
	struct meeting_other who;
	struct station st = { 0 };
	struct meeting *m;
	int fd, err;

	(void)arg;
	station_open(&st);
	station_thread(&st);
	err = enter(&st, &m, &fd);
	err = err ? err : meeting_begin(m, fd < 0 ? memory() : fd, &who);
	child_tell(talk, err ? UINT64_MAX : st.slot);
	child_hear(talk);
	return 0;
}

static struct child member(uint64_t *slot)
{
	struct child c = child_start(be_member, NULL);

	*slot = child_hear(c.talk);
	check(*slot < NUMBER_SLOTS);
	return c;
}

static void stop(const struct child *c)
{
	int status;

	kill(c->pid, SIGSTOP);
	check_eq(waitpid(c->pid, &status, WUNTRACED), c->pid);
}

static void end(struct child *c)
{
	kill(c->pid, SIGKILL);
	child_wait(c);
}

TEST(a_member_that_is_stopped_hides_none_that_runs)
{
	struct station st = { 0 };
	struct child a, b;
	uint64_t slot_a, slot_b;
	struct meeting *m;
	int fd = -1;

	station_open(&st);
	a = member(&slot_a);
	b = member(&slot_b);
	stop(slot_a < slot_b ? &a : &b);
	check_eq(enter(&st, &m, &fd), 0);
	check(fd >= 0);
	close(fd);
	meeting_leave(m);
	end(&a);
	end(&b);
	enters_alone(&st);
	station_close(&st);
}

TEST(one_that_is_alone_and_stopped_is_named)
{
	struct meeting_other who = { 0 };
	struct station st = { 0 };
	struct meeting *m;
	uint64_t slot;
	struct child a;
	int fd;

	station_open(&st);
	a = member(&slot);
	stop(&a);
	check_eq(meeting_enter(st.h, name, &m, &fd, &who), ETIMEDOUT);
	check_eq(who.pid, a.pid);
	check(!who.door);
	end(&a);
	enters_alone(&st);
	station_close(&st);
}

/* --- fork --- */

/* How a process forks. */
enum fork { BY_THE_LIBRARY, BY_ITSELF /* no handlers are called */ };

/* Its number: the test ends it. */
static pid_t leave_a_child(struct station *st, enum fork how)
{
	pid_t pid;

	if (how == BY_THE_LIBRARY)
		host_fork_begin(st->h);
	pid = fork();
	if (!pid && how == BY_THE_LIBRARY)
		host_leave(st->h);
	if (!pid)
		alarm(30); /* if the test fails */
	while (!pid)
		pause();
	if (how == BY_THE_LIBRARY)
		host_fork_end(st->h);
	return pid;
}

/* At the door, or as a member; goes when it is told to. */
static int live_with_a_child(enum fork how, bool member, int talk)
{
	struct meeting_other who;
	struct station st = { 0 };
	struct meeting *m;
	int fd;

	station_open(&st);
	station_thread(&st);
	if (enter(&st, &m, &fd) || (member && meeting_begin(m, memory(), &who)))
		return 1;
	child_tell(talk, (uint64_t)leave_a_child(&st, how));
	child_hear(talk);
	meeting_leave(m);
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

static int door_with_a_child(int talk, void *arg)
{
	return live_with_a_child(*(enum fork *)arg, false, talk);
}

static int member_with_a_child(int talk, void *arg)
{
	return live_with_a_child(*(enum fork *)arg, true, talk);
}

static pid_t child_of(struct child *c)
{
	uint64_t pid = child_hear(c->talk);

	check(pid != UINT64_MAX);
	return (pid_t)pid;
}

/* @before: this process has come before it goes, and waits. */
static void is_left(int (*f)(int talk, void *arg), enum fork how, bool before)
{
	struct station st = { 0 };
	struct child c;
	pid_t child;

	station_open(&st);
	c = child_start(f, &how);
	child = child_of(&c);
	child_tell(c.talk, 1);
	if (!before)
		check_eq(child_hear(c.talk), 1);
	enters_alone(&st);
	if (before)
		check_eq(child_hear(c.talk), 1);
	kill(child, SIGKILL);
	end(&c);
	station_close(&st);
}

TEST(a_door_is_left_though_a_child_lives)
{
	for (int before = 0; before < 2; before++) {
		is_left(door_with_a_child, BY_THE_LIBRARY, before);
		is_left(door_with_a_child, BY_ITSELF, before);
	}
}

TEST(a_meeting_is_left_though_a_child_lives)
{
	is_left(member_with_a_child, BY_THE_LIBRARY, false);
	is_left(member_with_a_child, BY_ITSELF, false);
}

static void ends_with_its_process(int (*f)(int talk, void *arg))
{
	enum fork how = BY_THE_LIBRARY;
	struct station st = { 0 };
	struct child c;
	pid_t child;

	station_open(&st);
	c = child_start(f, &how);
	child = child_of(&c);
	kill(c.pid, SIGKILL);
	check_eq(waitid(P_PID, (id_t)c.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	enters_alone(&st);
	kill(child, SIGKILL);
	child_wait(&c);
	station_close(&st);
}

TEST(the_door_of_a_process_that_is_killed_is_free_though_a_child_lives)
{
	ends_with_its_process(door_with_a_child);
}

TEST(so_is_a_member_gone)
{
	ends_with_its_process(member_with_a_child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(a_process_that_comes_again_at_once_lets_others_enter),
		unit_test(who_has_kept_another_waiting_gives_way),
		unit_test(of_two_at_once_one_enters_behind_the_other),
		unit_test(all_of_many_that_come_again_enter),
		unit_test(a_door_to_which_nobody_can_connect_is_taken_whoever_has_it),
		unit_test(a_member_that_is_stopped_hides_none_that_runs),
		unit_test(one_that_is_alone_and_stopped_is_named),
		unit_test(a_door_is_left_though_a_child_lives),
		unit_test(a_meeting_is_left_though_a_child_lives),
		unit_test(the_door_of_a_process_that_is_killed_is_free_though_a_child_lives),
		unit_test(so_is_a_member_gone),
	};

	snprintf(name, sizeof(name), "meeting.%d", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
