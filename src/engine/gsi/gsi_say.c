// SPDX-License-Identifier: MIT
#include "engine/gsi/gsi_say.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "util/uncancelled.h"

struct saying {
	struct dest d;
	int fd; /* the connection, too */
	struct gsi_mad mad;
};

int gsi_say(int fd, const struct gsi_mad *m)
{
	ssize_t n;

	UNCANCELLED(n, send(fd, m, sizeof(*m), MSG_DONTWAIT | MSG_NOSIGNAL));
	if (n == (ssize_t)sizeof(*m))
		return 0;
	return errno == EAGAIN || errno == ENOBUFS ? EAGAIN : ENETUNREACH;
}

static int saying_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	struct saying *to = container_of(d, struct saying, d);

	(void)w;
	return s->damaged ? 0 : gsi_say(to->fd, &to->mad); /* damaged: its receiver would drop it */
}

static void saying_put(struct dest *d)
{
	struct saying *to = container_of(d, struct saying, d);

	if (fetch_sub_acq_rel(&d->refs, 1) != 1)
		return;
	uncancelled_close(to->fd);
	free(to);
}

const struct link_ops gsi_say_ops = { .name = "host", .send = saying_send, .put = saying_put };

struct dest *gsi_say_dest(int fd, const struct gsi_mad *m)
{
	struct saying *to = calloc(1, sizeof(*to));

	if (!to)
		return NULL;
	to->d = (struct dest){ .ops = &gsi_say_ops, .refs = 1, .max_seg = MAD_LEN };
	to->mad = *m;
	to->mad.lossy = 1;
	to->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (to->fd < 0) {
		free(to);
		return NULL;
	}
	return &to->d;
}
