// SPDX-License-Identifier: MIT
/* A program: what every side of every link does in every episode. It follows from the seed alone,
 * so each process knows the whole of it, the steps of the other side too; scheduling is the only
 * freedom. An episode begins with a connection and ends with both sides having compared what they
 * saw with the model (model.h). Every operation has slots of memory of its own for the length of an
 * episode, so each byte is written by one operation at most.
 *
 * A cut switches steps off without changing any other: that is how a failure is made small. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	LINKS = 4,
	SIDES = 2,
	PROCS = 3,
	EPISODES = 4,
	OPS = 32,
	RECVS = 40,
	STEPS = 40,
	SGES = 4,
	ALL_STEPS = LINKS * EPISODES * SIDES * STEPS,
};
enum { FRAME_HEAD = 14, FRAME_LEAST = 46, FRAME_MOST = 1400 }; /* Ethernet: header, payloads */
#define NONE 0xffff

enum sin { /* what is wrong with an operation, or with a receive */
	   SIN_NONE,
	   SIN_LKEY,
	   SIN_RKEY,
	   SIN_RIGHT, /* a key that does not give the right */
	   SIN_BOUNDS,
	   SIN_UNALIGNED,
	   SIN_LONG, /* longer than any receive */
	   SIN_STALE, /* by a window that an earlier operation has invalidated */
	   SIN_WINDOW, /* invalidates or binds what it may not */
	   SIN_SRQ, /* to an SRQ that the domain does not have */
	   SIN_FICKLE, /* its key may be deregistered meanwhile */
};

enum via { VIA_REGION, VIA_TYPE_1, VIA_TYPE_2 }; /* windows of the side whose memory it is */

struct op {
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t sin;
	uint8_t nsge;
	uint8_t flags; /* IBV_SEND_* */
	uint8_t via;
	uint16_t of; /* READ: the WRITE to be read back; fenced: the READ that it sends on; NONE */
	uint32_t len;
	uint64_t content; /* the pattern it carries or must bring */
};

struct recv {
	uint8_t sin, nsge;
	uint32_t len;
};

enum step_kind {
	S_SEND, /* n more operations */
	S_RECV, /* n more receives */
	S_POLL, /* n times */
	S_PAUSE,
	S_ILLEGAL, /* the call number n, which is refused */
	S_CHAIN, /* one operation, and behind it in the same list one that is refused */
	S_QUERY,
	S_OPEN, /* ibv_open_qp on XRC target QPs: its own, the peer's */
	S_ARM, /* n: solicited only */
	S_RESIZE,
	S_FORK,
	S_SQD,
	S_RTS,
	S_DEREG, /* the fickle region, or a window */
	S_ERR,
	S_RESET,
	S_DESTROY,
	S_KILL, /* its own process */
	STEP_KINDS,
};

struct step {
	uint8_t kind, n;
};

enum end { END_RESET, END_ERR, END_DESTROY, ENDS };

struct plan { /* of one side in one episode */
	struct op op[OPS];
	struct recv recv[RECVS];
	struct step step[STEPS];
	uint16_t ops, recvs, steps;
	uint16_t inv; /* the operation that invalidates the peer's window of type 2; or NONE */
	bool zero_based; /* the window of type 2 */
	uint8_t end;
	bool by_events; /* sleeps for completions at the end */
	bool sig_all, fresh; /* fresh: a new QP */
	bool builder; /* posts most of its work by ibv_wr_* */
	uint8_t rd_atomic, rnr_retry;
	struct ibv_qp_cap cap;
};

struct episode {
	struct plan side[SIDES];
	uint8_t mtu; /* enum ibv_mtu */
	bool quick; /* short timeouts: something in here breaks the connection */
	uint8_t fickle; /* enum via: what S_DEREG ends */
	uint8_t skewed; /* RC: 1 + the side whose rq_psn is not the other's sq_psn; 0: neither */
	bool endless; /* timeout 0; nothing in here breaks the connection, and nobody is killed */
};

/* What lies between the processes: a link without any faults, and one that only delays, make one
 * host a network, with timers and packets. */
enum way { WAY_PLAIN, WAY_FAULTLESS, WAY_LATE, WAYS };

struct link {
	uint8_t type; /* enum ibv_qp_type; XRC_SEND: each side has one of XRC_RECV too */
	uint8_t proc[SIDES];
	bool srq[SIDES], shared_cq[SIDES];
	struct episode ep[EPISODES];
};

struct program {
	uint64_t seed;
	uint32_t max_len; /* of a message */
	uint8_t links;
	uint8_t way; /* enum way */
	struct link link[LINKS];
	uint8_t off[ALL_STEPS]; /* the cut */
};

void program_make(struct program *p, uint64_t seed);
unsigned int program_index(unsigned int link, unsigned int ep, unsigned int side,
			   unsigned int step);
const char *step_name(enum step_kind k);
void program_print(const struct program *p); /* the steps that are on */

uint64_t mix(uint64_t a, uint64_t b); /* numbers from numbers */
/* The pattern in the memory that side @side of link @link gives others to read. */
uint64_t source_pattern(const struct program *p, unsigned int link, unsigned int side);
static inline bool reliable(const struct link *l)
{
	return l->type == IBV_QPT_RC || l->type == IBV_QPT_XRC_SEND;
}
static inline uint32_t head_of(const struct link *l) /* bytes before the message in a receive */
{
	return l->type == IBV_QPT_UD ? 40 : l->type == IBV_QPT_RAW_PACKET ? FRAME_HEAD : 0;
}
static inline bool takes_receive(const struct op *o)
{
	return o->opcode == IBV_WR_SEND || o->opcode == IBV_WR_SEND_WITH_IMM ||
	       o->opcode == IBV_WR_SEND_WITH_INV || o->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
static inline bool is_atomic(const struct op *o)
{
	return o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || o->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}
static inline bool is_local(const struct op *o) /* of the side's own window, to nobody */
{
	return o->opcode == IBV_WR_BIND_MW || o->opcode == IBV_WR_LOCAL_INV;
}
static inline bool is_write(const struct op *o)
{
	return o->opcode == IBV_WR_RDMA_WRITE || o->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       o->opcode == IBV_WR_ATOMIC_WRITE;
}
static inline bool must_align(const struct op *o) /* of 8 bytes, at a multiple of 8 */
{
	return is_atomic(o) || o->opcode == IBV_WR_ATOMIC_WRITE;
}
static inline bool brings(const struct op *o) /* something into this side's memory */
{
	return o->opcode == IBV_WR_RDMA_READ || is_atomic(o);
}
