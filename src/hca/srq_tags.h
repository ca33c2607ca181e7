// SPDX-License-Identifier: MIT
/* Tag matching on an SRQ, the device's half. A message whose tag matches a listed buffer takes that
 * buffer; one that matches none is unexpected, takes an ordinary receive and is counted.
 * Locking: the SRQ's leaf lock guards the list. A completion is pushed without the lock, and before
 * another completion can name the same buffer. */
#pragma once
#include "hca/srq.h"
#include "hca/tag_list.h"

/* What a completion is about (mlx5's app_op of app 1). */
enum tag_cqe {
	TAG_CQE_NONE,
	TAG_CQE_CONSUMED = 1, /* matched; the data follows by rendezvous */
	TAG_CQE_EXPECTED = 2, /* the data of that rendezvous is there */
	TAG_CQE_UNEXPECTED = 3,
	TAG_CQE_NO_TAG = 4,
	TAG_CQE_ADD = 5,
	TAG_CQE_DEL = 6,
	TAG_CQE_SYNC = 7,
	TAG_CQE_MESSAGE = 0xa, /* matched, and the data is there */
	TAG_CQE_SOFTWARE = 0xb, /* matched a rendezvous that the program has to do itself */
};

/* Executes one operation; true unless a DEL came too late. */
bool srq_tags_do(struct srq *srq, const struct tag_ask *ask);
/* Takes the first buffer that @tag matches (@out's idx: its slot), or an ordinary receive when
 * nothing matches. ENOENT: there is none. */
int srq_tags_take(struct srq *srq, uint64_t tag, struct rwqe *out, bool *matched);
/* Pushes a completion of the SRQ. EOVERFLOW: its CQ is full; IBV_EVENT_SRQ_ERR is raised once. */
int srq_tags_push(struct srq *srq, const struct cqe *c);
