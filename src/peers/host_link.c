// SPDX-License-Identifier: MIT
#include "peers/host_link.h"
#include <stdlib.h>

struct host_link {
	struct link link; /* first */
	struct host *host;
};

static struct host *of(struct link *l)
{
	return ((struct host_link *)l)->host;
}

static int fd(struct link *l)
{
	return host_control_fd(of(l));
}

static uint64_t deadline(struct link *l)
{
	return host_deadline(of(l));
}

static void tend(struct link *l, uint64_t now)
{
	host_control(of(l), now);
}

struct link *host_link(struct host *h)
{
	struct host_link *l = malloc(sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct host_link){
		.link = { .name = "host", .fd = fd, .deadline = deadline, .tend = tend }, .host = h
	};
	return &l->link;
}
