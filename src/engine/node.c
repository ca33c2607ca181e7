// SPDX-License-Identifier: MIT
#include "engine/node.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "engine/backlog.h"
#include "engine/gsi/gsi_way.h"
#include "engine/inbound.h"
#include "engine/links.h"
#include "engine/loop.h"
#include "engine/node_device.h"
#include "engine/path.h"
#include "engine/port_counts.h"
#include "engine/qp_table.h"
#include "engine/show.h"
#include "engine/tracing.h"
#include "engine/wake.h"
#include "hca/alive.h"
#include "hca/key_table.h"
#include "hca/limits.h"
#include "hca/mcast.h"
#include "hca/mr.h"
#include "link/fault.h"
#include "obs/explain.h"
#include "peers/host_link.h"
#include "udp/udp_link.h"
#include "util/clock.h"
#include "util/fork.h"
#include "util/guard.h"
#include "util/mutex.h"
#include "util/page_trap.h"

/* Guards node_current and its devices. */
static struct mutex make_lock = MUTEX_INITIALIZER;

static void fork_prepare(void)
{
	mutex_lock(&make_lock);
	if (node_current)
		host_fork_begin(node_current->host);
	page_trap_fork_begin();
	mr_null_fork_begin();
	fault_fork_begin();
	alive_fork_begin();
}

static void fork_parent(void)
{
	alive_fork_end();
	fault_fork_end(false);
	mr_null_fork_end();
	page_trap_fork_end();
	if (node_current)
		host_fork_end(node_current->host);
	mutex_unlock(&make_lock);
}

/* The inherited node is the parent's; only the child's descriptors of it are closed. */
static void fork_child(void)
{
	if (node_current) {
		links_leave(node_current);
		host_leave(node_current->host);
	}
	alive_fork_end();
	fault_fork_end(true);
	mr_null_fork_end();
	page_trap_fork_end();
	if (node_current)
		host_fork_end(node_current->host);
	mutex_unlock(&make_lock);
}

static void (*last_words)(void); /* atomic */

void node_at_exit(void (*farewell)(void))
{
	store_release(&last_words, farewell); /* pairs with leave() */
}

/* exit(), and the program has not destroyed its QPs. The peers shall have ACKs for all that it has
 * taken, as of hardware. Not from a signal handler that has interrupted a turn, which would never
 * be given back; one that has interrupted malloc() would wait for ever if it asked for memory. */
__attribute__((destructor)) static void leave(void)
{
	void (*farewell)(void) = load_acquire(&last_words); /* pairs with node_at_exit() */
	struct node *n = node_self();

	if (farewell)
		farewell();
	if (!n || quiesce_inside())
		return;
	quiesce_at_exit();
	quiesce_wait(); /* ACKs of messages that the program has seen may be about to be listed */
	backlog_end(n);
	port_counts_end(n);
	fault_leave();
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
		.direct = e.flags & KEY_DIRECT,
		.iova = e.iova,
		.len = e.len,
		.addr = e.addr,
		.gen = e.gen,
	};
	return true;
}

/* Something waits that only the engine thread's clock brings on. */
static void wake(void *arg)
{
	wake_engine(arg);
}

static int make_host(struct node *n)
{
	struct host_config cfg = {
		.n_keys = LIMIT_KEYS,
		.key_bytes = key_table_size(LIMIT_KEYS),
		.key_read = key_read,
		.make_grh = path_make_grh,
		.deliver = tracing() ? inbound_deliver_traced : inbound_deliver,
		.lacks_receive = inbound_lacks_receive,
		.drained = inbound_drained,
		.peer_dead = inbound_peer_dead,
		.peer_up = inbound_peer_up,
		.starved = wake,
		.show = show_make,
		.arg = n,
	};

	return host_create(&cfg, &n->host);
}

static int add_link(struct node *n, struct link *l)
{
	if (!l)
		return refuse(ENOMEM,
			      "ibv_open_device: no memory for a link; raise the limit (ulimit -v)");
	links_add(n, l);
	return 0;
}

/* This host's first, then the networks in the order in which paths try them. */
static int make_links(struct node *n)
{
	struct udp_config cfg = { .deliver = tracing() ? inbound_packet_traced : inbound_packet,
				  .arg = &n->link[1],
				  .fellows = host_cast_circle(n->host),
				  .slot = host_first_slot(n->host) };
	int err = add_link(n, host_link(n->host));

	return err ? err : add_link(n, udp_link(&cfg));
}

