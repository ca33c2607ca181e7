// SPDX-License-Identifier: MIT
#include "peers/contact_alive.h"
#include "peers/contact.h"
#include "peers/host_state.h"

static bool gone(const struct contact *c)
{
	return !c->remote || !remote_alive(c->remote);
}

static void pid_ready(struct watch *w, uint64_t now)
{
	struct contact *c = container_of(w, struct contact, pidfd);

	(void)now;
	if (gone(c)) {
		contact_left(c);
		host_mute(c->host, w);
	} else {
		host_unwatch(c->host, w); /* the pid is of another process than the memory */
	}
}

void contact_watch_pid(struct contact *c)
{
	if (c->pidfd.fd >= 0 && host_watch(c->host, &c->pidfd, pid_ready))
		host_unwatch(c->host, &c->pidfd);
}

void contact_look_alive(struct contact *c, uint64_t now)
{
	if (c->pidfd.fd >= 0 || !c->remote)
		return;
	if (now >= c->deadline) {
		if (gone(c))
			contact_left(c);
		c->deadline = now + HOST_LIVENESS_NS;
	}
	host_sooner(c->host, c->deadline);
}
