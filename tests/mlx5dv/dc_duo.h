// SPDX-License-Identifier: MIT
/* DC initiators of this process, and targets that live in other processes, or in this one. */
#pragma once
#include <infiniband/mlx5dv.h>
#include "verbs/cases.h"

enum { THIS_PROCESS = 0 }; /* else: the number of processes with targets */
enum { DC_TARGETS = 3 /* of each process */, DC_KEY = 0x1234567, DC_BYTES = 1 << 20 };

enum dc_op {
	DC_RECV, /* posts a receive of @len bytes, wr_id @id */
	DC_POLL, /* polls one completion; answers wc */
	DC_NONE_CAME, /* no completion is there */
	DC_EVENT, /* takes one asynchronous event; answers value: its type */
	DC_NO_EVENT, /* no asynchronous event waits: found */
	DC_STATE, /* answers value: the state that ibv_query_qp says */
	DC_CHECK, /* its first @len bytes are the pattern @id: found */
	DC_FILL, /* its memory with the pattern @id */
	DC_DESTROY, /* the target */
	DC_CLOSE, /* it goes to RESET and comes back */
	DC_QUIT,
};

struct dc_order {
	enum dc_op op;
	uint32_t target; /* of all, counted through */
	uint32_t len;
	uint64_t id;
};

struct dc_answer {
	bool found;
	uint64_t value;
	struct ibv_wc wc;
};

struct dc_addr {
	uint32_t dctn, rkey;
	uint64_t va;
	union ibv_gid gid;
};

struct dc_peer { /* an initiator */
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
	struct ibv_cq *cq;
	uint16_t stream; /* that dc_post() names */
};

struct dc_duo {
	struct peer_dev dev;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct dc_peer i;
	uint64_t key; /* that work requests name */
	unsigned int targets; /* of all processes */
	struct dc_addr to[16];
	int fd[4];
	pid_t pid[4];
	unsigned int processes;
};

extern uint64_t dc_key; /* of all targets: DC_KEY, unless it is set before dc_open() */
extern int dc_access; /* more IBV_ACCESS_* flags of all memory that is registered */
extern const char *dc_far; /* network namespace of the other processes; NULL: this one's */

void dc_open(struct dc_duo *d, unsigned int processes);
void dc_close(struct dc_duo *d);
struct dc_answer dc_tell(struct dc_duo *d, struct dc_order o);
void dc_initiator(struct dc_duo *d, struct dc_peer *p); /* one more, in RTS */
/* The same with 8 streams, of which 2^@errored in error end it. */
void dc_initiator_streams(struct dc_duo *d, struct dc_peer *p, uint8_t errored);
void dc_connect(struct dc_peer *p); /* RESET to RTS */
struct ibv_qp *dc_target_make(struct peer_dev *dev, struct ibv_cq *cq, struct ibv_srq *srq,
			      uint64_t key); /* in RESET */
void dc_target_rtr(struct ibv_qp *qp); /* RESET to RTR */
/* Posts one signalled work request of @len bytes of the initiator's memory to target @to, with
 * access key d->key. @id is its wr_id, its immediate, what it adds and compares with. */
void dc_post(struct dc_duo *d, struct dc_peer *p, enum ibv_wr_opcode op, unsigned int to,
	     uint32_t len, uint64_t id);
struct ibv_wc dc_wc(struct dc_peer *p); /* the next completion */
void dc_done(struct dc_peer *p, uint64_t id); /* it is a success of @id */
