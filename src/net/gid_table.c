// SPDX-License-Identifier: MIT
#include "net/gid_table.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "net/rtnl.h"
#include "util/barrier.h"
#include "util/log.h"
#include "util/spin.h"

/* All that readers see, of one moment. */
struct view {
	struct netdev dev;
	struct gid_entry entry[GID_TABLE_LEN];
};
#define VIEW_WORDS ((sizeof(struct view) + 7) / 8)

/* A span of the view, in words: its reader copies no more of it. */
struct words {
	size_t at, n;
};
enum { ENTRY_AT = offsetof(struct view, entry) / 8, ENTRY_WORDS = sizeof(struct gid_entry) / 8 };
_Static_assert(offsetof(struct view, entry) % 8 == 0 && sizeof(struct gid_entry) % 8 == 0,
	       "an entry is a number of whole words");

/* Two copies of the view: copy seq & 1 is complete, the next one is written into the other. A
 * reader whose seq has moved on reads again. */
struct gid_table {
	uint32_t seq;
	uint64_t copy[2][VIEW_WORDS];
	struct spin sync; /* one gid_table_sync() at a time; only ever tried */
	bool behind; /* a change was not followed: the scan failed; set under sync */
	int watch_fd; /* -1: none */
	struct route_cache routes;
};

static void words_read(const struct gid_table *t, struct words w, uint64_t *out)
{
	uint32_t seq;

	do {
		seq = load_acquire(&t->seq); /* (A) */
		for (size_t i = 0; i < w.n; i++)
			out[i] = load_relaxed(&t->copy[seq & 1][w.at + i]);
		read_barrier(); /* (B) */
	} while (load_relaxed(&t->seq) != seq);
}

static void view_read(const struct gid_table *t, struct view *out)
{
	uint64_t words[VIEW_WORDS] = { 0 };

	words_read(t, (struct words){ 0, VIEW_WORDS }, words);
	memcpy(out, words, sizeof(*out));
}

/* Under t->sync, or before anybody else sees @t. */
static void view_write(struct gid_table *t, const struct view *v)
{
	uint32_t seq = t->seq + 1;
	uint64_t words[VIEW_WORDS] = { 0 };

	memcpy(words, v, sizeof(*v));
	/* The seq that a reader of this copy must notice is the previous one; it was stored before
	 * what follows. Pairs with (B). */
	write_barrier();
	for (size_t i = 0; i < VIEW_WORDS; i++)
		store_relaxed(&t->copy[seq & 1][i], words[i]);
	store_release(&t->seq, seq); /* pairs with (A) */
}

static bool same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static void set_pair(struct view *v, unsigned int at, const union ibv_gid *gid)
{
	for (unsigned int i = 0; i < 2; i++)
		v->entry[at + i] = (struct gid_entry){ .gid = *gid,
						       .type = i ? GID_V2 : GID_V1,
						       .ifindex = v->dev.index,
						       .used = true };
}

static bool scan_has(const struct netdev_scan *scan, uint32_t index, const union ibv_gid *gid)
{
	for (unsigned int i = 0; i < scan->addrs; i++)
		if (scan->addr[i].index == index && same_gid(&scan->addr[i].gid, gid))
			return true;
	return false;
}

static bool view_has(const struct view *v, const union ibv_gid *gid)
{
	for (unsigned int i = 0; i < GID_TABLE_LEN; i += 2)
		if (v->entry[i].used && same_gid(&v->entry[i].gid, gid))
			return true;
	return false;
}

/* The index of the first free pair; GID_TABLE_LEN: the table is full. */
static unsigned int hole(const struct view *v)
{
	unsigned int i = 2;

	while (i < GID_TABLE_LEN && v->entry[i].used)
		i += 2;
	return i;
}

static void view_add_addrs(struct view *v, const struct netdev_scan *scan, bool ipv4)
{
	for (unsigned int i = 0; i < scan->addrs; i++) {
		const union ibv_gid *gid = &scan->addr[i].gid;
		unsigned int at = hole(v);

		if (scan->addr[i].index != v->dev.index || gid_is_ipv4(gid) != ipv4 ||
		    view_has(v, gid))
			continue;
		if (at == GID_TABLE_LEN) {
			log_warn_once("%s has more addresses than the GID table has room for",
				      v->dev.name);
			return;
		}
		set_pair(v, at, gid);
	}
}

/* The interface that @v follows: by index, as it may be renamed; by name when it was made anew. */
static void view_follow(struct view *v, const struct netdev_scan *scan)
{
	const struct netdev *dev = NULL;
	union ibv_gid own;

	if (v->dev.index)
		dev = netdev_by_index(scan, v->dev.index);
	if (!dev)
		dev = netdev_by_name(scan, v->dev.name);
	if (dev) {
		v->dev = *dev;
	} else {
		v->dev.index = 0;
		v->dev.up = v->dev.carrier = v->dev.loopback = false;
	}
	for (unsigned int i = 2; i < GID_TABLE_LEN; i++)
		if (v->entry[i].ifindex != v->dev.index ||
		    !scan_has(scan, v->dev.index, &v->entry[i].gid))
			v->entry[i] = (struct gid_entry){ 0 };
	if (dev) { /* a removed one keeps its own GID */
		netdev_link_local(&v->dev, &own);
		set_pair(v, 0, &own);
	}
	view_add_addrs(v, scan, true);
	view_add_addrs(v, scan, false);
}

