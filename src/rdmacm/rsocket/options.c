// SPDX-License-Identifier: MIT
/* Options and flags of sockets. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "rdmacm/rsocket/service.h"

static int get_int(const void *val, socklen_t len, int *out)
{
	if (!val)
		return EFAULT;
	if (len < sizeof(*out))
		return EINVAL;
	memcpy(out, val, sizeof(*out));
	return 0;
}

static uint32_t size_of(int n)
{
	return n < 0 ? 0 : (uint32_t)n;
}

/* --- setting --- */

static int set_id_option(struct sock *s, int option, int n, int *kept)
{
	if (rdma_set_option(s->id, RDMA_OPTION_ID, option, &n, sizeof(n)))
		return errno;
	*kept = n != 0;
	return 0;
}

static int set_linger(struct sock *s, const void *val, socklen_t len)
{
	if (!val)
		return EFAULT;
	if (len < sizeof(s->opt.linger))
		return EINVAL;
	memcpy(&s->opt.linger, val, sizeof(s->opt.linger));
	return 0;
}

static int set_socket(struct sock *s, int name, const void *val, socklen_t len)
{
	bool early = s->state == SOCK_NEW || s->state == SOCK_LISTENING;
	int n, err = name == SO_LINGER ? set_linger(s, val, len) : get_int(val, len, &n);

	if (err)
		return err;
	switch (name) {
	case SO_LINGER:
		return 0;
	case SO_REUSEADDR:
		return set_id_option(s, RDMA_OPTION_ID_REUSEADDR, n, &s->opt.reuse);
	case SO_SNDBUF:
		if (early) /* a connection keeps its buffers */
			s->opt.sndbuf = sock_buffer(size_of(n) * 2);
		return 0;
	case SO_RCVBUF:
		if (early)
			s->opt.rcvbuf = sock_buffer(size_of(n) * 2);
		return 0;
	case SO_KEEPALIVE:
		s->opt.keepalive = n != 0;
		if (n)
			service_add(s);
		return 0;
	case SO_OOBINLINE:
		s->opt.oobinline = n != 0;
		return 0;
	default:
		return ENOTSUP;
	}
}

static int set_positive(int n, int *kept)
{
	if (n <= 0)
		return EINVAL;
	*kept = n;
	return 0;
}

static int set_idle(struct sock *s, int n)
{
	int err = set_positive(n, &s->opt.keep_idle);

	if (!err && s->opt.keepalive)
		service_add(s); /* the time begins anew */
	return err;
}

static int set_tcp(struct sock *s, int name, int n)
{
	switch (name) {
	case TCP_NODELAY:
		s->opt.nodelay = n != 0;
		return 0;
	case TCP_MAXSEG:
		return set_positive(n, &s->opt.maxseg);
	case TCP_KEEPIDLE:
		return set_idle(s, n);
	case TCP_KEEPINTVL:
		return set_positive(n, &s->opt.keep_interval);
	case TCP_KEEPCNT:
		return set_positive(n, &s->opt.keep_count);
	default:
		return ENOTSUP;
	}
}

static int set_route(struct sock *s, const void *val, socklen_t len)
{
	void *copy;

	if (!val || !len || len % sizeof(struct ibv_path_data))
		return EINVAL;
	copy = malloc(len);
	if (!copy)
		return ENOMEM;
	free(s->opt.route);
	memcpy(copy, val, len);
	s->opt.route = copy;
	s->opt.route_len = len;
	return 0;
}

static int set_rdma(struct sock *s, int name, const void *val, socklen_t len)
{
	int n = 0, err = name == RDMA_ROUTE ? 0 : get_int(val, len, &n);

	if (!err && s->state != SOCK_NEW && s->state != SOCK_LISTENING)
		err = EINVAL;
	if (err)
		return err;
	switch (name) {
	case RDMA_SQSIZE:
		s->opt.sq = sock_queue(size_of(n));
		return 0;
	case RDMA_RQSIZE:
		s->opt.rq = sock_queue(size_of(n));
		return 0;
	case RDMA_INLINE:
		s->opt.inlined = sock_inlined(size_of(n));
		return 0;
	case RDMA_IOMAPSIZE:
		s->opt.iomaps = sock_iomaps(size_of(n));
		return 0;
	case RDMA_ROUTE:
		return set_route(s, val, len);
	default:
		return ENOTSUP;
	}
}

static int set(struct sock *s, int level, int name, const void *val, socklen_t len)
{
	int n, err;

	if (s->dgram && level != SOL_RDMA) /* UDP's */
		return setsockopt(s->fd, level, name, val, len) ? errno : 0;
	if (level == SOL_SOCKET)
		return set_socket(s, name, val, len);
	if (level == SOL_RDMA)
		return set_rdma(s, name, val, len);
	err = get_int(val, len, &n);
	if (err)
		return err;
	if (level == IPPROTO_TCP)
		return set_tcp(s, name, n);
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		return set_id_option(s, RDMA_OPTION_ID_AFONLY, n, &s->opt.v6only);
	return ENOTSUP;
}

