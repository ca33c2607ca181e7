// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "link/copy.h"
#include "link/seg_pkt.h"
#include "net/neigh.h"
#include "obs/explain.h"
#include "udp/udp_batch.h"
#include "udp/udp_talk.h"
#include "wire/ip.h"

enum {
	HOPS = 64, /* for a path without a limit */
	ECN = 3, /* of the TOS byte */
	ECT0 = 2,
	IN_FLIGHT = 96 << 10, /* bytes of one QP: less than fits into a receive buffer by default */
	WINDOW_MIN = 8,
	WINDOW_MAX = 128,
};

struct udp_dest {
	struct dest d;
	struct dest_net net;
	struct udp_way way;
	struct udp_port *port;
	unsigned int sender;
	uint8_t tclass, tclass_data; /* of the path; of packets that a CNP can slow down */
	struct udp_batch *batch; /* under the QP's turn */
	uint32_t dqpn; /* the peer QP */
	struct udp_peer *peer; /* NULL: taken for another stack */
	uint32_t heeded; /* peer->changes that this destination follows; under the QP's turn */
	bool trains_tried;
};

static struct udp_dest *to_udp(struct dest *d)
{
	return container_of(d, struct udp_dest, d);
}

static uint32_t window(uint32_t mtu, uint32_t bytes)
{
	uint32_t n = bytes / mtu;

	return n < WINDOW_MIN ? WINDOW_MIN : n < WINDOW_MAX ? n : WINDOW_MAX;
}

/* Whoever speaks our hello binds one socket for a QP (udp_dest), or says by OP_PORT that it goes on
 * by another. */
static uint32_t abilities(const struct udp_peer *p)
{
	return DEST_ONE_PORT | (load_relaxed(&p->abilities) & UDP_REPORTS ? DEST_REPORTS : 0);
}

/* Follows what the peer has said since the last time. */
static void heed(struct udp_dest *t)
{
	const struct udp_peer *p = t->peer;
	uint32_t changes = p ? load_acquire(&p->changes) : 0; /* pairs with learn() */

	if (likely(changes == t->heeded))
		return;
	t->heeded = changes;
	store_relaxed(&t->d.window, window(t->d.max_seg, load_relaxed(&p->budget)));
	if (load_relaxed(&p->abilities) & UDP_ANSWERED)
		store_relaxed(&t->d.abilities, t->d.abilities | abilities(p));
	if ((load_relaxed(&p->abilities) & UDP_TRAINS) && !t->trains_tried &&
	    t->sender != UDP_TELLER) {
		t->trains_tried = true;
		t->way.trains = !udp_socket_train(t->way.u, t->port, t->sender, &t->way.fd);
	}
}

/* A question leaves before the packets that raise it, or with the first that came. */
static void get_to_know(struct udp_dest *t)
{
	if (!t->peer)
		return;
	if (unlikely(load_relaxed(&t->peer->ask_at) != UINT64_MAX))
		udp_talk_ask(t->way.u, t->port, t->peer, t->dqpn);
	heed(t);
}

static void udp_flush(struct dest *d)
{
	struct udp_dest *t = to_udp(d);
	struct udp_batch *b = t->batch;

	if (!b)
		return;
	t->batch = NULL;
	get_to_know(t);
	udp_batch_send(&t->way, b);
}

/* --- packets --- */

/* The packet without its ICRC. */
static int build(const struct seg *s, uint8_t *buf, size_t *len)
{
	size_t head;
	struct pkt p;
	int err;

	seg_to_pkt(s, &p);
	err = wire_build_headers(&p, buf, UDP_PACKET_MAX, &head);
	err = err ? err : wire_build(&p, buf, UDP_PACKET_MAX, len);
	return err ? err : copy_payload(buf + head, s);
}

/* A service that slows down on congestion says so to the network. */
static uint8_t tclass_of(const struct udp_dest *t, const struct seg *s)
{
	uint8_t service = opcode_service(s->op);

	return s->len && (service == SVC_RC || service == SVC_XRC) ? t->tclass_data : t->tclass;
}

static bool understood(const struct udp_dest *t, const struct seg *s)
{
	return s->op != OP_GROUNDS || (t->peer && load_relaxed(&t->peer->takes_grounds));
}

static int udp_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	struct udp_dest *t = to_udp(d);
	bool full = false;
	size_t len;
	int err;

	(void)w; /* there is always room */
	if (unlikely(!understood(t, s)))
		return 0;
	if (s->len > UDP_MTU_MAX)
		return EMSGSIZE;
	if (!t->batch)
		t->batch = udp_batch_take(t->way.u);
	if (!t->batch) {
		udp_bump(&t->way.u->counts->unsent, 1);
		return 0; /* lost, as in a network without memory */
	}
	err = build(s, udp_batch_room(t->batch), &len);
	if (!err)
		full = udp_batch_add(&t->way, t->batch, len, tclass_of(t, s), s->damaged);
	if (err || !s->more || full)
		udp_flush(d);
	return err;
}

