// SPDX-License-Identifier: MIT
#include "cm/cm_watch.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "engine/gsi/gsi_own.h"
#include "engine/node.h"
#include "engine/node_self.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "util/fork.h"
#include "util/own_thread.h"
#include "util/secret.h"
#include "util/uncancelled.h"

struct cm cm = { .lock = MUTEX_INITIALIZER };

/* --- descriptors --- */

enum { LOOKS = EPOLLIN | EPOLLRDHUP };

int cm_watch(struct cm_watch *w, void (*ready)(struct cm_watch *w))
{
	struct epoll_event ev = { .events = LOOKS };
	int err, op = w->serial ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (w->serial)
		hash_del(&cm.watches, w->serial);
	w->serial = ev.data.u64 = ++cm.serial;
	w->ready = ready;
	err = hash_put(&cm.watches, w->serial, w);
	if (!err && epoll_ctl(cm.epoll_fd, op, w->fd, &ev)) {
		err = errno;
		hash_del(&cm.watches, w->serial);
	}
	if (err)
		w->serial = 0;
	return err;
}

void cm_watch_switch(const struct cm_watch *w, bool on)
{
	struct epoll_event ev = { .events = on ? LOOKS : 0, .data.u64 = w->serial };

	if (w->serial)
		epoll_ctl(cm.epoll_fd, EPOLL_CTL_MOD, w->fd, &ev);
}

void cm_unwatch(struct cm_watch *w)
{
	if (w->serial)
		hash_del(&cm.watches, w->serial);
	if (w->fd >= 0)
		close(w->fd);
	w->serial = 0;
	w->fd = -1;
}

/* --- time --- */

static void kick(void)
{
	uint64_t one = 1;
	ssize_t n; /* < 0: it is kicked already */

	UNCANCELLED(n, write(cm.kick_fd, &one, sizeof(one)));
	(void)n;
}

void cm_timer(struct timer *t, uint64_t at)
{
	if (at == UINT64_MAX) {
		wheel_del(&cm.wheel, t);
		return;
	}
	wheel_add(&cm.wheel, t, at);
	if (at >= cm.sleeps_until)
		return;
	cm.sleeps_until = 0;
	kick();
}

/* The thread is about to sleep. */
static int timeout_ms(void)
{
	uint64_t at, now = clock_now();

	mutex_lock(&cm.lock);
	at = cm.sleeps_until = wheel_next(&cm.wheel);
	mutex_unlock(&cm.lock);
	if (at == UINT64_MAX)
		return -1;
	if (at <= now)
		return 0;
	return at - now > 60000000000 ? 60000 : (int)((at - now) / 1000000 + 1);
}

static void serve(uint64_t serial)
{
	struct cm_watch *w;
	uint64_t drop;

	mutex_lock(&cm.lock);
	cm.sleeps_until = 0;
	w = hash_get(&cm.watches, serial);
	if (w)
		w->ready(w);
	else if (!serial && read(cm.kick_fd, &drop, sizeof(drop)) < 0)
		drop = 0;
	wheel_run(&cm.wheel, clock_now());
	mutex_unlock(&cm.lock);
}

static void *run(void *arg)
{
	struct epoll_event ev[16];
	int n;

	(void)arg;
	for (;;) {
		n = epoll_wait(cm.epoll_fd, ev, 16, timeout_ms());
		if (n == 0) {
			mutex_lock(&cm.lock);
			cm.sleeps_until = 0;
			wheel_run(&cm.wheel, clock_now());
			mutex_unlock(&cm.lock);
		}
		for (int i = 0; i < n; i++)
			serve(ev[i].data.u64);
	}
	return NULL;
}

/* --- the beginning --- */

static void fork_prepare(void)
{
	mutex_lock(&cm.lock);
}

static void fork_parent(void)
{
	mutex_unlock(&cm.lock);
}

/* The parent's names and connections are closed, or they would outlive the parent. */
static void fork_child(void)
{
	struct cm_watch *w;
	struct list *b;
	size_t pos = 0;

	if (cm.epoch) {
		while ((w = hash_next(&cm.watches, &pos)))
			close(w->fd);
		list_for_each(b, &cm.blocks) close(container_of(b, struct cm_block, node)->fd);
		close(cm.epoll_fd);
		close(cm.kick_fd);
		close(cm.spare_fd);
		gsi_own_close();
	}
	cm.epoch = 0;
	mutex_unlock(&cm.lock);
}

