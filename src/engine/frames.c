// SPDX-License-Identifier: MIT
#include "engine/frames.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "engine/delivery.h"
#include "hca/flow.h"
#include "net/packet.h"
#include "obs/explain.h"
#include "wire/frame.h"

enum { READ_BUDGET = 64 }; /* frames of the netdev in one read; merged ones are read to their end */

static uint64_t why_not(const struct device *d, const struct netdev *dev, int err)
{
	if (dev->loopback)
		return reason("%s is on %s, which is no Ethernet: frames of RAW_PACKET QPs stay on "
			      "this host; SOFTHCA_DEVICES chooses another interface",
			      d->hca.name, dev->name);
	if (err == EPERM || err == EACCES)
		return reason("%s: no CAP_NET_RAW, so frames of RAW_PACKET QPs stay on this host "
			      "and do not reach %s; run with CAP_NET_RAW for that",
			      d->hca.name, dev->name);
	return reason("%s: %s does not open for frames (error %d): those of RAW_PACKET QPs stay on "
		      "this host; look at the interface",
		      d->hca.name, dev->name, err);
}

static int open_fd(struct device *d, bool receive)
{
	struct netdev dev;
	int fd = -1, err = 0;

	gid_table_netdev(d->gids, &dev);
	if (!dev.loopback)
		err = !dev.index ? ENODEV : packet_open(dev.index, receive, &fd);
	if (fd < 0)
		why_not(d, &dev, err);
	return fd;
}

void frames_begin(struct device *d)
{
	mutex_lock(&d->frames_lock);
	d->frames_begun = true;
	if (d->frames_out < 0)
		store_release(&d->frames_out, open_fd(d, false)); /* pairs with to_network() */
	mutex_unlock(&d->frames_lock);
}

