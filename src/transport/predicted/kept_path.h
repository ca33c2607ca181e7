// SPDX-License-Identifier: MIT
/* Where a UD QP's last datagrams went, or the messages of a DC initiator. The engine finds the path
 * and keeps it for a while (engine/path_kept.h); predicted datagrams go there without being asked
 * where. Under the QP's turn. */
#pragma once
#include <string.h>
#include "link/link.h"
#include "prm/wqe_single.h"
#include "wire/grh.h"

struct kept_path {
	struct av av;
	uint32_t dqpn;
	struct dest *dest; /* a reference; NULL: no path leads there */
	uint64_t until; /* ns */
	/* Same host: what a datagram of @len bytes leaves in front of its payload, and how its
	 * completion tells of it (GRH_L3_*). @has_grh is false for other paths. */
	uint8_t grh[GRH_LEN], l3;
	bool has_grh;
	uint32_t len;
	uint8_t raw[WQE_SINGLE_AV]; /* the address vector, as the last WQE had it; or zero */
};

/* Do @av and @dqpn lead to where @k does? */
static inline bool kept_path_is(const struct kept_path *k, const struct av *av, uint32_t dqpn)
{
	return k->dqpn == dqpn && !memcmp(&k->av.dgid, &av->dgid, sizeof(av->dgid)) &&
	       k->av.flow_label == av->flow_label && k->av.sgid_index == av->sgid_index &&
	       k->av.hop_limit == av->hop_limit && k->av.traffic_class == av->traffic_class &&
	       k->av.sport == av->sport;
}
