// SPDX-License-Identifier: MIT
/* Sockets of rsocket(7): beginning, connecting, end. */
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>
#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/now.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"
#include "util/uncancelled.h"

enum { BACKLOG_MAX = 1024, PATIENCE = 5 /* s */ };
#define MET_NS UINT64_C(500000000) /* that the end of an accepted socket waits for its peer */

/* Before any lock: librspreload asks it for every socket of the process, the library's own too. */
static bool is_ours(int domain, int type, int protocol)
{
	if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB)
		return false;
	if (type == SOCK_STREAM)
		return !protocol || protocol == IPPROTO_TCP;
	return type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP);
}

EXPORT int rsocket(int domain, int type, int protocol)
{
	struct sock *s;
	int err;

	if (!is_ours(domain, type, protocol) || (type == SOCK_DGRAM && domain == AF_IB))
		return minus1_errno(ENOTSUP);
	err = type == SOCK_DGRAM ? sock_make_dgram(domain, &s) : sock_make(NULL, NULL, &s);
	return err ? minus1_errno(err) : s->fd;
}

/* --- addresses --- */

static int check_address(const struct sockaddr *a, socklen_t len)
{
	if (!a || len < sizeof(a->sa_family))
		return EINVAL;
	if (a->sa_family == AF_INET)
		return len < sizeof(struct sockaddr_in) ? EINVAL : 0;
	if (a->sa_family == AF_INET6)
		return len < sizeof(struct sockaddr_in6) ? EINVAL : 0;
	return EAFNOSUPPORT;
}

static int bind_locked(struct sock *s, const struct sockaddr *addr, socklen_t len)
{
	int err = check_address(addr, len);

	if (!err && s->dgram)
		return bind(s->fd, addr, len) ? errno : 0;
	if (!err && s->state != SOCK_NEW)
		err = EINVAL;
	if (!err && rdma_bind_addr(s->id, (struct sockaddr *)addr))
		err = errno;
	s->bound |= !err;
	return err;
}

EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	err = bind_locked(s, addr, addrlen);
	sock_put(s);
	return minus1_errno(err);
}

EXPORT int rlisten(int socket, int backlog)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	if (s->dgram)
		err = EOPNOTSUPP;
	else if (s->state != SOCK_NEW && s->state != SOCK_LISTENING)
		err = EINVAL;
	else if (s->state == SOCK_NEW && rdma_listen(s->id, backlog))
		err = errno;
	if (!err) {
		s->state = SOCK_LISTENING;
		s->svc.backlog = backlog > 0 && backlog < BACKLOG_MAX ? backlog : BACKLOG_MAX;
		service_add(s);
	}
	sock_put(s);
	return minus1_errno(err);
}

static void give_address(const struct sockaddr *a, struct sockaddr *out, socklen_t *len)
{
	socklen_t n =
		a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	memcpy(out, a, n < *len ? n : *len);
	*len = n;
}

EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	if (!addr || !addrlen)
		err = EFAULT;
	else if (s->dgram)
		err = getsockname(s->fd, addr, addrlen) ? errno : 0;
	else
		give_address(rdma_get_local_addr(s->id), addr, addrlen);
	sock_put(s);
	return minus1_errno(err);
}

EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	if (!addr || !addrlen)
		err = EFAULT;
	else if (s->dgram)
		err = getpeername(s->fd, addr, addrlen) ? errno : 0;
	else if (s->state == SOCK_NEW || s->state == SOCK_LISTENING)
		err = ENOTCONN;
	else
		give_address(rdma_get_peer_addr(s->id), addr, addrlen);
	sock_put(s);
	return minus1_errno(err);
}

/* --- connections --- */

static int hand_over(struct sock *made, struct sockaddr *addr, socklen_t *addrlen)
{
	int fd = made->fd;

	pthread_mutex_lock(&made->lock);
	if (made->opt.keepalive)
		service_add(made);
	pthread_mutex_unlock(&made->lock);
	if (addr && addrlen)
		give_address(rdma_get_peer_addr(made->id), addr, addrlen);
	sock_unref(made);
	return fd;
}

/* Long enough for others to take the lock, which a thread that wants it back at once would have
 * first. */
static void give_way(struct sock *s)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	int was = uncancelled_begin();

	pthread_mutex_unlock(&s->lock);
	nanosleep(&nap, NULL);
	pthread_mutex_lock(&s->lock);
	uncancelled_end(was);
}

/* @more: requests were refused, and others may be there already, without an end. */
static int await_request(struct sock *s, bool more)
{
	if (s->flags & O_NONBLOCK)
		return EAGAIN;
	if (more)
		give_way(s);
	return sock_wait(s, false, AWAIT_REQUEST);
}

EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct sock *s, *made = NULL;
	int err = sock_get(socket, &s), fd = -1;

	if (err)
		return minus1_errno(err);
	if (s->state != SOCK_LISTENING)
		err = s->dgram ? EOPNOTSUPP : EINVAL;
	while (!err && !made) {
		made = service_take(s);
		err = made ? 0 : meet_accept(s, &made);
		if (err == EAGAIN || err == EBUSY)
			err = await_request(s, err == EBUSY);
		if (!err && !made && s->state != SOCK_LISTENING)
			err = EBADF; /* another thread has closed it */
	}
	if (!err)
		fd = hand_over(made, addr, addrlen);
	sock_put(s);
	return err ? minus1_errno(err) : fd;
}

