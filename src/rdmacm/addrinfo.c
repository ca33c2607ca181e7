// SPDX-License-Identifier: MIT
/* rdma_getaddrinfo(3): getaddrinfo(3)'s first answer, as an endpoint needs it. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include "rdmacm/id.h"

static void sockets_hints(const struct rdma_addrinfo *h, struct addrinfo *out)
{
	memset(out, 0, sizeof(*out));
	if (h->ai_flags & RAI_PASSIVE)
		out->ai_flags |= AI_PASSIVE;
	if (h->ai_flags & RAI_NUMERICHOST)
		out->ai_flags |= AI_NUMERICHOST;
	if (h->ai_flags & RAI_FAMILY)
		out->ai_family = h->ai_family;
	if (h->ai_qp_type == IBV_QPT_UD || h->ai_port_space == RDMA_PS_UDP)
		out->ai_socktype = SOCK_DGRAM;
	else if (h->ai_qp_type || h->ai_port_space)
		out->ai_socktype = SOCK_STREAM;
}

static int copy(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from, socklen_t len)
{
	if (!from || !len)
		return 0;
	*to = malloc(len);
	if (!*to)
		return EAI_MEMORY;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static void set_service(struct rdma_addrinfo *r, const struct rdma_addrinfo *h, int socktype)
{
	bool datagrams = socktype == SOCK_DGRAM;

	r->ai_qp_type = h->ai_qp_type ? h->ai_qp_type
			: datagrams   ? (int)IBV_QPT_UD
				      : (int)IBV_QPT_RC;
	r->ai_port_space = h->ai_port_space ? h->ai_port_space
			   : datagrams	    ? (int)RDMA_PS_UDP
					    : (int)RDMA_PS_TCP;
}

static int by_name(const char *node, const char *service, const struct rdma_addrinfo *h,
		   struct rdma_addrinfo *r)
{
	bool passive = h->ai_flags & RAI_PASSIVE;
	struct addrinfo hints, *found;
	int err;

	sockets_hints(h, &hints);
	err = getaddrinfo(node, service, &hints, &found);
	if (err)
		return err;
	r->ai_family = found->ai_family;
	set_service(r, h, found->ai_socktype);
	err = passive ? copy(&r->ai_src_addr, &r->ai_src_len, found->ai_addr, found->ai_addrlen)
		      : copy(&r->ai_dst_addr, &r->ai_dst_len, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return err;
}

static int by_hints(const struct rdma_addrinfo *h, struct rdma_addrinfo *r)
{
	r->ai_family = h->ai_family;
	r->ai_qp_type = h->ai_qp_type;
	r->ai_port_space = h->ai_port_space;
	return copy(&r->ai_dst_addr, &r->ai_dst_len, h->ai_dst_addr, h->ai_dst_len);
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	const struct rdma_addrinfo *h = hints ? hints : &none;
	struct rdma_addrinfo *r;
	int err;

	if (!node && !service && !hints)
		return minus1_errno(EINVAL);
	r = calloc(1, sizeof(*r));
	if (!r)
		return EAI_MEMORY;
	r->ai_flags = h->ai_flags;
	err = node || service ? by_name(node, service, h, r) : by_hints(h, r);
	if (!err && !r->ai_src_len)
		err = copy(&r->ai_src_addr, &r->ai_src_len, h->ai_src_addr, h->ai_src_len);
	if (err) {
		rdma_freeaddrinfo(r);
		return err;
	}
	*res = r;
	return 0;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	struct rdma_addrinfo *next;

	for (; res; res = next) {
		next = res->ai_next;
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
	}
}
