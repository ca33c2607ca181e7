// SPDX-License-Identifier: MIT
/* Slots are taken: their names are bound, and peers that connect to them are contacts to come. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>
#include "peers/contact_hello.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "util/log.h"

static void accept_ready(struct watch *w, uint64_t now)
{
	struct listener *l = container_of(w, struct listener, watch);
	int conn;

	mutex_lock(&l->host->names_lock);
	conn = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (conn >= 0)
		contact_accept(l->host, l->slot, conn, now);
	else
		host_not_accepted(l->host, w, now);
	mutex_unlock(&l->host->names_lock);
}

static bool is_set(const uint64_t *bits, unsigned int slot)
{
	return bits[slot / 64] & UINT64_C(1) << slot % 64;
}

/* Binds the first free slot, from one that differs between processes: a number that a process has
 * just given up is not taken again at once. Not one of @others. */
static int bind_first(int (*bind_name)(unsigned int slot, int *fd), const uint64_t *others, int *fd,
		      unsigned int *slot)
{
	unsigned int first = (unsigned int)getpid() % NUMBER_SLOTS;
	int err = EADDRINUSE;

	for (unsigned int i = 0; i < NUMBER_SLOTS && err == EADDRINUSE; i++) {
		*slot = (first + i) % NUMBER_SLOTS;
		if (!is_set(others, *slot))
			err = bind_name(*slot, fd);
	}
	return err;
}

/* A slot that no process of another version of softhca has, whose queue pairs would have the same
 * numbers at the same network address. Listens first and looks then, as that one does. */
static int bind_apart(int *fd, unsigned int *slot)
{
	uint64_t others[NUMBER_SLOTS / 64] = { 0 };
	int err = bind_first(host_name_bind, others, fd, slot);

	while (!err && host_names_add_others(others) && is_set(others, *slot)) {
		close(*fd);
		err = bind_first(host_name_bind, others, fd, slot);
	}
	return err;
}

static void warn_of_others(unsigned int slot)
{
	unsigned int layout = host_names_foreign_layout(slot);

	if (layout)
		log_warn_once("processes of another version of softhca (layout %u) have the queue "
			      "pair numbers of all processes that can be, this one's too: what the "
			      "network brings may reach the wrong process; start all programs of a "
			      "host on one version",
			      layout);
}

/* If every name is taken, those of other versions do not count; then those of other users do not
 * either: some may have been taken to spite us. Under a name of our user's the others do not reach
 * us, but our own processes do. */
static int bind_slot(int *fd, unsigned int *slot)
{
	static const uint64_t none[NUMBER_SLOTS / 64];
	int err = bind_apart(fd, slot);

	if (err != EADDRINUSE)
		return err;
	err = bind_first(host_name_bind, none, fd, slot);
	if (!err)
		warn_of_others(*slot);
	if (err != EADDRINUSE)
		return err;
	err = bind_first(host_name_bind_own, none, fd, slot);
	if (!err)
		log_warn_once("other users have the names of all processes that can be: processes "
			      "of other users will not reach this one");
	return err;
}

int host_take_slot(struct host *h, unsigned int *slot)
{
	struct listener *l;
	int err = 0;

	mutex_lock(&h->control);
	mutex_lock(&h->names_lock);
	l = &h->listener[h->n_slots % HOST_PAGE_SLOTS];
	if (h->n_slots == HOST_PAGE_SLOTS)
		err = EADDRINUSE;
	else if (h->alone)
		l->slot = h->n_slots;
	else
		err = bind_slot(&l->watch.fd, &l->slot);
	if (!err && !h->alone)
		err = host_watch(h, &l->watch, accept_ready);
	/* Another user may have taken the name to spite us: then it is there all the same. */
	if (!err && !h->alone && host_name_list(h->uid, l->slot, &l->listed))
		l->listed = -1;
	if (!err) {
		*slot = l->slot;
		store_release(&h->page->slots[h->n_slots], l->slot + 1);
		store_release(&h->n_slots, h->n_slots + 1); /* pairs with host_slot_block() */
	}
	mutex_unlock(&h->names_lock);
	mutex_unlock(&h->control);
	return err;
}
