// SPDX-License-Identifier: MIT
#include "rdmacm/rsocket/dgram.h"
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "rdmacm/rsocket/dgram_qp.h"
#include "rdmacm/rsocket/now.h"

enum { TAG = 0x55555555, VERSION4 = 4, VERSION6 = 6, OP_DATA = 0, OP_CONTROL = 7 };
enum { HEAD4 = 16, HEAD6 = 28, QPN_MAX = 0xffffff };
enum { CHAINS = 256, PER_CHAIN = 8, QPS_MAX = 16 };

static const uint64_t fresh = 1000000000; /* ns */

struct head { /* of a UDP packet */
	__be32 tag;
	uint8_t version, op, length, reserved;
	__be32 qpn;
	uint8_t addr[16]; /* the sender's */
};

_Static_assert(sizeof(struct head) == HEAD6, "as it travels");

struct peer {
	struct peer *next; /* in its chain, the last one met first */
	struct sockaddr_storage addr;
	union ibv_gid gid;
	uint16_t port; /* network order */
	struct dgram_qp *qp; /* ours for it; NULL: only UDP goes there */
	struct ibv_ah *ah; /* NULL: its queue pair is not known */
	uint32_t qpn;
	uint64_t heard; /* ns: when it was known to be there */
};

struct got { /* a datagram that the program has not taken */
	struct got *next;
	struct sockaddr_storage from;
	size_t len;
	uint8_t data[];
};

struct dgram {
	int family, epoll_fd;
	bool connected;
	struct sockaddr_storage to; /* the one peer of a connected socket */
	union ibv_gid to_gid;
	uint16_t to_port, port; /* network order; port: our own, 0 not known yet */
	struct peer *chains[CHAINS];
	struct dgram_qp *qps[QPS_MAX];
	unsigned int n_qps;
	struct got *first, **last;
	uint32_t n_got;
};

/* --- addresses --- */

static socklen_t length(int family)
{
	return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void to_gid(const struct sockaddr_storage *a, union ibv_gid *gid, uint16_t *port)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	memset(gid, 0, sizeof(*gid));
	*port = v4->sin_port; /* at the same place in both */
	if (a->ss_family == AF_INET6) {
		memcpy(gid->raw, &v6->sin6_addr, 16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &v4->sin_addr, 4);
}

/* --- beginning and end --- */

int dgram_open(struct sock *s, int domain)
{
	struct dgram *d = calloc(1, sizeof(*d));

	if (!d)
		return ENOMEM;
	s->dgram = d;
	d->family = domain;
	d->last = &d->first;
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return s->fd < 0 || d->epoll_fd < 0 ? errno : 0;
}

static void peer_free(struct peer *p)
{
	if (p && p->ah)
		ibv_destroy_ah(p->ah);
	free(p);
}

void dgram_free(struct sock *s)
{
	struct dgram *d = s->dgram;

	for (int i = 0; i < CHAINS; i++)
		for (struct peer *p; (p = d->chains[i]);) {
			d->chains[i] = p->next;
			peer_free(p);
		}
	for (struct got *g; (g = d->first);) {
		d->first = g->next;
		free(g);
	}
	while (d->n_qps)
		dgram_qp_free(d->qps[--d->n_qps]);
	if (d->epoll_fd >= 0)
		close(d->epoll_fd);
	if (s->fd >= 0)
		close(s->fd);
	free(d);
}

int dgram_connect(struct sock *s, const struct sockaddr *to, socklen_t len)
{
	struct dgram *d = s->dgram;

	if (connect(s->fd, to, len))
		return errno;
	memset(&d->to, 0, sizeof(d->to));
	memcpy(&d->to, to, length(to->sa_family));
	to_gid(&d->to, &d->to_gid, &d->to_port);
	d->connected = true;
	return 0;
}

/* --- peers --- */

/* The address from which the kernel sends there. */
static int source_of(const struct sock *s, const struct sockaddr_storage *to,
		     struct sockaddr_storage *out)
{
	socklen_t len = sizeof(*out);
	union ibv_gid any, own;
	uint16_t port;
	int fd, err = 0;

	memset(out, 0, len);
	memset(&any, 0, sizeof(any));
	if (getsockname(s->fd, (struct sockaddr *)out, &len))
		return errno;
	to_gid(out, &own, &port);
	if (is_v4(&own))
		any.raw[10] = any.raw[11] = 0xff;
	if (memcmp(&own, &any, sizeof(own)))
		return 0;
	fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	len = sizeof(*out);
	if (fd < 0 || connect(fd, (const struct sockaddr *)to, length(to->ss_family)) ||
	    getsockname(fd, (struct sockaddr *)out, &len))
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

static struct dgram_qp *qp_for(struct sock *s, const struct sockaddr_storage *to)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct dgram *d = s->dgram;
	struct sockaddr_storage from;
	struct dgram_qp *qp;
	union ibv_gid gid;
	uint16_t port;

	if (source_of(s, to, &from))
		return NULL;
	to_gid(&from, &gid, &port);
	for (unsigned int i = 0; i < d->n_qps; i++)
		if (!memcmp(dgram_qp_gid(d->qps[i]), &gid, sizeof(gid)))
			return d->qps[i];
	if (d->n_qps == QPS_MAX ||
	    dgram_qp_open((struct sockaddr *)&from, s->opt.sq, s->opt.rq, &qp))
		return NULL;
	if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, dgram_qp_fd(qp), &ev)) {
		dgram_qp_free(qp);
		return NULL;
	}
	return d->qps[d->n_qps++] = qp;
}

