// SPDX-License-Identifier: MIT
/* Who reaches whose memory (docs/design/peer-identity.md): a process that has given up rights, or
 * being traced, meets this one. The kernel is asked before what each may open of the other, and two
 * processes access each other's memory if both may, and not otherwise. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "peers/contact_peer.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "station.h"

enum { KEY_INDEX = 3 };

enum { CANNOT = 70 /* exit status: this system has no such restriction */ };

static bool opens(pid_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool none(void)
{
	return true;
}

static bool not_dumpable(void)
{
	return !prctl(PR_SET_DUMPABLE, 0);
}

/* Nothing is refused but tracing what lies outside. */
static bool landlocked(void)
{
	const struct landlock_ruleset_attr attr = { .handled_access_fs =
							    LANDLOCK_ACCESS_FS_MAKE_BLOCK };
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	return fd >= 0 && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_landlock_restrict_self, fd, 0);
}

/* The same user without any capability; of an ordinary user there is nothing to take. */
static bool without_capabilities(void)
{
	uint32_t header[2] = { 0x20080522, 0 }, none_left[6] = { 0 }; /* version 3 */

	return geteuid() || (!syscall(SYS_capset, header, none_left) && !prctl(PR_SET_DUMPABLE, 1));
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* A user namespace below ours, in which the user keeps the same number. */
static bool lower_user_namespace(void)
{
	uid_t uid = geteuid();
	char map[64];

	if (unshare(CLONE_NEWUSER))
		return false;
	snprintf(map, sizeof(map), "%u %u 1\n", (unsigned int)uid, (unsigned int)uid);
	return write_file("/proc/self/uid_map", map);
}

/* A process stays in the one that it is in; its child enters the new one, and speaks for it. */
static bool own_pid_namespace(void)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		return false;
	pid = fork();
	if (pid <= 0)
		return !pid;
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static pid_t tester; /* whom the one that gives something up meets */

/* The child of @pid that speaks for it, or @pid itself. */
static pid_t speaker(pid_t pid)
{
	char path[64], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		pid = (pid_t)strtol(text, NULL, 10);
	if (fd >= 0)
		close(fd);
	return pid;
}

/* The one that gives something up: exits with 0 when both agree with the kernel. */
static int other(int talk, void *arg)
{
	bool (*const *restrict_self)(void) = arg;
	struct station st = { 0 };
	struct seg s = { .op = 4, .flags = SEG_SQPN, .pkey = 0xffff, .npsn = 1 };
	bool mutual, can = (*restrict_self)();
	struct dest *d;

	/* the other side has given up what it will; unread, its word would cost our answer */
	child_hear(talk);
	child_tell(talk, can ? opens(tester) : CANNOT);
	if (!can)
		return CANNOT;
	mutual = child_hear(talk);
	station_open(&st);
	child_tell(talk, station_number(&st));
	s.dqpn = (uint32_t)child_hear(talk);
	s.sqpn = station_number(&st);
	d = station_dest(&st, s.dqpn);
	if (station_send(&st, d, &s))
		return 2;
	if (mutual)
		station_mutual(&st, d);
	child_tell(talk, 1);
	child_hear(talk); /* the other side has read all that we said */
	for (int i = 0; i < 20; i++)
		station_turn(&st);
	if (to_target(d)->c->mutual != mutual)
		return 3;
	/* what a process says of its accesses keeps the other one only if it may access */
	if (!mutual)
		station_hold(&st, d, (uint32_t)child_hear(talk));
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

static void stay_free(struct station *st, struct child *c)
{
	static uint64_t word;
	uint32_t key = station_key(st, KEY_INDEX, &word, sizeof(word));

	child_tell(c->talk, key);
	child_hear(c->talk);
	station_unkey(st, KEY_INDEX);
	host_revoke(st->h, key); /* returns */
}

/* @mine: what this process gives up behind the other one's start. False: this system has no such
 * restriction. */
static bool both_meet(bool (*restrict_self)(void), bool (*mine)(void))
{
	struct child c;
	uint64_t reached;
	struct station st = { 0 };
	const struct contact *peer;
	bool mutual, can;
	uint32_t number;
	struct dest *d;

	tester = getpid();
	c = child_start(other, &restrict_self);
	can = mine();
	child_tell(c.talk, 1);
	reached = child_hear(c.talk);
	if (!can) {
		kill(c.pid, SIGKILL);
		child_wait(&c);
		return false;
	}

	if (reached == CANNOT) {
		check_eq(child_wait(&c), CANNOT);
		return false; /* a kernel without Landlock, a container that allows no namespaces */
	}
	/* a pid that the connection cannot name to one of them names nobody */
	mutual = reached && opens(speaker(c.pid)) && restrict_self != own_pid_namespace;
	child_tell(c.talk, mutual);
	number = (uint32_t)child_hear(c.talk);
	station_open(&st);
	child_tell(c.talk, station_number(&st));
	station_until(&st, &st.count, 1);
	d = station_dest(&st, number);
	if (mutual)
		station_mutual(&st, d);
	peer = to_target(d)->c;
	check_eq(child_hear(c.talk), 1);
	check_eq(peer->mutual, mutual);
	check(mutual || !contact_reaches(peer));
	check(reached || !peer->trusted);
	/* only one of two user namespaces has rights in the other, and it does not use them */
	check(restrict_self != lower_user_namespace || !peer->remote);
	check_eq(load_relaxed(&d->max_ref) != 0, mutual);
	child_tell(c.talk, 1);
	if (mutual)
		child_hear(c.talk);
	else
		stay_free(&st, &c);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
	return true;
}

static bool meets(bool (*restrict_self)(void))
{
	return both_meet(restrict_self, none);
}

TEST(equals_reach_each_other)
{
	check(meets(none));
}

TEST(a_process_that_is_not_dumpable_is_not_reached)
{
	check(meets(not_dumpable));
}

TEST(a_landlocked_process_reaches_nobody_outside)
{
	if (!meets(landlocked))
		skip();
}

TEST(root_without_capabilities_is_not_root)
{
	check(meets(without_capabilities));
}

TEST(a_lower_user_namespace_does_not_reach_up)
{
	if (!meets(lower_user_namespace))
		skip();
}

/* The kernel would let each trace the other, but the inner one does not see who the outer one
 * is. */
TEST(a_lower_pid_namespace_uses_the_rings)
{
	if (!meets(own_pid_namespace))
		skip();
}

/* The last test: this process stays in its namespace. */
TEST(sibling_user_namespaces_do_not_reach_each_other)
{
	if (!both_meet(lower_user_namespace, lower_user_namespace))
		skip();
}

/* --- a /proc of another PID namespace --- */

enum { VICTIM, LIAR, SLOT = 901 /* the liar's name */ };

static uint64_t whose; /* at one address in all of them */

/* In a PID namespace of its own, where its pid is the victim's in the /proc that is mounted. */
static int liar(int talk, void *arg)
{
	int name, err = host_name_bind(SLOT, &name);

	(void)arg;
	whose = LIAR;
	child_tell(talk, (uint64_t)err);
	child_hear(talk);
	return 0;
}

static bool next_pid(pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid - 1);
	return write_file("/proc/sys/kernel/ns_last_pid", text);
}

/* Whose memory is it that contact_open_memory() opens? UINT64_MAX: none. */
static uint64_t opened(void)
{
	struct trust_name name = { 0 };
	uint64_t found = UINT64_MAX;
	int conn, pidfd, mem;

	if (host_name_connect(SLOT, &conn) || contact_name(conn, &name, &pidfd))
		return UINT64_MAX;
	name.answered = name.pid; /* as it would: it is that process */
	mem = contact_open_memory(&name, pidfd);
	if (mem < 0 || pread(mem, &found, sizeof(found), (off_t)(uintptr_t)&whose) < 0)
		return UINT64_MAX;
	return found;
}

/* The first process of its PID namespace. */
static int misled(int talk, void *arg)
{
	struct child c;
	uint64_t found;

	(void)arg;
	if (!next_pid((pid_t)child_hear(talk))) {
		child_tell(talk, CANNOT);
		return 0;
	}
	c = child_start(liar, NULL);
	child_tell(talk, (uint64_t)c.pid);
	found = child_hear(c.talk) ? UINT64_MAX : opened();
	child_tell(talk, found);
	child_tell(c.talk, 1);
	return child_wait(&c);
}

static int apart(int talk, void *arg)
{
	uint64_t victim = child_hear(talk); /* unread, it would cost the answer */
	struct child c;

	if (unshare(CLONE_NEWPID)) {
		child_tell(talk, CANNOT);
		return 0;
	}
	c = child_start(misled, arg);
	child_tell(c.talk, victim);
	child_tell(talk, child_hear(c.talk));
	child_tell(talk, child_hear(c.talk));
	return child_wait(&c);
}

/* False: no process can be given such a pid here. */
static bool misleads(void)
{
	struct child c = child_start(apart, NULL);
	uint64_t pid;

	whose = VICTIM;
	child_tell(c.talk, (uint64_t)getpid());
	pid = child_hear(c.talk);
	if (pid != CANNOT) {
		check_eq(pid, getpid());
		check_eq(child_hear(c.talk), LIAR);
	}
	check_eq(child_wait(&c), 0);
	return pid != CANNOT;
}

/* The pid of the connection's other end is this process' in the /proc that is mounted. */
TEST(a_process_of_another_pid_namespace_is_not_taken_for_the_peer)
{
	if (!misleads())
		skip();
}

/* From here on a connection does not name the process at its other end, as before Linux 6.5: a
 * nonce and credentials do. The filter stays. */
static void before_linux_6_5(void)
{
	enum { PEERPIDFD = 77 };
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PEERPIDFD, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	check_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	check_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST(before_linux_6_5_a_nonce_names_the_peer)
{
	bool all;

	before_linux_6_5();
	check(meets(none));
	check(meets(not_dumpable));
	check(meets(without_capabilities));
	all = meets(landlocked);
	all &= meets(lower_user_namespace);
	if (!all)
		skip();
}

TEST(before_linux_6_5_it_is_not_taken_for_the_peer)
{
	before_linux_6_5();
	if (!misleads())
		skip();
}

RUN_TESTS(unit_test(equals_reach_each_other),
	  unit_test(a_process_that_is_not_dumpable_is_not_reached),
	  unit_test(a_landlocked_process_reaches_nobody_outside),
	  unit_test(root_without_capabilities_is_not_root),
	  unit_test(a_lower_user_namespace_does_not_reach_up),
	  unit_test(a_lower_pid_namespace_uses_the_rings),
	  unit_test(a_process_of_another_pid_namespace_is_not_taken_for_the_peer),
	  unit_test(before_linux_6_5_a_nonce_names_the_peer),
	  unit_test(before_linux_6_5_it_is_not_taken_for_the_peer),
	  unit_test(sibling_user_namespaces_do_not_reach_each_other))
