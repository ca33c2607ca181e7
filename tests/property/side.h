// SPDX-License-Identifier: MIT
/* One side of a link, in a thread of its own, and the process it lives in. What a completion queue
 * brings is accounted under that queue's lock, by whoever has polled it. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "property/board.h"
#include "property/model.h"

#define SITS_IN 8 /* sides a process has at most */

struct side;

struct box { /* a CQ */
	struct ibv_cq *cq;
	pthread_mutex_t lock; /* guards polling with its accounting, arms, events */
	unsigned int arms, events;
};

enum { POOL = 64 };
enum { WINDOWS = 3 };

struct pool { /* an SRQ and the memory of its receives */
	const struct program *p;
	uint64_t id; /* of its work requests, without the slot */
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *mem;
	pthread_mutex_t lock; /* guards busy, and posting */
	bool busy[POOL];
	_Atomic unsigned int limits, reached; /* armed; events */
};

struct process {
	unsigned int number;
	const struct program *p;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
	struct box shared;
	struct ibv_xrcd *xrcd;
	struct pool pool;
	struct side *side[SITS_IN];
	unsigned int sides;
	pthread_mutex_t events_lock; /* guards reading asynchronous events */
	_Atomic bool over;
};

struct side {
	struct process *pr;
	unsigned int link, s;
	struct view v;
	uint32_t ep, seen;
	_Atomic uint32_t life; /* in every wr_id; changes when nothing of before may show up */
	uint8_t *mem;
	size_t bytes;
	struct ibv_mr *mr, *read_only, *fickle;
	uint32_t fickle_lkey, fickle_rkey;
	struct pool *pool, own_pool; /* the process' or, of XRC, its own; NULL */
	struct ibv_qp *target, *borrowed; /* XRC: its own, the peer's by ibv_open_qp */
	struct ibv_mw *mw[WINDOWS]; /* types 1 and 2, which the peer uses, and its own */
	uint32_t own_rkey; /* of the last, before its first bind */
	_Atomic unsigned int bound;
	struct ibv_comp_channel *channel;
	struct box own[2], *sbox, *rbox;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx; /* with the ibv_wr_* API; or NULL */
	_Atomic uint32_t qpn;
	struct ibv_ah *ah;
	struct ibv_flow *flow;
	struct ibv_qp_cap cap; /* as granted */
	struct address peer;
	uint32_t psn;
	bool over, sqd; /* over: the QP is in RESET or gone until the next episode */
	_Atomic bool moved; /* to ERR, by this side */
	_Atomic bool ending; /* all was compared: the other side may take its QP away */
	unsigned int want_ops, want_recvs; /* as the steps so far say */
	/* operations; guarded by sbox->lock where another thread may account */
	bool signaled[OPS];
	uint64_t original[OPS];
	uint64_t word; /* the peer's, when everything so far has been executed */
	_Atomic unsigned int posted, retired;
	_Atomic bool failed;
	unsigned int failed_at;
	enum ibv_wc_status first;
	/* receives; the same under rbox->lock */
	_Atomic unsigned int rposted, rdone, delivered;
	_Atomic bool rfailed;
	unsigned int next_message; /* UC, UD: not before this operation of the peer's */
	_Atomic unsigned int async[32]; /* events of this episode, by type */
};

/* Another one in each episode: what is on its way still is not taken for what comes. */
static inline uint32_t side_qkey(const struct side *s)
{
	return 0x11111111 + s->ep;
}

/* memory.c */
size_t memory_bytes(const struct program *p);
enum area { AREA_OPS, AREA_TARGET, AREA_RECVS };
enum { WORD_AT = 0, FRAME_AT = 2048, SOURCE_AT = 4096, GUARD = 64 };
size_t slot_bytes(const struct program *p);
size_t slot_at(const struct program *p, enum area a, unsigned int k); /* offset */
unsigned int pieces(struct ibv_sge sg[SGES], uint8_t *base, uint32_t len, unsigned int n,
		    uint32_t lkey);
void pieces_fill(uint8_t *base, uint32_t len, unsigned int n, uint64_t content);
bool pieces_are(const uint8_t *base, uint32_t skip, uint32_t len, uint32_t of, unsigned int n,
		uint64_t content);
