// SPDX-License-Identifier: MIT
#include "cm/cm_port.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm/cm_addr.h"
#include "cm/cm_watch.h"
#include "net/gid.h"
#include "obs/explain.h"
#include "util/rand.h"
#include "util/secret.h"

enum { PRIVILEGED = 1024, BLOCK = 64, TRIES = 200 };

static void (*on_guest)(struct cm_watch *w);

void cm_port_on_guest(void (*ready)(struct cm_watch *w))
{
	on_guest = ready;
}

/* --- names --- */

static bool same_port(const struct gsi_port *a, const struct gsi_port *b)
{
	return a->ps == b->ps && a->port == b->port && a->any == b->any &&
	       (a->any != GSI_ADDRESS || !memcmp(&a->addr, &b->addr, sizeof(a->addr)));
}

static struct cm_name *name_find(const struct gsi_port *p)
{
	struct list *pos;

	list_for_each(pos, &cm.names)
	{
		struct cm_name *n = container_of(pos, struct cm_name, node);

		if (same_port(&n->port, p))
			return n;
	}
	return NULL;
}

static void name_put(struct cm_name *n)
{
	if (!n || --n->refs)
		return;
	list_del(&n->node);
	gsi_own_port(&n->port, false);
	cm_unwatch(&n->watch);
	free(n);
}

static int name_open(struct cm_name *n)
{
	int err = gsi_name_bind(&n->port, &n->watch.fd);

	if (!err && listen(n->watch.fd, GSI_BACKLOG))
		err = errno;
	return err ? err : cm_watch(&n->watch, on_guest);
}

static int name_get(const struct gsi_port *p, struct cm_name **out)
{
	struct cm_name *n = name_find(p);
	int err;

	if (!n) {
		n = calloc(1, sizeof(*n));
		if (!n)
			return ENOMEM;
		n->port = *p;
		n->watch.fd = -1;
		n->refs = 1;
		list_add(&cm.names, &n->node);
		err = name_open(n);
		if (err) {
			name_put(n);
			return err;
		}
	} else {
		n->refs++;
	}
	*out = n;
	return 0;
}

/* Some other process has that name. */
static bool foreign(const struct gsi_port *p)
{
	int fd, err;

	if (name_find(p))
		return false;
	err = gsi_name_connect(p, &fd);
	if (!err)
		close(fd);
	return !err || err == EAGAIN;
}

/* A wildcard meets each address of the host, an address both wildcards. The name is bound already:
 * of two processes that do this at once one sees the other. *at: the name that was asked
 * for last. */
static bool meets_foreign(const struct gsi_port *own, struct gsi_port *at)
{
	struct gsi_port p = *own;
	struct netdev_scan scan;
	bool v4, met = false;

	if (own->any == GSI_ADDRESS) {
		p.any = gid_is_ipv4(&own->addr) ? GSI_ANY4 : GSI_ANY6;
		*at = p;
		return foreign(&p);
	}
	if (netdev_scan(&scan))
		return false;
	p.any = GSI_ADDRESS;
	for (unsigned int i = 0; i < scan.addrs && !met; i++) {
		p.addr = scan.addr[i].gid;
		v4 = gid_is_ipv4(&p.addr);
		met = v4 == (own->any == GSI_ANY4) && foreign(&p);
	}
	netdev_scan_free(&scan);
	*at = p;
	return met;
}

/* Which names an id needs. */
static unsigned int ports_of(const struct cm_id *id, struct gsi_port out[2])
{
	struct gsi_port p = { .ps = id->ps, .port = cm_addr_port(&id->src) };

	cm_addr_gid(&id->src, &p.addr);
	out[0] = out[1] = p;
	if (!cm_addr_wide(id))
		return 1;
	out[0].any = id->src.ss_family == AF_INET ? GSI_ANY4 : GSI_ANY6;
	out[1].any = GSI_ANY4;
	return id->src.ss_family == AF_INET || id->afonly ? 1 : 2;
}

static void names_put(struct cm_id *id)
{
	name_put(id->names[0]);
	name_put(id->names[1]);
	id->names[0] = id->names[1] = NULL;
}

