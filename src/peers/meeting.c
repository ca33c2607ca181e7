// SPDX-License-Identifier: MIT
#include "peers/meeting.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "peers/contact_peer.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "util/clock.h"

enum { NAME_MAX_LEN = 80, DOORS = MEETING_DOORS, NAP_NS = 2000000 };
#define STAY_NS	 (2 * HOST_CONTACT_NS) /* at a door: members that are silent take half of it */
#define DOORS_NS (24 * HOST_CONTACT_NS) /* the longest wait, whoever comes and goes meanwhile */
#define BOTH_NS	 UINT64_C(100000000) /* that a process stays at a door while another one does */
#define WAY_NS	 UINT64_C(20000000) /* that it lets those enter first that it kept waiting */

struct meeting {
	struct list node; /* host->meetings */
	struct watch watch; /* socket that others connect to; fd -1: not a member yet */
	struct host *host;
	int fd; /* the shared descriptor, the caller's */
	int door; /* socket bound to a door's name; -1: not at one */
	char name[NAME_MAX_LEN];
};

static void nap(void)
{
	const struct timespec t = { .tv_nsec = NAP_NS };

	nanosleep(&t, NULL);
}

static int ms_until(uint64_t at)
{
	uint64_t now = clock_now();

	return now < at ? (int)((at - now) / 1000000) + 1 : 0;
}

/* --- our sockets, which a forked child closes --- */

/* Listens to "<name>.<who>". A positive errno: EADDRINUSE … */
static int open_name(struct meeting *m, const char *who, int *fd)
{
	char full[NAME_MAX_LEN + 16];
	int err;

	snprintf(full, sizeof(full), "%s.%s", m->name, who);
	mutex_lock(&m->host->names_lock);
	err = host_name_listen_any(m->host->uid, full, fd);
	mutex_unlock(&m->host->names_lock);
	return err;
}

/* Ends the connections that wait to be accepted, too: closing alone would not while a process has
 * the socket from a fork() that called no handlers. True: there were some. */
