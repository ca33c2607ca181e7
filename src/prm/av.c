// SPDX-License-Identifier: MIT
#include "prm/av.h"
#include <string.h>
#include "util/be.h"

#define AV_GRH	    (1U << 30) /* grh_gid_fl */
#define AV_EXTENDED (1U << 31) /* dqp_dct: the 48-byte form */

bool av_is_extended(const struct mlx5_wqe_av *av)
{
	return be32toh(av->dqp_dct) & AV_EXTENDED;
}

void av_encode(const struct av *av, struct mlx5_wqe_av *out)
{
	memset(out, 0, sizeof(*out));
	out->dqp_dct = htobe32(AV_EXTENDED);
	out->stat_rate_sl = av->sl & 0xf;
	out->rlid = htobe16(av->sport);
	memcpy(out->rmac, av->dmac, sizeof(out->rmac));
	out->tclass = av->traffic_class;
	out->hop_limit = av->hop_limit;
	out->grh_gid_fl =
		htobe32(AV_GRH | (uint32_t)av->sgid_index << 20 | (av->flow_label & 0xfffff));
	memcpy(out->rgid, av->dgid.raw, sizeof(out->rgid));
}

void av_decode(const struct mlx5_wqe_av *in, struct av *out)
{
	uint32_t fl = be32toh(in->grh_gid_fl);

	memcpy(out->dgid.raw, in->rgid, sizeof(out->dgid.raw));
	out->flow_label = fl & 0xfffff;
	out->sgid_index = (fl >> 20) & 0xff;
	out->hop_limit = in->hop_limit;
	out->traffic_class = in->tclass;
	out->sl = in->stat_rate_sl & 0xf;
	memcpy(out->dmac, in->rmac, sizeof(out->dmac));
	out->sport = be16toh(in->rlid);
}

void av_from_attr(const struct ibv_ah_attr *attr, struct av *out)
{
	*out = (struct av){
		.dgid = attr->grh.dgid,
		.flow_label = attr->grh.flow_label & 0xfffff,
		.sgid_index = attr->grh.sgid_index,
		.hop_limit = attr->grh.hop_limit,
		.traffic_class = attr->grh.traffic_class,
		.sl = attr->sl,
	};
}
