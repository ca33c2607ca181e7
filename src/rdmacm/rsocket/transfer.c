// SPDX-License-Identifier: MIT
/* The calls that send and receive. */
#include <fcntl.h>
#include <string.h>
#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/stream.h"

static ssize_t result(int err, size_t n)
{
	return err ? minus1_errno(err) : (ssize_t)n;
}

static int send_dgram(struct sock *s, const struct msghdr *m, int flags, size_t *n)
{
	bool nonblock = s->flags & O_NONBLOCK || flags & MSG_DONTWAIT;
	int err;

	for (;;) {
		err = s->can_write ? dgram_send(s, m, n) : EPIPE;
		if (err != EAGAIN || nonblock)
			return err;
		err = sock_wait(s, false, AWAIT_WRITABLE);
		if (err)
			return err;
	}
}

static int receive_dgram(struct sock *s, struct msghdr *m, int flags, size_t *n)
{
	int err = sock_wait(s, s->flags & O_NONBLOCK || flags & MSG_DONTWAIT, AWAIT_READABLE);

	err = err ? err : dgram_receive(s, m, flags & MSG_PEEK, n);
	return err == EAGAIN && !s->can_read ? 0 : err;
}

static bool lacks_memory(const struct msghdr *m)
{
	if (!m || (!m->msg_iov && m->msg_iovlen))
		return true;
	for (size_t i = 0; i < m->msg_iovlen; i++)
		if (!m->msg_iov[i].iov_base && m->msg_iov[i].iov_len)
			return true;
	return false;
}

static int check(const char *call, const struct msghdr *m)
{
	if (lacks_memory(m))
		return softhca_refuse(
			EFAULT, "%s: a buffer is NULL and has a length; give its address", call);
	return m->msg_control && m->msg_controllen
		       ? softhca_refuse(ENOTSUP,
					"%s: control messages; rsockets have none, leave "
					"msg_control out",
					call)
		       : 0;
}

EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	struct sock *s;
	size_t n = 0;
	int err = check("rsendmsg", msg);

	err = err ? err : sock_get(socket, &s);
	if (err)
		return minus1_errno(err);
	err = s->dgram ? send_dgram(s, msg, flags, &n) : stream_send(s, msg, flags, &n);
	sock_put(s);
	return result(err, n);
}

EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	struct sock *s;
	size_t n = 0;
	int err = check("rrecvmsg", msg);

	err = err ? err : sock_get(socket, &s);
	if (err)
		return minus1_errno(err);
	msg->msg_flags = 0;
	if (s->dgram) {
		err = receive_dgram(s, msg, flags, &n);
	} else {
		msg->msg_namelen = 0;
		err = stream_receive(s, msg, flags, &n);
	}
	sock_put(s);
	return result(err, n);
}

/* A stream has a peer already: the address is not looked at. */
EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		       const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec iov = { (void *)buf, len };
	struct msghdr m = { .msg_name = (void *)dest_addr,
			    .msg_namelen = addrlen,
			    .msg_iov = &iov,
			    .msg_iovlen = 1 };

	return rsendmsg(socket, &m, flags);
}

EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
			 socklen_t *addrlen)
{
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_name = src_addr,
			    .msg_namelen = src_addr && addrlen ? *addrlen : 0,
			    .msg_iov = &iov,
			    .msg_iovlen = 1 };
	ssize_t n = rrecvmsg(socket, &m, flags);

	if (n < 0 || !src_addr || !addrlen)
		return n;
	if (m.msg_namelen)
		*addrlen = m.msg_namelen;
	else
		rgetpeername(socket, src_addr, addrlen);
	return n;
}

EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

EXPORT ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

EXPORT ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iovcnt };

	if (iovcnt < 0)
		return minus1_errno(EINVAL);
	return rsendmsg(socket, &m, 0);
}

EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iovcnt };

	if (iovcnt < 0)
		return minus1_errno(EINVAL);
	return rrecvmsg(socket, &m, 0);
}
