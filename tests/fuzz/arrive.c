// SPDX-License-Identifier: MIT
/* Connection management as a whole, from the packet to the program's event: any MADs from three
 * hosts, and such as name what there is; the program's calls on ids that it has; time. Each event
 * is of an id that the program has or gets by it, a backlog is kept, and when the program has
 * destroyed its ids and the timers have ended nothing is left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "cm/cm_addr.h"
#include "cm/cm_arrive.h"
#include "cm/cm_call.h"
#include "cm/cm_event.h"
#include "cm/cm_id.h"
#include "engine/links.h"
#include "fuzz.h"
#include "hca/event_fd.h"
#include "lo.h"
#include "peers/host_state.h"
#include "util/clock.h"
#include "util/fork.h"
#include "wire/opcode.h"

enum {
	IDS = 8, /* that the program has */
	PORT = 7471,
	SLOT = 3,
	BACKLOG = 3,
	ROUNDS = 64, /* of timers, until the last one has fired */
	MAD_KINDS = CM_APR - CM_REQ + 1,
};

const struct fuzz_target fuzz_target = { "arrive", 1024, 20000 };

static const uint64_t ms = 1000000;
static const union ibv_gid hosts[] = { { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 1 } },
				       { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 2 } },
				       { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 3 } } };

static struct {
	struct node n;
	struct host host;
	struct link here, net;
	struct dest dest;
	struct device device;
	struct cm_channel channel;
	struct cm_id *listener, *ids[IDS];
	uint64_t now;
} w;

/* --- the network --- */

static int take(struct dest *d, const struct seg *s, struct waiter *waiter)
{
	struct cm_msg m;

	(void)d;
	(void)waiter;
	must(s->len == MAD_LEN && s->npieces == 1);
	must(!cm_parse((const uint8_t *)(uintptr_t)s->pieces[0].addr, MAD_LEN, &m));
	return 0;
}

static void put(struct dest *d)
{
	(void)d;
}

static int open_net(struct link *l)
{
	(void)l;
	return 0;
}

static int dest(struct link *l, const struct link_path *to, struct dest **out)
{
	(void)l;
	(void)to;
	*out = &w.dest;
	return 0;
}

static int knock(struct link *l, const struct link_path *to)
{
	(void)l;
	(void)to;
	return 0;
}

static enum ibv_mtu mtu(void *arg)
{
	(void)arg;
	return IBV_MTU_1024;
}

/* --- the process --- */

/* Once: these stay. */
static void open_node(void)
{
	static const struct link_ops ops = { .name = "test", .send = take, .put = put };
	static const struct link_net_ops net_ops = { .knock = knock };
	static const struct hca_ports ports = { .active_mtu = mtu };

	must(!fork_init());
	w.n.host = &w.host;
	w.n.kick_fd = w.n.epoll_fd = -1;
	w.host.bell = w.host.epoll = -1;
	mutex_init(&w.n.lock);
	w.net = (struct link){ .name = "test", .open = open_net, .dest = dest, .net = &net_ops };
	w.dest = (struct dest){ .ops = &ops };
	links_add(&w.n, &w.here);
	links_add(&w.n, &w.net);
	w.n.networks = 1;
	lo_open(&hosts[0], &w.device.gids);
	w.device.hca.ports = &ports;
}

static void begin(void)
{
	if (!w.device.gids)
		open_node();
	cm_clear();
	cm.hca[0] = &w.device.hca;
	cm.n_hcas = 1;
	cm.node = &w.n;
	cm.slot = SLOT;
	cm.guid = 100;
	cm.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	cm.epoch = fork_epoch();
	cm.process.serial = 1; /* it needs no name */
	must(!cm_arrive_begin());
	gsi_own_keep();
	must(!event_fd_open("test", &w.channel.fd));
	list_init(&w.channel.events);
	must(!hash_put(&cm.channels, w.channel.serial, &w.channel));
	w.channel.epoch = fork_epoch();
	memset(w.ids, 0, sizeof(w.ids));
	must(!cm_id_new(&w.channel, RDMA_PS_TCP, IBV_QPT_RC, &w.listener));
	w.listener->phase = PHASE_LISTEN;
	w.listener->backlog = BACKLOG;
	cm_addr_of_gid(&hosts[0], PORT, 0, &w.listener->src);
	list_add_tail(&cm.listeners, &w.listener->listening);
	w.now = clock_now();
}

