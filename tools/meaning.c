// SPDX-License-Identifier: MIT
/* softhca explain: what a completion's status, its vendor_err, an errno or an event of librdmacm
 * means here, and what to look at. The sentence of one failure comes from SOFTHCA_EXPLAIN=1. */
#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "prm/cqe.h"
#include "softhca.h"

struct meaning {
	const char *name, *what;
	int value, vendor; /* vendor: of a status, 0: it has none of its own */
};

/* clang-format off */
#define WC(name, vendor, what) { "IBV_WC_" #name, what, IBV_WC_##name, vendor }
static const struct meaning statuses[] = {
	WC(SUCCESS, 0, "the work request is done"),
	WC(LOC_LEN_ERR, VENDOR_LOC_LEN, "a message is longer than the buffers of its receive "
	   "request, or than the QP can send; post larger receives"),
	WC(LOC_QP_OP_ERR, VENDOR_LOC_QP_OP, "this QP cannot do what the work request asks; look at "
	   "its type and its attributes"),
	WC(LOC_PROT_ERR, VENDOR_LOC_PROT, "a buffer of this side is not within its lkey, or the "
	   "lkey is of another PD or does not allow local writes"),
	WC(WR_FLUSH_ERR, VENDOR_SEND_FLUSH, "the QP was in the error state before the work request "
	   "was done; the first completion with another status has the cause"),
	WC(WR_FLUSH_ERR, VENDOR_RECV_FLUSH, "a receive that no message took before the QP went to "
	   "the error state; look at the first completion with another status"),
	WC(MW_BIND_ERR, VENDOR_MW_BIND, "a memory window could not be bound; its region needs "
	   "IBV_ACCESS_MW_BIND and must cover the range"),
	WC(BAD_RESP_ERR, VENDOR_BAD_RESP, "the peer's answer does not belong to what was asked"),
	WC(LOC_ACCESS_ERR, 0, "a receiver's own memory does not allow what the peer asked for"),
	WC(REM_INV_REQ_ERR, VENDOR_REM_INV_REQ, "the peer refuses the request: the operation must "
	   "be enabled in its qp_access_flags, within its max_dest_rd_atomic, aligned, and fit its "
	   "receive buffer"),
	WC(REM_ACCESS_ERR, VENDOR_REM_ACCESS, "the peer refuses the access: the rkey must be of "
	   "its QP's PD, cover the range and allow it"),
	WC(REM_OP_ERR, VENDOR_REM_OP, "the peer failed while it worked on the request; look at its "
	   "completions"),
	WC(RETRY_EXC_ERR, VENDOR_TRANSPORT_RETRY, "no answer in retry_cnt + 1 tries: is the peer "
	   "alive, its QP in RTR or RTS and connected to this one, its rq_psn this sq_psn, and UDP "
	   "port 4791 open in both directions?"),
	WC(RNR_RETRY_EXC_ERR, VENDOR_RNR_RETRY, "the peer had no receive posted in rnr_retry + 1 "
	   "tries; post receives earlier, or set rnr_retry to 7, which never gives up"),
	WC(GENERAL_ERR, 0, "a failure that has no status of its own; softhca gives it to no "
	   "completion"),
	WC(TM_ERR, 0, "tag matching failed; softhca gives it to no completion"),
	WC(TM_RNDV_INCOMPLETE, 0, "a receive with a tag has met a rendezvous, whose data the "
	   "program fetches itself"),
};
#undef WC

