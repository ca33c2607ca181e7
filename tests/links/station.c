// SPDX-License-Identifier: MIT
#include "station.h"
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "util/barrier.h"
#include "util/clock.h"
#include "util/fork.h"
#include "util/guard.h"

static bool in_child; /* such a process ends with its parent, which is the one that fails */

static struct {
	void (*call)(void *arg);
	void *arg;
} behind_look;

void station_behind_look(void (*f)(void *arg), void *arg)
{
	behind_look.call = f;
	behind_look.arg = arg;
}

static void looked(void)
{
	void (*f)(void *arg) = behind_look.call;

	if (!f)
		return;
	behind_look.call = NULL;
	f(behind_look.arg);
}

static bool key_read(const void *table, uint32_t n, uint32_t key, struct host_key *out)
{
	const struct station_key *e = (const struct station_key *)table + (key >> 8);

	if (key >> 8 >= n || load_acquire(&e->key) != key)
		return false;
	*out = (struct host_key){ .pdn = e->pdn,
				  .access = e->access,
				  .direct = e->direct,
				  .iova = e->iova,
				  .len = e->len,
				  .addr = e->addr,
				  .gen = e->gen };
	looked();
	return true;
}

static void deliver(void *arg, const struct seg *s)
{
	struct station *st = arg;

	if (st->got)
		st->got(st, s);
	st->bytes += s->len;
	__atomic_store_n(&st->count, st->count + 1, __ATOMIC_RELEASE);
}

static void peer_dead(void *arg, unsigned int slot)
{
	struct station *st = arg;

	st->dead_slot = slot;
	st->deaths++;
}

void station_open(struct station *st)
{
	struct host_config cfg = { .n_keys = STATION_KEYS,
				   .key_bytes = STATION_KEYS * sizeof(struct station_key),
				   .key_read = key_read,
				   .deliver = deliver,
				   .peer_dead = peer_dead,
				   .arg = st };
	int err = fork_init();

	if (!err)
		err = guard_init();
	if (!err)
		err = host_create(&cfg, &st->h);
	if (err) {
		fprintf(stderr, "station: %s\n", strerror(err));
		exit(1);
	}
	st->slot = host_first_slot(st->h);
}

void station_stop(struct station *st)
{
	if (!st->threaded)
		return;
	store_release(&st->stop, true);
	pthread_join(st->thread, NULL);
	st->threaded = false;
}

void station_close(struct station *st)
{
	station_stop(st);
	host_destroy(st->h);
}

void station_turn(struct station *st)
{
	uint64_t now;

	if (host_drain(st->h, 64))
		return;
	if (st->turns++ % 64 && host_deadline(st->h))
		return;
	now = clock_now() / (st->slow ? st->slow : 1) + st->ahead;
	host_control(st->h, now);
	sched_yield();
}

static void *run(void *arg)
{
	struct station *st = arg;

	while (!load_acquire(&st->stop))
		station_turn(st);
	return NULL;
}

void station_thread(struct station *st)
{
	st->threaded = true;
	if (pthread_create(&st->thread, NULL, run, st))
		exit(1);
}

uint32_t station_number(const struct station *st)
{
	return st->slot << 14 | 2;
}

uint32_t station_key(struct station *st, unsigned int index, void *addr, size_t len)
{
	struct station_key *e = (struct station_key *)host_key_memory(st->h) + index;

	e->pdn = 7;
	e->access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	e->direct = 1;
	e->iova = e->addr = (uintptr_t)addr;
	e->len = len;
	e->gen += 2;
	store_release(&e->key, index << 8 | 0x5a);
	return index << 8 | 0x5a;
}

void station_unkey(struct station *st, unsigned int index)
{
	struct station_key *e = (struct station_key *)host_key_memory(st->h) + index;

	store_release(&e->key, 0);
}

struct dest *station_dest(struct station *st, uint32_t qpn)
{
	struct dest *d = NULL;

	if (host_dest(st->h, qpn, &d))
		exit(1);
	return d;
}

int station_send(struct station *st, struct dest *d, const struct seg *s)
{
	int err;

	while ((err = dest_send(d, s, NULL)) == EAGAIN)
		station_turn(st);
	return err;
}

void station_until(struct station *st, const uint64_t *value, uint64_t least)
{
	uint64_t now, before = 0;

	while (in_child ? load_acquire(value) < least : still(load_acquire(value) < least)) {
		station_turn(st);
		now = load_acquire(value);
		if (now != before)
			still_over(); /* it goes on: only a standstill is one */
		before = now;
	}
}

void station_mutual(struct station *st, struct dest *d)
{
	const struct target *t = to_target(d);

	while (load_acquire(&t->state) != TARGET_UP || !load_acquire(&t->c->mutual))
		station_turn(st);
}

void station_hold(struct station *st, struct dest *d, uint32_t key)
{
	const struct contact *c = to_target(d)->c;

	hazard_set(st->h->page->hazard, hazard_word(HAZARD_KEY, c->slot, c->gen, key));
}

struct child child_start(int (*f)(int talk, void *arg), void *arg)
{
	struct child c;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		exit(1);
	fflush(NULL);
	c.pid = fork();
	if (c.pid < 0)
		exit(1);
	if (!c.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
		close(pair[0]);
		in_child = true;
		_exit(f(pair[1], arg));
	}
	close(pair[1]);
	c.talk = pair[0];
	return c;
}

int child_wait(struct child *c)
{
	int status;

	while (waitpid(c->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	close(c->talk);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void child_tell(int talk, uint64_t v)
{
	if (send(talk, &v, sizeof(v), MSG_NOSIGNAL) < 0)
		return; /* it is gone: child_hear() says so */
}

uint64_t child_hear(int talk)
{
	uint64_t v;

	return recv(talk, &v, sizeof(v), 0) == sizeof(v) ? v : UINT64_MAX;
}

struct trust_limits station_limits(unsigned int n)
{
	struct rlimit lim;

	check_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = n;
	check_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	return trust_limits(NUMBER_SLOTS, n);
}

uint64_t station_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint64_t n = 0;

	check(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}