uint64_t base_pattern(const struct program *p);
void memory_refill(struct side *s); /* targets as before the episode */
void memory_verify(struct side *s);

/* account.c */
uint64_t wr_id(const struct side *s, bool receive, unsigned int index);
uint64_t pool_id(const struct side *s); /* NULL: the process' */
uint64_t prologue_id(const struct side *s);
unsigned int box_poll(struct process *pr, struct box *b, int n); /* completions */

/* work.c */
void work_serve(struct side *s); /* posts what may be posted */
void work_step(struct side *s, const struct step *st);
void work_publish(struct side *s); /* what became of the operations */

/* refused.c */
void refused_call(struct side *s, unsigned int n);
void refused_chain(struct side *s, struct ibv_send_wr *first);

/* domain.c: XRC; nothing for other sides */
void domain_open(struct process *pr);
void domain_close(struct process *pr);
void domain_create(struct side *s); /* the target QP */
void domain_publish(struct side *s);
void domain_to(struct side *s, enum ibv_qp_state to);
void domain_init(struct side *s);
void domain_up(struct side *s); /* to RTS; and opens the peer's */
void domain_step(struct side *s, unsigned int n);
void domain_refused(struct side *s);
void domain_return(struct side *s); /* closes the peer's */
void domain_destroy(struct side *s); /* both */

/* frame.c: RAW_PACKET; nothing for other sides */
void frame_up(struct side *s); /* steers what is for this side and this episode to its QP */
void frame_end(struct side *s);
struct ibv_sge frame_head(const struct side *s); /* of what it sends */

/* window.c */
void window_alloc(struct side *s); /* for the next episode; publishes their keys */
void window_bind(struct side *s); /* those that the peer uses */
void window_build(const struct side *s, unsigned int k, struct ibv_send_wr *wr);
void window_refused(struct side *s);
void window_close(struct side *s);

/* builder.c */
uint64_t builder_ops(enum ibv_qp_type type); /* IBV_QP_EX_WITH_* */
int builder_post(struct side *s, struct ibv_send_wr *list); /* by ibv_wr_*, all or none */
void builder_refused(struct side *s, struct ibv_send_wr *wr); /* and posts nothing of it */

/* pool.c */
/* The process' one; or that of an XRC side, with receives completing in @cq. */
void pool_open(struct process *pr, struct pool *pool, struct ibv_cq *cq);
void pool_close(struct pool *pool);
void pool_fill(struct pool *pool);
void pool_free(struct pool *pool, unsigned int slot);
void pool_change(struct pool *pool, uint64_t draw); /* its limit and size */

/* events.c */
void events_read(struct process *pr);

/* side.c */
void *side_run(void *arg);
void side_to(struct side *s, enum ibv_qp_state to);
void side_reset(struct side *s); /* it is over until the next episode */
void side_destroy(struct side *s);

/* connect.c */
void connect_open(struct side *s); /* memory, CQs */
void connect_close(struct side *s);
void connect_create(struct side *s); /* the QP */
void connect_init(struct side *s);
void connect_publish(struct side *s);
void connect_up(struct side *s); /* to RTS */
struct ibv_qp_attr connect_rtr(const struct side *s, uint32_t qpn); /* towards @qpn */

/* process.c */
int process_run(unsigned int number);

/* meddle.c: a thread that uses the same objects */
void *meddle(void *arg);

#define must(s, cond)                                                                              \
	do {                                                                                       \
		if (!(cond))                                                                       \
			board_fail("%s:%d: link %u side %c episode %u: not so: %s", __FILE__,      \
				   __LINE__, (s)->link, "ab"[(s)->s], (s) -> ep, #cond);           \
	} while (0)
#define must_eq(s, a, b)                                                                           \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (a_ != b_)                                                                      \
			board_fail("%s:%d: link %u side %c episode %u: %s is %lld, not %lld",      \
				   __FILE__, __LINE__, (s)->link, "ab"[(s)->s], (s) -> ep, #a, a_, \
				   b_);                                                            \
	} while (0)