static bool close_name(struct meeting *m, int *fd)
{
	bool any = false;
	int conn;

	if (*fd < 0)
		return false;
	shutdown(*fd, SHUT_RDWR);
	while ((conn = accept4(*fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		close(conn);
		any = true;
	}
	mutex_lock(&m->host->names_lock);
	close(*fd);
	*fd = -1;
	mutex_unlock(&m->host->names_lock);
	return any;
}

void meeting_leave_all(struct host *h)
{
	struct list *l;

	list_for_each(l, &h->meetings)
	{
		struct meeting *m = container_of(l, struct meeting, node);

		if (m->watch.fd >= 0)
			close(m->watch.fd);
		if (m->door >= 0)
			close(m->door);
		m->watch.fd = m->door = -1;
	}
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

	if (conn < 0) {
		host_not_accepted(m->host, w, now);
		return;
	}
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

/* The members that have been asked for the descriptor. */
struct asked {
	struct pollfd conn[NUMBER_SLOTS]; /* the first @n; fd -1: it has gone */
	nfds_t n;
	bool unasked; /* there is another one, or may be, that this process cannot connect to */
};

/* ECONNREFUSED: no process of our user has that name. */
static int ask(const struct meeting *m, unsigned int slot, struct asked *a)
{
	char full[NAME_MAX_LEN + 16];
	int fd, pid, err;

	snprintf(full, sizeof(full), "%s.%u", m->name, slot);
	err = host_name_connect_any(m->host->uid, full, &fd);
	if (err == EAGAIN && may_be_ours(m, slot))
		a->unasked = true;
	if (err)
		return err;
	if (contact_peer(fd, &pid)) {
		close(fd);
		return ECONNREFUSED;
	}
	a->conn[a->n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
	return 0;
}

static int ask_all(const struct meeting *m, struct asked *a)
{
	int err;

	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++) {
		err = ask(m, slot, a);
		if (!host_names_short(err))
			continue;
		a->unasked = true; /* the others, of which one may answer */
		return a->n ? 0 : err;
	}
	return 0;
}

/* One of those that answer, or have gone. True: it has given *fd. */
static bool hear(struct asked *a, int *fd)
{
	for (nfds_t i = 0; i < a->n; i++) {
		struct pollfd *p = &a->conn[i];

		if (p->fd < 0 || !p->revents)
			continue;
		if (!receive(p->fd, fd))
			return true;
		close(p->fd);
		p->fd = -1;
	}
	return false;
}

static bool first_left(const struct asked *a, nfds_t *i)
{
	for (*i = 0; *i < a->n; ++*i)
		if (a->conn[*i].fd >= 0)
			return true;
	return false;
}

/* The first answer counts. ETIMEDOUT: some members are there, and none answers. */
static int hear_one(struct asked *a, int *fd, struct meeting_other *who)
{
	uint64_t until = clock_now() + HOST_CONTACT_NS;
	nfds_t i;

	*who = (struct meeting_other){ 0 };
	while (first_left(a, &i) && clock_now() < until)
		if (poll(a->conn, a->n, ms_until(until)) > 0 && hear(a, fd))
			return 0;
	if (first_left(a, &i))
		contact_peer(a->conn[i].fd, &who->pid);
	else if (!a->unasked)
		return 0;
	return ETIMEDOUT;
}

static int ask_members(const struct meeting *m, int *fd, struct meeting_other *who)
{
	struct asked *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return ENOMEM;
	err = ask_all(m, a);
	err = err ? err : hear_one(a, fd, who);
	for (nfds_t i = 0; i < a->n; i++)
		if (a->conn[i].fd >= 0)
			close(a->conn[i].fd);
	free(a);
	return err;
}

/* --- the door --- */

/* How long a process waits for others at the doors. */
struct patience {
	uint64_t end; /* ns: for all together */
	uint64_t blind; /* ns: for one that it cannot connect to */
	int pid; /* of the one that is waited for; 0: not known */
	uint32_t uid; /* of another user who has a door, where such have all */
};

/* Waits until the process of our user at one of the doors from @first up to @end has left it, at
 * most @ns. ENOENT: none is there; ETIMEDOUT: it stays. The connection to its door lasts as long as
 * its stay: a process that comes again is not taken for one that stays. */
static int see_off(const struct meeting *m, unsigned int first, unsigned int end, uint64_t ns,
		   struct patience *p)
{
	struct pollfd conn = { .events = 0 }; /* its end is told all the same */
	char stem[NAME_MAX_LEN + 16];
	uint64_t until = clock_now() + ns;
	bool ended;
	int err;

	snprintf(stem, sizeof(stem), "%s.new.", m->name);
	err = host_names_find(m->host->uid, stem, first, end, &conn.fd);
	if (err && err != EAGAIN)
		return err;
	p->pid = 0;
	if (err) { /* its queue is full */
		nap();
		return clock_now() < p->blind ? 0 : ETIMEDOUT;
	}
	contact_peer(conn.fd, &p->pid);
	until = until < p->end ? until : p->end;
	do
		ended = poll(&conn, 1, ms_until(until)) > 0;
	while (!ended && clock_now() < until);
	close(conn.fd);
	if (ended)
		p->blind = clock_now() + STAY_NS;
	return ended ? 0 : ETIMEDOUT;
}

/* Until nobody is at a door, and those that this process has kept waiting have had their turn. */
static int wait_outside(struct meeting *m, struct patience *p)
{
	struct host *h = m->host;
	int err;

	do {
		err = see_off(m, 0, DOORS, STAY_NS, p);
		if (!err) {
			store_relaxed(&h->gives_way, 0);
		} else if (err == ENOENT && clock_now() < load_relaxed(&h->gives_way)) {
			nap();
			err = 0;
		}
	} while (!err);
	return err == ENOENT ? 0 : err;
}

static int open_door(struct meeting *m, unsigned int *door)
{
	int err = EADDRINUSE;
	char who[16];

	for (*door = 0; *door < DOORS; ++*door) {
		snprintf(who, sizeof(who), "new.%u", *door);
		err = open_name(m, who, &m->door);
		if (err != EADDRINUSE)
			break;
	}
	return err;
}

/* The look binds a name that is free for a moment, which a forked child would keep. */
static struct host_foreign look(const struct meeting *m, const char *kind, unsigned int first,
				unsigned int end)
{
	char stem[NAME_MAX_LEN + 16];
	struct host_foreign other;

	snprintf(stem, sizeof(stem), "%s.%s", m->name, kind);
	mutex_lock(&m->host->names_lock);
	other = host_names_foreign(m->host->uid, stem, first, end);
	mutex_unlock(&m->host->names_lock);
	return other;
}

/* No door is free. EAGAIN: a process of our user may have one. A door to which nobody listens may
 * be that of a process that is about to listen, but does not stay so. */
static int look_at_doors(const struct meeting *m, struct patience *p)
{
	bool patient = clock_now() < p->blind;
	struct host_foreign other = look(m, "new.", 0, DOORS);

	p->uid = other.holder;
	if (other.n == DOORS && !(other.silent && patient))
		return EADDRINUSE;
	nap();
	return patient ? EAGAIN : ETIMEDOUT;
}

/* Another user may have some of the doors, so there are several. Of two processes of our user at
 * once the one at the lower door enters, and the other goes back: each listens first and looks
 * then, so one of them sees the other. If the one at the higher door does not go back it has
 * entered, and is waited for outside. EAGAIN: to be tried again. */
static int enter_door(struct meeting *m, struct patience *p)
{
	uint64_t until = clock_now() + BOTH_NS;
	unsigned int door;
	int err = open_door(m, &door);

	if (err == EADDRINUSE)
		return look_at_doors(m, p);
	if (err)
		return err;
	err = see_off(m, 0, door, 0, p);
	if (err == ENOENT) {
		do
			err = see_off(m, door + 1, DOORS, BOTH_NS, p);
		while (!err && clock_now() < until);
		if (err == ENOENT)
			return 0;
	}
	close_name(m, &m->door);
	return !err || err == ETIMEDOUT ? EAGAIN : err;
}

static int take_door(struct meeting *m, struct patience *p)
{
	int err;

	do {
		err = wait_outside(m, p);
		if (!err)
			err = enter_door(m, p);
	} while (err == EAGAIN && clock_now() < p->end);
	return err == EAGAIN ? ETIMEDOUT : err;
}

/* A process that comes again at once would always be faster than those who wait. */
static void leave_door(struct meeting *m)
{
	if (close_name(m, &m->door))
		store_relaxed(&m->host->gives_way, clock_now() + WAY_NS);
}

int meeting_enter(struct host *h, const char *name, struct meeting **out, int *fd,
		  struct meeting_other *who)
{
	uint64_t now = clock_now();
	struct patience p = { .end = now + DOORS_NS, .blind = now + STAY_NS };
	struct meeting *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return ENOMEM;
	m->host = h;
	m->watch.fd = m->door = m->fd = -1;
	snprintf(m->name, sizeof(m->name), "%s", name);
	mutex_lock(&h->names_lock);
	list_add(&h->meetings, &m->node);
	mutex_unlock(&h->names_lock);
	*fd = -1;
	err = h->alone ? 0 : take_door(m, &p);
	*who = (struct meeting_other){ p.pid, true, p.uid };
	if (!err && !h->alone)
		err = ask_members(m, fd, who);
	if (err) {
		meeting_leave(m);
		return err;
	}
	*out = m;
	return 0;
}

/* The member's name is taken: by another user? */
static int look_at_member(const struct meeting *m, struct meeting_other *who)
{
	unsigned int slot = host_first_slot(m->host);
	struct host_foreign other = look(m, "", slot, slot + 1);

	who->uid = other.holder;
	return other.n ? EADDRINUSE : EEXIST;
}

int meeting_begin(struct meeting *m, int fd, struct meeting_other *who)
{
	struct host *h = m->host;
	char slot[16];
	int err;

	m->fd = fd;
	if (h->alone)
		return 0;
	snprintf(slot, sizeof(slot), "%u", host_first_slot(h));
	mutex_lock(&h->control);
	err = open_name(m, slot, &m->watch.fd);
	if (!err)
		err = host_watch(h, &m->watch, visitor_ready);
	mutex_unlock(&h->control);
	if (!err)
		leave_door(m);
	return err == EADDRINUSE ? look_at_member(m, who) : err;
}

void meeting_leave(struct meeting *m)
{
	struct host *h;

	if (!m)
		return;
	h = m->host;
	mutex_lock(&h->control);
	if (m->watch.fd >= 0)
		host_mute(h, &m->watch);
	close_name(m, &m->watch.fd);
	mutex_unlock(&h->control);
	leave_door(m);
	mutex_lock(&h->names_lock);
	list_del(&m->node);
	mutex_unlock(&h->names_lock);
	free(m);
}
