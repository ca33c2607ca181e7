// SPDX-License-Identifier: MIT
#include "cm/cm_blame.h"
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include "cm/cm_addr.h"
#include "obs/explain.h"

const char *cm_blame_address(const struct sockaddr *a, char text[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)a;
	bool ipv4 = a->sa_family == AF_INET;

	text[0] = 0;
	inet_ntop(a->sa_family, ipv4 ? (const void *)&in->sin_addr : &in6->sin6_addr, text,
		  INET6_ADDRSTRLEN);
	return text;
}

static const char nobody_listens[] = "nobody listens there; start the server before the client, or "
				     "check address, port and port space";

static const char *of_rejection(int status)
{
	switch (status) {
	case CM_REJ_SERVICE:
		return nobody_listens;
	case CM_REJ_TIMEOUT:
		return "the peer has waited in vain for the next message; accept or establish "
		       "sooner";
	case CM_REJ_STALE:
		return "the peer has a connection with that queue pair; end it, or make another "
		       "queue pair";
	case CM_REJ_GID:
		return "that host does not have the address; connect to one that it has";
	case CM_REJ_MTU:
		return "the path MTU is above that port's; give both interfaces the same MTU";
	default:
		return NULL;
	}
}

static const char *of_silence(const struct cm_id *id, int status)
{
	if (status == CM_SIDR_SERVICE && id->fsm.udp)
		return nobody_listens;
	if (status == -ETIMEDOUT)
		return "no answer came; is that host up, does a program there use softhca or an "
		       "adapter, and is UDP port 4791 open both ways?";
	return status < 0 ? "no message goes there; look at routes and firewalls" : NULL;
}

static const char *of_address(int status)
{
	if (status == -ENODEV)
		return "no RDMA device leads there; name its interface in SOFTHCA_DEVICES";
	return "no neighbour answers for it; is it the peer's address, and its host up?";
}

void cm_blame_event(const struct cm_id *id, int event, int status)
{
	const char *name = NULL, *why = NULL;
	char text[INET6_ADDRSTRLEN];

	switch (event) {
	case RDMA_CM_EVENT_REJECTED:
		name = "REJECTED";
		why = of_rejection(status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		name = "UNREACHABLE";
		why = of_silence(id, status);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		name = "ADDR_ERROR";
		why = of_address(status);
		break;
	default:
		break;
	}
	if (why)
		reason("RDMA_CM_EVENT_%s (status %d) for %s, port %u: %s", name, status,
		       cm_blame_address((const struct sockaddr *)&id->dst, text),
		       cm_addr_port(&id->dst), why);
}
