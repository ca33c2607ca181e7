// SPDX-License-Identifier: MIT
#include "engine/node.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "engine/frames.h"
#include "engine/inbound.h"
#include "engine/loop.h"
#include "engine/path.h"
#include "engine/timers.h"
#include "engine/tracing.h"
#include "hca/key_table.h"
#include "hca/limits.h"
#include "hca/mcast.h"
#include "obs/explain.h"
#include "udp/udp.h"
#include "util/clock.h"
#include "util/fork.h"
#include "util/guard.h"
#include "util/log.h"
#include "util/quiesce.h"

struct node *node_current;
static pthread_mutex_t make_lock =
	PTHREAD_MUTEX_INITIALIZER; /* guards node_current and its devices */

static void fork_prepare(void)
{
	pthread_mutex_lock(&make_lock);
}

static void fork_done(void)
{
	pthread_mutex_unlock(&make_lock);
}

/* The node that was inherited is the parent's but for its descriptors. */
static void fork_child(void)
{
	if (node_current && node_current->udp)
		udp_leave(node_current->udp);
	fork_done();
}

/* exit(), and the program has not destroyed its QPs. What it has taken of theirs the peers shall
 * hear of, as of hardware. Not from a signal handler that has interrupted the library: what that
 * holds nobody gives back. */
__attribute__((destructor)) static void leave(void)
{
	struct node *n = node_self();

	if (!n || quiesce_inside())
		return;
	quiesce_wait(); /* what the program has seen in its memory may be listed just now */
	inbound_end(n);
}

struct node *node_self(void)
{
	struct node *n = load_acquire(&node_current);

	return n && fork_is_ours(n->epoch) ? n : NULL;
}

/* --- what hca sees of a netdev --- */

static int port_gid(void *arg, unsigned int index, union ibv_gid *gid, bool *v2, uint32_t *ifindex)
{
	struct device *d = arg;
	struct gid_entry e;
	int err = gid_table_get(d->gids, index, &e);

	if (err)
		return err;
	*gid = e.gid;
	*v2 = e.used && e.type == GID_V2;
	*ifindex = e.ifindex;
	return 0;
}

static bool port_active(void *arg)
{
	struct device *d = arg;
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	return netdev_active(&dev);
}

static enum ibv_mtu port_mtu(void *arg)
{
	struct device *d = arg;
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	return netdev_active_mtu(&dev);
}

static void port_mac(void *arg, uint8_t mac[6])
{
	struct device *d = arg;
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	memcpy(mac, dev.mac, 6);
}

static const struct hca_ports ports = {
	.gid = port_gid,
	.active = port_active,
	.active_mtu = port_mtu,
	.mac = port_mac,
};

/* --- the node --- */

static int watch(struct node *n, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? errno : 0;
}

static void key_revoke(void *arg, uint32_t key)
{
	struct node *n = arg;

	host_revoke(n->host, key);
}

static bool key_read(const void *table, uint32_t n, uint32_t key, struct host_key *out)
{
	struct key_entry e;

	if (!key_copy_foreign(table, n, key, &e))
		return false;
	*out = (struct host_key){
		.pdn = e.pdn,
		.access = e.access,
		.flat = e.flags & KEY_DIRECT,
		.iova = e.iova,
		.len = e.len,
		.addr = e.addr,
		.gen = e.gen,
	};
	return true;
}

static int node_parts(struct node *n)
{
	tracing_start();

	struct host_config cfg = {
		.n_keys = LIMIT_KEYS,
		.key_bytes = key_table_size(LIMIT_KEYS),
		.key_read = key_read,
		.make_grh = path_make_grh,
		.deliver = tracing() ? tracing_deliver : inbound_deliver,
		.drained = inbound_drained,
		.peer_dead = inbound_peer_dead,
		.arg = n,
	};
	struct key_table_hook hook = { key_revoke, n };
	int err = host_create(&cfg, &n->host);

	if (!err)
		err = key_table_create(host_key_memory(n->host), LIMIT_KEYS, &n->keys);
	if (!err)
		err = mcast_table_create(&n->mcast);
	if (err)
		return err;
	key_table_set_hook(n->keys, &hook);
	n->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	n->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (n->epoll_fd < 0 || n->kick_fd < 0)
		return errno;
	err = watch(n, n->kick_fd);
	err = err ? err : watch(n, host_control_fd(n->host));
	return err ? err : watch(n, host_doorbell_fd(n->host));
}

/* The first slot's numbers are ours already. */
static int first_block(struct node *n)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b || bitmap_init(&b->used, FIRST_INDEX, NUMBER_INDEXES - FIRST_INDEX)) {
		free(b);
		return refuse_memory("ibv_open_device", sizeof(*b));
	}
	n->blocks[host_first_slot(n->host)] = b;
	return 0;
}

static void node_init(struct node *n)
{
	n->epoch = fork_epoch();
	n->epoll_fd = n->kick_fd = -1;
	n->next_timer = UINT64_MAX;
	pthread_mutex_init(&n->lock, NULL);
	spin_init(&n->wheel_lock);
	spin_init(&n->rq_waiters_lock);
	wheel_init(&n->wheel, clock_now());
	timer_init(&n->ports.timer, NULL);
}

