// SPDX-License-Identifier: MIT
/* Two connected QPs: "near" is the test's own, "far" lives in another process, or in this one when
 * opts.together is set. The far side does what it is told by orders, one after the other, and so
 * the same test runs over both links. Memory of each side: one page-aligned area, registered. */
#pragma once
#include "verbs/peer.h"

enum duo_op {
	DUO_RECV, /* posts a receive of @len bytes at offset @off of its memory, wr_id @id */
	DUO_RECV_KEY, /* the same with lkey @key */
	DUO_POLL, /* polls one completion, at most @len ms; answers found, and wc */
	DUO_EVENT, /* takes one asynchronous event, waits at most @len ms; answers found, value */
	DUO_STATE, /* answers value: the state that ibv_query_qp says */
	DUO_MODIFY, /* to state @id (ERR or RESET) */
	DUO_DEREG, /* deregisters its memory */
	DUO_UNMAP, /* unmaps @len bytes at @off under the registration */
	DUO_FILL, /* its memory with the pattern @id */
	DUO_CHECK, /* @len bytes at @off still are the pattern @id: found */
	DUO_PD_KEY, /* registers its memory in a PD of its own; answers value: the rkey */
	DUO_REG, /* registers @len bytes at @off with access @id; answers value: the rkey */
	DUO_LIMIT, /* sets the SRQ's limit to @len */
	DUO_CONNECT, /* takes its QP through RESET and connects it as before */
	DUO_FORK, /* forks a child that waits to be killed; answers value: its pid */
	DUO_EXEC, /* executes this program anew: argv = {itself, "victim", address, bytes, fd} */
	DUO_DO, /* calls @fn: the far process is a fork, so it knows the function too */
	DUO_QUIT,
	DUO_REARM, /* loads an alternate path with hop limit @len, sets IBV_MIG_REARM */
	DUO_MIG, /* answers value: path_mig_state, found: the primary path has hop limit @len */
};

struct side;
struct duo_order;
struct duo_answer;
typedef struct duo_answer (*duo_fn)(struct side *s, const struct duo_order *o);

struct duo_order {
	enum duo_op op;
	uint32_t off, len, key;
	uint64_t id;
	duo_fn fn;
};

struct duo_answer {
	bool found;
	uint64_t value;
	struct ibv_wc wc;
};

struct duo_opts {
	struct peer_opts qp; /* cap {0}: 16+16 WRs of 4 SGEs, 64 bytes inline; type 0 is not one */
	bool together; /* both sides in this process */
	int access; /* of the memory; 0: everything */
	size_t bytes; /* of memory; 0: 64 KiB */
	bool far_srq; /* the far QP receives from an SRQ of 16 WRs */
	int far_access; /* the far QP's access flags; 0: as qp.access */
	const char *far_explain; /* SOFTHCA_EXPLAIN of the other process */
	const char *far_netns; /* the far process is on another host: a network namespace (path) */
};

struct side {
	const struct duo_opts *o;
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr, *extra;
	struct ibv_pd *extra_pd;
	struct ibv_srq *srq;
	uint8_t *mem;
	size_t bytes;
	void *own[4]; /* what the functions of DUO_DO keep */
};

struct duo {
	struct side near, far; /* far: filled in only when together */
	struct duo_opts o;
	pid_t pid; /* of the far side */
	int fd;
};

void duo_open(struct duo *d, const struct duo_opts *o); /* opens, connects; opens nothing twice */
void duo_close(struct duo *d); /* a far side that has died is no failure */
struct duo_answer duo_tell(struct duo *d, struct duo_order order);
/* DUO_DO: the far side runs @fn, which finds the rest in its order. */
struct duo_answer duo_do(struct duo *d, duo_fn fn, uint32_t off, uint32_t len, uint64_t id);
void duo_reconnect(struct duo *d); /* both sides anew, after a failure */
void duo_kill(struct duo *d); /* SIGKILL to the far process, and waits for its end */

/* A work request of the near side on @len bytes of its memory at @off, signalled, to the same
 * offset of the far side's memory where it has an address. */
struct ibv_send_wr duo_wr(struct duo *d, enum ibv_wr_opcode op, struct ibv_sge *sg, uint32_t len);
int duo_post(struct duo *d, struct ibv_send_wr *wr); /* ibv_post_send's answer */
void duo_send(struct duo *d, enum ibv_wr_opcode op, uint32_t len); /* posts one, which must work */
struct ibv_wc duo_wc(struct duo *d); /* polls one completion of the near side; none: fails */
struct ibv_wc duo_far_wc(struct duo *d);
void side_rearm(struct side *s, uint8_t hop_limit); /* as DUO_REARM */
bool side_event(struct side *s, struct ibv_async_event *ev, int ms); /* acknowledges it too */
