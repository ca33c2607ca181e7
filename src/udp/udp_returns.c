// SPDX-License-Identifier: MIT
#include <errno.h>
#include <time.h>
#include <linux/errqueue.h> /* wants struct timespec */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "udp/udp_state.h"

/* Its port is its own: what ICMP tells of a packet reaches the socket that sent it. */
int udp_returns_sender(struct udp *u, struct udp_port *p)
{
	struct epoll_event ev = { .events = 0 }; /* EPOLLERR alone, which need not be asked for */
	int fd = -1, err;

	err = udp_socket_sender(p, (uint16_t)((getpid() + 1) & UDP_OWN_PORTS), false, &fd,
				&p->sport[UDP_TELLER]);
	if (err)
		return err;
	udp_socket_deafen(fd);
	err = p->ipv4 ? udp_option(fd, IPPROTO_IP, IP_RECVERR, 1)
		      : udp_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
	if (!err && epoll_ctl(u->returns, EPOLL_CTL_ADD, fd, &ev))
		err = errno;
	if (err)
		close(fd);
	else
		p->sender[UDP_TELLER] = fd;
	return err;
}

int udp_returns_fd(struct udp *u)
{
	return u->returns;
}

static int error_of(struct msghdr *m)
{
	struct sock_extended_err e;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		bool ip = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR;
		bool ip6 = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR;

		if ((!ip && !ip6) || c->cmsg_len < CMSG_LEN(sizeof(e)))
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		return (int)e.ee_errno;
	}
	return 0;
}

/* An error whose packet did not fit into the queue would keep the descriptor readable. */
static void forget_error(int fd)
{
	int err;

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &(socklen_t){ sizeof(err) });
}

static bool next(const struct udp_port *p, struct link_return *out)
{
	uint64_t control[64];
	union udp_addr to = { 0 };
	struct iovec iov = { out->packet, sizeof(out->packet) };
	struct msghdr m = { .msg_name = &to,
			    .msg_namelen = sizeof(to),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n;

	if (p->sender[UDP_TELLER] < 0)
		return false;
	n = recvmsg(p->sender[UDP_TELLER], &m, MSG_ERRQUEUE | MSG_DONTWAIT);
	if (n < 0) {
		forget_error(p->sender[UDP_TELLER]);
		return false;
	}
	out->net.local = p->gid;
	udp_addr_gid(&to, out->net.remote.raw);
	out->ifindex = p->ifindex;
	out->error = error_of(&m);
	out->len = (size_t)n;
	return true;
}

bool udp_returned(struct udp *u, struct link_return *out)
{
	bool found = false;

	mutex_lock(&u->lock);
	for (uint32_t i = 0; i < u->n_ports && !found; i++)
		found = next(u->port[i], out);
	mutex_unlock(&u->lock);
	return found;
}
