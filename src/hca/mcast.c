// SPDX-License-Identifier: MIT
#include "hca/mcast.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/fork.h"
#include "util/quiesce.h"
#include "wire/grh.h"

/* Once it is in the table, only ibv_detach_mcast() changes it, which needs no memory: a member that
 * has left is 0. */
struct group {
	union ibv_gid gid;
	uint32_t n;
	uint32_t qpn[];
};

struct mcast_table {
	struct spin lock; /* guards changes of groups */
	struct group *groups[LIMIT_MCAST_GRP]; /* NULL: free; loaded with acquire (A) */
};

int mcast_table_create(struct mcast_table **out)
{
	struct mcast_table *t = calloc(1, sizeof(*t));

	if (!t)
		return ENOMEM;
	*out = t;
	return 0;
}

void mcast_table_destroy(struct mcast_table *t)
{
	if (!t)
		return;
	for (unsigned int i = 0; i < LIMIT_MCAST_GRP; i++)
		free(t->groups[i]);
	free(t);
}

static bool is_member(const struct group *g, uint32_t qpn)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (g->qpn[i] == qpn)
			return true;
	return false;
}

static uint32_t members(const struct group *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n; i++)
		n += g->qpn[i] != 0;
	return n;
}

/* The place of @gid's group, or else a free place, or else NULL. */
static struct group **place(struct mcast_table *t, const union ibv_gid *gid)
{
	struct group **unused = NULL;

	for (unsigned int i = 0; i < LIMIT_MCAST_GRP; i++) {
		if (!t->groups[i])
			unused = unused ? unused : &t->groups[i];
		else if (!memcmp(&t->groups[i]->gid, gid, sizeof(*gid)))
			return &t->groups[i];
	}
	return unused;
}

static int check(const struct qp *qp, const union ibv_gid *gid, const char *call)
{
	char text[INET6_ADDRSTRLEN];

	if (!fork_is_ours(qp->epoch))
		return refuse(EIO, "%s: QP 0x%x was made before fork(); make one in the child",
			      call, qp->qpn);
	if (!qp->service->multicast)
		return refuse(EINVAL, "%s: QP 0x%x is %s; only UD QPs receive multicast", call,
			      qp->qpn, qp->service->name);
	if (grh_gid_is_group(gid->raw))
		return 0;
	inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
	return refuse(EINVAL,
		      "%s: QP 0x%x: %s is no group; give a GID of ff00::/8, or an IPv4 one, "
		      "::ffff:224.0.0.0 to ::ffff:239.255.255.255",
		      call, qp->qpn, text);
}

/* Puts @fresh, a copy of the group at @at with @qpn added, in its place. False: no place, or the
 * group is full. Under the lock. */
static bool join(struct group **at, struct group *fresh, const union ibv_gid *gid, uint32_t qpn)
{
	const struct group *old = at ? *at : NULL;

	if (!at || (old && members(old) == LIMIT_MCAST_QP_ATTACH))
		return false;
	fresh->gid = *gid;
	fresh->n = 0;
	for (uint32_t i = 0; old && i < old->n; i++)
		if (old->qpn[i])
			fresh->qpn[fresh->n++] = old->qpn[i];
	fresh->qpn[fresh->n++] = qpn;
	store_release(at, fresh); /* (A) */
	return true;
}

static int refuse_full(bool place_found)
{
	if (!place_found)
		return refuse(ENOMEM,
			      "ibv_attach_mcast: all %d groups (max_mcast_grp) are in use; "
			      "detach some QPs first",
			      LIMIT_MCAST_GRP);
	return refuse(ENOMEM,
		      "ibv_attach_mcast: the group has %d QPs (max_mcast_qp_attach); detach some "
		      "first",
		      LIMIT_MCAST_QP_ATTACH);
}

static struct group *group_alloc(void)
{
	return malloc(sizeof(struct group) + LIMIT_MCAST_QP_ATTACH * sizeof(uint32_t));
}

int mcast_attach(struct mcast_table *t, struct qp *qp, const union ibv_gid *gid, bool *joined)
{
	struct group *fresh, *old = NULL, **at;
	int err = check(qp, gid, "ibv_attach_mcast");
	bool member;

	if (err)
		return err;
	fresh = group_alloc();
	if (!fresh)
		return refuse(ENOMEM, "ibv_attach_mcast: no memory; raise the limit (ulimit -v)");
	spin_lock(&t->lock);
	at = place(t, gid);
	old = at ? *at : NULL;
	member = old && is_member(old, qp->qpn);
	*joined = !member && join(at, fresh, gid, qp->qpn);
	spin_unlock(&t->lock);
	if (!*joined) {
		free(fresh);
		return member ? 0 : refuse_full(at);
	}
	if (old)
		quiesce_wait();
	free(old);
	return 0;
}

/* Takes @qpn out of the group at @at. A group without members goes: returns it, to be freed. Under
 * the lock. */
static struct group *leave(struct group **at, uint32_t qpn)
{
	struct group *g = *at;

	for (uint32_t i = 0; i < g->n; i++)
		if (g->qpn[i] == qpn)
			store_relaxed(&g->qpn[i], 0);
	if (members(g))
		return NULL;
	store_release(at, NULL); /* (A) */
	return g;
}

int mcast_detach(struct mcast_table *t, struct qp *qp, const union ibv_gid *gid)
{
	struct group *gone = NULL, **at;
	int err = check(qp, gid, "ibv_detach_mcast");
	bool member;

	if (err)
		return err;
	spin_lock(&t->lock);
	at = place(t, gid);
	member = at && *at && is_member(*at, qp->qpn);
	if (member)
		gone = leave(at, qp->qpn);
	spin_unlock(&t->lock);
	if (!member)
		return refuse(EINVAL,
			      "ibv_detach_mcast: QP 0x%x is not attached to that group; attach it "
			      "first, or give the GID it was attached with",
			      qp->qpn);
	quiesce_wait(); /* nobody gives the QP a datagram any more */
	free(gone);
	return 0;
}

bool mcast_group(struct mcast_table *t, unsigned int i, union ibv_gid *out)
{
	bool is;

	spin_lock(&t->lock);
	is = t->groups[i];
	if (is)
		*out = t->groups[i]->gid;
	spin_unlock(&t->lock);
	return is;
}

bool mcast_attached(struct mcast_table *t, const struct qp *qp)
{
	bool found = false;

	spin_lock(&t->lock);
	for (unsigned int i = 0; i < LIMIT_MCAST_GRP && !found; i++)
		found = t->groups[i] && is_member(t->groups[i], qp->qpn);
	spin_unlock(&t->lock);
	return found;
}

void mcast_each(struct mcast_table *t, const union ibv_gid *gid,
		void (*fn)(void *arg, uint32_t qpn), void *arg)
{
	for (unsigned int i = 0; i < LIMIT_MCAST_GRP; i++) {
		const struct group *g = load_acquire(&t->groups[i]); /* (A) */

		if (!g || memcmp(&g->gid, gid, sizeof(*gid)))
			continue;
		for (uint32_t m = 0; m < g->n; m++) {
			uint32_t qpn = load_relaxed(&g->qpn[m]);

			if (qpn)
				fn(arg, qpn);
		}
		return;
	}
}