EXPORT int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct sock *s;
	int err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	err = set(s, level, optname, optval, optlen);
	sock_put(s);
	if (err == ENOTSUP)
		softhca_refuse(err, "rsetsockopt: option %d of level %d; see rsocket(7)", optname,
			       level);
	return minus1_errno(err);
}

/* --- getting --- */

static int get_socket(struct sock *s, int name, int *out)
{
	switch (name) {
	case SO_REUSEADDR:
		*out = s->opt.reuse;
		return 0;
	case SO_SNDBUF:
		*out = (int)s->opt.sndbuf;
		return 0;
	case SO_RCVBUF:
		*out = (int)s->opt.rcvbuf;
		return 0;
	case SO_KEEPALIVE:
		*out = s->opt.keepalive;
		return 0;
	case SO_OOBINLINE:
		*out = s->opt.oobinline;
		return 0;
	case SO_ERROR:
		sock_progress(s);
		meet_look(s);
		*out = s->so_error;
		s->so_error = 0;
		return 0;
	default:
		return ENOTSUP;
	}
}

static int get_tcp(const struct sock *s, int name, int *out)
{
	switch (name) {
	case TCP_NODELAY:
		*out = s->opt.nodelay;
		return 0;
	case TCP_MAXSEG:
		*out = s->opt.maxseg ? s->opt.maxseg : 1024;
		return 0;
	case TCP_KEEPIDLE:
		*out = s->opt.keep_idle;
		return 0;
	case TCP_KEEPINTVL:
		*out = s->opt.keep_interval;
		return 0;
	case TCP_KEEPCNT:
		*out = s->opt.keep_count;
		return 0;
	default:
		return ENOTSUP;
	}
}

static int get_rdma(const struct sock *s, int name, int *out)
{
	switch (name) {
	case RDMA_SQSIZE:
		*out = (int)s->opt.sq;
		return 0;
	case RDMA_RQSIZE:
		*out = (int)s->opt.rq;
		return 0;
	case RDMA_INLINE:
		*out = (int)s->opt.inlined;
		return 0;
	case RDMA_IOMAPSIZE:
		*out = (int)s->opt.iomaps;
		return 0;
	default:
		return ENOTSUP;
	}
}

static int get(struct sock *s, int level, int name, int *out)
{
	if (level == SOL_SOCKET)
		return get_socket(s, name, out);
	if (level == IPPROTO_TCP)
		return get_tcp(s, name, out);
	if (level == SOL_RDMA)
		return get_rdma(s, name, out);
	*out = s->opt.v6only;
	return level == IPPROTO_IPV6 && name == IPV6_V6ONLY ? 0 : ENOTSUP;
}

static int give(const void *from, size_t n, void *val, socklen_t *len)
{
	if (*len < n)
		return EINVAL;
	memcpy(val, from, n);
	*len = (socklen_t)n;
	return 0;
}

EXPORT int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct sock *s;
	int n = 0, err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	if (!optval || !optlen)
		err = EFAULT;
	else if (s->dgram && level != SOL_RDMA && (level != SOL_SOCKET || optname != SO_ERROR))
		err = getsockopt(s->fd, level, optname, optval, optlen) ? errno : 0;
	else if (level == SOL_SOCKET && optname == SO_LINGER)
		err = give(&s->opt.linger, sizeof(s->opt.linger), optval, optlen);
	else if (level == SOL_RDMA && optname == RDMA_ROUTE)
		err = s->opt.route ? give(s->opt.route, s->opt.route_len, optval, optlen) : ENODATA;
	else {
		err = get(s, level, optname, &n);
		err = err ? err : give(&n, sizeof(n), optval, optlen);
	}
	sock_put(s);
	return minus1_errno(err);
}

EXPORT int rfcntl(int socket, int cmd, ... /* arg */)
{
	struct sock *s;
	va_list args;
	int arg, ret = 0, err = sock_get(socket, &s);

	if (err)
		return minus1_errno(err);
	va_start(args, cmd);
	switch (cmd) {
	case F_GETFL:
		ret = s->flags | O_RDWR;
		break;
	case F_SETFL:
		arg = va_arg(args, int);
		s->flags = arg & O_NONBLOCK;
		break;
	default:
		err = softhca_refuse(
			ENOTSUP, "rfcntl: command %d; F_GETFL and F_SETFL are what there is", cmd);
	}
	va_end(args);
	sock_put(s);
	return err ? minus1_errno(err) : ret;
}
