// SPDX-License-Identifier: MIT
/* What connection management answers, as text: one program that runs on any librdmacm, and whose
 * output is the same wherever the contract is. Numbers that chance makes are told by what they are
 * equal to.
 *
 * A crew is a listener, an id that connects to it and the id that this makes, on channels of their
 * own; the subject is the one that a state is about. A wrong step on the way to a state ends the
 * program. */
#pragma once
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>

enum side { ACTIVE, PASSIVE, LISTENER, SIDES };

enum state {
	NEW,
	BOUND,
	LISTENING,
	RESOLVED,
	ROUTED,
	ASKED, /* the request is out, and fetched at the other end */
	REQUESTED, /* the passive end of it */
	ACCEPTING, /* it has accepted; nothing of that is fetched */
	ANSWERED, /* the active end has fetched CONNECT_RESPONSE */
	OPEN, /* ESTABLISHED is fetched, at both ends */
	ACCEPTED, /* the passive end of it */
	LEAVING, /* the active end has disconnected, the other has not heard */
	LEFT, /* the passive end has heard */
	CLOSED, /* the passive end has disconnected too; fetched */
	REJECTING, /* the passive end has rejected */
	REJECTED, /* the active end has heard */
	JOINED, /* a group */
	STATES,
};

struct kind {
	const char *name;
	enum rdma_port_space ps;
	enum ibv_qp_type type;
	bool has_qp, v6;
	bool looks_only;
	bool sync; /* the subject is, when it is called */
	bool xrc; /* endpoints: the other end is IBV_QPT_XRC_RECV */
};

struct crew {
	const struct kind *kind;
	struct rdma_event_channel *active, *passive, *other;
	struct rdma_cm_id *id[SIDES];
	enum side subject;
	enum state wanted; /* it is on the way there */
	FILE *out; /* to text */
	char *text;
	size_t len;
	uint32_t given[SIDES]; /* queue pair numbers in messages */
	const char *where; /* the channel that events are fetched from */
	bool tells; /* of the events on the way */
	char qps[64]; /* states before the call */
};

struct call {
	const char *name;
	int (*make)(struct crew *c, struct rdma_cm_id *id); /* 0, -1 and errno */
	bool needs_verbs, needs_qp; /* Debian's library would crash */
	bool waits; /* for the other end, if the id is synchronous */
	/* Also asked of ids that are synchronous, or of XRC, as each call that waits is. */
	bool sync, typed;
};

extern const struct call contract_calls[]; /* up to one without a name */
extern const char *const state_names[STATES];

/* contract.c */
union address {
	struct sockaddr_storage any;
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};
union address own_address(bool v6, in_port_t port); /* of the device; @port as on the wire */
union address group_address(bool v6);
in_port_t listener_port(const struct crew *c);
/* As @id gives it; without a queue pair, with a number that no other id gives. */
struct rdma_conn_param usual_param(struct crew *c, const struct rdma_cm_id *id);
void must(bool ok, const char *what);
const char *errno_name(int err);

/* contract_way.c */
bool state_exists(const struct kind *k, enum state s);
void reach(struct crew *c, enum state s);
void make_qp(struct crew *c, enum side side);
enum { NO_EVENT = -1 };
struct rdma_event_channel *make_channel(void);
void never_wait(struct rdma_event_channel *ch);
/* Fetches an event, tells of it if @c tells, and acks it; NO_EVENT if it was not for programs. */
int take_event(struct crew *c, struct rdma_event_channel *ch);

/* contract_say.c */
void say_event(struct crew *c, const struct rdma_cm_event *e);
void say_id(struct crew *c, const struct rdma_cm_id *id, const char *when);
void say_qp(struct crew *c, const struct rdma_cm_id *id, const char *when);
void say_attr(struct crew *c, const struct ibv_qp_attr *a, int mask);
void qp_states(const struct crew *c, char *out, size_t room);

/* contract_names.c */
void say_names(void); /* of hosts and services */

/* contract_ep.c */
struct rdma_addrinfo ep_info(const struct kind *k, union address *at, bool passive);
struct ibv_qp_init_attr ep_attr(void);
void say_ep(struct crew *c, const struct rdma_cm_id *id); /* on stdout, which is @c's, too */
void say_endpoints(void);

/* contract_sync.c */
void say_flows(void);

/* contract_rules.c */
void say_rules(void); /* of ports and of arguments */
