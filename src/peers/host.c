// SPDX-License-Identifier: MIT
#include "peers/host.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "obs/explain.h"
#include "peers/contact_end.h"
#include "peers/host_cast.h"
#include "peers/host_names.h"
#include "peers/host_publish.h"
#include "peers/host_slots.h"
#include "peers/host_state.h"
#include "peers/host_strangers.h"
#include "peers/host_target.h"
#include "peers/meeting.h"
#include "util/log.h"
#include "util/sealed.h"

static int make_fds(struct host *h)
{
	h->bell = eventfd(0, EFD_CLOEXEC);
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (h->bell >= 0 && h->epoll >= 0)
		return 0;
	return refuse(errno, "ibv_open_device: no descriptor for its peers to ring; raise "
			     "RLIMIT_NOFILE, or allow eventfd and epoll in the seccomp profile");
}

/* A host of its own; a warning says why. */
static int be_alone(struct host *h, const char *why)
{
	unsigned int slot;

	h->alone = true;
	log_warn("no other process of this host can be reached (%s): this process talks to itself "
		 "only",
		 why);
	return host_take_slot(h, &slot);
}

/* Abstract names have no owner: another user may have taken them. */
static int refuse_full(void)
{
	struct host_foreign other = host_names_foreign_slots();

	if (other.n && other.holder == HOST_NAMES_ALL)
		return refuse(EADDRINUSE,
			      "ibv_open_device: other users, who do not listen, have %u of the %d "
			      "names under which processes meet (softhca.%d.all.slot.*); have "
			      "processes ended, or use another network namespace",
			      other.n, NUMBER_SLOTS, HOST_LAYOUT);
	if (other.n)
		return refuse(
			EADDRINUSE,
			"ibv_open_device: other users, such as user id %u, have %u of the %d names "
			"under which processes meet (softhca.%d.all.slot.*); have processes "
			"ended, or use another network namespace",
			other.holder, other.n, NUMBER_SLOTS, HOST_LAYOUT);
	return refuse(
		EADDRINUSE,
		"ibv_open_device: %d processes of this user have devices open, as many as can "
		"be; end some",
		NUMBER_SLOTS);
}

/* What is used up now may be there for the next who asks; what is forbidden stays so. */
static bool is_shortage(int err)
{
	return host_names_short(err) || err == ENOSPC;
}

static int meet(struct host *h)
{
	unsigned int slot;
	int err;

	if (host_names_uid(&h->uid))
		return be_alone(h, "the user id is not mapped in this user namespace");
	err = host_take_slot(h, &slot);
	if (err == EADDRINUSE)
		return refuse_full();
	if (is_shortage(err))
		return refuse(err,
			      "ibv_open_device: the name under which processes meet could not be "
			      "bound (%s); free what is short, and open again",
			      strerror(err));
	return err ? be_alone(h, strerror(err)) : 0;
}

int host_create(const struct host_config *cfg, struct host **out)
{
	struct host *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return ENOMEM;
	h->cfg = *cfg;
	h->page_fd = h->tables_fd = h->mail_fd = h->bell = h->epoll = h->lent = -1;
	h->deadline = UINT64_MAX;
	for (unsigned int i = 0; i < HOST_PAGE_SLOTS; i++)
		h->listener[i] = (struct listener){ .watch.fd = -1, .host = h, .listed = -1 };
	mutex_init(&h->control);
	mutex_init(&h->names_lock);
	list_init(&h->meetings);
	loopback_init(&h->own, h);
	host_cast_init(h);
	err = host_publish_start(h);
	if (!err)
		err = make_fds(h);
	if (!err)
		err = meet(h);
	if (err) {
		host_destroy(h);
		return err;
	}
	*out = h;
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void host_fork_begin(struct host *h)
{
	mutex_lock(&h->names_lock);
}

void host_fork_end(struct host *h)
{
	mutex_unlock(&h->names_lock);
}

/* Not out of the epoll set, which is the parent's. */
void host_leave(struct host *h)
{
	contact_leave_all(h);
	meeting_leave_all(h);
	close_fd(h->lent);
	h->lent = -1;
	for (unsigned int i = 0; i < HOST_PAGE_SLOTS; i++) {
		struct listener *l = &h->listener[i];

		close_fd(l->watch.fd);
		close_fd(l->listed);
		l->watch.fd = l->listed = -1;
	}
}

void host_destroy(struct host *h)
{
	if (!h)
		return;
	contact_end_all(h);
	host_strangers_forget(h);
	for (unsigned int i = 0; i < HOST_PAGE_SLOTS; i++) {
		host_unwatch(h, &h->listener[i].watch);
		close_fd(h->listener[i].listed);
	}
	loopback_fini(&h->own);
	for (unsigned int i = 0; i < NUMBER_SLOTS; i++)
		host_target_put(h->target[i]);
	sealed_unmap(h->page, HOST_PAGE_BYTES);
	sealed_unmap(h->tables, h->layout.bytes);
	sealed_unmap(h->mail, HOST_MAIL_BYTES);
	close_fd(h->page_fd);
	close_fd(h->tables_fd);
	close_fd(h->mail_fd);
	close_fd(h->bell);
	close_fd(h->epoll);
	mutex_destroy(&h->control);
	mutex_destroy(&h->names_lock);
	free(h);
}

int host_dest(struct host *h, uint32_t qpn, struct dest **out)
{
	unsigned int slot = number_slot(qpn) & (NUMBER_SLOTS - 1);
	struct target *t;
	int err;

	if (host_slot_block(h, qpn) != HOST_PAGE_SLOTS) {
		fetch_add_relaxed(&h->own.d.refs, 1);
		*out = &h->own.d;
		return 0;
	}
	err = host_target(h, slot, true, &t);
	if (!err)
		*out = &t->d;
	return err;
}

int host_dest_again(struct host *h, const struct dest *dead, struct dest **out)
{
	struct target *t;
	int err = host_target_again(h, container_of(dead, const struct target, d), &t);

	if (!err)
		*out = &t->d;
	return err;
}

int host_control_fd(struct host *h)
{
	return h->epoll;
}
