// SPDX-License-Identifier: MIT
#include "net/rtnl.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX 32768 /* the kernel's dumps fill at most this much */

struct question {
	char buf[256];
	struct nlmsghdr *msg;
};

static void question_start(struct question *q, uint16_t type, uint16_t flags)
{
	q->msg = mnl_nlmsg_put_header(q->buf);
	q->msg->nlmsg_type = type;
	q->msg->nlmsg_flags = NLM_F_REQUEST | flags;
	q->msg->nlmsg_seq = 1;
}

/* libmnl takes a length above 2^31 for a small one, and reads up to the next multiple of 4. */
static bool lengths_fit(const char *buf, ssize_t n)
{
	struct nlmsghdr head;

	while (n >= (ssize_t)sizeof(head)) {
		memcpy(&head, buf, sizeof(head));
		if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > (size_t)n ||
		    MNL_ALIGN(head.nlmsg_len) > (size_t)n)
			return false;
		buf += MNL_ALIGN(head.nlmsg_len);
		n -= MNL_ALIGN(head.nlmsg_len);
	}
	return true;
}

/* What the kernel has said goes to @fn; as mnl_cb_run(). */
static int hear(struct mnl_socket *nl, char *buf, mnl_cb_t fn, void *arg)
{
	ssize_t n = mnl_socket_recvfrom(nl, buf, ANSWER_MAX);

	if (n < 0)
		return errno == EINTR ? MNL_CB_OK : MNL_CB_ERROR;
	if (!lengths_fit(buf, n)) {
		errno = EBADMSG;
		return MNL_CB_ERROR;
	}
	return mnl_cb_run(buf, n, 1, 0, fn, arg);
}

bool rtnl_refused(int err)
{
	return err == EPERM || err == EACCES || err == EAFNOSUPPORT || err == EPROTONOSUPPORT ||
	       err == ENOSYS;
}

bool rtnl_is_passing(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM || err == EINTR;
}

/* Sends and feeds @fn until the kernel's last message. The socket is not bound: the kernel gives it
 * a number when it sends. */
static int ask(int bus, struct question *q, mnl_cb_t fn, void *arg)
{
	struct mnl_socket *nl = mnl_socket_open2(bus, SOCK_CLOEXEC);
	char *buf = malloc(ANSWER_MAX);
	int more = -1;

	if (!nl || !buf)
		goto out;
	if (mnl_socket_sendto(nl, q->msg, q->msg->nlmsg_len) < 0)
		goto out;
	do
		more = hear(nl, buf, fn, arg);
	while (more > MNL_CB_STOP);
out:;
	int err = more < 0 ? errno : 0;

	free(buf);
	if (nl)
		mnl_socket_close(nl);
	return err;
}

/* The kernel logs a line about what is longer or shorter than it expects. */
static size_t header_of(uint16_t request)
{
	switch (request) {
	case RTM_GETLINK:
		return sizeof(struct ifinfomsg);
	case RTM_GETADDR:
		return sizeof(struct ifaddrmsg);
	case RTM_GETNEIGH:
		return sizeof(struct ndmsg);
	default:
		return sizeof(struct rtmsg);
	}
}

int rtnl_dump(uint16_t request, unsigned char family, mnl_cb_t fn, void *arg)
{
	struct question q;
	int err, tries = 3;

	do { /* EINTR: the table changed during the dump, what was seen may be torn */
		question_start(&q, request, NLM_F_DUMP);
		mnl_nlmsg_put_extra_header(q.msg, header_of(request));
		((struct rtgenmsg *)mnl_nlmsg_get_payload(q.msg))->rtgen_family = family;
		err = ask(NETLINK_ROUTE, &q, fn, arg);
	} while (err == EINTR && --tries);
	return err;
}

static void take_via(unsigned char family, const void *addr, size_t len, struct rtnl_route *out)
{
	if (len != (family == AF_INET ? 4 : 16))
		return;
	out->via_family = family;
	memcpy(out->via, addr, len);
}

static void take_route_attr(const struct rtmsg *rt, const struct nlattr *attr,
			    struct rtnl_route *out)
{
	const struct rtvia *via = mnl_attr_get_payload(attr);
	size_t len = mnl_attr_get_payload_len(attr);

	switch (mnl_attr_get_type(attr)) {
	case RTA_OIF:
		out->oif = rtnl_u32(attr);
		break;
	case RTA_GATEWAY:
		take_via(rt->rtm_family, via, len, out);
		break;
	case RTA_VIA: /* a gateway of the other family */
		if (len > sizeof(*via))
			take_via((unsigned char)via->rtvia_family, via->rtvia_addr,
				 len - sizeof(*via), out);
		break;
	default:
		break;
	}
}

