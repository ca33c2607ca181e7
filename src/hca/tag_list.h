// SPDX-License-Identifier: MIT
/* The matching list of a tag-matching SRQ, the device's half: tagged buffers in the order they
 * were added, and the count that keeps device and program coherent. A message whose tag matches
 * takes its buffer; one that matches none is unexpected, takes an ordinary receive and is counted.
 * A buffer that is added with another count than the device's may be too late for a message that
 * the program has not seen yet: it matches nothing until the counts have met
 * (ibv_post_srq_ops(3), phase synchronization).
 * Locking: the SRQ's leaf lock guards the list. A completion is pushed without it, before what it
 * tells of can have another one. */
#pragma once
#include "hca/srq.h"

enum { TAG_SGES = 1 }; /* of a tagged buffer */

/* What a completion is about (mlx5's app_op of app 1). */
enum tag_cqe {
	TAG_CQE_NONE,
	TAG_CQE_CONSUMED = 1, /* matched; the data follows by rendezvous */
	TAG_CQE_EXPECTED = 2, /* … and is there */
	TAG_CQE_UNEXPECTED = 3,
	TAG_CQE_NO_TAG = 4,
	TAG_CQE_ADD = 5,
	TAG_CQE_DEL = 6,
	TAG_CQE_SYNC = 7,
	TAG_CQE_MESSAGE = 0xa, /* matched, and the data is there */
	TAG_CQE_SOFTWARE = 0xb, /* matched a rendezvous that the program has to do itself */
};

struct tag_entry {
	struct list node; /* while listed */
	uint64_t tag, mask;
	struct sge sge[TAG_SGES];
	uint8_t nsge;
	bool listed;
	bool active; /* the counts have met since it was added */
};

struct tag_list {
	struct cq *cq;
	uint32_t n;
	uint16_t unexpected; /* messages that matched nothing, ever */
	bool failed; /* the CQ has overrun */
	uint16_t synced; /* of them, those that the program has said it knows */
	struct list listed;
	struct tag_entry e[];
};

enum tag_op { TAG_ADD, TAG_DEL, TAG_SYNC };

struct tag_ask {
	enum tag_op op;
	uint16_t slot; /* ADD, DEL: the entry */
	bool signaled;
	uint16_t op_index; /* what the completion's wqe_counter says */
	bool sync; /* @count is new */
	uint16_t count;
	uint64_t tag, mask;
	struct sge sge[TAG_SGES];
	uint8_t nsge;
};

/* Pushes a completion of the SRQ. EOVERFLOW: its CQ is full; IBV_EVENT_SRQ_ERR is raised once. */
int tag_list_push(struct srq *srq, const struct cqe *c);
int tag_list_create(struct cq *cq, uint32_t n, struct tag_list **out); /* ENOMEM */
void tag_list_destroy(struct tag_list *t); /* NULL is fine */
/* Executes one operation; true unless a DEL came too late. */
bool tag_list_do(struct srq *srq, const struct tag_ask *ask);
/* Takes the first buffer that @tag matches (@out's idx: its slot), or an ordinary receive when
 * nothing matches. ENOENT: there is none. */
int tag_list_take(struct srq *srq, uint64_t tag, struct rwqe *out, bool *matched);
