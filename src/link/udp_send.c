// SPDX-License-Identifier: MIT
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "link/copy.h"
#include "link/seg_pkt.h"
#include "link/udp_state.h"
#include "obs/explain.h"
#include "util/be.h"
#include "wire/icrc.h"

enum {
	HOPS = 64, /* where the path names no limit */
	FULL_WAIT_MS = 2,
	IN_FLIGHT = 96 << 10, /* bytes of one QP: less than a receive buffer holds by default */
	WINDOW_MAX = 128,
};

struct udp_dest {
	struct dest d;
	struct dest_net net;
	struct udp *u;
	struct udp_port *port;
	unsigned int sender;
	union udp_addr to;
	socklen_t to_len;
	uint8_t header[GRH_LEN]; /* the IP header, as the ICRC sees it */
	uint8_t *ip;
	uint64_t control[8]; /* struct cmsghdr */
	size_t control_len;
	struct udp_batch *batch; /* under the QP's turn */
};

static struct udp_dest *to_udp(struct dest *d)
{
	return container_of(d, struct udp_dest, d);
}

/* --- batches --- */

static struct udp_batch *batch_take(struct udp *u)
{
	struct udp_batch *b;

	spin_lock(&u->batch_lock);
	b = u->batches;
	if (b)
		u->batches = b->next;
	spin_unlock(&u->batch_lock);
	if (!b)
		b = malloc(sizeof(*b));
	if (b)
		b->n = 0;
	return b;
}

static void batch_give(struct udp *u, struct udp_batch *b)
{
	spin_lock(&u->batch_lock);
	b->next = u->batches;
	u->batches = b;
	spin_unlock(&u->batch_lock);
}

static bool device_full(int err)
{
	return err == EAGAIN || err == ENOBUFS;
}

/* Sends what it may; a packet that the kernel refuses (no route, too long, a filter) is lost. */
static void batch_send(struct udp *u, int fd, struct udp_batch *b)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	unsigned int done = 0;
	bool waited = false;

	while (done < b->n) {
		int n = sendmmsg(fd, b->msg + done, b->n - done, MSG_DONTWAIT);

		if (n > 0) {
			udp_bump(&u->counts.sent, (uint64_t)n);
			done += (unsigned int)n;
		} else if (errno == EINTR) {
			continue;
		} else if (device_full(errno) && !waited) {
			waited = true;
			poll(&room, 1, FULL_WAIT_MS);
		} else {
			udp_bump(&u->counts.unsent, 1);
			done++;
		}
	}
}

static void udp_flush(struct dest *d)
{
	struct udp_dest *t = to_udp(d);
	struct udp_batch *b = t->batch;

	if (!b)
		return;
	t->batch = NULL;
	batch_send(t->u, t->port->sender[t->sender], b);
	batch_give(t->u, b);
}

/* --- packets --- */

static void put_lengths(struct udp_dest *t, uint8_t *udp, size_t len)
{
	if (t->port->ipv4)
		put_be16(t->ip + 2, (uint16_t)(20 + UDP_HEADER_LEN + len));
	else
		put_be16(t->ip + 4, (uint16_t)(UDP_HEADER_LEN + len));
	put_be16(udp, t->port->sport[t->sender]);
	put_be16(udp + 2, UDP_ROCE_PORT);
	put_be16(udp + 4, (uint16_t)(UDP_HEADER_LEN + len));
}

static int build(struct udp_dest *t, const struct seg *s, uint8_t *buf, size_t *len)
{
	uint8_t udp[UDP_HEADER_LEN] = { 0 };
	size_t head;
	struct pkt p;
	int err;

	seg_to_pkt(s, &p);
	err = wire_build_headers(&p, buf, UDP_PACKET_MAX, &head);
	err = err ? err : wire_build(&p, buf, UDP_PACKET_MAX, len);
	err = err ? err : copy_payload(buf + head, s);
	if (err)
		return err;
	put_lengths(t, udp, *len);
	icrc_put(buf + *len - ICRC_LEN,
		 icrc_more(icrc_begin(t->ip, udp, buf), buf + BTH_LEN, *len - BTH_LEN - ICRC_LEN));
	return 0;
}