/* *met, also on success: the last name that was asked for. */
static int names_get(struct cm_id *id, struct gsi_port *met)
{
	struct gsi_port p[2];
	unsigned int n = ports_of(id, p);
	int err = 0;

	for (unsigned int i = 0; i < n && !err; i++) {
		*met = p[i];
		err = name_get(&p[i], &id->names[i]);
		if (!err && meets_foreign(&p[i], met))
			err = EADDRNOTAVAIL;
		if (!err)
			gsi_own_port(&p[i], true);
	}
	if (err)
		names_put(id);
	return err;
}

/* --- ids of this process --- */

static bool same_address(const struct cm_id *a, const struct cm_id *b)
{
	union ibv_gid x, y;

	cm_addr_gid(&a->src, &x);
	cm_addr_gid(&b->src, &y);
	return !memcmp(&x, &y, sizeof(x));
}

static int conflict(const struct cm_id *a, const struct cm_id *b, bool reuse)
{
	if (a->reuse && b->reuse && reuse)
		return 0;
	if (a->afonly && b->afonly && a->src.ss_family != b->src.ss_family)
		return 0;
	if (cm_addr_wide(a) || cm_addr_wide(b))
		return EADDRNOTAVAIL;
	return same_address(a, b) ? EADDRINUSE : 0;
}

static bool has_port(const struct cm_id *id, uint32_t ps, uint16_t port)
{
	return id->ps == ps && !id->gone && !id->block && id->src.ss_family &&
	       id->phase != PHASE_IDLE && cm_addr_port(&id->src) == port;
}

/* @listening: REUSEADDR is no excuse. */
static int conflicts(const struct cm_id *id, bool listening)
{
	struct list *pos;
	int err = 0;

	list_for_each(pos, &cm.ids)
	{
		const struct cm_id *o = container_of(pos, struct cm_id, node);

		if (o == id || !has_port(o, id->ps, cm_addr_port(&id->src)))
			continue;
		if (o->fsm.state != CM_IDLE && !o->fsm.active)
			continue; /* of a request: it shares its listener's */
		err = conflict(id, o, !listening);
		if (err)
			return err;
	}
	return err;
}

/* The kernel's rule for this process, asked of the kernel. */
static bool may_take(uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	int s, err = 0;

	if (port >= PRIVILEGED)
		return true;
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return false;
	if (bind(s, (struct sockaddr *)&in, sizeof(in)))
		err = errno;
	close(s);
	return err != EACCES;
}

/* *met: the name that may be another process'; port 0: none. */
static int bind_here(struct cm_id *id, struct gsi_port *met)
{
	int err = conflicts(id, false);

	met->port = 0;
	return err || id->reuse ? err : names_get(id, met);
}

static void range(unsigned int *low, unsigned int *n)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned int from = 32768, to = 60999;

	if (f && (fscanf(f, "%u %u", &from, &to) != 2 || from > to || to > 65535)) {
		from = 32768;
		to = 60999;
	}
	if (f)
		fclose(f);
	*low = from;
	*n = to - from + 1;
}

static unsigned int random_below(unsigned int n)
{
	uint32_t r = 0;

	if (secret_fill(&r, sizeof(r)))
		r = (uint32_t)cm.serial * 2654435761U;
	return n ? r % n : 0;
}

/* Of @n blocks, those that are leased first. Ports are bound at random behind them while any there
 * is free: an id that only connects has no port that another id listens at, as in Linux. */
static unsigned int leased_first(unsigned int n)
{
	return n - n / 4;
}

static int bind_random(struct cm_id *id)
{
	struct gsi_port met;
	unsigned int low, n, behind;
	int err = EADDRNOTAVAIL;

	range(&low, &n);
	behind = n - leased_first(n / BLOCK) * BLOCK;
	for (int i = 0; i < TRIES && (err == EADDRINUSE || err == EADDRNOTAVAIL); i++) {
		unsigned int down = random_below(behind && i < TRIES / 2 ? behind : n);

		cm_addr_set_port(&id->src, (uint16_t)(low + n - 1 - down));
		err = bind_here(id, &met);
	}
	if (err)
		cm_addr_set_port(&id->src, 0);
	return err;
}

