// SPDX-License-Identifier: MIT
/* XRC domains of this process. A domain is a page of target QPs; one that belongs to a file is a
 * sealed memory descriptor that its member processes share (docs/design/xrc-domains.md).
 *
 * Who lives: a member holds a record lock (fcntl) on its byte of the descriptor, which the kernel
 * drops when the last thread of the process has ended, so a byte without a lock is a member that
 * touches the page no more. A member's word is its byte's index + 1 with a generation above, which
 * differs from that of every earlier member on the byte.
 *
 * Locking: domain->lock and behind it the record lock on one more byte guard the table of members,
 * creation, opening and destruction of target QPs. A target QP's state is its turn's: the QP's
 * local turn (engine/turn.h) first, then the shared word, which carries its holder's word; whoever
 * finds a dead holder takes it over and puts the QP in ERR. Every change is one store that counts
 * last, so that a member may be killed anywhere. The page is not believed: indices are bounded,
 * states are checked. */
#pragma once
#include <sys/types.h>
#include "engine/node_state.h"
#include "hca/xrcd.h"
#include "transport/xrc.h"

struct xrc_target;

enum {
	XRC_MEMBERS = 256,
	XRC_TARGETS = 4096, /* of a domain */
	XRC_LOCK_BYTE = XRC_MEMBERS, /* of the record locks */
	XRC_MEMBER_BITS = 16, /* of a member's word, for the index + 1 */
};

struct xrc_shared {
	uint32_t qpn; /* stored last at creation, 0 first at destruction; 0: free */
	uint32_t turn; /* 0, or the word of the member that has it */
	uint32_t gen; /* counts creations here */
	uint32_t moves; /* counts what makes a member's own part worthless: modifies, deaths */
	uint32_t last; /* the word of the member that had the turn last */
	uint32_t died; /* the word of a member that died in its turn since the last RESET */
	uint64_t holders[XRC_MEMBERS / 64]; /* members with a handle on it */
	struct xrc_state state;
};

struct xrc_page {
	uint32_t reach; /* a number stands at most so far behind its place */
	uint32_t member_gen[XRC_MEMBERS];
	struct xrc_shared target[XRC_TARGETS];
};

struct xrc_domain {
	struct node *node;
	struct context *ctx; /* a reference: whose device and counters the targets use */
	bool anonymous;
	dev_t dev;
	ino_t ino;
	int file; /* keeps the inode; -1 */
	int fd; /* the page's, with the record locks; -1 anonymous */
	struct xrc_page *page;
	uint32_t me, word;
	uint32_t refs; /* of handles; under xrc_lock */
	struct meeting *meeting; /* or NULL */
	pthread_mutex_t lock;
	struct xrc_target *target[XRC_TARGETS]; /* made once, kept until the domain is closed */
	struct xrc_domain *next; /* of the process */
};

/* ibv_open_xrcd: @fd -1: anonymous. EBADF, EAGAIN (no such domain, and no O_CREAT), EINVAL (O_EXCL
 * and there is one), ETIMEDOUT (its members do not answer). */
int xrc_domain_open(struct context *ctx, int fd, int oflags, struct xrcd **out);
int xrc_domain_close(struct xrcd *x); /* EBUSY */

int xrc_domain_lock(struct xrc_domain *d); /* EINTR never; ENOLCK … */
void xrc_domain_unlock(struct xrc_domain *d);
bool xrc_member_lives(const struct xrc_domain *d, uint32_t word);
/* The entry of number @qpn; NULL: none. */
struct xrc_shared *xrc_shared_find(struct xrc_domain *d, uint32_t qpn, uint32_t *index);
