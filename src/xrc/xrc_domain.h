// SPDX-License-Identifier: MIT
/* XRC domains of this process. A domain is a page of target QPs; one that belongs to a file is a
 * sealed memory descriptor that its member processes share (docs/design/xrc-domains.md).
 *
 * Locking: xrc_member_lock() guards the table of members, creation, opening and destruction of
 * target QPs. A target QP's state is its turn's: the QP's local turn (turn.h) first, then the
 * shared word (xrc_turn.h). */
#pragma once
#include <sys/types.h>
#include "engine/node_state.h"
#include "hca/xrcd.h"
#include "util/mutex.h"
#include "xrc/xrc_page.h"

struct xrc_target;

struct xrc_domain {
	struct node *node;
	struct context *ctx; /* a reference: its device and counters are the targets' */
	bool anonymous;
	dev_t dev;
	ino_t ino;
	int file; /* a duplicate of the program's, which keeps the inode; -1 */
	int fd; /* the page's, with the record locks; -1 anonymous */
	struct xrc_page *page;
	uint32_t me, word; /* this process as a member: its byte, its word */
	uint32_t refs; /* handles (struct xrcd) on it; under node->xrc_lock */
	struct meeting *meeting; /* where processes that open it find the members; NULL anonymous */
	struct mutex lock;
	struct xrc_target *target[XRC_TARGETS]; /* our halves: made once, kept until the end */
	struct xrc_domain *next; /* node->xrc_domains */
};

/* ibv_open_xrcd: @fd -1: anonymous. EBADF, EAGAIN (no such domain, and no O_CREAT), EINVAL (O_EXCL
 * and there is one), ETIMEDOUT (its members do not answer), EADDRINUSE (other users have its
 * names). */
int xrc_domain_open(struct context *ctx, int fd, int oflags, struct xrcd **out);
int xrc_domain_close(struct xrcd *x); /* EBUSY: QPs or SRQs are in it */