static void drop(struct cm_id **id)
{
	uint32_t fetched;

	if (!*id)
		return;
	must(!cm_call_id_destroy(*id, &fetched));
	cm_call_id_release(*id);
	*id = NULL;
}

static void end(void)
{
	for (int i = 0; i < IDS; i++)
		drop(&w.ids[i]);
	drop(&w.listener);
	for (int i = 0; i < ROUNDS && !list_empty(&cm.ids); i++)
		wheel_run(&cm.wheel, w.now += 100000 * ms);
	must(list_empty(&cm.ids) && list_empty(&w.channel.events) && list_empty(&cm.fars));
	must(list_empty(&cm.flights) && list_empty(&cm.departures));
	must(!cm.by_id.count && !cm.requests.count && !cm.qpns.count);
	close(w.channel.fd);
	gsi_own_close();
	cm_unwatch(&cm.own);
	close(cm.epoll_fd);
	hash_fini(&cm.watches);
	hash_fini(&cm.channels);
	hash_fini(&cm.by_id);
	hash_fini(&cm.requests);
	hash_fini(&cm.qpns);
}

/* --- what happens --- */

static struct cm_id *some_id(struct fuzz_bytes *b)
{
	return w.ids[fuzz_take(b, 1) % IDS];
}

static void address(struct cm_msg *m, const union ibv_gid *from, uint8_t how)
{
	struct cm_ip ip = { .port = 5, .version = 4 };

	m->service_id = (uint64_t)(how & 1 ? RDMA_PS_UDP : RDMA_PS_TCP) << 16 | PORT;
	m->private_len = CM_IP_LEN;
	memcpy(ip.from + 12, from->raw + 12, 4);
	memcpy(ip.to + 12, hosts[0].raw + 12, 4);
	cm_ip_build(&ip, m->private_data);
	memcpy(m->path[0].local_gid, from->raw, 16);
	memcpy(m->path[0].remote_gid, hosts[0].raw, 16);
	m->path_mtu = how & 2 ? 9 : IBV_MTU_1024;
}

/* One that may be an answer to @id. */
static struct cm_msg message(const struct cm_id *id, struct fuzz_bytes *b,
			     const union ibv_gid *from)
{
	uint8_t ids = (uint8_t)fuzz_take(b, 1), how = (uint8_t)fuzz_take(b, 1);
	struct cm_msg m = { .kind = (uint16_t)(CM_REQ + fuzz_take(b, 1) % MAD_KINDS),
			    .local_id = ids & 15,
			    .remote_id = ids >> 4,
			    .ca_guid = 200 + (how >> 6),
			    .tid = how & 8 ? 0 : how,
			    .qpn = how >> 4 & 3 };

	m.reason = (uint16_t)(how & 4 ? 0 : how >> 1);
	m.about = how & 3;
	m.service_timeout = how & 31;
	if (id && ids & 1)
		m.remote_id = id->fsm.local_id;
	if (id && ids & 2)
		m.local_id = id->fsm.remote_id ? id->fsm.remote_id : m.local_id;
	if (id && ids & 4)
		m.qpn = id->fsm.local_qpn;
	if (id && m.kind == CM_SIDR_REP)
		m.local_id = id->fsm.local_id;
	if (m.kind == CM_REQ || m.kind == CM_SIDR_REQ)
		address(&m, from, how);
	return m;
}

static void hears(struct gsi_mad *mad)
{
	must(!gsi_own_say(mad, sizeof(*mad)));
	gsi_own_flush();
}

