// SPDX-License-Identifier: MIT
/* What a QP has moved, for the counters of its port (docs/design/port-counters.md): payload, each
 * message once, without what is sent again, and the packets that it takes at the path MTU. Written
 * under the QP's turn; read beside it, a word each. */
#pragma once
#include <stdint.h>

struct moved {
	uint64_t bytes, packets;
};

struct tally {
	struct moved sent, received;
	struct moved direct; /* by direct access: sent as well as received, by this QP alone */
};

static inline void moved_add(struct moved *m, uint32_t bytes, uint32_t packets)
{
	m->bytes += bytes;
	m->packets += packets;
}