static void address(struct udp_dest *t, struct udp_batch *b, size_t len)
{
	unsigned int i = b->n++;

	b->iov[i] = (struct iovec){ b->packet[i], len };
	b->msg[i].msg_hdr = (struct msghdr){
		.msg_name = &t->to,
		.msg_namelen = t->to_len,
		.msg_iov = &b->iov[i],
		.msg_iovlen = 1,
		.msg_control = t->control,
		.msg_controllen = t->control_len,
	};
}

static int udp_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	struct udp_dest *t = to_udp(d);
	size_t len;
	int err;

	(void)w; /* there is always room */
	if (s->len > UDP_MTU_MAX)
		return EMSGSIZE;
	if (!t->batch)
		t->batch = batch_take(t->u);
	if (!t->batch) {
		udp_bump(&t->u->counts.unsent, 1);
		return 0; /* lost, as in a network without memory */
	}
	err = build(t, s, t->batch->packet[t->batch->n], &len);
	if (!err)
		address(t, t->batch, len);
	if (err || !s->more || t->batch->n == UDP_BATCH)
		udp_flush(d);
	return err;
}

/* What a network cannot do. */
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

static void udp_cancel(struct dest *d, struct waiter *w)
{
	(void)d;
	(void)w; /* nobody ever waits */
}

static void udp_put(struct dest *d)
{
	struct udp_dest *t = to_udp(d);

	if (fetch_sub_acq_rel(&d->refs, 1) != 1)
		return;
	udp_flush(d);
	fetch_sub_acq_rel(&t->port->dests, 1);
	free(t);
}

static const struct link_ops udp_ops = {
	.name = "udp",
	.send = udp_send,
	.fetch = udp_fetch,
	.direct = udp_direct,
	.flush = udp_flush,
	.cancel = udp_cancel,
	.put = udp_put,
};

/* --- making one --- */

static void add_option(struct msghdr *m, struct cmsghdr **at, int level, int type, int value)
{
	struct cmsghdr *c = *at ? CMSG_NXTHDR(m, *at) : CMSG_FIRSTHDR(m);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(sizeof(value));
	memcpy(CMSG_DATA(c), &value, sizeof(value));
	*at = c;
}

static void set_options(struct udp_dest *t, const struct udp_path *p)
{
	struct msghdr m = { .msg_control = t->control, .msg_controllen = sizeof(t->control) };
	struct cmsghdr *at = NULL;
	int hops = p->hop_limit ? p->hop_limit : HOPS;

	if (t->port->ipv4) {
		add_option(&m, &at, IPPROTO_IP, IP_TOS, p->tclass);
		add_option(&m, &at, IPPROTO_IP, IP_TTL, hops);
	} else {
		add_option(&m, &at, IPPROTO_IPV6, IPV6_TCLASS, p->tclass);
		add_option(&m, &at, IPPROTO_IPV6, IPV6_HOPLIMIT, hops);
	}
	t->control_len = 2 * CMSG_SPACE(sizeof(int));
}

static void set_header(struct udp_dest *t)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP };

	memcpy(g.sgid, t->net.local.raw, sizeof(g.sgid));
	memcpy(g.dgid, t->net.remote.raw, sizeof(g.dgid));
	grh_build(&g, t->header);
	t->ip = t->header + (t->port->ipv4 ? GRH_LEN - 20 : 0);
}

static uint32_t window(uint32_t mtu)
{
	uint32_t n = IN_FLIGHT / mtu;

	return n < WINDOW_MAX ? n : WINDOW_MAX;
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
			      .window = window(p->mtu) };
	t->u = u;
	t->port = port;
	t->sender = sender;
	t->to_len = udp_addr_set(&t->to, &p->net.remote, p->ifindex, UDP_ROCE_PORT);
	set_options(t, p);
	set_header(t);
	fetch_add_relaxed(&port->dests, 1);
	*out = &t->d;
	return 0;
}
