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

static const char *of_parting(int status)
{
	return status == -ETIMEDOUT
		       ? "the peer has not answered rdma_disconnect; is its host up, and UDP port "
			 "4791 open both ways?"
		       : NULL;
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
	case RDMA_CM_EVENT_DISCONNECTED:
		name = "DISCONNECTED";
		why = of_parting(status);
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

static const char *end_in(enum cm_state state)
{
	switch (state) {
	case CM_REQ_SENT:
	case CM_SIDR_SENT:
		return "before it answered the request; look why it ended, and connect again";
	case CM_REQ_RCVD:
	case CM_REP_RCVD:
	case CM_REP_SENT:
		return "before the connection was established; look why it ended";
	case CM_ESTABLISHED:
		return "without rdma_disconnect; look why it ended";
	default:
		return NULL;
	}
}

void cm_blame_end(const struct cm_id *id, enum cm_state state)
{
	char text[INET6_ADDRSTRLEN];
	const char *when = end_in(state);

	if (when)
		reason("connection management: the process at %s, port %u has ended %s",
		       cm_blame_address((const struct sockaddr *)&id->dst, text),
		       cm_addr_port(&id->dst), when);
}

/* --- the passive end --- */

static const char *of_request(unsigned int rej, bool of_type)
{
	if (of_type)
		return "its queue pair is of another type than the listener's; use the same at "
		       "both ends";
	switch (rej) {
	case CM_REJ_SERVICE:
		return "no id listens there in that port space; call rdma_listen first, or "
		       "correct the client's port";
	case CM_REJ_STALE:
		return "it names a queue pair of which a connection is still open; that one is "
		       "ended now, and the client has to ask again";
	case CM_REJ_GID:
		return "its path does not name the addresses that it came by; correct the "
		       "client's route";
	case CM_REJ_MTU:
		return "there is no such path MTU; correct it at the client";
	default:
		return "its private data does not begin with the addresses that it came by, or it "
		       "names no queue pair; use librdmacm at the client";
	}
}

void cm_blame_refusal(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		      unsigned int rej, bool of_type)
{
	char text[INET6_ADDRSTRLEN];
	static uint64_t times;

	if (explain_due(++times))
		reason("connection management: a request from %s to port %u is refused (REJ %u), "
		       "the %luth of this process: %s",
		       cm_blame_address((const struct sockaddr *)from, text), cm_addr_port(to), rej,
		       (unsigned long)times, of_request(rej, of_type));
}

void cm_blame_wait(const struct sockaddr_storage *from, const struct cm_id *listener)
{
	bool full = listener->pending >= listener->backlog;
	char text[INET6_ADDRSTRLEN];
	static uint64_t times;

	if (explain_due(++times))
		reason("connection management: a request from %s to port %u has to come again, the "
		       "%luth of this process: %d of %d that may wait do; %s",
		       cm_blame_address((const struct sockaddr *)from, text),
		       cm_addr_port(&listener->src), (unsigned long)times, listener->pending,
		       listener->backlog,
		       full ? "fetch events sooner, or give rdma_listen a larger backlog"
			    : "there is no memory for it: raise ulimit -v");
}

void cm_blame_stray(const union ibv_gid *from, const struct cm_msg *m, const struct cm_id *named)
{
	char text[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN] = "";
	struct sockaddr_storage a;
	static uint64_t times;

	if (!explain_due(++times))
		return;
	cm_addr_of_gid(from, 0, 0, &a);
	if (named)
		cm_blame_address((const struct sockaddr *)&named->dst, other);
	reason("connection management: a message (%s) from %s is dropped, the %luth of this "
	       "process: it names %s%s; %s",
	       cm_name(m->kind), cm_blame_address((const struct sockaddr *)&a, text),
	       (unsigned long)times, named ? "a connection with " : "no connection", other,
	       named ? "let that host answer from the address that was asked"
		     : "it came after the connection was given up, or was never meant for it");
}