static struct peer **chain(struct dgram *d, const union ibv_gid *gid, uint16_t port)
{
	unsigned int h = port;

	for (unsigned int i = 0; i < sizeof(gid->raw); i++)
		h = h * 31 + gid->raw[i];
	return &d->chains[(h ^ h >> 8) % CHAINS];
}

static struct peer *find(struct dgram *d, const union ibv_gid *gid, uint16_t port)
{
	struct peer *p = *chain(d, gid, port);

	while (p && (p->port != port || memcmp(&p->gid, gid, sizeof(*gid))))
		p = p->next;
	return p;
}

/* The one that was met first makes room. */
static void shorten(struct peer **at)
{
	for (int i = 0; i < PER_CHAIN && *at; i++)
		at = &(*at)->next;
	peer_free(*at);
	*at = NULL;
}

static struct peer *meet(struct sock *s, const struct sockaddr_storage *a)
{
	struct dgram *d = s->dgram;
	struct peer **at, *p;
	union ibv_gid gid;
	uint16_t port;

	to_gid(a, &gid, &port);
	p = find(d, &gid, port);
	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->addr = *a;
	p->gid = gid;
	p->port = port;
	p->qp = qp_for(s, a);
	at = chain(d, &gid, port);
	p->next = *at;
	*at = p;
	shorten(at);
	return p;
}

static bool is_the_one(const struct dgram *d, const struct peer *p)
{
	return d->connected && d->to_port == p->port &&
	       !memcmp(&d->to_gid, &p->gid, sizeof(p->gid));
}

/* --- UDP --- */

/* Bytes of a message that is at most DGRAM_MAX long */
static size_t joined(const struct msghdr *m, uint8_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < m->msg_iovlen; n += m->msg_iov[i++].iov_len)
		if (m->msg_iov[i].iov_len)
			memcpy(out + n, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
	return n;
}