/* A failed start leaves nothing behind but descriptors of a host that nobody joins; the program
 * is told why and cannot go on anyway. */
static int node_make(struct node **out)
{
	struct node *n = calloc(1, sizeof(*n));
	int err;

	if (!n)
		return refuse(ENOMEM, "ibv_open_device: no memory for the node");
	node_init(n);
	err = node_parts(n);
	err = err ? err : first_block(n);
	err = err ? err : loop_start(n);
	if (err) {
		if (n->host)
			host_destroy(n->host);
		close(n->epoll_fd);
		close(n->kick_fd);
		free(n);
		return err;
	}
	*out = n;
	return 0;
}

/* --- devices --- */

static int renew(const struct hca *old, struct hca **out)
{
	int err = node_hca(old->name, out);

	if (!err)
		(*out)->taken = old->taken;
	return err;
}

static int device_make(struct node *n, const char *name, const char *netdev, uint64_t guid)
{
	struct device *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return refuse_memory("ibv_open_device", sizeof(*d));
	err = gid_table_create(netdev, &d->gids);
	if (err) {
		free(d);
		return refuse(err, "ibv_open_device: %s has no interface %s", name, netdev);
	}
	if (gid_table_watch(d->gids, &d->watch_fd) || watch(n, d->watch_fd))
		d->watch_fd =
			-1; /* the table stays as it is; said in the log by gid_table_watch() */
	snprintf(d->hca.name, sizeof(d->hca.name), "%s", name);
	d->hca.epoch = n->epoch;
	d->hca.ports = &ports;
	d->hca.ports_arg = d;
	d->hca.keys = n->keys;
	d->hca.mcast = n->mcast;
	d->hca.counters = calloc(1, sizeof(*d->hca.counters));
	d->hca.node_guid = guid;
	d->hca.renew = renew;
	d->hca.cq_timers = &timers_of_cqs;
	d->node = n;
	if (frames_start(d) || !d->hca.counters) {
		gid_table_destroy(d->gids);
		free(d);
		return refuse_memory("ibv_open_device", sizeof(*d->hca.counters));
	}
	n->devices[n->n_devices] = d;
	store_release(&n->n_devices, n->n_devices + 1); /* port_events_read() */
	return 0;
}

static struct hca *find(struct node *n, const char *name)
{
	for (unsigned int i = 0; i < n->n_devices; i++)
		if (!strcmp(n->devices[i]->hca.name, name))
			return &n->devices[i]->hca;
	return NULL;
}

/* The machine's devices as they are now, by index; ENODEV past the end. */
static int map_entry(unsigned int i, char *name, char *netdev, uint64_t *guid)
{
	struct netdev_scan scan;
	struct netdev_map map;
	int err = netdev_scan(&scan);

	if (err)
		return err;
	err = netdev_map_get(&scan, &map);
	if (!err && i >= map.count)
		err = ENODEV;
	if (!err) {
		const struct netdev *dev = netdev_by_name(&scan, map.entry[i].netdev);

		snprintf(name, IBV_SYSFS_NAME_MAX, "%s", map.entry[i].device);
		snprintf(netdev, IF_NAMESIZE, "%s", map.entry[i].netdev);
		*guid = dev ? netdev_guid(dev, i) : 0;
	}
	netdev_scan_free(&scan);
	return err;
}

unsigned int node_device_names(char names[][IBV_SYSFS_NAME_MAX], uint64_t *guids)
{
	char netdev[IF_NAMESIZE];
	unsigned int n = 0;

	while (n < NODE_DEVICES && !map_entry(n, names[n], netdev, &guids[n]))
		n++;
	return n;
}

static int device_add(struct node *n, const char *name)
{
	char found[IBV_SYSFS_NAME_MAX], netdev[IF_NAMESIZE];
	uint64_t guid;

	for (unsigned int i = 0; n->n_devices < NODE_DEVICES; i++) {
		if (map_entry(i, found, netdev, &guid))
			break;
		if (!strcmp(found, name))
			return device_make(n, name, netdev, guid);
	}
	return refuse(ENODEV, "ibv_open_device: there is no device %s; SOFTHCA_DEVICES names them",
		      name);
}

int node_hca(const char *name, struct hca **out)
{
	static bool registered;
	struct node *n;
	int err = 0;

	pthread_mutex_lock(&make_lock);
	err = fork_init();
	if (err)
		refuse(err, "ibv_open_device: no memory for the fork page");
	err = err ? err : guard_init();
	/* after those: a fork takes the later one's lock first, as this function does */
	if (!err && !registered) {
		pthread_atfork(fork_prepare, fork_done, fork_child);
		registered = true;
	}
	n = node_self();
	if (!err && !n) {
		err = node_make(&n);
		if (!err)
			store_release(&node_current, n);
	}
	if (!err && !find(n, name))
		err = device_add(n, name);
	if (!err)
		*out = find(n, name);
	pthread_mutex_unlock(&make_lock);
	return err;
}
