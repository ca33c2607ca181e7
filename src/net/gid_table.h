// SPDX-License-Identifier: MIT
/* The GID table of a port, and the interface it follows. In mlx5's order: the link-local GID that
 * the MAC gives as v1 and v2, always; then each address as v1 and v2, IPv4 before IPv6. An entry
 * keeps its index while other addresses come and go: one that goes leaves a hole, one that comes
 * takes the first hole.
 * Locking: readers take no lock and never wait, so a forked child reads too, whatever the parent's
 * threads did at that moment; gid_table_sync() does nothing while another thread is in it. */
#pragma once
#include "net/gid.h"
#include "net/netdev.h"
#include "net/route.h"

#define GID_TABLE_LEN 16

enum gid_type { GID_V1, GID_V2 }; /* as /sys and ibv_query_gid_type() number them */

struct gid_entry {
	union ibv_gid gid; /* zero in an unused entry */
	enum gid_type type;
	uint32_t ifindex;
	bool used;
};

/* Bits: what a sync has changed. */
enum {
	GID_CHANGE = 1,
	GID_PORT_ACTIVE = 2, /* the port came up */
	GID_PORT_ERR = 4, /* the port went down */
	GID_MTU = 8,
	GID_GONE = 16, /* the interface was removed */
};

struct gid_table;

/* Reads interface and addresses. ENODEV: no interface of that name. */
int gid_table_create(const char *netdev, struct gid_table **out);
void gid_table_destroy(struct gid_table *t); /* NULL is fine */

int gid_table_get(const struct gid_table *t, unsigned int index,
		  struct gid_entry *out); /* EINVAL */
/* The lowest index of an entry with @gid and @type. ENOENT: there is none. */
int gid_table_find(const struct gid_table *t, const union ibv_gid *gid, enum gid_type type,
		   unsigned int *index);
/* The interface as of the last sync; after its removal: down, index 0. */
void gid_table_netdev(const struct gid_table *t, struct netdev *out);

/* Takes over interface and addresses from @scan; returns what changed: GID_CHANGE, … */
unsigned int gid_table_apply(struct gid_table *t, const struct netdev_scan *scan);

/* The watch: a descriptor for epoll that becomes readable when interfaces or addresses change, and
 * the function to call then. No thread of its own. gid_table_watch() applies the changes since
 * creation, so none is lost; it is called once, before @t is shared. A positive errno where netlink
 * is refused: the table then stays as it is. */
int gid_table_watch(struct gid_table *t, int *fd); /* @t owns the descriptor */
/* Closes it, before @t is shared: the table stays as it is, and remembers no routes. */
void gid_table_unwatch(struct gid_table *t);
unsigned int gid_table_sync(struct gid_table *t);
/* The last sync lacked memory or a descriptor: call it again, though nothing is readable. */
bool gid_table_is_behind(const struct gid_table *t);

/* Where a packet from @from (zero: any) to @to would go. LOCAL: it would stay on this host. The
 * kernel's routing decides, for a link-local address on @t's interface; link-local GIDs made from
 * the MAC of an interface of this host are local too. A watched table remembers the last few that
 * are, until the next change. */
enum route_kind gid_table_route(struct gid_table *t, const union ibv_gid *from,
				const union ibv_gid *to);
