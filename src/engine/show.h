// SPDX-License-Identifier: MIT
/* What a process shows to a tool of the same user (docs/design/shown-state.md): a snapshot of its
 * QPs in a sealed memfd, made when the tool asks, from state that the QPs keep anyway. Layout:
 * struct show_head, then head.count of struct show_qp. Tools of other builds read it: SHOW_VERSION
 * changes with the layout. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { SHOW_VERSION = 2 };

enum show_wait { /* what a QP waits for */
		 SHOW_NOTHING,
		 SHOW_RNR, /* the peer has told it that no receive is posted there */
		 SHOW_LOST, /* the ack timeout: the peer takes or answers no segment */
		 SHOW_ROOM, /* room at its destination */
		 SHOW_RATE, /* its rate limit */
		 SHOW_ANSWER, /* the peer's answer to what is outstanding */
		 SHOW_RECEIVE, /* a receive to be posted here: a message waits for it */
		 SHOW_EMPTY, /* nothing; but no receive is posted, and nothing is outstanding */
		 SHOW_ERROR, /* the program to reset it; text says why it is in ERR or SQE */
		 SHOW_BUSY, /* not known, as a thread was at work on the QP all the time: all but
			     * state, done, messages and mean */
};

enum show_way { SHOW_NOWHERE, SHOW_HOST, SHOW_NETWORK };

enum { SHOW_TEXT = 120 };

struct show_head {
	uint32_t version; /* SHOW_VERSION */
	uint32_t entry; /* sizeof(struct show_qp) */
	uint32_t count;
	uint32_t pad;
	uint64_t now; /* ns, of a clock of this process */
};

struct show_qp {
	uint32_t qpn, peer; /* numbers; peer 0: not connected */
	uint8_t type, state; /* enum ibv_qp_type, ibv_qp_state */
	uint8_t wait, way; /* enum show_wait, show_way */
	uint32_t sends; /* posted and not completed; a WQE that is not begun counts as its blocks */
	uint32_t receives; /* posted and not taken; of an SRQ: all of it */
	uint32_t done; /* sends that were completed; wraps */
	uint32_t messages; /* received by its responder; 24 bits, wraps */
	uint32_t mean; /* bytes of its latest sends, on average */
	uint64_t since; /* ns that it has waited; 0: not known */
	uint8_t remote[16]; /* SHOW_NETWORK: the peer's GID */
	char text[SHOW_TEXT]; /* SHOW_ERROR: the reason; ends with 0 */
};

/* host_config.show; @arg is the node. The descriptor is the caller's. Positive errno. */
int show_make(void *arg, int *fd);