static bool same_entry(const struct gid_entry *a, const struct gid_entry *b)
{
	return a->used == b->used && a->ifindex == b->ifindex && same_gid(&a->gid, &b->gid);
}

static unsigned int view_diff(const struct view *old, const struct view *new)
{
	unsigned int what = 0;

	for (unsigned int i = 0; i < GID_TABLE_LEN; i++)
		if (!same_entry(&old->entry[i], &new->entry[i]))
			what |= GID_CHANGE;
	if (netdev_active(&old->dev) != netdev_active(&new->dev))
		what |= netdev_active(&new->dev) ? GID_PORT_ACTIVE : GID_PORT_ERR;
	if (netdev_active_mtu(&old->dev) != netdev_active_mtu(&new->dev))
		what |= GID_MTU;
	if (old->dev.index && !new->dev.index)
		what |= GID_GONE;
	return what;
}

unsigned int gid_table_apply(struct gid_table *t, const struct netdev_scan *scan)
{
	struct view old, new;

	view_read(t, &old);
	new = old;
	view_follow(&new, scan);
	view_write(t, &new);
	return view_diff(&old, &new);
}

int gid_table_create(const char *netdev, struct gid_table **out)
{
	struct view first = { 0 };
	struct netdev_scan scan;
	struct gid_table *t;
	int err = netdev_scan(&scan);

	if (err)
		return err;
	t = calloc(1, sizeof(*t));
	if (!netdev_by_name(&scan, netdev))
		err = ENODEV;
	else if (!t)
		err = ENOMEM;
	if (err) {
		free(t);
	} else {
		t->watch_fd = -1;
		strcpy(first.dev.name, netdev); /* fits: the scan has it */
		view_write(t, &first);
		gid_table_apply(t, &scan);
		*out = t;
	}
	netdev_scan_free(&scan);
	return err;
}

void gid_table_unwatch(struct gid_table *t)
{
	if (t->watch_fd >= 0)
		close(t->watch_fd);
	t->watch_fd = -1;
}

void gid_table_destroy(struct gid_table *t)
{
	if (t)
		gid_table_unwatch(t);
	free(t);
}

int gid_table_get(const struct gid_table *t, unsigned int index, struct gid_entry *out)
{
	uint64_t words[ENTRY_WORDS];

	if (index >= GID_TABLE_LEN)
		return EINVAL;
	words_read(t, (struct words){ ENTRY_AT + index * ENTRY_WORDS, ENTRY_WORDS }, words);
	memcpy(out, words, sizeof(*out));
	return 0;
}

int gid_table_find(const struct gid_table *t, const union ibv_gid *gid, enum gid_type type,
		   unsigned int *index)
{
	struct view v;

	view_read(t, &v);
	for (unsigned int i = 0; i < GID_TABLE_LEN; i++) {
		if (!v.entry[i].used || v.entry[i].type != type || !same_gid(&v.entry[i].gid, gid))
			continue;
		*index = i;
		return 0;
	}
	return ENOENT;
}

void gid_table_netdev(const struct gid_table *t, struct netdev *out)
{
	uint64_t words[ENTRY_AT];

	words_read(t, (struct words){ 0, ENTRY_AT }, words);
	memcpy(out, words, sizeof(*out));
}

static unsigned int rescan(struct gid_table *t)
{
	struct netdev_scan scan;
	unsigned int what;

	route_cache_flush(&t->routes);
	store_relaxed(&t->behind, netdev_scan_rtnl(&scan, false) != 0);
	if (t->behind)
		return 0; /* no memory or no descriptor: the next call tries again */
	what = gid_table_apply(t, &scan);
	netdev_scan_free(&scan);
	return what;
}

int gid_table_watch(struct gid_table *t, int *fd)
{
	int err = t->watch_fd < 0 ? rtnl_watch_open(&t->watch_fd) : 0;

	if (err)
		return err;
	rescan(t);
	*fd = t->watch_fd;
	return 0;
}

/* The lock is only tried: the thread that has it may be in the middle of a scan, and messages that
 * arrive meanwhile stay in the socket, which remains readable. */
unsigned int gid_table_sync(struct gid_table *t)
{
	unsigned int what = 0;

	if (t->watch_fd < 0 || !spin_trylock(&t->sync))
		return 0;
	if (rtnl_watch_drain(t->watch_fd) || t->behind)
		what = rescan(t);
	spin_unlock(&t->sync);
	return what;
}

bool gid_table_is_behind(const struct gid_table *t)
{
	return load_relaxed(&t->behind);
}

enum route_kind gid_table_route(struct gid_table *t, const union ibv_gid *from,
				const union ibv_gid *to)
{
	struct route_ends ends = { .to = *to, .from = *from };
	struct view v;

	view_read(t, &v);
	ends.oif = v.dev.index;
	return route_kind(t->watch_fd < 0 ? NULL : &t->routes, &ends);
}
