// SPDX-License-Identifier: MIT
/* rdma_getaddrinfo(3): getaddrinfo(3)'s first answer, as an endpoint needs it; and the same by an
 * event, rdma_resolve_addrinfo(3). */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include "rdmacm/id.h"
#include "rdmacm/newer.h"

static int socktype_of(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int protocol_of(int port_space)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		return IPPROTO_TCP;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IPPROTO_UDP;
	default:
		return 0;
	}
}

/* As Linux's library: a family counts without RAI_FAMILY, too; and a type that is not one of the
 * port space is left to getaddrinfo(), which says EAI_SOCKTYPE. */
static void sockets_hints(const struct rdma_addrinfo *h, struct addrinfo *out)
{
	memset(out, 0, sizeof(*out));
	if (h->ai_flags & RAI_PASSIVE)
		out->ai_flags |= AI_PASSIVE;
	if (h->ai_flags & RAI_NUMERICHOST)
		out->ai_flags |= AI_NUMERICHOST;
	if (h->ai_family != AF_IB)
		out->ai_family = h->ai_family;
	out->ai_socktype = socktype_of(h->ai_qp_type);
	out->ai_protocol = protocol_of(h->ai_port_space);
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

static void set_service(struct rdma_addrinfo *r, const struct rdma_addrinfo *h,
			const struct addrinfo *found)
{
	r->ai_qp_type = h->ai_qp_type			   ? h->ai_qp_type
			: found->ai_socktype == SOCK_DGRAM ? (int)IBV_QPT_UD
							   : (int)IBV_QPT_RC;
	r->ai_port_space = h->ai_port_space		       ? h->ai_port_space
			   : found->ai_protocol == IPPROTO_UDP ? (int)RDMA_PS_UDP
							       : (int)RDMA_PS_TCP;
}

/* A name that is to be read as a GID. */
static int check_family(const struct rdma_addrinfo *h)
{
	const int asked = RAI_FAMILY | RAI_NUMERICHOST;

	if (h->ai_family != AF_IB || (h->ai_flags & asked) != asked)
		return 0;
	softhca_refuse(EAFNOSUPPORT, "rdma_getaddrinfo: AF_IB: an Ethernet port has no such "
				     "address; use AF_INET or AF_INET6");
	return EAI_FAMILY;
}

static int by_name(const char *node, const char *service, const struct rdma_addrinfo *h,
		   struct rdma_addrinfo *r)
{
	bool passive = h->ai_flags & RAI_PASSIVE;
	struct addrinfo hints, *found;
	int err = check_family(h);

	if (err)
		return err;
	sockets_hints(h, &hints);
	err = getaddrinfo(node, service, &hints, &found);
	if (err)
		return err;
	r->ai_flags = passive ? RAI_PASSIVE : 0;
	r->ai_family = found->ai_family;
	set_service(r, h, found);
	err = passive ? copy(&r->ai_src_addr, &r->ai_src_len, found->ai_addr, found->ai_addrlen)
		      : copy(&r->ai_dst_addr, &r->ai_dst_len, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return err;
}

static int by_hints(const struct rdma_addrinfo *h, struct rdma_addrinfo *r)
{
	r->ai_flags = h->ai_flags;
	r->ai_family = h->ai_family;
	r->ai_qp_type = h->ai_qp_type;
	r->ai_port_space = h->ai_port_space;
	return copy(&r->ai_dst_addr, &r->ai_dst_len, h->ai_dst_addr, h->ai_dst_len);
}

/* An EAI_ value. */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	const struct rdma_addrinfo *h = hints ? hints : &none;
	struct rdma_addrinfo *r;
	int err;

	r = calloc(1, sizeof(*r));
	if (!r)
		return EAI_MEMORY;
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

/* What can be asked at all. */
static int check(const char *call, const char *node, const char *service,
		 const struct rdma_addrinfo *hints)
{
	if (!node && !service && !hints)
		return softhca_refuse(EINVAL, "%s: node, service and hints are NULL; give one",
				      call);
	if (hints && (hints->ai_flags & ADDRINFO_SA))
		return softhca_refuse(EOPNOTSUPP,
				      "%s: RAI_SA: an Ethernet port has no subnet administrator; "
				      "names are found by RAI_DNS",
				      call);
	return 0;
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	int err = check("rdma_getaddrinfo", node, service, hints);

	err = err ? err : given(res, "rdma_getaddrinfo", "res");
	return err ? minus1_errno(err) : look_up(node, service, hints, res);
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

/* --- by an event --- */

static int errno_of(int eai)
{
	switch (eai) {
	case 0:
		return 0;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_SYSTEM:
		return errno;
	case EAI_AGAIN:
		return EAGAIN;
	case EAI_NONAME:
		return ENOENT;
	default:
		return EINVAL;
	}
}

static int begin_to_ask(struct id *i)
{
	bool asks;

	pthread_mutex_lock(&i->lock);
	asks = i->asks;
	i->asks = true;
	pthread_mutex_unlock(&i->lock);
	return asks ? softhca_refuse(EBUSY, "rdma_resolve_addrinfo: the answer to an earlier call "
					    "is not taken yet; rdma_query_addrinfo takes it")
		    : 0;
}

static void keep_answer(struct id *i, struct rdma_addrinfo *answer)
{
	pthread_mutex_lock(&i->lock);
	i->asks = answer;
	i->answer = answer;
	pthread_mutex_unlock(&i->lock);
}

static struct rdma_addrinfo *take_answer(struct id *i)
{
	struct rdma_addrinfo *answer;

	pthread_mutex_lock(&i->lock);
	answer = i->answer;
	i->answer = NULL;
	i->asks = i->asks && !answer;
	pthread_mutex_unlock(&i->lock);
	return answer;
}

/* The calling thread asks the resolver. What it says is told by the event. */
EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
				 const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *found = NULL;
	struct id *i = to_id(id);
	int err, status;
	bool sync;

	if (!id)
		return minus1_errno(
			softhca_refuse(EINVAL, "rdma_resolve_addrinfo: id is NULL; give one"));
	err = check("rdma_resolve_addrinfo", node, service, hints);
	err = err ? err : begin_to_ask(i);
	if (err)
		return minus1_errno(err);
	status = errno_of(look_up(node, service, hints, &found));
	keep_answer(i, found);
	sync = i->sync;
	err = softhca_cm()->write_event(
		i->cm, status ? EVENT_ADDRINFO_ERROR : EVENT_ADDRINFO_RESOLVED, -status, 0);
	if (err)
		rdma_freeaddrinfo(take_answer(i));
	return id_result(i, sync, err);
}

EXPORT int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	struct rdma_addrinfo *answer;

	if (!id || !info)
		return minus1_errno(softhca_refuse(
			EINVAL, "rdma_query_addrinfo: %s is NULL; give one", id ? "info" : "id"));
	answer = take_answer(to_id(id));
	if (!answer)
		return minus1_errno(softhca_refuse(
			ENOENT, "rdma_query_addrinfo: there is no answer to take; "
				"RDMA_CM_EVENT_ADDRINFO_RESOLVED says that there is one"));
	*info = answer;
	return 0;
}
