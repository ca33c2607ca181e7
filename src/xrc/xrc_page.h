// SPDX-License-Identifier: MIT
/* The page of an XRC domain, which its member processes share, and the places of target QPs in it.
 * A member does not trust the page: it bounds indices and checks states. Every change takes effect
 * by its last store, so that a member may be killed anywhere (docs/design/xrc-domains.md). */
#pragma once
#include "transport/xrc.h"

enum {
	XRC_MEMBERS = 256,
	XRC_TARGETS = 4096, /* of a domain */
	XRC_MEMBER_BITS = 16, /* of a member's word: its byte's index + 1; above: the generation */
};

struct xrc_shared { /* a target QP */
	uint32_t qpn; /* stored last at creation, 0 first at destruction; 0: free */
	uint32_t turn; /* 0, or the word of the member that has it */
	uint32_t gen; /* counts creations here */
	uint32_t moves; /* counts modifies and deaths: each makes the members' own parts void */
	uint32_t last; /* the word of the member that had the turn last */
	uint32_t died; /* the word of a member that died in its turn since the last RESET */
	uint64_t holders[XRC_MEMBERS / 64]; /* members with a handle on it */
	struct xrc_state state;
};

struct xrc_page {
	uint32_t reach; /* farthest that a number's entry is behind its hash place, in entries */
	uint32_t member_gen[XRC_MEMBERS];
	struct xrc_shared target[XRC_TARGETS];
};

static inline size_t xrc_page_bytes(void)
{
	return (sizeof(struct xrc_page) + 4095) & ~(size_t)4095;
}

/* The word of the member at byte @index in its generation @gen, which has 16 bits and is not 0. */
static inline uint32_t xrc_page_word(uint32_t gen, uint32_t index)
{
	return gen << XRC_MEMBER_BITS | (index + 1);
}

/* The entry of number @qpn; NULL: none. Any member at any time. */
struct xrc_shared *xrc_page_find(struct xrc_page *page, uint32_t qpn, uint32_t *index);
/* A free entry for number @qpn, under the domain's lock. False: all are taken. */
bool xrc_page_place(struct xrc_page *page, uint32_t qpn, uint32_t *index);
/* Under the domain's lock and the entry's turn: it is number @qpn's from now on, in RESET. */
void xrc_page_begin(struct xrc_shared *t, uint32_t qpn);
/* Under the domain's lock, of a new member at byte @me: entries on which the member before it,
 * whose word was @before (0: none), has left a handle or its turn. Those in its turn go to ERR. */
void xrc_page_inherit(struct xrc_page *page, uint32_t me, uint32_t before);
