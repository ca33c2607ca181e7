// SPDX-License-Identifier: MIT
/* What a process publishes, in two read-only memfds: the page, for every process that has a
 * contact; and tables, for those of the same user, since they tell addresses:
 *
 *	key table (key_bytes) | HOST_PAGE_SLOTS blocks of NUMBER_INDEXES entries
 *
 * To other processes it is a peer's memory: they copy each field once, and check the copy. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "link/number.h"
#include "peers/hazard.h"

enum {
	HOST_LAYOUT = 7, /* the version in the names */
	HOST_PAGE_SLOTS = 16,
	HOST_PAGE_BYTES = 4096,
	HOST_MAIL_WORDS = 16, /* bits: a contact each */
	HOST_MAIL_BYTES = 4096,
};

/* Segments for every process that wants them: Ethernet frames, datagrams to multicast groups. */
enum host_cast { HOST_FRAMES, HOST_GROUPS, HOST_CASTS };

/* host_page.mode: an enum host_mode, whether to mail, and the number of the arming. */
enum { HOST_MODE_MASK = 3, HOST_MODE_MAIL = 4, HOST_MODE_STEP = 8 };

struct host_page {
	uint64_t cookie; /* random, names this address space */
	uint32_t gen; /* 20 bits, not 0 */
	uint32_t slots[HOST_PAGE_SLOTS]; /* slot + 1; 0 none */
	uint32_t alive; /* util/death.h: of the engine's thread */
	uint32_t wants[HOST_CASTS]; /* reasons to want such segments; 0: they are not wanted */
	uint32_t mode __attribute__((aligned(64)));
	uint64_t hazard[HAZARDS] __attribute__((aligned(64)));
};

struct host_page_qp { /* seqlock: odd while being changed */
	uint32_t seq;
	uint32_t state, access, pdn, peer_qpn, flags;
	uint32_t peer_gen; /* generation of the peer's process; 0 none */
	uint32_t reserved;
};

struct host_layout { /* of the tables */
	uint32_t n_keys;
	size_t qps, bytes; /* offset of the QPs' entries; of all */
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
