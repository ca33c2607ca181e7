// SPDX-License-Identifier: MIT
#include "peers/meeting.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "peers/contact_peer.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "util/clock.h"

enum { BACKLOG = 1024, NAME_MAX_LEN = 80, DOOR_NAP_NS = 2000000, DOORS = 16 };
#define DOOR_NS (24 * HOST_CONTACT_NS) /* the longest wait, whoever comes and goes meanwhile */

struct meeting {
	struct watch watch; /* socket that others connect to; fd -1: not a member yet */
	struct host *host;
	int fd; /* the shared descriptor, the caller's */
	int door; /* socket bound to a door's name; -1: left */
	char name[NAME_MAX_LEN];
};

/* Bound to "<name>.<who>"; a positive errno: EADDRINUSE … */
static int bound(const struct meeting *m, const char *who, int *out)
{
	char full[NAME_MAX_LEN + 16];

	snprintf(full, sizeof(full), "%s.%s", m->name, who);
	return host_name_bind_any(m->host->uid, full, out);
}

static int connected(const struct meeting *m, unsigned int slot, int *out)
{
	char full[NAME_MAX_LEN + 16];

	snprintf(full, sizeof(full), "%s.%u", m->name, slot);
	return host_name_connect_any(m->host->uid, full, out);
}

/* --- members --- */

static void hand_out(int conn, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 1;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(conn, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* the process asks another member, or asks again */
}

static void visitor_ready(struct watch *w, uint64_t now)
{
	struct meeting *m = container_of(w, struct meeting, watch);
	int conn = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), pid;

	(void)now;
	if (conn < 0)
		return;
	if (!contact_peer(conn, &pid))
		hand_out(conn, m->fd);
	close(conn);
}

/* --- processes that come --- */

/* The only descriptor of a message; of several, which have all been received, none is kept. */
static int only_one(const struct cmsghdr *c, int *fd)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int one;

	for (size_t i = 0; i < n; i++) {
		memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(one));
		if (n == 1)
			*fd = one;
		else
			close(one);
	}
	return n == 1 ? 0 : EPROTO;
}

