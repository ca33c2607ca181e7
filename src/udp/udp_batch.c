// SPDX-License-Identifier: MIT
#include "udp/udp_batch.h"
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "udp/udp_icrc.h"
#include "util/uncancelled.h"
#include "wire/icrc.h"
#include "wire/ip.h"

enum {
	FULL_WAIT_MS = 2,
	TRAIN_BYTES = 65000,
	/* TOS, TTL; size of a segment, or the interface */
	CONTROL = (2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo))) /
		  sizeof(uint64_t),
};

/* One packet, or a train: packets of @size bytes, the last of at most that. */
struct message {
	unsigned int packets;
	size_t size;
	uint8_t tos;
	struct iovec iov; /* all packets */
	uint64_t control[CONTROL];
};

struct udp_batch {
	struct udp_batch *next; /* in the list of free batches */
	unsigned int packets, messages;
	size_t bytes;
	struct mmsghdr msg[UDP_BATCH];
	struct message about[UDP_BATCH];
	uint8_t packet[UDP_BATCH * UDP_PACKET_MAX]; /* one behind the other */
};

struct udp_batch *udp_batch_take(struct udp *u)
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
		b->packets = b->messages = 0, b->bytes = 0;
	return b;
}

static void give(struct udp *u, struct udp_batch *b)
{
	spin_lock(&u->batch_lock);
	b->next = u->batches;
	u->batches = b;
	spin_unlock(&u->batch_lock);
}

void udp_batch_free(struct udp_batch *all)
{
	struct udp_batch *next;

	for (struct udp_batch *b = all; b; b = next) {
		next = b->next;
		free(b);
	}
}

uint8_t *udp_batch_room(struct udp_batch *b)
{
	return b->packet + b->bytes;
}

/* --- messages --- */

static struct cmsghdr *add(struct msghdr *m, int level, int type, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)m->msg_control + m->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	m->msg_controllen += CMSG_SPACE(len);
	return c;
}

static void add_option(struct msghdr *m, int level, int type, int value)
{
	memcpy(CMSG_DATA(add(m, level, type, sizeof(value))), &value, sizeof(value));
}

static void add_segment_size(struct msghdr *m, uint16_t size)
{
	memcpy(CMSG_DATA(add(m, SOL_UDP, UDP_SEGMENT, sizeof(size))), &size, sizeof(size));
}

/* Said with each message: the interface may be made anew, and others may have its address. */
static void add_interface(struct msghdr *m, const struct udp_way *w)
{
	struct in_pktinfo v4 = { .ipi_ifindex = (int)w->ifindex };
	struct in6_pktinfo v6 = { .ipi6_ifindex = w->ifindex };

	memcpy(&v4.ipi_spec_dst, w->from->raw + 12, sizeof(v4.ipi_spec_dst));
	if (w->level == IPPROTO_IP)
		memcpy(CMSG_DATA(add(m, IPPROTO_IP, IP_PKTINFO, sizeof(v4))), &v4, sizeof(v4));
	else
		memcpy(CMSG_DATA(add(m, IPPROTO_IPV6, IPV6_PKTINFO, sizeof(v6))), &v6, sizeof(v6));
}

static struct message *begin_message(struct udp_way *w, struct udp_batch *b, uint8_t tos)
{
	unsigned int i = b->messages++;
	struct msghdr *m = &b->msg[i].msg_hdr;
	struct message *about = &b->about[i];

	about->packets = 0;
	about->tos = tos;
	about->iov = (struct iovec){ udp_batch_room(b), 0 };
	*m = (struct msghdr){ .msg_name = &w->to,
			      .msg_namelen = w->to_len,
			      .msg_iov = &about->iov,
			      .msg_iovlen = 1,
			      .msg_control = about->control };
	add_option(m, w->level, w->tos_type, tos);
	add_option(m, w->level, w->ttl_type, w->hops);
	if (w->ifindex)
		add_interface(m, w);
	return about;
}

/* The train that a packet of @len bytes may join; a shorter packet has ended it. */
static struct message *continued(const struct udp_way *w, struct udp_batch *b, size_t len,
				 uint8_t tos)
{
	struct message *m = b->messages ? &b->about[b->messages - 1] : NULL;

	if (!w->trains || !m || m->tos != tos || len > m->size ||
	    m->iov.iov_len != m->packets * m->size || m->packets == UDP_TRAIN_MAX ||
	    m->iov.iov_len + len > TRAIN_BYTES)
		return NULL;
	return m;
}

/* @damage: what is wrong in its ICRC. */
static void stamp(struct udp_way *w, uint8_t *packet, size_t len, unsigned int index,
		  uint32_t damage)
{
	udp_index_put(packet, index);
	icrc_put(packet + len - ICRC_LEN,
		 udp_icrc(w->header, w->sport, UDP_ROCE_PORT, packet, len) ^ damage);
}