#define ERRNO(name, what) { #name, what, name, 0 }
static const struct meaning errnos[] = {
	ERRNO(EPERM, "not permitted; from a send: a packet filter here drops UDP port 4791"),
	ERRNO(ENOENT, "there is no such object"),
	ERRNO(EIO, "a command of the device failed"),
	ERRNO(EBADF, "the descriptor is none, or none of the kind that the call wants"),
	ERRNO(ENXIO, "no device behind that file"),
	ERRNO(EACCES, "a right is missing: a port below 1024 needs CAP_NET_BIND_SERVICE, a key the "
	      "access that the call asks for"),
	ERRNO(EAGAIN, "nothing there yet; call again later"),
	ERRNO(ENOMEM, "no memory, a limit (ulimit -v) or a queue that is full; poll completions "
	      "before more is posted"),
	ERRNO(EFAULT, "an address range that is not mapped, or not for what is asked"),
	ERRNO(EBUSY, "another object still uses this one; destroy that one first"),
	ERRNO(ENODEV, "no device, or no interface that SOFTHCA_DEVICES names; see softhca list"),
	ERRNO(EINVAL, "an argument the call does not take: a state that does not follow, an "
	      "attribute that is missing or too large, an object of another context"),
	ERRNO(EEXIST, "there is one already"),
	ERRNO(EMFILE, "the process has no descriptor left; raise ulimit -n"),
	ERRNO(ENFILE, "the system has no descriptor left"),
	ERRNO(EPIPE, "this end of the connection was shut down for sending"),
	ERRNO(ENAMETOOLONG, "a name that is too long"),
	ERRNO(ENOSYS, "the kernel does not have a system call, or a filter (seccomp) refuses it"),
	ERRNO(EPROTO, "a peer's message is not understood; does it run another version?"),
	ERRNO(EOVERFLOW, "a CQ was full; poll more often, or create it larger"),
	ERRNO(EDESTADDRREQ, "no destination was named"),
	ERRNO(EAFNOSUPPORT, "an address that is neither IPv4 nor IPv6"),
	ERRNO(ENOSPC, "no room in a table or a buffer"),
	ERRNO(ENODATA, "what was asked for is not known (yet)"),
	ERRNO(EOPNOTSUPP, "softhca does not have this feature"),
	ERRNO(EMSGSIZE, "longer than the interface's MTU; raise it, or lower path_mtu"),
	ERRNO(EADDRINUSE, "another id, socket or program has that address and port"),
	ERRNO(EADDRNOTAVAIL, "no device here has that address; see softhca list"),
	ERRNO(ECONNREFUSED, "nobody listens there; start the server before the client, or check "
	      "address, port and port space"),
	ERRNO(ECONNRESET, "the connection broke: the peer has ended, or its queue pair failed"),
	ERRNO(ENOTCONN, "there is no connection, or none any more"),
	ERRNO(EISCONN, "there is a connection already"),
	ERRNO(EALREADY, "a connection is being made already; poll() says when it stands"),
	ERRNO(EINPROGRESS, "the connection is being made; poll() says when it stands"),
	ERRNO(ENOBUFS, "no room in a socket's buffer, or no memory in the kernel"),
	ERRNO(ENETUNREACH, "no route to the address"),
	ERRNO(EHOSTUNREACH, "the address is not reached from the device's interface"),
	ERRNO(ETIMEDOUT, "no answer in time"),
};

#define CM(name, what) { "RDMA_CM_EVENT_" #name, what, RDMA_CM_EVENT_##name, 0 }
static const struct meaning events[] = {
	CM(ADDR_RESOLVED, "rdma_resolve_addr() has found the device; rdma_resolve_route() is next"),
	CM(ADDR_ERROR, "no device leads to the address, or no neighbour answers for it; look at "
	   "SOFTHCA_DEVICES and the address"),
	CM(ROUTE_RESOLVED, "the route is known; rdma_connect() is next"),
	CM(ROUTE_ERROR, "there is no route to the address"),
	CM(CONNECT_REQUEST, "a peer wants to connect; rdma_accept() or rdma_reject()"),
	CM(CONNECT_RESPONSE, "the peer has accepted, and an id without a queue pair has to "
	   "rdma_establish()"),
	CM(CONNECT_ERROR, "the connection could not be made; the queue pair did not take its "
	   "attributes"),
	CM(UNREACHABLE, "no answer came; is that host up, and UDP port 4791 open both ways?"),
	CM(REJECTED, "the peer has refused; status is the reason"),
	CM(ESTABLISHED, "the connection stands"),
	CM(DISCONNECTED, "one end has disconnected, or its process has ended"),
	CM(DEVICE_REMOVAL, "the interface of the device was removed; destroy the id"),
	CM(MULTICAST_JOIN, "the group is joined; param.ud has its address and QKey"),
	CM(MULTICAST_ERROR, "the group could not be joined"),
	CM(ADDR_CHANGE, "the address now belongs to another interface; resolve it anew"),
	CM(TIMEWAIT_EXIT, "the queue pair may be used for another connection"),
};
#undef CM

