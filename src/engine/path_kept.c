// SPDX-License-Identifier: MIT
#include "engine/path_kept.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "engine/path.h"
#include "util/clock.h"
#include "transport/predicted/kept_path.h"
#include "wire/opcode.h"

#define KEEP_NS UINT64_C(100000000)

void path_kept_drop(struct eqp *e)
{
	struct kept_path *k = e->q.req.ud.kept;

	e->q.req.ud.kept = NULL;
	if (!k)
		return;
	path_put(k->dest);
	free(k);
}

static bool is_kept(const struct kept_path *k, const struct av *av, uint32_t dqpn, uint64_t now)
{
	return k->until > now && kept_path_is(k, av, dqpn) && !(k->dest && dest_dead(k->dest));
}

/* The header that a receiver on this host gets to see. */
static void make_grh(struct eqp *e, struct kept_path *k)
{
	const struct seg s = { .sqpn = e->q.qp.qpn, .av = &k->av };

	if (!k->dest || k->dest->net || k->dest->inner)
		return;
	path_make_grh(e->node, &s, k->grh, &k->l3);
	k->has_grh = grh_version(k->grh) != GRH_NONE;
}

/* @d: NULL, no path leads there. */
static void keep(struct eqp *e, const struct av *av, uint32_t dqpn, struct dest *d)
{
	struct kept_path *k = e->q.req.ud.kept;

	if (k)
		path_put(k->dest);
	else
		k = e->q.req.ud.kept = malloc(sizeof(*k));
	if (!k)
		return;
	if (d)
		fetch_add_relaxed(&d->refs, 1);
	*k = (struct kept_path){ .dqpn = dqpn, .dest = d, .until = clock_now() + KEEP_NS };
	memcpy(&k->av, av, sizeof(*av));
	make_grh(e, k);
}

int path_kept_resolve(struct tqp *q, const struct av *av, uint32_t dqpn, struct dest **out)
{
	struct eqp *e = to_eqp(q);
	struct path_ask ask = { av, dqpn, q->req.mtu };
	int err;

	if (likely(e->q.req.ud.kept != NULL) && is_kept(e->q.req.ud.kept, av, dqpn, clock_now())) {
		*out = e->q.req.ud.kept->dest;
		fetch_add_relaxed(&(*out)->refs, 1);
		return 0;
	}
	err = path_find(e, &ask, out);
	/* SOFTHCA_FAULT counts anew for each datagram of this host */
	if (!err && ((*out)->net || !(*out)->inner))
		keep(e, av, dqpn, *out);
	return err;
}

int path_kept_cast(struct eqp *e, const struct av *av, struct dest **out)
{
	struct dest *d = NULL;
	int err;

	if (e->q.req.ud.kept && is_kept(e->q.req.ud.kept, av, MULTICAST_QPN, clock_now())) {
		*out = e->q.req.ud.kept->dest;
		if (!*out)
			return ENETUNREACH;
		fetch_add_relaxed(&(*out)->refs, 1);
		return 0;
	}
	err = path_find_cast(e, av, &d);
	keep(e, av, MULTICAST_QPN, err ? NULL : d);
	if (!err)
		*out = d;
	return err;
}
