// SPDX-License-Identifier: MIT
#include "engine/path_kept.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "engine/path.h"
#include "util/clock.h"
#include "wire/opcode.h"

#define KEEP_NS UINT64_C(100000000)

struct path_kept {
	struct av av;
	uint32_t dqpn;
	struct dest *dest; /* a reference; NULL: no path leads there */
	uint64_t until; /* ns */
};

void path_kept_drop(struct eqp *e)
{
	struct path_kept *k = e->kept;

	e->kept = NULL;
	if (!k)
		return;
	path_put(k->dest);
	free(k);
}

static bool same_way(const struct av *a, const struct av *b)
{
	return !memcmp(&a->dgid, &b->dgid, sizeof(a->dgid)) && a->flow_label == b->flow_label &&
	       a->sgid_index == b->sgid_index && a->hop_limit == b->hop_limit &&
	       a->traffic_class == b->traffic_class && a->sport == b->sport;
}

static bool is_kept(const struct path_kept *k, const struct av *av, uint32_t dqpn, uint64_t now)
{
	return k->dqpn == dqpn && k->until > now && same_way(&k->av, av) &&
	       !(k->dest && dest_dead(k->dest));
}

/* @d: NULL, no path leads there. */
static void keep(struct eqp *e, const struct av *av, uint32_t dqpn, struct dest *d)
{
	struct path_kept *k = e->kept;

	if (k)
		path_put(k->dest);
	else
		k = e->kept = malloc(sizeof(*k));
	if (!k)
		return;
	if (d)
		fetch_add_relaxed(&d->refs, 1);
	*k = (struct path_kept){ .dqpn = dqpn, .dest = d, .until = clock_now() + KEEP_NS };
	memcpy(&k->av, av, sizeof(*av));
}

int path_kept_resolve(struct tqp *q, const struct av *av, uint32_t dqpn, struct dest **out)
{
	struct eqp *e = to_eqp(q);
	struct path_ask ask = { av, dqpn, q->req.mtu };
	int err;

	if (likely(e->kept != NULL) && is_kept(e->kept, av, dqpn, clock_now())) {
		*out = e->kept->dest;
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

	if (e->kept && is_kept(e->kept, av, MULTICAST_QPN, clock_now())) {
		*out = e->kept->dest;
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
