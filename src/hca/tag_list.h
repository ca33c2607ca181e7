// SPDX-License-Identifier: MIT
/* The matching list of a tag-matching SRQ: tagged buffers in the order in which they were added,
 * and the counts of unexpected messages by which device and program agree. A buffer that is added
 * with another count than the device's may be too late for a message that the program has not seen
 * yet: it matches no message until the counts are equal (ibv_post_srq_ops(3), phase
 * synchronization).
 * Locking: none here; the list stands under its SRQ's leaf lock (srq_tags.h). */
#pragma once
#include "prm/wqe.h"
#include "util/list.h"

struct cq;

enum { TAG_SGES = 1 }; /* of a tagged buffer */

struct tag_entry {
	struct list node; /* while listed */
	uint64_t tag, mask;
	struct sge sge[TAG_SGES];
	uint8_t nsge;
	bool listed;
	bool active; /* the counts have been equal since it was added: it may match */
};

struct tag_list {
	struct cq *cq; /* of the SRQ's completions, with a reference */
	uint32_t n; /* entries in e */
	uint16_t unexpected; /* messages that matched nothing, ever */
	bool failed; /* atomic: the CQ has overrun */
	uint16_t synced; /* unexpected messages that the program has said it knows */
	struct list listed; /* struct tag_entry */
	struct tag_entry e[]; /* by slot */
};

enum tag_op { TAG_ADD, TAG_DEL, TAG_SYNC };

struct tag_ask {
	enum tag_op op;
	uint16_t slot; /* ADD, DEL: the entry */
	bool signaled;
	uint16_t op_index; /* what the completion's wqe_counter says */
	bool sync; /* count is to be taken over */
	uint16_t count; /* unexpected messages that the program knows */
	uint64_t tag, mask;
	struct sge sge[TAG_SGES];
	uint8_t nsge;
};

int tag_list_create(struct cq *cq, uint32_t n, struct tag_list **out); /* ENOMEM */
void tag_list_destroy(struct tag_list *t); /* NULL is fine */
/* The program knows @count unexpected messages. If there are no others, every buffer may match. */
void tag_list_sync(struct tag_list *t, uint16_t count);
void tag_list_add(struct tag_list *t, const struct tag_ask *ask);
bool tag_list_del(struct tag_list *t, uint16_t slot); /* false: a message has taken it */
/* Takes the first buffer that @tag matches; @out's idx is its slot. False: none matches. */
bool tag_list_match(struct tag_list *t, uint64_t tag, struct rwqe *out);