static int take_route(const struct nlmsghdr *msg, void *arg)
{
	const struct rtmsg *rt = mnl_nlmsg_get_payload(msg);
	struct rtnl_route *out = arg;
	const struct nlattr *attr;

	if (msg->nlmsg_type != RTM_NEWROUTE || !rtnl_has(msg, sizeof(*rt)))
		return MNL_CB_OK;
	*out = (struct rtnl_route){ .type = rt->rtm_type };
	mnl_attr_for_each(attr, msg, sizeof(*rt))
	{
		take_route_attr(rt, attr, out);
	}
	return MNL_CB_STOP;
}

int rtnl_route(unsigned char family, const void *to, const void *from, uint32_t oif,
	       struct rtnl_route *out)
{
	size_t len = family == AF_INET ? 4 : 16;
	struct question q;
	struct rtmsg *rt;

	question_start(&q, RTM_GETROUTE, 0);
	rt = mnl_nlmsg_put_extra_header(q.msg, sizeof(*rt));
	rt->rtm_family = family;
	rt->rtm_dst_len = (unsigned char)(8 * len);
	mnl_attr_put(q.msg, RTA_DST, len, to);
	if (from) {
		rt->rtm_src_len = rt->rtm_dst_len;
		mnl_attr_put(q.msg, RTA_SRC, len, from);
	}
	if (oif)
		mnl_attr_put_u32(q.msg, RTA_OIF, oif);
	return ask(NETLINK_ROUTE, &q, take_route, out);
}

/* --- neighbours --- */

struct neigh {
	uint32_t oif;
	size_t len;
	const void *addr;
	uint16_t state;
	bool found;
};

static int take_neigh(const struct nlmsghdr *msg, void *arg)
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(msg);
	struct neigh *n = arg;
	const struct nlattr *attr;

	if (msg->nlmsg_type != RTM_NEWNEIGH || !rtnl_has(msg, sizeof(*nd)) ||
	    (uint32_t)nd->ndm_ifindex != n->oif)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, msg, sizeof(*nd))
	{
		if (mnl_attr_get_type(attr) != NDA_DST ||
		    mnl_attr_get_payload_len(attr) != n->len ||
		    memcmp(mnl_attr_get_payload(attr), n->addr, n->len))
			continue;
		n->found = true;
		n->state = nd->ndm_state;
	}
	return MNL_CB_OK;
}

/* By one question; kernels before 5.0 only have the whole table. */
int rtnl_neigh(unsigned char family, const void *addr, uint32_t oif, uint16_t *state)
{
	struct neigh n = { .oif = oif, .len = family == AF_INET ? 4 : 16, .addr = addr };
	struct question q;
	struct ndmsg *nd;
	int err;

	question_start(&q, RTM_GETNEIGH, NLM_F_ACK);
	nd = mnl_nlmsg_put_extra_header(q.msg, sizeof(*nd));
	nd->ndm_family = family;
	nd->ndm_ifindex = (int)oif;
	mnl_attr_put(q.msg, NDA_DST, n.len, addr);
	err = ask(NETLINK_ROUTE, &q, take_neigh, &n);
	if (err == EOPNOTSUPP)
		err = rtnl_dump(RTM_GETNEIGH, family, take_neigh, &n);
	if (!err && !n.found)
		err = ENOENT;
	if (!err)
		*state = n.state;
	return err;
}

/* --- sockets --- */

int rtnl_diag(const void *what, size_t n, mnl_cb_t fn, void *arg)
{
	struct question q;

	question_start(&q, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
	memcpy(mnl_nlmsg_put_extra_header(q.msg, n), what, n);
	return ask(NETLINK_SOCK_DIAG, &q, fn, arg);
}

/* --- what changes --- */

static int watch_open(uint32_t groups, int *fd)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = groups };
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int err;

	if (s < 0)
		return errno;
	if (bind(s, (struct sockaddr *)&addr, sizeof(addr))) {
		err = errno;
		close(s);
		return err;
	}
	*fd = s;
	return 0;
}

int rtnl_watch_open(int *fd)
{
	return watch_open(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR, fd);
}

int rtnl_watch_neighs(int *fd)
{
	return watch_open(RTMGRP_NEIGH, fd);
}

bool rtnl_watch_drain(int fd)
{
	bool any = false;
	char byte;

	for (;;) { /* a datagram longer than the buffer is cut: only its arrival counts */
		if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
			any = true;
		else if (errno != EINTR)
			return any;
	}
}
