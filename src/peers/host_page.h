// SPDX-License-Identifier: MIT
/* What a process publishes, in two read-only memfds: the page, for every process with a contact;
 * and tables, only for those of the same user, since they contain addresses:
 *
 *	key table (key_bytes) | HOST_PAGE_SLOTS blocks of NUMBER_INDEXES entries
 *
 * Other processes do not trust it: they copy each field once, and check the copy. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "link/number.h"
#include "peers/hazard.h"

enum {
	HOST_LAYOUT = 9, /* the version in the names */
	HOST_PAGE_SLOTS = 16,
	HOST_PAGE_BYTES = 4096,
	HOST_MAIL_WORDS = 16, /* bits: a contact each */
	HOST_MAIL_BYTES = 4096,
};

/* Segments for every process that wants them: Ethernet frames, datagrams to multicast groups. */
enum host_cast { HOST_FRAMES, HOST_GROUPS, HOST_CASTS };

/* host_page.mode: an enum host_mode, whether senders are to set their mail bits, and a count of
 * armings. */
enum { HOST_MODE_MASK = 3, HOST_MODE_MAIL = 4, HOST_MODE_STEP = 8 };

struct host_page {
	uint64_t cookie; /* random: peers look for it in this address space */
	uint32_t gen; /* generation: 20 bits, not 0 */
	uint32_t slots[HOST_PAGE_SLOTS]; /* slot + 1; 0: none */
	uint32_t alive; /* util/death.h: the mark of the engine's thread */
	uint32_t wants[HOST_CASTS]; /* number of reasons to want such segments; 0: not wanted */
	uint32_t mode __attribute__((aligned(64)));
	uint64_t hazard[HAZARDS] __attribute__((aligned(64)));
};

struct host_page_qp { /* seqlock: odd while being changed */
	uint32_t seq;
	uint32_t state, access, pdn, peer_qpn, flags;
	uint32_t peer_gen; /* generation of the peer's process; 0: none */
	/* UC: PSN behind the last request that was executed, + 1; 0: none was. Not under the
	 * seqlock. */
	uint32_t executed;
};

struct host_layout { /* of the tables */
	uint32_t n_keys;
	size_t qps, bytes; /* offset of the QPs' entries; size of the whole */
};

static inline void host_layout(uint32_t n_keys, size_t key_bytes, struct host_layout *out)
{
	out->n_keys = n_keys;
	out->qps = (key_bytes + HOST_PAGE_BYTES - 1) & ~(size_t)(HOST_PAGE_BYTES - 1);
	out->bytes =
		out->qps + sizeof(struct host_page_qp) * NUMBER_INDEXES * (size_t)HOST_PAGE_SLOTS;
}

static inline struct host_page_qp *host_page_qp(const uint8_t *tables, const struct host_layout *l,
						unsigned int block, uint32_t qpn)
{
	return (struct host_page_qp *)((uintptr_t)tables + l->qps) +
	       (size_t)block * NUMBER_INDEXES + number_index(qpn);
}
