// SPDX-License-Identifier: MIT
/* Queue pair, the device's half: identity, rings, rights, attributes, state. The protocol's state
 * is in transport/tqp.h, whose first member this is.
 * Locking: members below "guarded" are read and written under the QP's turn, but state may be read
 * without as a hint. The rest is frozen by qp_init(). */
#pragma once
#include "hca/qp_names.h"
#include "hca/service.h"
#include "hca/wq.h"

enum { QP_HASH_KEY = 40 }; /* bytes of a Toeplitz key */

struct qp_hash { /* of a QP that spreads frames over work queues (RSS) */
	struct rwq_table *table; /* NULL: no RSS QP */
	uint64_t fields; /* enum ibv_rx_hash_fields */
	uint8_t key[QP_HASH_KEY];
};

/* Which small messages stand in the entries of completions, too (scatter to CQE). */
enum qp_inlines {
	QP_INLINES_RECEIVES = 1,
	QP_INLINES_ANSWERS = 2, /* of READs and atomics */
	QP_COMPRESSES = 4, /* none of these: its receive CQ does so */
	QP_SPECIAL = QP_INLINES_RECEIVES | QP_COMPRESSES, /* receives are not just pushed */
};

/* Where the driver keeps the wr_ids of outstanding work, by a ring's index, so that reasons can
 * name them. */
struct wr_ids {
	const void *at; /* the first one, a uint64_t; NULL: there are none */
	uint32_t stride, mask; /* bytes from one to the next; number of indices - 1 */
};

/* Frames that queue pairs of its own context send, and that it does not get. */
enum qp_deaf { QP_DEAF_UNICAST = 1, QP_DEAF_MULTICAST = 2 };

struct qp {
	struct context *ctx;
	struct pd *pd;
	uint32_t epoch;
	const struct service *service;
	uint32_t qpn; /* 24 bits */
	uint32_t shown; /* the number that programs know it by: of a DC responder its target's */
	uint32_t uidx; /* the driver's object index, in CQEs */
	struct cq *scq, *rcq; /* NULL on an RSS QP */
	struct srq *srq; /* or NULL */
	struct qp_hash hash;
	/* WQEs may have WQE_OPCODE_ATOMIC_WRITE: the QP was created for it, or a verb has asked
	 * (doorbell_atomic_writes()); atomic */
	bool atomic_writes;
	/* WQEs may have WQE_OPCODE_BIND_MW: a verb has asked (doorbell_binds()); atomic */
	bool binds;
	bool sig_pipelining; /* a wrong signature in its sends moves it to SQD */
	uint32_t flows; /* atomic: flow rules that steer frames to it */
	struct sq_ring sq;
	struct rq rq;
	bool sq_sig_all;
	bool laid_open; /* the program writes the rings itself; guarded */
	bool packet_credits; /* each packet of a SEND takes a credit; set before the QP is used */
	uint8_t deaf; /* enum qp_deaf; set before the QP is used */
	bool tunnels; /* VXLAN, GRE: inner checksums are checked; set before the QP is used */
	uint8_t inlines; /* enum qp_inlines; none until its rings are laid open; atomic */
	uint32_t create_flags; /* IBV_QP_CREATE_* */
	struct ibv_qp_cap cap; /* as granted */
	struct wr_ids sq_ids; /* by block */
	void *user; /* struct ibv_qp * that events name */
	struct { /* guarded */
		enum ibv_qp_state state;
		struct ibv_qp_attr attr; /* as modify calls have set them, for query */
		uint16_t udp_sport; /* source port that the program has chosen; 0: none */
	};
};

struct qp_attr {
	const struct service *service;
	struct cq *scq, *rcq;
	struct srq *srq;
	struct sq_ring sq;
	struct rq_ring rq;
	bool sq_sig_all;
	bool atomic_writes;
	uint32_t create_flags;
	struct ibv_qp_cap cap;
	struct qp_hash hash;
	uint32_t uidx;
	struct wr_ids sq_ids;
	void *user;
};

/* Fills @qp and takes references on the objects that it names. @qpn: taken by the caller. */
int qp_init(struct qp *qp, struct pd *pd, const struct qp_attr *attr, uint32_t qpn);
void qp_fini(struct qp *qp); /* gives the references back; none after a failed qp_init() */

/* Checks a modify call against the state table and the attributes' ranges (qp_moves.h), and on
 * success writes the attributes and the state into @qp. Positive errno with a reason that names the
 * field. Does no protocol work: the caller tells the transport (tqp_moved). */
int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
/* All attributes, as drivers return them; cur_qp_state is the state. */
void qp_query(const struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
uint64_t qp_wr_id(const struct wr_ids *ids, uint32_t index); /* of work that is outstanding */
uint32_t qp_mtu(const struct qp *qp); /* bytes, from path_mtu; UD: the port's */
