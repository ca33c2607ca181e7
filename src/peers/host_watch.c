// SPDX-License-Identifier: MIT
#include "peers/host_watch.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "util/log.h"

#define REST_NS UINT64_C(10000000)

int host_watch(struct host *h, struct watch *w, void (*ready)(struct watch *w, uint64_t now))
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = w };

	w->ready = ready;
	return epoll_ctl(h->epoll, EPOLL_CTL_ADD, w->fd, &ev) ? errno : 0;
}

static void listen_for(struct host *h, struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	epoll_ctl(h->epoll, EPOLL_CTL_MOD, w->fd, &ev);
}

void host_not_accepted(struct host *h, struct watch *w, uint64_t now)
{
	int err = errno;

	if (err == EAGAIN)
		return;
	log_debug("a connection was not accepted: %s", strerror(err));
	if (!host_names_short(err))
		return;
	listen_for(h, w, 0);
	if (!h->resting)
		h->rest_ends = now + REST_NS;
	w->rests = h->resting;
	h->resting = w;
	host_sooner(h, h->rest_ends);
}

void host_watch_again(struct host *h, uint64_t now)
{
	if (h->resting && now < h->rest_ends) {
		host_sooner(h, h->rest_ends);
		return;
	}
	for (; h->resting; h->resting = h->resting->rests)
		listen_for(h, h->resting, EPOLLIN);
}

void host_mute(struct host *h, const struct watch *w)
{
	for (struct watch **p = &h->resting; *p; p = &(*p)->rests)
		if (*p == w) {
			*p = w->rests;
			break;
		}
	/* By hand: while a forked child has the same description, closing ours does not suffice. */
	epoll_ctl(h->epoll, EPOLL_CTL_DEL, w->fd, NULL);
}

void host_unwatch(struct host *h, struct watch *w)
{
	if (w->fd < 0)
		return;
	host_mute(h, w);
	close(w->fd);
	w->fd = -1;
}