static void arrives(struct fuzz_bytes *b)
{
	const struct cm_id *id = some_id(b);
	uint8_t who = (uint8_t)fuzz_take(b, 1);
	const union ibv_gid *from = id && who & 4 ? &id->way.dgid : &hosts[who % 3];
	struct gsi_mad mad = { .magic = GSI_MAGIC, .net = 1, .from = *from, .to = hosts[0] };
	struct cm_msg m = message(id, b, from);
	const uint8_t *run;
	size_t n;

	if (cm_build(&m, mad.mad))
		return;
	n = fuzz_take_run(b, who & 8 ? fuzz_take(b, 1) % 32 : 0, &run);
	for (size_t i = 0; i < n; i++) /* not all of it as we build it */
		mad.mad[(who * 7U + i) % MAD_LEN] ^= run[i];
	hears(&mad);
}

/* A new id, whose request leaves. */
static void connects(struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1);
	struct cm_param p = { .qpn = 5 };
	struct cm_id **at = &w.ids[how % IDS], *id;
	bool udp = how & 8;

	if (*at)
		return;
	must(!cm_id_new(&w.channel, udp ? RDMA_PS_UDP : RDMA_PS_TCP, udp ? IBV_QPT_UD : IBV_QPT_RC,
			&id));
	id->phase = PHASE_ROUTE;
	id->way.net = true;
	id->way.hca = &w.device.hca;
	id->way.sgid = hosts[0];
	id->way.dgid = hosts[how >> 4 & 1 ? 1 : 2];
	cm_addr_of_gid(&hosts[0], 5, 0, &id->src);
	cm_addr_of_gid(&id->way.dgid, PORT, 0, &id->dst);
	must(!cm_call_connect(id, &p));
	*at = id;
}

/* The program fetches what there is; without a place for a request it destroys it. */
static void fetches(void)
{
	struct cm_news n;
	int i = 0;

	while (!list_empty(&w.channel.events)) {
		must(!cm_channel_next(&w.channel, &n));
		for (i = 0; i < IDS && w.ids[i] != n.id; i++)
			;
		must((i == IDS) == (n.event == RDMA_CM_EVENT_CONNECT_REQUEST));
		for (i = 0; i < IDS && n.event == RDMA_CM_EVENT_CONNECT_REQUEST && w.ids[i]; i++)
			;
		if (n.event != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		if (i < IDS)
			w.ids[i] = n.id;
		else
			drop(&n.id);
	}
}

static void calls(struct fuzz_bytes *b)
{
	struct cm_id *id = some_id(b);
	struct cm_param p = { .qpn = 6 };
	uint8_t which = (uint8_t)fuzz_take(b, 1);
	struct cm_view view;
	bool follows;
	int err = 0;

	if (!id)
		return;
	switch (which % 6) {
	case 0:
		err = cm_call_accept(id, &p);
		break;
	case 1:
		err = cm_call_reject(id, "no", 2, which & 64);
		break;
	case 2:
		err = cm_call_establish(id);
		break;
	case 3:
		err = cm_call_disconnect(id, &follows);
		break;
	case 4:
		err = cm_call_notify(id, IBV_EVENT_COMM_EST);
		break;
	default:
		err = cm_call_view(id, &view);
	}
	must(err >= 0);
}

static void happen(struct fuzz_bytes *b)
{
	switch (fuzz_take(b, 1) % 8) {
	case 0:
		connects(b);
		break;
	case 1:
		calls(b);
		break;
	case 2:
		fetches();
		break;
	case 3:
		drop(&w.ids[fuzz_take(b, 1) % IDS]);
		break;
	case 4:
		wheel_run(&cm.wheel, w.now += (1 + fuzz_take(b, 2)) * ms);
		break;
	default:
		arrives(b);
	}
	must(w.listener->pending >= 0 && w.listener->pending <= BACKLOG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };

	begin();
	while (b.left)
		happen(&b);
	end();
	return 0;
}