bool udp_batch_add(struct udp_way *w, struct udp_batch *b, size_t len, uint8_t tos, bool damaged)
{
	struct message *m = continued(w, b, len, tos);

	if (!m) {
		m = begin_message(w, b, tos);
		m->size = len;
	}
	stamp(w, udp_batch_room(b), len, m->packets, damaged);
	m->iov.iov_len += len;
	b->bytes += len;
	if (++m->packets == 2)
		add_segment_size(&b->msg[b->messages - 1].msg_hdr, (uint16_t)m->size);
	return ++b->packets == UDP_BATCH;
}

/* --- sending --- */

static bool device_full(int err)
{
	return err == EAGAIN || err == ENOBUFS;
}

/* A socket that sends to QP 1 is told here, once, what became of an earlier packet: any errno that
 * ICMP gives. A refusal of this packet comes again. */
static bool is_old_news(const struct udp_way *w, bool *told)
{
	bool news = w->tells && !*told && !device_full(errno);

	*told |= news;
	return news;
}

static bool wait_for_room(int fd, bool *waited)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	int got;

	if (!device_full(errno) || *waited)
		return false;
	*waited = true;
	UNCANCELLED(got, poll(&room, 1, FULL_WAIT_MS));
	(void)got; /* it is tried again in any case */
	return true;
}

/* The kernel, the device or the path knows no trains, or none so long. */
static bool train_refused(int err)
{
	return err == EINVAL || err == EIO || err == EMSGSIZE;
}

/* It is not on its way: dest.refused tells why nothing comes back, until one as long is taken. */
static void count_refused(struct udp_way *w, const struct message *m, unsigned int packets)
{
	if (!device_full(errno)) {
		w->refused_size = m->size;
		store_relaxed(w->refused, (uint32_t)errno);
	}
	w->refusals += packets;
	udp_bump(&w->u->counts->unsent, packets);
}

static void count_taken(struct udp_way *w, const struct message *m)
{
	if (unlikely(load_relaxed(w->refused)) && m->size >= w->refused_size)
		store_relaxed(w->refused, 0);
}

static void count_sent(struct udp_way *w, const struct message *m, unsigned int n)
{
	uint64_t packets = 0, trains = 0;

	for (unsigned int i = 0; i < n; i++) {
		packets += m[i].packets;
		trains += m[i].packets > 1;
	}
	w->sent += packets;
	udp_bump(&w->u->counts->sent, packets);
	if (trains)
		udp_bump(&w->u->counts->trains, trains);
}

/* What is wrong in the ICRC of a packet that was stamped. */
static uint32_t damage_of(struct udp_way *w, const uint8_t *packet, size_t len)
{
	return icrc_get(packet + len - ICRC_LEN) ^
	       udp_icrc(w->header, w->sport, UDP_ROCE_PORT, packet, len);
}

/* From now on each packet goes alone. */
static void split(struct udp_way *w, const struct mmsghdr *mm, const struct message *train)
{
	uint8_t *at = train->iov.iov_base, *end = at + train->iov.iov_len;
	bool waited = false;

	w->trains = false;
	while (at < end) {
		size_t left = (size_t)(end - at), len = left < train->size ? left : train->size;
		struct iovec one = { at, len };
		struct msghdr m = mm->msg_hdr;
		ssize_t sent;

		m.msg_iov = &one;
		m.msg_controllen = 2 * CMSG_SPACE(sizeof(int));
		stamp(w, at, len, 0, damage_of(w, at, len));
		UNCANCELLED(sent, sendmsg(*w->fd, &m, MSG_DONTWAIT));
		if (sent >= 0)
			count_sent(w, &(struct message){ .packets = 1 }, 1);
		else if (errno == EINTR || wait_for_room(*w->fd, &waited))
			continue;
		else
			count_refused(w, train, 1);
		at += len;
	}
}

void udp_batch_send(struct udp_way *w, struct udp_batch *b)
{
	unsigned int done = 0;
	bool waited = false, told = false;

	while (done < b->messages) {
		const struct message *m = &b->about[done];
		int n;

		UNCANCELLED(n, sendmmsg(*w->fd, &b->msg[done], b->messages - done, MSG_DONTWAIT));
		if (n > 0) {
			count_sent(w, m, (unsigned int)n);
			count_taken(w, m);
			done += (unsigned int)n;
		} else if (errno == EINTR || is_old_news(w, &told) ||
			   wait_for_room(*w->fd, &waited)) {
			continue;
		} else {
			if (m->packets > 1 && train_refused(errno))
				split(w, &b->msg[done], m);
			else
				count_refused(w, m, m->packets);
			done++;
		}
	}
	give(w->u, b);
}
