// SPDX-License-Identifier: MIT
/* A process of connection management on a host of a network that takes what is sent: messages come
 * as the engine's thread hands them over, from a peer and from a stranger. */
#pragma once
#include "cm/cm_arrive.h"
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "cm/cm_addr.h"
#include "cm/cm_call.h"
#include "cm/cm_event.h"
#include "cm/cm_id.h"
#include "cm/cm_watch.h"
#include "engine/links.h"
#include "hca/event_fd.h"
#include "net/gid_table.h"
#include "unit/engine/stand.h"
#include "util/clock.h"
#include "util/fork.h"
#include "wire/grh.h"

enum {
	PORT = 7471,
	NOT_OURS = 7472,
	A_SECOND = 1000,
	FLOOD = 2000,
	WAITING = 70,
	PEER_QPN = 77,
	AT_ONCE = 64, /* requests to one host */
	KINDS = CM_APR + 1,
	FROM_END = 19, /* of the header before a request's private data: where an address ends */
	TO_END = 35,
};

static const uint64_t guid = 0x1234567890;
static const union ibv_gid here = { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 1 } };
static const union ibv_gid peer = { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 2 } };
static const union ibv_gid stranger = { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 3 } };

static struct {
	struct link link; /* first */
	struct dest dest;
	unsigned int sent[KINDS];
	struct cm_msg last;
	union ibv_gid to; /* of the last message */
} net;
static struct link host;
static struct device device;
static struct cm_channel channel;
static struct cm_id *listener;
static uint16_t partition = 0xffff;

/* --- the network --- */

static inline int take(struct dest *d, const struct seg *s, struct waiter *w)
{
	(void)d;
	(void)w;
	check_eq(s->len, MAD_LEN);
	check_eq(cm_parse((const uint8_t *)(uintptr_t)s->pieces[0].addr, MAD_LEN, &net.last), 0);
	net.sent[net.last.kind]++;
	return 0;
}

static inline void put(struct dest *d)
{
	(void)d;
}

static inline int open_net(struct link *l)
{
	(void)l;
	return 0;
}

static inline int dest(struct link *l, const struct link_path *to, struct dest **out)
{
	(void)l;
	net.to = to->net.remote;
	*out = &net.dest;
	return 0;
}

static inline enum ibv_mtu mtu(void *arg)
{
	(void)arg;
	return IBV_MTU_1024;
}

/* --- the process --- */

static inline void open_device(void)
{
	static const struct hca_ports ports = { .active_mtu = mtu };
	struct netdev dev = { .index = 7, .name = "lo", .mtu = 1500, .up = true, .carrier = true };
	struct netdev_scan picture = { 0 };

	check_eq(gid_table_create("lo", &device.gids), 0);
	check_eq(netdev_scan_add(&picture, &dev), 0);
	check_eq(netdev_scan_add_addr(&picture, 7, &here), 0);
	gid_table_apply(device.gids, &picture);
	netdev_scan_free(&picture);
	device.hca.ports = &ports;
	cm.hca[0] = &device.hca;
	cm.n_hcas = 1;
}

static inline void open_cm(void)
{
	static const struct link_ops ops = { .name = "test", .send = take, .put = put };

	check_eq(fork_init(), 0);
	stand_open();
	memset(&net, 0, sizeof(net));
	net.link = (struct link){ .name = "test", .open = open_net, .dest = dest };
	net.dest = (struct dest){ .ops = &ops };
	links_add(&stand->n, &host);
	links_add(&stand->n, &net.link);
	cm_clear();
	cm.node = &stand->n;
	cm.slot = STAND_SLOT;
	cm.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	cm.epoch = fork_epoch();
	cm.process.serial = 1; /* it needs no name */
	open_device();
	check_eq(cm_arrive_begin(), 0);
	gsi_own_keep();
	check_eq(event_fd_open("test", &channel.fd), 0);
	list_init(&channel.events);
	check_eq(hash_put(&cm.channels, channel.serial, &channel), 0);
	channel.epoch = fork_epoch();
	check_eq(cm_id_new(&channel, RDMA_PS_TCP, IBV_QPT_RC, &listener), 0);
	listener->phase = PHASE_LISTEN;
	listener->backlog = 1;
	cm_addr_of_gid(&here, PORT, 0, &listener->src);
	list_add_tail(&cm.listeners, &listener->listening);
}

static inline void close_cm(void)
{
	while (!list_empty(&cm.ids)) {
		struct cm_id *id = list_first_entry(&cm.ids, struct cm_id, node);

		id->kept = false;
		cm_id_free(id);
	}
	while (!list_empty(&channel.events)) {
		struct list *first = channel.events.next;

		list_del(first);
		free(container_of(first, struct cm_event, node));
	}
	close(channel.fd);
	gsi_own_close();
	cm_unwatch(&cm.own);
	close(cm.epoll_fd);
	hash_fini(&cm.watches);
	hash_fini(&cm.channels);
	hash_fini(&cm.by_id);
	hash_fini(&cm.requests);
	hash_fini(&cm.qpns);
	gid_table_destroy(device.gids);
	stand_close();
}

/* --- messages --- */

