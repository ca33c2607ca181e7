// SPDX-License-Identifier: MIT
#include "cm/cm_return.h"
#include <fcntl.h>
#include <string.h>
#include "cm/cm_talk.h"
#include "cm/cm_watch.h"

static void take(const struct gsi_mad *mad, int error)
{
	struct cm_msg m;
	struct cm_id *id;

	if (cm_parse(mad->mad, MAD_LEN, &m))
		return;
	id = hash_get(&cm.by_id, m.local_id);
	if (id && id->way.net && !memcmp(&id->way.dgid, &mad->to, sizeof(mad->to)))
		cm_talk_returned(id, &m, error);
}

static void ready(struct cm_watch *w)
{
	struct gsi_mad mad;
	int error;

	(void)w;
	while (gsi_returned(cm.node, &mad, &error))
		take(&mad, error);
}

void cm_return_begin(void)
{
	int fd;

	if (cm.returns.fd >= 0)
		return;
	fd = gsi_returns_fd(cm.node);
	if (fd < 0)
		return;
	cm.returns.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (cm.returns.fd >= 0 && cm_watch(&cm.returns, ready))
		cm_unwatch(&cm.returns);
}
