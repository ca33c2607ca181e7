// SPDX-License-Identifier: MIT
#include "peers/host_strangers.h"
#include <sys/resource.h>
#include "obs/explain.h"
#include "peers/host_state.h"

static void add(struct trust_limits *taken, const struct contact *c, uid_t uid, bool pending)
{
	if (!c->name.stranger)
		return;
	taken->all.contacts++;
	taken->all.pending += pending;
	if (c->name.uid != uid)
		return;
	taken->each.contacts++;
	taken->each.pending += pending;
}

/* Counted anew each time: at most 1024 places, for connections that only strangers make. */
static struct trust_limits taken_by(const struct host *h, uid_t uid, bool asked)
{
	struct trust_limits taken = { 0 };

	for (const struct contact *c = h->pending; c; c = c->next)
		add(&taken, c, uid, !c->asked == !asked);
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i] && h->contact[i]->state == CONTACT_UP)
			add(&taken, h->contact[i], uid, false);
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
	const struct trust_limits taken = taken_by(h, name->uid, asked);
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };
	struct trust_limits most;

	if (host_strangers_barred(h, name))
		return false;
	getrlimit(RLIMIT_NOFILE, &lim);
	most = trust_limits(NUMBER_SLOTS, lim.rlim_cur);
	if (trust_admits(&taken, &most, asked))
		return true;
	say(h, name->uid, &taken, &most);
	return false;
}