static int make_tables(struct node *n)
{
	struct key_table_hook hook = { key_revoke, n };
	int err = key_table_create(host_key_memory(n->host), LIMIT_KEYS, &n->keys);

	if (!err)
		err = mcast_table_create(&n->mcast);
	if (err)
		return err;
	key_table_set_hook(n->keys, &hook);
	return qp_table_begin(n);
}

static int make_descriptors(struct node *n)
{
	int err;

	n->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	n->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (n->epoll_fd < 0 || n->kick_fd < 0)
		return refuse(errno,
			      "ibv_open_device: no descriptor for its thread to wait on; raise "
			      "RLIMIT_NOFILE, or allow eventfd and epoll in the seccomp profile");
	err = node_device_watch(n, n->kick_fd);
	err = err ? err : node_device_watch(n, n->link[0].link->fd(n->link[0].link));
	return err ? err : node_device_watch(n, host_doorbell_fd(n->host));
}

static int node_parts(struct node *n)
{
	int err;

	tracing_start();
	gsi_way_begin(n);
	err = make_host(n);
	err = err ? err : make_links(n);
	err = err ? err : make_tables(n);
	return err ? err : make_descriptors(n);
}

static void node_init(struct node *n)
{
	n->epoch = fork_epoch();
	n->epoll_fd = n->kick_fd = -1;
	n->next_timer = n->next_watch = UINT64_MAX;
	mutex_init(&n->lock);
	mutex_init(&n->grow_lock);
	mutex_init(&n->groups_lock);
	spin_init(&n->wheel_lock);
	spin_init(&n->rq_waiters_lock);
	wheel_init(&n->wheel, clock_now());
	wheel_init(&n->watches, clock_now());
	timer_init(&n->ports.timer, NULL);
	mutex_init(&n->xrc_lock);
	pthread_mutex_init(&n->unrung.lock, NULL);
	list_init(&n->unrung.all);
	n->unrung.due = UINT64_MAX;
	port_counts_init(n);
}

/* Of a failed start: no thread runs, and no link is open. A program may try again. */
static void node_free(struct node *n)
{
	gsi_way_end(n);
	qp_table_end(n);
	key_table_destroy(n->keys);
	mcast_table_destroy(n->mcast);
	for (unsigned int i = 0; i < n->n_links; i++)
		free(n->link[i].link);
	if (n->host)
		host_destroy(n->host);
	if (n->epoll_fd >= 0)
		close(n->epoll_fd);
	if (n->kick_fd >= 0)
		close(n->kick_fd);
	mutex_destroy(&n->lock);
	mutex_destroy(&n->grow_lock);
	mutex_destroy(&n->groups_lock);
	mutex_destroy(&n->xrc_lock);
	pthread_mutex_destroy(&n->unrung.lock);
	free(n);
}

static int node_make(struct node **out)
{
	struct node *n = calloc(1, sizeof(*n));
	int err;

	if (!n)
		return refuse(
			ENOMEM,
			"ibv_open_device: no memory for the node; raise the limit (ulimit -v)");
	node_init(n);
	err = node_parts(n);
	err = err ? err : loop_start(n);
	if (err) {
		node_free(n);
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

static struct hca *find(struct node *n, const char *name)
{
	for (unsigned int i = 0; i < n->n_devices; i++)
		if (!strcmp(n->devices[i]->hca.name, name))
			return &n->devices[i]->hca;
	return NULL;
}

static int device_add(struct node *n, const char *name)
{
	struct device *d;
	int err = node_device_make(n, name, &d);

	if (err)
		return err;
	d->hca.renew = renew;
	n->devices[n->n_devices] = d;
	store_release(&n->n_devices, n->n_devices + 1); /* pairs with port_events_read() */
	return 0;
}

int node_hca(const char *name, struct hca **out)
{
	static bool registered;
	struct node *n;
	int err = 0;

	mutex_lock(&make_lock);
	err = fork_init();
	if (err)
		refuse(err,
		       "ibv_open_device: no memory for the fork page; raise the limit (ulimit -v)");
	err = err ? err : guard_init();
	/* after those: a fork takes the lock of the later one first, as this function does */
	if (!err && !registered) {
		pthread_atfork(fork_prepare, fork_parent, fork_child);
		registered = true;
	}
	n = node_self();
	if (!err && !n) {
		err = node_make(&n);
		if (!err) {
			fault_when_delayed(wake, n);
			store_release(&node_current, n);
		}
	}
	if (!err && !find(n, name))
		err = device_add(n, name);
	if (!err)
		*out = find(n, name);
	mutex_unlock(&make_lock);
	return err;
}