/* By the InfiniBand specification, of the message that refuses. */
static const struct meaning reasons[] = {
	{ "", "the peer has waited in vain for the next message; accept or establish sooner",
	  4, 0 },
	{ "", "nobody listens there; start the server before the client, or check address, port "
	  "and port space", 8, 0 },
	{ "", "the peer has a connection with that queue pair; end it, or make another", 10, 0 },
	{ "", "that host does not have the address; connect to one that it has", 12, 0 },
	{ "", "the path MTU is above that port's; give both interfaces the same MTU", 26, 0 },
	{ "", "the peer's program has refused (rdma_reject), or has ended", 28, 0 },
	{ "", "the peer's program does not take the vendor's options (rdma_reject_ece)", 35, 0 },
};

static const char *const aliases[][2] = {
	{ "ENOTSUP", "EOPNOTSUPP" }, { "EWOULDBLOCK", "EAGAIN" },
};
/* clang-format on */

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

/* @word is @name, in any case, with or without @before and @after around it. */
static bool is_called(const char *word, const char *name, const char *before, const char *after)
{
	size_t head = strlen(before), tail = strlen(after), n;

	if (!strcasecmp(word, name))
		return true;
	if (strncmp(name, before, head))
		return false;
	name += head;
	n = strlen(name);
	if (!strcasecmp(word, name))
		return true;
	return n > tail && !strcmp(name + n - tail, after) && strlen(word) == n - tail &&
	       !strncasecmp(word, name, n - tail);
}

static bool status_matches(const struct meaning *m, const char *word, long number)
{
	if (number < 0)
		return is_called(word, m->name, "IBV_WC_", "_ERR");
	return m->value == number || (m->vendor && m->vendor == number);
}

static int print_statuses(const char *word, long number)
{
	int found = 0;

	for (size_t i = 0; i < COUNT(statuses); i++) {
		const struct meaning *m = &statuses[i];

		if (!status_matches(m, word, number))
			continue;
		printf("completion status %d, %s", m->value, m->name);
		if (m->vendor)
			printf(", vendor_err 0x%x", (unsigned int)m->vendor);
		printf(": %s\n", m->what);
		found++;
	}
	return found;
}

static int print_errnos(const char *word, long number)
{
	int found = 0;

	for (size_t i = 0; i < COUNT(errnos); i++) {
		const struct meaning *m = &errnos[i];

		if (number < 0 ? strcasecmp(word, m->name) != 0 : m->value != number)
			continue;
		printf("errno %d, %s (%s): %s\n", m->value, m->name, strerror(m->value), m->what);
		found++;
	}
	return found;
}

static int print_events(const char *word, long number)
{
	int found = 0;

	for (size_t i = 0; i < COUNT(events); i++) {
		const struct meaning *m = &events[i];

		if (number < 0 ? !is_called(word, m->name, "RDMA_CM_EVENT_", "_ERROR")
			       : m->value != number)
			continue;
		printf("event %d, %s: %s\n", m->value, m->name, m->what);
		found++;
	}
	for (size_t i = 0; i < COUNT(reasons); i++) {
		if (reasons[i].value != number)
			continue;
		printf("status %ld of RDMA_CM_EVENT_REJECTED: %s\n", number, reasons[i].what);
		found++;
	}
	return found;
}

/* Names and numbers; a negative number, as the status of an event may be, is an errno alone. */
static int print_all(const char *word)
{
	bool negative = word[0] == '-';
	long number = -1;
	char *end;

	if (isdigit((unsigned char)word[negative])) {
		number = strtol(word + negative, &end, 0);
		if (*end)
			number = -1;
	}
	for (size_t i = 0; i < COUNT(aliases); i++)
		if (!strcasecmp(word, aliases[i][0]))
			word = aliases[i][1];
	if (negative)
		return print_errnos(word, number);
	return print_statuses(word, number) + print_errnos(word, number) +
	       print_events(word, number);
}

int cmd_explain(int argc, char **argv)
{
	if (argc != 2) {
		complain("usage: softhca explain STATUS|VENDOR_ERR|ERRNO|EVENT");
		return EXIT_USAGE;
	}
	if (print_all(argv[1]))
		return 0;
	complain("'%s' is no completion status, vendor_err, errno or event of librdmacm; try "
		 "RETRY_EXC, 0x88, EINVAL or REJECTED",
		 argv[1]);
	return 1;
}
