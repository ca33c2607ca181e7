// SPDX-License-Identifier: MIT
#include "peers/host_watch.h"
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "peers/host_state.h"

int host_watch(struct host *h, struct watch *w, void (*ready)(struct watch *w, uint64_t now))
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = w };

	w->ready = ready;
	return epoll_ctl(h->epoll, EPOLL_CTL_ADD, w->fd, &ev) ? errno : 0;
}

void host_mute(struct host *h, const struct watch *w)
{
	epoll_ctl(h->epoll, EPOLL_CTL_DEL, w->fd, NULL);
}

void host_unwatch(struct host *h, struct watch *w)
{
	if (w->fd < 0)
		return;
	/* By hand: while a forked child has the same description, closing ours does not suffice. */
	epoll_ctl(h->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	close(w->fd);
	w->fd = -1;
}