/* A network cannot fetch. */
static int udp_fetch(struct dest *from, const struct seg *s, uint32_t skip, const struct piece *dst,
		     unsigned int ndst)
{
	(void)from;
	(void)s;
	(void)skip;
	(void)dst;
	(void)ndst;
	return EPERM;
}

static int udp_direct(struct dest *d, struct direct_ask *ask)
{
	(void)d;
	(void)ask;
	return EAGAIN;
}

static void udp_doubt(struct dest *d)
{
	struct udp_dest *t = to_udp(d);

	if (t->peer)
		udp_talk_doubt(t->way.u, t->port, t->peer);
}

static void udp_get_to_know(struct dest *d)
{
	get_to_know(to_udp(d));
}

static void udp_silence(struct dest *d, struct link_silence *out)
{
	const struct udp_dest *t = to_udp(d);
	const struct route_ends ends = { t->net.remote, t->net.local, t->port->ifindex };

	out->sent = t->way.sent;
	out->refusals = t->way.refusals;
	out->no_neighbour = !neigh_known(&ends, NULL);
	out->answers = t->peer && load_relaxed(&t->peer->abilities) & UDP_ANSWERED &&
		       load_relaxed(&t->peer->ask_at) == UINT64_MAX;
}

static void udp_cancel(struct dest *d, struct waiter *w)
{
	(void)d;
	(void)w; /* no sender waits for a network */
}

static void udp_put(struct dest *d)
{
	struct udp_dest *t = to_udp(d);

	if (fetch_sub_acq_rel(&d->refs, 1) != 1)
		return;
	udp_flush(d);
	fetch_sub_acq_rel(&t->port->dests, 1);
	udp_peer_leave(t->peer);
	free(t);
}

static const struct link_ops udp_ops = {
	.name = "udp",
	.send = udp_send,
	.fetch = udp_fetch,
	.direct = udp_direct,
	.flush = udp_flush,
	.doubt = udp_doubt,
	.get_to_know = udp_get_to_know,
	.silence = udp_silence,
	.cancel = udp_cancel,
	.put = udp_put,
};

/* --- making one --- */

static void set_way(struct udp_dest *t, struct udp *u, const struct udp_path *p)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	bool v4 = t->port->ipv4, casts = grh_gid_is_group(p->net.remote.raw);
	int hops = casts ? 1 : HOPS;

	memcpy(g.sgid, t->net.local.raw, sizeof(g.sgid));
	memcpy(g.dgid, t->net.remote.raw, sizeof(g.dgid));
	t->way = (struct udp_way){ .u = u,
				   .fd = &t->port->sender[t->sender],
				   .sport = t->port->sport[t->sender],
				   .level = v4 ? IPPROTO_IP : IPPROTO_IPV6,
				   .tos_type = v4 ? IP_TOS : IPV6_TCLASS,
				   .ttl_type = v4 ? IP_TTL : IPV6_HOPLIMIT,
				   .refused = &t->d.refused,
				   .tells = t->sender == UDP_TELLER,
				   .hops = p->hop_limit ? p->hop_limit : hops,
				   .ifindex = casts ? p->ifindex : 0,
				   .from = &t->net.local };
	grh_build(&g, t->way.header);
	t->way.to_len = udp_addr_set(&t->way.to, &p->net.remote, p->ifindex, UDP_ROCE_PORT);
	t->tclass = t->tclass_data = p->tclass;
	if (!(p->tclass & ECN))
		t->tclass_data |= ECT0;
}

int udp_dest_make(struct udp *u, struct udp_port *port, unsigned int sender,
		  const struct udp_path *p, struct dest **out)
{
	struct udp_dest *t = calloc(1, sizeof(*t));

	if (!t)
		return refuse_memory("the udp link", sizeof(*t));
	t->net = p->net;
	t->d = (struct dest){ .ops = &udp_ops,
			      .refs = 1,
			      .max_seg = p->mtu,
			      .inline_max = UINT32_MAX,
			      .net = &t->net,
			      .sport = port->sport[sender],
			      .window = window(p->mtu, IN_FLIGHT) };
	t->port = port;
	t->sender = sender;
	t->dqpn = p->rqpn;
	t->peer =
		grh_gid_is_group(p->net.remote.raw) ? NULL : udp_peer_use(u, port, &p->net.remote);
	set_way(t, u, p);
	heed(t);
	*out = &t->d;
	return 0;
}