static int open_devices(void)
{
	char names[NODE_DEVICES][IBV_SYSFS_NAME_MAX];
	uint64_t guids[NODE_DEVICES];
	unsigned int n = node_device_names(names, guids);

	cm.n_hcas = 0;
	for (unsigned int i = 0; i < n; i++)
		if (!node_hca(names[i], &cm.hca[cm.n_hcas]))
			cm.n_hcas++;
	if (!cm.n_hcas)
		return refuse(ENODEV, "rdma_create_event_channel: there is no RDMA device; "
				      "SOFTHCA_DEVICES names them");
	cm.node = node_self();
	cm.slot = host_first_slot(cm.node->host);
	return 0;
}

/* No two processes have the same, and none the same twice: peers take what an earlier process of
 * this number did for something else. */
static void draw(void)
{
	uint64_t random[2] = { clock_now(), (uint64_t)getpid() };

	if (secret_fill(random, sizeof(random)))
		random[0] ^= random[1] << 32;
	cm.guid = (cm.hca[0]->node_guid & 0xffffff) | random[0] << 24;
	cm.next_id = (uint32_t)random[1];
}

void cm_clear(void)
{
	hash_init(&cm.watches);
	hash_init(&cm.channels);
	hash_init(&cm.by_id);
	hash_init(&cm.requests);
	hash_init(&cm.qpns);
	hash_init(&cm.pairs);
	list_init(&cm.ids);
	list_init(&cm.names);
	list_init(&cm.blocks);
	list_init(&cm.listeners);
	list_init(&cm.owing);
	timer_init(&cm.debts, NULL);
	timer_init(&cm.rest, NULL);
	list_init(&cm.queries);
	list_init(&cm.fars);
	list_init(&cm.guests);
	list_init(&cm.requesters);
	list_init(&cm.flights);
	list_init(&cm.departures);
	wheel_init(&cm.wheel, clock_now());
	cm.sleeps_until = 0;
	cm.process = cm.own = cm.links = cm.neighs = cm.returns = (struct cm_watch){ .fd = -1 };
}

static int begin(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int err;

	cm_clear();
	err = open_devices();
	if (err)
		return err;
	draw();
	cm.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	cm.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cm.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (cm.epoll_fd < 0 || cm.kick_fd < 0 || cm.spare_fd < 0 ||
	    epoll_ctl(cm.epoll_fd, EPOLL_CTL_ADD, cm.kick_fd, &ev))
		err = errno;
	err = err ? err : own_thread_start(0, run, NULL);
	if (err) {
		close(cm.epoll_fd);
		close(cm.kick_fd);
		close(cm.spare_fd);
		return refuse(err, "rdma_create_event_channel: no descriptors or no thread for "
				   "connection management; raise ulimit -n or -u");
	}
	cm.epoch = fork_epoch();
	return 0;
}

int cm_start(void)
{
	static bool registered;
	int err = 0;

	mutex_lock(&cm.lock);
	if (!cm.epoch || !fork_is_ours(cm.epoch))
		err = begin();
	if (!err && !registered) { /* after node.c's: a fork takes this lock first */
		registered = true;
		pthread_atfork(fork_prepare, fork_parent, fork_child);
	}
	mutex_unlock(&cm.lock);
	return err;
}

bool cm_ours(const struct cm_id *id)
{
	return cm.epoch && fork_is_ours(cm.epoch) && id->epoch == cm.epoch;
}

int cm_enter(const struct cm_id *id, const char *call)
{
	bool gone;

	mutex_lock(&cm.lock);
	if (cm_ours(id) && !id->gone)
		return 0;
	gone = cm_ours(id);
	mutex_unlock(&cm.lock);
	if (gone)
		return refuse(EINVAL, "%s: another thread destroys the id; make a new one", call);
	return refuse(EIO, "%s: the id is of a parent process; make a new one", call);
}

void cm_leave(void)
{
	mutex_unlock(&cm.lock);
}
