// SPDX-License-Identifier: MIT
#include "peers/host_show.h"
#include <errno.h>
#include <unistd.h>
#include "peers/contact_peer.h"
#include "peers/contact_talk.h"
#include "peers/host_names.h"

static int receive(int conn, int *fd)
{
	struct contact_message m;
	int fds[CONTACT_FDS];
	unsigned int n = 1;
	int err = contact_talk_receive(conn, &m, fds, &n, NULL);

	if (err)
		contact_talk_close(fds, n);
	if (err)
		return err == EAGAIN ? ETIMEDOUT : EPROTO; /* closed: it is older than this tool */
	if (m.kind != CONTACT_SHOW || n != 1) {
		contact_talk_close(fds, n);
		return EPROTO;
	}
	*fd = fds[0];
	return 0;
}

int host_show_ask(unsigned int slot, pid_t *pid, int *conn)
{
	const struct contact_message m = { .kind = CONTACT_SHOW };
	int err = host_name_connect(slot, conn);

	*pid = 0;
	if (err)
		return err;
	err = contact_peer(*conn, pid);
	if (!err)
		err = contact_talk_send(*conn, &m, NULL, 0);
	if (err)
		close(*conn);
	return err;
}

int host_show_answer(int conn, int *fd)
{
	int err = receive(conn, fd);

	close(conn);
	return err;
}