static int send_udp(struct sock *s, const struct peer *p, uint8_t op, const struct msghdr *m)
{
	struct sockaddr_storage to = p->addr;
	struct head h = { .tag = htobe32(TAG), .op = op };
	struct iovec iov[2] = { { .iov_base = &h } };
	struct msghdr out = { .msg_iov = iov, .msg_iovlen = 1 };
	uint8_t data[DGRAM_MAX];
	const union ibv_gid *own = p->qp ? dgram_qp_gid(p->qp) : &p->gid;

	h.version = is_v4(own) ? VERSION4 : VERSION6;
	h.length = is_v4(own) ? HEAD4 : HEAD6;
	if (p->qp) {
		memcpy(h.addr, is_v4(own) ? own->raw + 12 : own->raw, is_v4(own) ? 4 : 16);
		h.qpn = htobe32(dgram_qp_number(p->qp));
	}
	iov[0].iov_len = h.length;
	iov[1].iov_base = data;
	if (m)
		iov[1].iov_len = joined(m, data);
	out.msg_iovlen = m ? 2 : 1;
	if (!is_the_one(s->dgram, p)) {
		out.msg_name = &to;
		out.msg_namelen = length(to.ss_family);
	}
	return sendmsg(s->fd, &out, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

static void queue(struct sock *s, const struct sockaddr_storage *from, const void *data, size_t len)
{
	struct dgram *d = s->dgram;
	struct got *g = malloc(sizeof(*g) + len);

	if (!g)
		return; /* lost, as datagrams may be */
	g->next = NULL;
	g->from = *from;
	g->len = len;
	memcpy(g->data, data, len);
	*d->last = g;
	d->last = &g->next;
	d->n_got++;
	sock_changed(s);
}

/* The header, checked; NULL: no packet of this protocol. */
static const struct head *head_of(const void *packet, size_t len)
{
	const struct head *h = packet;

	if (len < HEAD4 || h->tag != htobe32(TAG) || len < h->length)
		return NULL;
	if (h->version == VERSION4)
		return h->length == HEAD4 ? h : NULL;
	return h->version == VERSION6 && h->length == HEAD6 ? h : NULL;
}

/* Its queue pair, if it is one of the address that the packet came from. */
static void learn(struct peer *p, const struct head *h)
{
	uint32_t qpn = be32toh(h->qpn);
	const uint8_t *addr = h->version == VERSION4 ? p->gid.raw + 12 : p->gid.raw;

	if (!p->qp || qpn < 2 || qpn > QPN_MAX || (h->version == VERSION4) != is_v4(&p->gid) ||
	    memcmp(h->addr, addr, h->version == VERSION4 ? 4 : 16))
		return;
	if (!p->ah)
		p->ah = dgram_qp_way(p->qp, &p->gid);
	p->qpn = qpn;
	p->heard = now_ns();
}

static void take_packet(struct sock *s, const struct sockaddr_storage *from, const void *packet,
			size_t len)
{
	const struct head *h = head_of(packet, len);
	struct peer *p = h ? meet(s, from) : NULL;

	if (!p || (h->op != OP_DATA && h->op != OP_CONTROL))
		return;
	learn(p, h);
	if (h->op == OP_CONTROL)
		return;
	if (p->qp)
		send_udp(s, p, OP_CONTROL, NULL);
	queue(s, from, (const uint8_t *)packet + h->length, len - h->length);
}

/* False: there is none. */
static bool read_udp(struct sock *s)
{
	uint32_t packet[(HEAD6 + DGRAM_MAX) / sizeof(uint32_t)];
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(s->fd, packet, sizeof(packet), MSG_DONTWAIT, (struct sockaddr *)&from,
			     &len);

	if (n < 0) {
		if (errno == EAGAIN)
			return false;
		s->so_error = errno;
		return errno == EINTR;
	}
	take_packet(s, &from, packet, (size_t)n);
	return n; /* none, again and again, after shutdown() */
}

/* --- queue pairs --- */

static void on_message(void *arg, const struct dgram_qp *qp, const struct dgram_from *from,
		       const void *data, size_t len)
{
	struct sock *s = arg;
	struct dgram *d = s->dgram;
	struct peer *p = find(d, &from->gid, from->port);

	if (!p || p->qp != qp || !p->ah || p->qpn != from->qpn || len > DGRAM_MAX)
		return;
	p->heard = now_ns();
	if (d->connected && !is_the_one(d, p))
		return;
	queue(s, &p->addr, data, len);
}

void dgram_progress(struct sock *s)
{
	struct dgram *d = s->dgram;

	for (uint32_t n = s->opt.rq; n && d->n_got < s->opt.rq && read_udp(s); n--)
		;
	for (unsigned int i = 0; i < d->n_qps; i++)
		dgram_qp_poll(d->qps[i], d->n_got < s->opt.rq ? s->opt.rq - d->n_got : 0,
			      on_message, s);
}

/* --- what sockets ask --- */

bool dgram_readable(const struct sock *s)
{
	return s->dgram->first || s->so_error;
}

bool dgram_can_send(const struct sock *s)
{
	for (unsigned int i = 0; i < s->dgram->n_qps; i++)
		if (!dgram_qp_takes(s->dgram->qps[i], 0))
			return false;
	return true;
}

void dgram_arm(struct sock *s)
{
	for (unsigned int i = 0; i < s->dgram->n_qps; i++)
		dgram_qp_arm(s->dgram->qps[i]);
}

void dgram_drain(struct sock *s)
{
	for (unsigned int i = 0; i < s->dgram->n_qps; i++)
		dgram_qp_drain(s->dgram->qps[i]);
}

int dgram_fd(const struct sock *s)
{
	return s->dgram->epoll_fd;
}

/* --- the program's datagrams --- */

static size_t length_of(const struct msghdr *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		n += m->msg_iov[i].iov_len;
	return n;
}

static int peer_of(struct sock *s, const struct msghdr *m, struct peer **out)
{
	struct dgram *d = s->dgram;
	struct sockaddr_storage a = { 0 };

	if (!m->msg_name && !d->connected)
		return EDESTADDRREQ;
	if (!m->msg_name) {
		a = d->to;
	} else {
		if (m->msg_namelen < length(d->family))
			return EINVAL;
		memcpy(&a, m->msg_name, length(d->family));
		if (a.ss_family != d->family)
			return EAFNOSUPPORT;
	}
	*out = meet(s, &a);
	return *out ? 0 : ENOMEM;
}

static uint16_t own_port(struct sock *s)
{
	struct sockaddr_storage a = { 0 };
	socklen_t len = sizeof(a);
	union ibv_gid gid;

	if (!s->dgram->port && !getsockname(s->fd, (struct sockaddr *)&a, &len))
		to_gid(&a, &gid, &s->dgram->port);
	return s->dgram->port;
}

/* By queue pair; what that cannot take goes by UDP. */
static bool is_near(const struct peer *p)
{
	return p->ah && now_ns() - p->heard <= fresh;
}

int dgram_send(struct sock *s, const struct msghdr *m, size_t *out)
{
	size_t len = length_of(m);
	struct peer *p;
	int err;

	if (len > DGRAM_MAX)
		return softhca_refuse(EMSGSIZE, "rsend: a datagram of %zu bytes; %d is the longest",
				      len, DGRAM_MAX);
	err = peer_of(s, m, &p);
	if (err)
		return err;
	*out = len;
	if (!is_near(p) || !dgram_qp_takes(p->qp, 0)) {
		dgram_progress(s); /* it may have answered, or made way for others */
		err = peer_of(s, m, &p);
		if (err)
			return err;
	}
	if (is_near(p) && !dgram_qp_takes(p->qp, 0))
		return EAGAIN;
	if (is_near(p) && dgram_qp_takes(p->qp, len))
		return dgram_qp_send(p->qp, p->ah, p->qpn, own_port(s), m);
	return send_udp(s, p, OP_DATA, m);
}

int dgram_receive(struct sock *s, struct msghdr *m, bool peek, size_t *out)
{
	struct dgram *d = s->dgram;
	struct got *g = d->first;
	size_t done = 0;

	if (!g && s->so_error) {
		int err = s->so_error;

		s->so_error = 0;
		return err;
	}
	if (!g)
		return EAGAIN;
	for (size_t i = 0; i < m->msg_iovlen && done < g->len; i++) {
		size_t n = m->msg_iov[i].iov_len < g->len - done ? m->msg_iov[i].iov_len
								 : g->len - done;

		if (n)
			memcpy(m->msg_iov[i].iov_base, g->data + done, n);
		done += n;
	}
	if (m->msg_name && m->msg_namelen) {
		socklen_t n = length(d->family);

		memcpy(m->msg_name, &g->from, n < m->msg_namelen ? n : m->msg_namelen);
		m->msg_namelen = n;
	}
	m->msg_flags = done < g->len ? MSG_TRUNC : 0;
	*out = done;
	if (peek)
		return 0;
	d->first = g->next;
	if (!d->first)
		d->last = &d->first;
	d->n_got--;
	free(g);
	return 0;
}