static inline struct cm_msg request(uint16_t kind, const union ibv_gid *from, uint16_t port)
{
	struct cm_msg m = { .kind = kind,
			    .local_id = 1,
			    .ca_guid = guid,
			    .qpn = PEER_QPN,
			    .service_id = (uint64_t)RDMA_PS_TCP << 16 | port,
			    .path_mtu = IBV_MTU_1024,
			    .private_len = CM_IP_LEN };
	struct cm_ip ip = { .port = 5, .version = 4 };

	memcpy(ip.from + 12, from->raw + 12, 4);
	memcpy(ip.to + 12, here.raw + 12, 4);
	cm_ip_build(&ip, m.private_data);
	memcpy(m.path[0].local_gid, from->raw, 16);
	memcpy(m.path[0].remote_gid, here.raw, 16);
	return m;
}

static inline struct gsi_mad mad_of(const struct cm_msg *m, const union ibv_gid *from)
{
	struct gsi_mad mad = { .magic = GSI_MAGIC, .net = 1, .from = *from, .to = here };

	check_eq(cm_build(m, mad.mad), 0);
	return mad;
}

/* The process has read it for itself. */
static inline void comes(const struct cm_msg *m, const union ibv_gid *from)
{
	struct gsi_mad mad = mad_of(m, from);

	check_eq(gsi_own_say(&mad, sizeof(mad)), 0);
	gsi_own_flush();
}

/* As it comes to QP 1. It borrows both: @area has GRH_LEN bytes. */
static inline struct seg packet_of(const struct gsi_mad *mad, uint8_t *area)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP };

	memcpy(g.sgid, mad->from.raw, 16);
	memcpy(g.dgid, mad->to.raw, 16);
	grh_build(&g, area);
	return (struct seg){ .op = SVC_UD | OP_SEND_ONLY,
			     .pkey = partition,
			     .dqpn = GSI_QPN,
			     .qkey = (uint32_t)CM_QKEY,
			     .len = MAD_LEN,
			     .data = mad->mad,
			     .grh = area };
}

/* It has read it, and looks for the process that it is for. */
static inline void comes_to_the_host(const struct cm_msg *m, const union ibv_gid *from)
{
	struct gsi_mad mad = mad_of(m, from);
	uint8_t area[GRH_LEN];
	struct seg s = packet_of(&mad, area);

	gsi_packet(&stand->n.link[1], &s);
}

/* --- connections, by messages --- */

/* What the program has to fetch next; 0: nothing that is not ESTABLISHED. */
static inline int fetch(struct cm_id **id)
{
	struct cm_news n;

	while (!list_empty(&channel.events)) {
		check_eq(cm_channel_next(&channel, &n), 0);
		*id = n.id;
		if (n.event != RDMA_CM_EVENT_ESTABLISHED)
			return n.event;
	}
	return 0;
}

/* A connection that comes from @local_id and @qpn of @from, and is accepted. */
static inline struct cm_id *accepted_of(const union ibv_gid *from, uint32_t local_id, uint32_t qpn)
{
	struct cm_param p = { .qpn = 5 };
	struct cm_msg m = request(CM_REQ, from, PORT);
	struct cm_id *id = NULL;

	m.local_id = local_id;
	m.qpn = qpn;
	comes(&m, from);
	check_eq(fetch(&id), RDMA_CM_EVENT_CONNECT_REQUEST);
	check_eq(cm_call_accept(id, &p), 0);
	check_eq(net.last.kind, CM_REP);
	m = (struct cm_msg){ .kind = CM_RTU, .local_id = local_id, .remote_id = net.last.local_id };
	comes(&m, from);
	check_eq(id->fsm.state, CM_ESTABLISHED);
	return id;
}

static inline struct cm_id *accepted(const union ibv_gid *from, uint32_t local_id)
{
	return accepted_of(from, local_id, PEER_QPN);
}

/* Its request to @peer has left. */
static inline struct cm_id *asked_by(int ps, int type, int state)
{
	struct cm_param p = { .qpn = 5 };
	struct cm_id *id;

	check_eq(cm_id_new(&channel, (uint32_t)ps, type, &id), 0);
	id->phase = PHASE_ROUTE;
	id->way.net = true;
	id->way.sgid = here;
	id->way.dgid = peer;
	cm_addr_of_gid(&here, NOT_OURS, 0, &id->src);
	cm_addr_of_gid(&peer, PORT, 0, &id->dst);
	check_eq(cm_call_connect(id, &p), 0);
	check_eq(id->fsm.state, state);
	return id;
}

static inline struct cm_id *asked(void)
{
	return asked_by(RDMA_PS_TCP, IBV_QPT_RC, CM_REQ_SENT);
}

/* For a UD queue pair. */
static inline struct cm_id *questioned(void)
{
	return asked_by(RDMA_PS_UDP, IBV_QPT_UD, CM_SIDR_SENT);
}

static inline void answered(const struct cm_id *id, uint32_t local_id, uint32_t qpn)
{
	struct cm_msg m = { .kind = CM_REP,
			    .local_id = local_id,
			    .remote_id = id->fsm.local_id,
			    .ca_guid = guid,
			    .qpn = qpn };

	comes(&m, &peer);
}

/* The peer's host does not know the connection that was ended for it. */
static inline void is_unknown(struct cm_id *id)
{
	struct cm_msg m = { .kind = CM_DREP,
			    .local_id = id->fsm.remote_id,
			    .remote_id = id->fsm.local_id };
	struct cm_id *told = NULL;

	check_eq(id->fsm.state, CM_DREQ_SENT);
	comes(&m, &peer);
	check_eq(fetch(&told), RDMA_CM_EVENT_DISCONNECTED);
	check(told == id);
}