/* A port that is taken: by whom, if that is another user. */
static int refuse_taken(int err, const char *call, const struct gsi_port *met, uint16_t port)
{
	uint32_t uid;

	if (met->port && !gsi_name_owner(met, &uid))
		return refuse(err,
			      "%s: port %u is taken by a process of user id %u; take another port, "
			      "or end that process",
			      call, port, uid);
	return refuse(err,
		      "%s: port %u is taken by another id, of this process or another; take "
		      "another port, or 0",
		      call, port);
}

int cm_port_bind(struct cm_id *id, const char *call)
{
	uint16_t port = cm_addr_port(&id->src);
	struct gsi_port met = { .port = 0 };
	int err;

	if (port && !may_take(port))
		return refuse(EACCES, "%s: port %u needs CAP_NET_BIND_SERVICE; take one above 1023",
			      call, port);
	err = port ? bind_here(id, &met) : bind_random(id);
	if (err == EADDRINUSE || err == EADDRNOTAVAIL)
		return refuse_taken(err, call, &met, port);
	return err ? refuse(err, "%s: port %u cannot be had; take another port, or 0", call, port)
		   : 0;
}

int cm_port_listen(struct cm_id *id)
{
	int err = conflicts(id, true);
	struct gsi_port met = { .port = 0 };

	if (!err && !id->names[0])
		err = names_get(id, &met);
	if ((err == EADDRINUSE || err == EADDRNOTAVAIL) && met.port)
		return refuse_taken(err, "rdma_listen", &met, cm_addr_port(&id->src));
	if (err == EADDRINUSE || err == EADDRNOTAVAIL)
		return refuse(err,
			      "rdma_listen: another id listens on port %u; take another port, or "
			      "destroy that id",
			      cm_addr_port(&id->src));
	return err ? refuse(err,
			    "rdma_listen: port %u cannot be had; free memory or raise "
			    "RLIMIT_NOFILE",
			    cm_addr_port(&id->src))
		   : 0;
}

/* --- ephemeral ports --- */

/* 64 bits of all that tells one connection from another; 0 stands for none. Two that meet by chance
 * are taken for one: then another port is as good. */
static uint64_t pair_key(const struct cm_id *id)
{
	struct {
		union ibv_gid src, dst;
		uint64_t ports;
		uint64_t ps;
	} all = { .ports = (uint64_t)cm_addr_port(&id->src) << 16 | cm_addr_port(&id->dst),
		  .ps = id->ps };
	uint64_t key = 0, part[sizeof(all) / sizeof(uint64_t)];

	cm_addr_gid(&id->src, &all.src);
	cm_addr_gid(&id->dst, &all.dst);
	memcpy(part, &all, sizeof(all));
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		key ^= part[i];
		key = rand_mix(&key);
	}
	return key ? key : 1;
}

static void pair_put(struct cm_id *id)
{
	if (id->pair_key)
		hash_del(&cm.pairs, id->pair_key);
	id->pair_key = 0;
}

/* EADDRINUSE: another id has that source and that destination. */
static int pair_get(struct cm_id *id)
{
	uint64_t key = pair_key(id);
	int err = hash_put(&cm.pairs, key, id);

	if (err)
		return err == EEXIST ? EADDRINUSE : err;
	id->pair_key = key;
	return 0;
}

static struct cm_block *block_find(uint32_t ps, unsigned int number)
{
	struct list *pos;

	list_for_each(pos, &cm.blocks)
	{
		struct cm_block *b = container_of(pos, struct cm_block, node);

		if (b->ps == ps && b->number == number)
			return b;
	}
	return NULL;
}

static int block_bind(struct cm_block *b, unsigned int number, bool share)
{
	if (block_find(b->ps, number))
		return EADDRINUSE;
	b->number = number;
	return share ? 0 : gsi_block_bind(b->ps, number, &b->fd);
}

/* The first free one from a random one on, those behind leased_first() last. When none is, maybe
 * for another user who wants no ports, two processes share one: comm ids keep their connections
 * apart, also of one (source, destination, port). */
static int block_choose(struct cm_block *b)
{
	unsigned int low, ports, n, first, from;
	int err = EADDRINUSE;

	range(&low, &ports);
	b->size = ports < BLOCK ? ports : BLOCK;
	n = ports / b->size;
	first = leased_first(n);
	from = random_below(first);
	for (unsigned int i = 0; i < 2 * n && err == EADDRINUSE; i++)
		err = block_bind(b, i % n < first ? (from + i) % first : i % n, i >= n);
	b->first = low + b->number * BLOCK;
	return err;
}