static int connect_locked(struct sock *s, const struct sockaddr *addr, socklen_t len)
{
	int err = check_address(addr, len);

	if (err)
		return err;
	if (s->dgram)
		return dgram_connect(s, addr, len);
	sock_progress(s);
	if (s->state == SOCK_LISTENING)
		return EINVAL;
	if (s->state == SOCK_OPEN)
		return EISCONN;
	if (meet_underway(s) && s->flags & O_NONBLOCK)
		return EALREADY;
	if (s->state == SOCK_NEW)
		err = meet_begin(s, addr);
	if (err)
		sock_end(s, err);
	err = sock_wait(s, s->flags & O_NONBLOCK, AWAIT_MET);
	if (err)
		return err == EAGAIN ? EINPROGRESS : err;
	if (s->state == SOCK_OPEN)
		return 0;
	err = s->so_error;
	s->so_error = 0;
	return err ? err : ECONNABORTED;
}

EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	err = connect_locked(s, addr, addrlen);
	sock_put(s);
	return minus1_errno(err);
}

/* --- end --- */

/* When a peer that takes nothing has delayed the program long enough. */
static uint64_t patience(const struct sock *s)
{
	const struct linger *l = &s->opt.linger;
	int seconds = l->l_onoff && l->l_linger > 0 ? l->l_linger : PATIENCE;

	return now_ns() + (uint64_t)seconds * 1000000000U;
}

static int wait_out(struct sock *s, uint64_t until, enum awaited what)
{
	int err;

	do
		err = sock_wait_until(s, until, what);
	while (err == EINTR);
	return err;
}

/* Until the peer has everything that was sent. What it has not taken in time the queue pair goes on
 * to send, as long as there is one. */
static int say(struct sock *s, uint32_t what, uint64_t until)
{
	int err = wait_out(s, until, AWAIT_CONTROL);

	if (err || s->state != SOCK_OPEN)
		return err;
	err = ring_control(s, what);
	err = err ? err : wait_out(s, until, AWAIT_IDLE);
	return err == ETIMEDOUT ? 0 : err;
}

static int shut(struct sock *s, int how, uint64_t until)
{
	bool read = how != SHUT_WR, write = how != SHUT_RD, ends;
	int err = 0;

	ends = (write || !s->can_write) && (read || !s->can_read);
	if (read)
		s->can_read = false;
	if (write && !ends) {
		s->can_write = false;
		err = say(s, CONTROL_SHUTDOWN, until);
	}
	if (ends) {
		s->can_write = false;
		err = say(s, CONTROL_DISCONNECT, until);
		sock_end(s, 0);
	}
	sock_changed(s);
	return err;
}

/* What raccept() has returned is connected for the program: here its peer may still have to say
 * so, for which it needs a thread that handles the answer. */
static int shut_stream(struct sock *s, int how)
{
	uint64_t until = patience(s), met = now_ns() + MET_NS;
	int err = 0;

	if (s->passive && meet_underway(s))
		err = wait_out(s, until < met ? until : met, AWAIT_MET);
	if (err)
		return err;
	if (s->state == SOCK_OPEN)
		return shut(s, how, until);
	return s->state == SOCK_OVER ? 0 : ENOTCONN;
}

/* Nobody is told. Only a connected one can be, and Linux would shut another while it refuses to. */
static int shut_dgram(struct sock *s, int how)
{
	struct sockaddr_storage to;
	socklen_t len = sizeof(to);

	if (getpeername(s->fd, (struct sockaddr *)&to, &len) || shutdown(s->fd, how))
		return errno;
	s->can_read = s->can_read && how == SHUT_WR;
	s->can_write = s->can_write && how == SHUT_RD;
	sock_changed(s);
	return 0;
}

EXPORT int rshutdown(int socket, int how)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	sock_progress(s);
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		err = EINVAL;
	else
		err = s->dgram ? shut_dgram(s, how) : shut_stream(s, how);
	sock_put(s);
	return minus1_errno(err);
}

static void close_accepted(struct sock *listener)
{
	struct sock *s, *of_table;

	while ((s = service_take(listener))) {
		if (sock_remove(s->fd, &of_table) && of_table)
			sock_unref(of_table);
		sock_unref(s);
	}
}

EXPORT int rclose(int socket)
{
	struct sock *s;
	int was;

	if (!sock_remove(socket, &s))
		return minus1_errno(EBADF);
	if (!s)
		return 0;
	was = uncancelled_begin();
	sock_cancel = PTHREAD_CANCEL_DISABLE; /* nobody else would end it */
	service_remove(s);
	pthread_mutex_lock(&s->lock);
	close_accepted(s);
	sock_progress(s);
	if (!s->opt.linger.l_onoff || s->opt.linger.l_linger)
		shut_stream(s, SHUT_RDWR);
	sock_end(s, 0);
	sock_put(s);
	uncancelled_end(was);
	return 0;
}