static void listen_begin(struct device *d)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = open_fd(d, true);

	if (fd < 0)
		return;
	d->frames_room = malloc(PACKET_ROOM);
	if (!d->frames_room) {
		reason("%s: no memory to read frames, so none come from the network; raise the "
		       "limit (ulimit -v)",
		       d->hca.name);
		close(fd);
		return;
	}
	ev.data.fd = fd;
	store_release(&d->frames_in, fd); /* pairs with frames_read() */
	epoll_ctl(d->node->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void listen_end(struct device *d)
{
	int fd = d->frames_in;

	store_release(&d->frames_in, -1);
	if (fd < 0)
		return;
	epoll_ctl(d->node->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	/* A thread that is about to read it must not find another file under its number. */
	mutex_lock(&d->frames_reading);
	close(fd);
	free(d->frames_room);
	mutex_unlock(&d->frames_reading);
}

/* The flow table got its first rule, or lost its last; two threads may tell so in either order. */
static void rules_changed(void *arg, bool any)
{
	struct device *d = arg;
	int before;

	mutex_lock(&d->frames_lock);
	before = d->frames_wanted;
	d->frames_wanted += any ? 1 : -1;
	host_cast_want(d->node->host, HOST_FRAMES, any ? 1 : -1);
	if (before == 0 && any)
		listen_begin(d);
	else if (before == 1 && !any)
		listen_end(d);
	mutex_unlock(&d->frames_lock);
}

/* A sender may be about to use the number: it becomes the new socket's at once. */
static void out_again(struct device *d)
{
	int fd = open_fd(d, false);

	if (fd < 0 || d->frames_out < 0) {
		if (fd >= 0)
			store_release(&d->frames_out, fd); /* pairs with to_network() */
		return;
	}
	dup3(fd, d->frames_out, O_CLOEXEC);
	close(fd);
}

void frames_follow(struct device *d)
{
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	mutex_lock(&d->frames_lock);
	if (dev.index && dev.index != d->frames_ifindex) {
		d->frames_ifindex = dev.index;
		if (d->frames_begun)
			out_again(d);
		if (d->frames_wanted > 0) {
			listen_end(d);
			listen_begin(d);
		}
	}
	mutex_unlock(&d->frames_lock);
}

int frames_start(struct device *d)
{
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	d->frames_ifindex = dev.index;
	d->frames_out = d->frames_in = -1;
	mutex_init(&d->frames_lock);
	mutex_init(&d->frames_reading);
	return flow_table_create(rules_changed, d, &d->hca.flows);
}

/* A frame that the network does not take is lost, as on a port that is down. */
static void to_network(struct device *d, const struct seg *s, const struct netdev *dev)
{
	int fd = load_acquire(&d->frames_out), err;

	if (fd < 0 || !memcmp(s->data, dev->mac, sizeof(dev->mac)))
		return;
	err = packet_send(fd, s->data, s->len);
	if (!err) {
		counters_inc(d->hca.counters, COUNTER_PORT_XMIT_PACKETS);
		counters_add(d->hca.counters, COUNTER_PORT_XMIT_DATA, s->len);
		return;
	}
	counters_inc(d->hca.counters, COUNTER_PORT_XMIT_DISCARDS);
	if (err == EMSGSIZE)
		reason("frame of %u B: %s has an MTU of %u B, so it is not sent there; send "
		       "shorter ones",
		       s->len, dev->name, dev->mtu);
	else if (err != EAGAIN && err != ENOBUFS)
		reason("frame of %u B: %s does not take it (error %d), so it is not sent there; "
		       "see `ip link`",
		       s->len, dev->name, err);
}

int frames_send(struct tqp *q, const struct seg *s)
{
	struct device *d = device_of(q);
	struct seg with = *s;
	struct netdev dev;
	int err;

	gid_table_netdev(d->gids, &dev);
	with.port = dev.index;
	err = host_cast_send(d->node->host, &with, &q->req.way, &q->waiter);
	if (!err)
		to_network(d, s, &dev);
	return err;
}

/* --- inbound --- */

struct inbound_frame {
	struct node *node;
	struct seg seg;
	const struct context *from; /* of the QP of this process that sent it; or NULL */
	enum qp_deaf kind;
};

/* The QP that has sent it may be gone: then it is as from another process. */
static void find_sender(struct inbound_frame *in, const struct frame *f)
{
	const struct eqp *e = in->seg.sqpn ? node_qp(in->node, in->seg.sqpn) : NULL;

	in->from = e ? e->q.qp.ctx->root : NULL;
	in->kind = frame_is_multicast(f) ? QP_DEAF_MULTICAST : QP_DEAF_UNICAST;
}

static void to_rule(void *arg, const struct flow_hit *hit)
{
	struct inbound_frame *in = arg;

	if (unlikely(hit->qp->deaf & in->kind) && hit->qp->ctx->root == in->from)
		return;
	in->seg.flow_tag = hit->tag;
	delivery_to_qp(in->node, hit->qpn, &in->seg);
}

static void steer(struct node *n, struct device *d, const struct seg *s)
{
	struct inbound_frame in = { .node = n, .seg = *s };
	struct frame f;

	counters_inc(d->hca.counters, COUNTER_PORT_RCV_PACKETS);
	counters_add(d->hca.counters, COUNTER_PORT_RCV_DATA, s->len);
	frame_parse(s->data, s->len, &f);
	find_sender(&in, &f);
	flow_steer(d->hca.flows, &f, to_rule, &in);
}

/* The sender may still write its memory: the copy is ours. */
void frames_deliver(struct node *n, const struct seg *s)
{
	uint8_t copy[FRAME_MAX];
	struct seg mine = *s;
	struct netdev dev;

	if ((s->flags & SEG_BYREF) || s->len < FRAME_ETH_LEN || s->len > sizeof(copy) || !s->data)
		return;
	memcpy(copy, s->data, s->len);
	mine.data = copy;
	mine.pieces = NULL;
	mine.npieces = 0;
	mine.from = NULL;
	mine.av = NULL;
	mine.grh = NULL;
	for (unsigned int i = 0; i < load_acquire(&n->n_devices); i++) {
		gid_table_netdev(n->devices[i]->gids, &dev);
		if (dev.index == s->port)
			steer(n, n->devices[i], &mine);
	}
}

/* What the kernel has merged, as the frames that were or would be on the wire; their number. */
static unsigned int steer_merged(struct node *n, struct device *d, const struct packet *p)
{
	uint8_t buf[FRAME_MAX];
	struct seg s = { .op = FRAME_OP, .npsn = 1, .data = buf };
	struct frame_merged m;
	unsigned int count = 0;
	struct frame f;

	frame_parse(d->frames_room, p->len, &f);
	if (!frame_merged(&f, p->merged, p->unsummed ? p->sum_at : 0, p->step, &m)) {
		counters_inc(d->hca.counters, COUNTER_PORT_RCV_ERRORS);
		return 1;
	}
	while ((s.len = frame_of_merged(&m, count, buf))) {
		steer(n, d, &s);
		count++;
	}
	return count;
}

static void steer_whole(struct node *n, struct device *d, const struct packet *p)
{
	struct seg s = { .op = FRAME_OP, .npsn = 1, .data = d->frames_room, .len = p->len };

	if (p->len > FRAME_MAX ||
	    (p->unsummed &&
	     !frame_checksum_complete(d->frames_room, p->len, p->sum_at, p->sum_offset)))
		counters_inc(d->hca.counters, COUNTER_PORT_RCV_ERRORS);
	else if (p->len >= FRAME_ETH_LEN)
		steer(n, d, &s);
}

/* The number of frames; 0: the netdev has no more. */
static unsigned int read_one(struct node *n, struct device *d, int fd)
{
	struct packet p;
	int err = packet_recv(fd, d->frames_room, &p);

	if (err == EBADMSG) {
		counters_inc(d->hca.counters, COUNTER_PORT_RCV_ERRORS);
		return 1;
	}
	if (err)
		return 0;
	if (p.merged)
		return steer_merged(n, d, &p);
	steer_whole(n, d, &p);
	return 1;
}

static void read_some(struct node *n, struct device *d)
{
	unsigned int some, read = 0;
	int fd;

	mutex_lock(&d->frames_reading);
	fd = load_acquire(&d->frames_in);
	quiesce_enter();
	while (fd >= 0 && read < READ_BUDGET) {
		some = read_one(n, d, fd);
		if (!some)
			break;
		read += some;
	}
	delivery_release();
	quiesce_exit();
	mutex_unlock(&d->frames_reading);
}

bool frames_read(struct node *n, int fd)
{
	for (unsigned int i = 0; i < load_acquire(&n->n_devices); i++) {
		if (load_acquire(&n->devices[i]->frames_in) != fd)
			continue;
		read_some(n, n->devices[i]);
		return true;
	}
	return false;
}