static int receive(int conn, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;

	if (recvmsg(conn, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
		return ECONNRESET;
	c = CMSG_FIRSTHDR(&msg); /* an empty message may bring some, too */
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return EPROTO;
	return only_one(c, fd);
}

/* Its queue was full: may it be a member all the same? */
static bool may_be_ours(const struct meeting *m, unsigned int slot)
{
	char stem[NAME_MAX_LEN + 16];
	enum host_name whose;

	snprintf(stem, sizeof(stem), "%s.", m->name);
	whose = host_name_whose(m->host->uid, stem, slot);
	return whose == HOST_NAME_OURS || whose == HOST_NAME_UNKNOWN;
}

/* ECONNREFUSED: no process of our user has that name; ETIMEDOUT: one has, and does not answer. */
static int ask(const struct meeting *m, unsigned int slot, uint64_t until, int *fd, int *who)
{
	struct pollfd p = { .events = POLLIN };
	int err = connected(m, slot, &p.fd), pid = 0;

	if (err)
		return err == EAGAIN && may_be_ours(m, slot) ? ETIMEDOUT : ECONNREFUSED;
	err = contact_peer(p.fd, &pid) ? ECONNREFUSED : ETIMEDOUT;
	while (err == ETIMEDOUT && clock_now() < until) {
		/* a forked child may keep the name of a member that has died */
		if (pid && kill(pid, 0) && errno == ESRCH)
			err = ECONNREFUSED;
		else if (poll(&p, 1, 10) > 0)
			err = receive(p.fd, fd);
	}
	close(p.fd);
	*who = pid;
	return err;
}

static int ask_members(const struct meeting *m, int *fd, struct meeting_silent *who)
{
	uint64_t until = clock_now() + HOST_CONTACT_NS;
	int silent = 0;

	*fd = -1;
	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++) {
		int pid = 0, err = ask(m, slot, until, fd, &pid);

		if (!err)
			return 0;
		if (err == ETIMEDOUT) {
			silent = ETIMEDOUT;
			*who = (struct meeting_silent){ .pid = pid };
		}
	}
	return silent;
}

/* --- the door --- */

/* How long one waits for those at the other doors. */
struct patience {
	uint64_t until, end; /* ns: for the one who is there; for all together */
	int pid; /* who is there; 0: not known */
};

/* Is a process of our user at one of the doors from @first up to @end? */
static bool is_met(const struct meeting *m, unsigned int first, unsigned int end,
		   struct patience *p)
{
	char stem[NAME_MAX_LEN + 16];
	int pid;

	snprintf(stem, sizeof(stem), "%s.new.", m->name);
	if (!host_names_have_ours(m->host->uid, stem, first, end, &pid))
		return false;
	if (pid != p->pid)
		p->until = clock_now() + HOST_CONTACT_NS;
	p->pid = pid;
	return true;
}

static bool lasts(const struct patience *p)
{
	uint64_t now = clock_now();

	return now < p->until && now < p->end;
}

/* A door that is free, and listened to, so that others see whose it is. */
static int stand(struct meeting *m, unsigned int *door)
{
	char who[16];
	int err = EADDRINUSE;

	for (*door = 0; *door < DOORS && err == EADDRINUSE; ++*door) {
		snprintf(who, sizeof(who), "new.%u", *door);
		err = bound(m, who, &m->door);
	}
	if (err)
		return err;
	--*door;
	return listen(m->door, BACKLOG) ? errno : 0;
}

static void step_back(struct meeting *m)
{
	if (m->door >= 0)
		close(m->door);
	m->door = -1;
}

/* Another user may stand at some of the doors, so there are several. Of two processes of our user
 * the one at the lower door enters: the other goes back, or has entered, and is waited for. Each
 * stands first and looks then, so that one of two at once sees the other. Before that it looks from
 * afar: one that stands would be waited for, again and again, by the one that may enter. */
static int take_door(struct meeting *m, struct patience *p)
{
	const struct timespec nap = { .tv_nsec = DOOR_NAP_NS };
	unsigned int door;
	int err;

	do {
		if (is_met(m, 0, DOORS, p)) {
			nanosleep(&nap, NULL);
			continue;
		}
		err = stand(m, &door);
		if (err && err != EADDRINUSE)
			return err;
		if (!err && !is_met(m, 0, door, p)) {
			while (is_met(m, door + 1, DOORS, p) && lasts(p))
				nanosleep(&nap, NULL);
			if (lasts(p))
				return 0;
		}
		step_back(m);
		nanosleep(&nap, NULL);
	} while (lasts(p));
	return ETIMEDOUT;
}

int meeting_enter(struct host *h, const char *name, struct meeting **out, int *fd,
		  struct meeting_silent *who)
{
	uint64_t now = clock_now();
	struct patience p = { now + HOST_CONTACT_NS, now + DOOR_NS, 0 };
	struct meeting *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return ENOMEM;
	m->host = h;
	m->watch.fd = m->door = m->fd = -1;
	snprintf(m->name, sizeof(m->name), "%s", name);
	*fd = -1;
	err = h->alone ? 0 : take_door(m, &p);
	*who = (struct meeting_silent){ p.pid, true };
	if (!err && !h->alone)
		err = ask_members(m, fd, who);
	if (err) {
		meeting_leave(m);
		return err;
	}
	*out = m;
	return 0;
}

int meeting_begin(struct meeting *m, int fd)
{
	struct host *h = m->host;
	char slot[16];
	int err;

	m->fd = fd;
	if (h->alone)
		return 0;
	snprintf(slot, sizeof(slot), "%u", host_first_slot(h));
	mutex_lock(&h->control);
	err = bound(m, slot, &m->watch.fd);
	if (!err && listen(m->watch.fd, BACKLOG))
		err = errno;
	if (!err)
		err = host_watch(h, &m->watch, visitor_ready);
	mutex_unlock(&h->control);
	if (!err)
		step_back(m);
	return err;
}

void meeting_leave(struct meeting *m)
{
	if (!m)
		return;
	mutex_lock(&m->host->control);
	host_unwatch(m->host, &m->watch);
	mutex_unlock(&m->host->control);
	step_back(m);
	free(m);
}
