// SPDX-License-Identifier: MIT
/* Address handles, also the one that answers a received datagram. */
#include <string.h>
#include "hca/ah.h"
#include "hca/alive.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "verbs/export.h"
#include "wire/grh.h"

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ah *ah;
	int err = alive_check(ALIVE_PD, pd, "ibv_create_ah");

	if (!err)
		err = ah_create(to_pd(pd), attr, &ah);
	return err ? null_errno(err) : alive_made(ALIVE_AH, &ah->ib);
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct alive_end end;
	int err = alive_take(ALIVE_AH, ah, "ibv_destroy_ah", &end);

	return positive_errno(err ? err : alive_left(&end, ah_destroy((struct ah *)ah)));
}

/* For libmlx5. */
EXPORT int softhca_ah_alive(const struct ibv_ah *ah, const char *call)
{
	return alive_check(ALIVE_AH, ah, call);
}

/* The index of our GID that the datagram was sent to: of the RoCE version it came by. */
static int own_index(const struct hca *hca, const struct grh *g, uint8_t *index)
{
	bool want_v2 = g->next_hdr == GRH_NEXT_UDP;

	for (unsigned int i = 0; i < LIMIT_GIDS; i++) {
		union ibv_gid gid;
		uint32_t ifindex;
		bool v2;

		if (hca->ports->gid(hca->ports_arg, i, &gid, &v2, &ifindex))
			break;
		if (v2 == want_v2 && !memcmp(gid.raw, g->dgid, sizeof(g->dgid))) {
			*index = (uint8_t)i;
			return 0;
		}
	}
	return refuse(EINVAL, "ibv_init_ah_from_wc: the GRH's destination is none of the port's "
			      "GIDs; it may have been removed since");
}

static int from_grh(const struct hca *hca, const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct grh g;
	int err = grh_parse((const uint8_t *)grh, &g);

	if (err)
		return refuse(EINVAL,
			      "ibv_init_ah_from_wc: the buffer's first 40 bytes are no GRH "
			      "and no IPv4 header; pass those that the datagram's receive got");
	err = own_index(hca, &g, &attr->grh.sgid_index);
	if (err)
		return err;
	attr->is_global = 1;
	memcpy(attr->grh.dgid.raw, g.sgid, sizeof(g.sgid));
	attr->grh.flow_label = g.flow_label;
	attr->grh.traffic_class = g.tclass;
	attr->grh.hop_limit = g.hop_limit;
	return 0;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *ib, uint8_t port, struct ibv_wc *wc,
			       struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_init_ah_from_wc");

	*attr = (struct ibv_ah_attr){
		.dlid = wc->slid,
		.sl = wc->sl,
		.src_path_bits = wc->dlid_path_bits,
		.port_num = port,
	};
	if (!err && wc->wc_flags & IBV_WC_GRH)
		err = from_grh(to_context(ib)->hca, grh, attr);
	return minus1_errno(err);
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					    struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	int err = alive_check(ALIVE_PD, pd, "ibv_create_ah_from_wc");

	if (err)
		return null_errno(err);
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}
