// SPDX-License-Identifier: MIT
#include "peers/host_strangers.h"
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include "obs/explain.h"
#include "peers/host_state.h"

/* A connection that has ended before the stranger had read all: what it has not read are
 * descriptors that the kernel counts as sent by our user, as long as the connection lasts. */
struct unread {
	struct unread *next;
	int fd;
	uid_t uid;
};

/* A stranger counts against the share of all, and that of its user. */
static void add(struct trust_limits *taken, uid_t peer, uid_t uid, bool pending)
{
	taken->all.contacts++;
	taken->all.pending += pending;
	if (peer != uid)
		return;
	taken->each.contacts++;
	taken->each.pending += pending;
}

static bool is_unread(int fd)
{
	int bytes = 0;

	return !ioctl(fd, SIOCOUTQ, &bytes) && bytes;
}

void host_strangers_keep(struct contact *c)
{
	struct unread *u;

	if (!c->name.stranger || c->conn.fd < 0 || !is_unread(c->conn.fd))
		return;
	u = malloc(sizeof(*u));
	if (!u)
		return;
	*u = (struct unread){ c->host->unread, c->conn.fd, c->name.uid };
	c->host->unread = u;
	host_mute(c->host, &c->conn);
	c->conn.fd = -1;
}

static void forget(struct host *h, bool all)
{
	struct unread **p = &h->unread, *u;

	while ((u = *p)) {
		if (!all && is_unread(u->fd)) {
			p = &u->next;
			continue;
		}
		*p = u->next;
		close(u->fd);
		free(u);
	}
}

void host_strangers_look(struct host *h)
{
	forget(h, false);
}

void host_strangers_forget(struct host *h)
{
	forget(h, true);
}

/* Counted anew each time: at most 1024 places, for connections that only strangers make. */
static struct trust_limits taken_by(const struct host *h, uid_t uid, bool asked)
{
	struct trust_limits taken = { 0 };

	for (const struct contact *c = h->pending; c; c = c->next)
		if (c->name.stranger)
			add(&taken, c->name.uid, uid, !c->asked == !asked);
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i] && h->contact[i]->name.stranger &&
		    h->contact[i]->state == CONTACT_UP)
			add(&taken, h->contact[i]->name.uid, uid, false);
	for (const struct contact *c = h->leaving; c; c = c->next)
		if (c->name.stranger)
			add(&taken, c->name.uid, uid, false);
	for (const struct unread *u = h->unread; u; u = u->next)
		add(&taken, u->uid, uid, false);
	return taken;
}

/* A retry of a process that was refused, or asked, comes again and again. */
static void say(struct host *h, uid_t uid, const struct trust_limits *taken,
		const struct trust_limits *most)
{
	if (explain_due(++h->turned_away))
		reason("connection with a process of user id %u refused, the %luth of this kind: "
		       "that user has %u of %u contacts, %u of %u of them unanswered; all other "
		       "users have %u of %u, %u of %u unanswered; end processes of that user, or "
		       "raise ulimit -n",
		       (unsigned int)uid, (unsigned long)h->turned_away, taken->each.contacts,
		       most->each.contacts, taken->each.pending, most->each.pending,
		       taken->all.contacts, most->all.contacts, taken->all.pending,
		       most->all.pending);
}

bool host_strangers_barred(const struct host *h, const struct trust_name *name)
{
	bool found = h->n_barred == HOST_BARRED;

	for (unsigned int i = 0; i < h->n_barred && !found; i++)
		found = h->barred[i] == name->uid;
	return name->stranger && found;
}

void host_strangers_bar(struct host *h, const struct trust_name *name)
{
	if (!name->stranger || host_strangers_barred(h, name))
		return;
	h->barred[h->n_barred++] = name->uid;
	reason("process %d of user id %u has sent a descriptor of no shared memory, which a "
	       "process may make us wait for: no process of that user is heard again; stop it, "
	       "and start this program anew",
	       (int)name->pid, (unsigned int)name->uid);
}

bool host_strangers_admit(struct host *h, const struct trust_name *name, bool asked)
{
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };
	struct trust_limits taken, most;

	if (host_strangers_barred(h, name))
		return false;
	host_strangers_look(h);
	taken = taken_by(h, name->uid, asked);
	getrlimit(RLIMIT_NOFILE, &lim);
	most = trust_limits(NUMBER_SLOTS, lim.rlim_cur);
	if (trust_admits(&taken, &most, asked))
		return true;
	say(h, name->uid, &taken, &most);
	return false;
}