static int block_get(uint32_t ps, struct cm_block **out)
{
	struct cm_block *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return ENOMEM;
	b->ps = ps;
	b->fd = -1;
	err = block_choose(b);
	if (err) {
		free(b);
		return err;
	}
	list_add(&cm.blocks, &b->node);
	*out = b;
	return 0;
}

static bool is_newest(const struct cm_block *b)
{
	struct list *pos;

	list_for_each(pos, &cm.blocks)
	{
		const struct cm_block *o = container_of(pos, struct cm_block, node);

		if (o->ps == b->ps)
			return o == b;
	}
	return false;
}

/* The newest one stays: the next id will want it. */
static void block_put(struct cm_block *b)
{
	if (!b || --b->ids || is_newest(b))
		return;
	list_del(&b->node);
	if (b->fd >= 0)
		close(b->fd);
	free(b);
}

/* A port of @b for the way from id->src to id->dst. EADDRINUSE: all are in use for that. */
static int port_of_block(struct cm_id *id, struct cm_block *b)
{
	int err = EADDRINUSE;

	for (unsigned int i = 0; i < b->size && err == EADDRINUSE; i++) {
		cm_addr_set_port(&id->src, (uint16_t)(b->first + b->next++ % b->size));
		err = pair_get(id);
	}
	if (!err) {
		id->block = b;
		b->ids++;
	}
	return err;
}

static int port_of_blocks(struct cm_id *id)
{
	struct cm_block *b;
	struct list *pos;
	int err = EADDRINUSE;

	list_for_each(pos, &cm.blocks)
	{
		b = container_of(pos, struct cm_block, node);
		if (b->ps == id->ps)
			err = port_of_block(id, b);
		if (err != EADDRINUSE)
			return err;
	}
	err = block_get(id->ps, &b);
	return err ? err : port_of_block(id, b);
}

/* One that has a port keeps it unless another id of this process has it for the same way. */
static int port_for_way(struct cm_id *id)
{
	uint16_t before = cm_addr_port(&id->src);
	struct cm_block *old = id->block;
	int err = before ? pair_get(id) : EADDRINUSE;

	if (err != EADDRINUSE || (before && !old))
		return err == EADDRINUSE ? 0 : err; /* what the program has bound is its choice */
	err = port_of_blocks(id);
	if (err)
		cm_addr_set_port(&id->src, before);
	else
		block_put(old);
	return err;
}

int cm_port_resolve(struct cm_id *id)
{
	int err;

	pair_put(id);
	err = port_for_way(id);
	if (err == EADDRINUSE)
		return refuse(EADDRNOTAVAIL,
			      "rdma_resolve_addr: each ephemeral port is in use for a connection "
			      "to that address and port; destroy ids that are done, or widen "
			      "net.ipv4.ip_local_port_range");
	return err ? refuse(err, "rdma_resolve_addr: no ephemeral port can be leased; free memory "
				 "or raise RLIMIT_NOFILE")
		   : 0;
}

void cm_port_free(struct cm_id *id)
{
	names_put(id);
	pair_put(id);
	block_put(id->block);
	id->block = NULL;
}

/* --- listeners --- */

static bool listens_at(const struct cm_id *id, const struct sockaddr_storage *to, bool exact)
{
	union ibv_gid a, b;

	if (exact) {
		cm_addr_gid(&id->src, &a);
		cm_addr_gid(to, &b);
		return !cm_addr_wide(id) && !memcmp(&a, &b, sizeof(a));
	}
	if (!cm_addr_wide(id))
		return false;
	return id->src.ss_family == to->ss_family || (id->src.ss_family == AF_INET6 && !id->afonly);
}

struct cm_id *cm_port_listener(uint32_t ps, const struct sockaddr_storage *to)
{
	struct list *pos;

	for (int exact = 1; exact >= 0; exact--)
		list_for_each(pos, &cm.listeners)
		{
			struct cm_id *id = container_of(pos, struct cm_id, listening);

			if (id->phase == PHASE_LISTEN && id->ps == ps && !id->gone &&
			    cm_addr_port(&id->src) == cm_addr_port(to) && listens_at(id, to, exact))
				return id;
		}
	return NULL;
}
