// SPDX-License-Identifier: MIT
#include "engine/links.h"
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include "engine/wake.h"
#include "link/fault.h"
#include "util/clock.h"
#include "util/uncancelled.h"

enum { SKIP = 64 }; /* busy polls from one look at a network to the next */

/* Pairs with links_open(). */
static struct node_link *network(struct node *n, uint32_t i)
{
	return i < load_acquire(&n->networks) ? &n->link[1 + i] : NULL;
}

void links_add(struct node *n, struct link *l)
{
	n->link[n->n_links++] = (struct node_link){ .link = l, .node = n };
}

bool links_are_open(const struct node *n)
{
	return load_acquire(&n->networks) + 1 == n->n_links; /* pairs with links_open() */
}

int links_open(struct node *n)
{
	bool any = false;
	struct link *l;
	int err = 0;

	if (links_are_open(n))
		return 0;
	mutex_lock(&n->lock);
	while (!err && n->networks + 1 < n->n_links) {
		l = n->link[1 + n->networks].link;
		err = l->open(l);
		if (err)
			break;
		/* pairs with network() and links_are_open() */
		store_release(&n->networks, n->networks + 1);
		any = true;
	}
	mutex_unlock(&n->lock);
	if (any)
		wake_engine(n);
	return err;
}

/* --- paths and addresses --- */

int links_dest(struct node *n, const struct link_path *to, struct dest **out)
{
	int err = links_open(n);
	struct node_link *w;

	if (err)
		return err;
	err = EPROTONOSUPPORT;
	for (uint32_t i = 0; err == EPROTONOSUPPORT && (w = network(n, i)); i++)
		err = w->link->dest(w->link, to, out);
	return err;
}

int links_listen(struct node *n, const union ibv_gid *local, uint32_t ifindex)
{
	struct node_link *w;
	int err = 0, first = 0;

	for (uint32_t i = 0; (w = network(n, i)); i++) {
		err = w->link->net->listen(w->link, local, ifindex);
		if (!first || err == EADDRINUSE)
			first = err;
	}
	return first;
}

bool links_again(struct node *n)
{
	struct node_link *w;
	bool some = false;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		some |= w->link->net->again(w->link);
	return some;
}

void links_tidy(struct node *n)
{
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		w->link->net->tidy(w->link);
}

int links_join(struct node *n, const union ibv_gid *group, const void *owner, uint32_t ifindex)
{
	struct node_link *w;
	int err = 0, first = 0;

	for (uint32_t i = 0; (w = network(n, i)); i++) {
		err = w->link->net->join(w->link, group, owner, ifindex);
		if (!first)
			first = err;
	}
	return first;
}

void links_part(struct node *n, const union ibv_gid *group, const void *owner)
{
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		w->link->net->part(w->link, group, owner);
}

int links_knock(struct node *n, const struct link_path *to)
{
	int err = links_open(n);
	struct node_link *w;

	if (err)
		return err;
	err = EPROTONOSUPPORT;
	for (uint32_t i = 0; err == EPROTONOSUPPORT && (w = network(n, i)); i++)
		err = w->link->net->knock(w->link, to);
	return err;
}

int links_returns_fd(struct node *n)
{
	struct node_link *w;
	int fd = -1;

	for (uint32_t i = 0; fd < 0 && (w = network(n, i)); i++)
		fd = w->link->net->returns_fd(w->link);
	return fd;
}

bool links_returned(struct node *n, struct link_return *out)
{
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		if (w->link->net->returned(w->link, out))
			return true;
	return false;
}

void links_leave(struct node *n)
{
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		w->link->net->leave(w->link);
}

/* --- what comes in --- */

static bool skips(struct node_link *w, unsigned int got)
{
	uint32_t skipped = load_relaxed(&w->skipped);

	store_relaxed(&w->skipped, got && skipped < SKIP ? skipped + 1 : 0);
	return got && skipped < SKIP;
}

unsigned int links_poll(struct node *n, unsigned int got)
{
	unsigned int count = 0;
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		if (!skips(w, got))
			count += w->link->drain(w->link, LINKS_BUDGET, false);
	return count;
}

unsigned int links_drain(struct node *n, enum links_sources which)
{
	unsigned int count = 0;
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		count += w->link->drain(w->link, LINKS_BUDGET, which == LINKS_ALL);
	return count;
}

bool links_catch_up(struct node *n)
{
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		if (!w->link->net->catch_up(w->link))
			return false;
	return true;
}

bool links_delivering(struct node *n)
{
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++)
		if (w->link->net->delivering(w->link))
			return true;
	return false;
}

/* --- sleeping --- */

void links_watch(struct node *n, bool on)
{
	struct epoll_event ev = { .events = on ? EPOLLIN : 0 };
	struct node_link *w;

	for (uint32_t i = 0; (w = network(n, i)); i++) {
		if (w->watched == on)
			continue;
		ev.data.fd = w->link->fd(w->link);
		if (epoll_ctl(n->epoll_fd, EPOLL_CTL_MOD, ev.data.fd, &ev) && errno == ENOENT)
			epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, ev.data.fd, &ev);
		w->watched = on;
	}
}

bool links_wait(struct node *n, int also, uint64_t ns)
{
	const struct timespec limit = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	struct pollfd fds[NODE_LINKS] = { { .fd = also, .events = POLLIN } };
	struct node_link *w;
	nfds_t count = 1;
	int got;

	for (; (w = network(n, (uint32_t)count - 1)); count++)
		fds[count] = (struct pollfd){ .fd = w->link->fd(w->link), .events = POLLIN };
	UNCANCELLED(got, ppoll(fds, count, &limit, NULL));
	return got > 0;
}

uint64_t links_deadline(struct node *n)
{
	uint64_t at, first = fault_deadline();

	for (uint32_t i = 0; i <= load_acquire(&n->networks); i++) { /* pairs with links_open() */
		struct link *l = n->link[i].link;

		at = l->deadline ? l->deadline(l) : UINT64_MAX;
		if (at < first)
			first = at;
	}
	return first;
}

void links_tend(struct node *n, uint64_t now)
{
	fault_progress();
	for (uint32_t i = 0; i <= load_acquire(&n->networks); i++) { /* as above */
		struct link *l = n->link[i].link;

		if (l->tend)
			l->tend(l, now);
	}
}

void links_chores(struct node *n)
{
	uint64_t now = clock_now();
	int was;

	if (links_deadline(n) > now)
		return;
	was = uncancelled_begin(); /* a thread that polls, and contacts begin and end */
	links_tend(n, now);
	uncancelled_end(was);
}
