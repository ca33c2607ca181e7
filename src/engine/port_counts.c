// SPDX-License-Identifier: MIT
#include "engine/port_counts.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "engine/qp_table.h"
#include "util/clock.h"

enum {
	TEXT = 24, /* bytes of a file, at most */
	TRIES = 100, /* at the lock, a millisecond apart: a stopped process may have it */
};

/* A port of ours: the kernel's folders of a real adapter have no such neighbour. */
static const char view[] = "/sys/class/.softhca";
static const char *const folders[] = { [COUNTER_PORT] = "counters", [COUNTER_HW] = "hw_counters" };

void port_counts_init(struct node *n)
{
	spin_init(&n->counts.lock);
	pthread_mutex_init(&n->counts.files, NULL);
	n->counts.due = access(view, F_OK) ? UINT64_MAX : clock_now() + PORT_COUNTS_PERIOD;
}

/* --- from QPs to the device's counters --- */

/* Read beside the thread that has the turn: each word is whole, of this moment or one before. */
__attribute__((no_sanitize("thread"))) static struct tally read_tally(const struct tqp *q)
{
	const volatile struct tally *t = &q->tally;

	return (struct tally){ { t->sent.bytes, t->sent.packets },
			       { t->received.bytes, t->received.packets },
			       { t->direct.bytes, t->direct.packets } };
}

static void count(struct counters *c, enum counter bytes, enum counter packets,
		  const struct moved *is, const struct moved *was)
{
	counters_add(c, bytes, is->bytes - was->bytes);
	counters_add(c, packets, is->packets - was->packets);
}

void port_counts_take(struct eqp *e)
{
	struct counters *c = e->q.qp.ctx->hca->counters;
	struct tally is, was;

	if (e->q.qp.service->frames)
		return; /* engine/frames counts them */
	spin_lock(&e->node->counts.lock);
	is = read_tally(&e->q);
	was = e->counted;
	e->counted = is;
	spin_unlock(&e->node->counts.lock);
	count(c, COUNTER_PORT_XMIT_DATA, COUNTER_PORT_XMIT_PACKETS, &is.sent, &was.sent);
	count(c, COUNTER_PORT_RCV_DATA, COUNTER_PORT_RCV_PACKETS, &is.received, &was.received);
	count(c, COUNTER_PORT_XMIT_DATA, COUNTER_PORT_XMIT_PACKETS, &is.direct, &was.direct);
	count(c, COUNTER_PORT_RCV_DATA, COUNTER_PORT_RCV_PACKETS, &is.direct, &was.direct);
}

static void take_all(struct node *n)
{
	struct eqp *e;
	uint32_t at = 0;

	quiesce_enter();
	while ((e = qp_table_next(n, &at)))
		port_counts_take(e);
	quiesce_exit();
}

/* --- from the device's counters to files --- */

static uint64_t value(const struct counters *c, enum counter which)
{
	enum counter all, some;
	uint64_t most, part;

	if (which == COUNTER_UNICAST_XMIT_PACKETS)
		all = COUNTER_PORT_XMIT_PACKETS, some = COUNTER_MULTICAST_XMIT_PACKETS;
	else if (which == COUNTER_UNICAST_RCV_PACKETS)
		all = COUNTER_PORT_RCV_PACKETS, some = COUNTER_MULTICAST_RCV_PACKETS;
	else
		return counters_read(c, which);
	most = counters_read(c, all);
	part = counters_read(c, some); /* may count more meanwhile */
	return most > part ? most - part : 0;
}

/* The values only grow, so that the new text covers the old one. */
static int add_to_file(int folder, const char *name, uint64_t more)
{
	int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC), n, err = 0;
	char text[TEXT] = "";

	if (fd < 0)
		return errno;
	if (pread(fd, text, sizeof(text) - 1, 0) < 0)
		err = errno;
	n = snprintf(text, sizeof(text), "%" PRIu64 "\n",
		     (uint64_t)strtoull(text, NULL, 10) + more);
	if (!err && pwrite(fd, text, (size_t)n, 0) < 0)
		err = errno;
	close(fd);
	return err;
}

/* The kernel gives the lock back when its holder dies. @tries: 1 does not wait. */
static int lock(int folder, int tries)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (flock(folder, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return errno;
		if (!--tries)
			return EAGAIN;
		nanosleep(&moment, NULL);
	}
	return 0;
}

static bool has_news(const struct device *d, enum counter_folder which)
{
	for (int i = 0; i < COUNTER_N; i++)
		if (counters_folder(i) == which && value(d->hca.counters, i) > d->shown.v[i])
			return true;
	return false;
}

static int add_to_files(struct device *d, enum counter_folder which, int folder)
{
	int err = 0;

	for (int i = 0; !err && i < COUNTER_N; i++) {
		uint64_t is = value(d->hca.counters, i);

		if (counters_folder(i) != which || is <= d->shown.v[i])
			continue;
		err = add_to_file(folder, counters_name(i), is - d->shown.v[i]);
		if (!err)
			d->shown.v[i] = is;
	}
	return err;
}

/* EAGAIN: another process is at it, and the news waits. */
static int write_folder(struct device *d, enum counter_folder which, int tries)
{
	char path[128];
	int fd, err;

	if (!has_news(d, which))
		return 0;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/%s", d->hca.name,
		 folders[which]);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = lock(fd, tries);
	if (!err)
		err = add_to_files(d, which, fd);
	close(fd);
	return err;
}

/* Another process is at the files, or this one has no descriptor or no memory at the moment. */
static bool passes(int err)
{
	return err == EAGAIN || err == EMFILE || err == ENFILE || err == ENOMEM;
}

/* False: the files are not to be written any more, by this process. Under counts.files. */
static bool write_all(struct node *n, int tries)
{
	struct rlimit most;
	int err = 0;

	if (getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur < TEXT)
		return false; /* a write would end in SIGXFSZ */
	take_all(n);
	for (unsigned int i = 0; i < load_acquire(&n->n_devices); i++) { /* as port_wait.c */
		err = write_folder(n->devices[i], COUNTER_PORT, tries);
		if (!err)
			err = write_folder(n->devices[i], COUNTER_HW, tries);
		if (err && !passes(err))
			return false;
	}
	return true;
}

void port_counts_write(struct node *n, uint64_t now)
{
	uint64_t next = now + PORT_COUNTS_PERIOD;

	if (pthread_mutex_trylock(&n->counts.files)) { /* the process ends */
		store_relaxed(&n->counts.due, next);
		return;
	}
	store_relaxed(&n->counts.due, write_all(n, 1) ? next : UINT64_MAX);
	pthread_mutex_unlock(&n->counts.files);
}

void port_counts_end(struct node *n)
{
	if (port_counts_due(n) == UINT64_MAX)
		return;
	pthread_mutex_lock(&n->counts.files);
	write_all(n, TRIES);
	store_relaxed(&n->counts.due, UINT64_MAX);
	pthread_mutex_unlock(&n->counts.files);
}
