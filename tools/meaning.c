// SPDX-License-Identifier: MIT
/* softhca explain: what a completion's status, its vendor_err or an errno means here, and what to
 * look at. The sentence of the very failure comes from SOFTHCA_EXPLAIN=1. */
#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs.h>
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
};
#undef WC

#define ERRNO(name, what) { #name, what, name, 0 }
static const struct meaning errnos[] = {
	ERRNO(EPERM, "not permitted; from a send: a packet filter here drops UDP port 4791"),
	ERRNO(ENOENT, "there is no such object"),
	ERRNO(EIO, "a command of the device failed"),
	ERRNO(EBADF, "the descriptor is none, or none of the kind that the call wants"),
	ERRNO(EAGAIN, "nothing there yet; call again later"),
	ERRNO(ENOMEM, "no memory, a limit (ulimit -v) or a queue that is full; poll completions "
	      "before more is posted"),
	ERRNO(EFAULT, "an address range that is not mapped, or not for what is asked"),
	ERRNO(EBUSY, "another object still uses this one; destroy that one first"),
	ERRNO(ENODEV, "no device, or no interface that SOFTHCA_DEVICES names; see softhca list"),
	ERRNO(EINVAL, "an argument the call does not take: a state that does not follow, an "
	      "attribute that is missing or too large, an object of another context"),
	ERRNO(ENOSPC, "no room in a table or a buffer"),
	ERRNO(ENODATA, "what was asked for is not known (yet)"),
	ERRNO(EOPNOTSUPP, "softhca does not have this feature"),
	ERRNO(EMSGSIZE, "longer than the interface's MTU; raise it, or lower path_mtu"),
	ERRNO(ENETUNREACH, "no route to the address"),
	ERRNO(EHOSTUNREACH, "the address is not reached from the device's interface"),
	ERRNO(ETIMEDOUT, "no answer in time"),
};
/* clang-format on */

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

	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
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

	for (size_t i = 0; i < sizeof(errnos) / sizeof(*errnos); i++) {
		const struct meaning *m = &errnos[i];

		if (number < 0 ? strcasecmp(word, m->name) != 0 : m->value != number)
			continue;
		printf("errno %d, %s (%s): %s\n", m->value, m->name, strerror(m->value), m->what);
		found++;
	}
	return found;
}

int cmd_explain(int argc, char **argv)
{
	long number = -1;
	char *end;

	if (argc != 2) {
		complain("usage: softhca explain STATUS|VENDOR_ERR|ERRNO");
		return EXIT_USAGE;
	}
	if (isdigit((unsigned char)argv[1][0])) {
		number = strtol(argv[1], &end, 0);
		if (*end)
			number = -1;
	}
	if (print_statuses(argv[1], number) + print_errnos(argv[1], number))
		return 0;
	complain("'%s' is no completion status, vendor_err or errno of softhca; try RETRY_EXC, "
		 "0x88 or EINVAL",
		 argv[1]);
	return 1;
}
