// SPDX-License-Identifier: MIT
#include "hca/ah.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/fork.h"
#include "wire/ip.h"

#define SL_MAX 15

static bool is_zero(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return !memcmp(gid, &zero, sizeof(zero));
}

static int sgid_check(const struct hca *hca, unsigned int index, const char *call)
{
	union ibv_gid gid;
	uint32_t ifindex;
	bool v2;

	if (index >= LIMIT_GIDS || hca->ports->gid(hca->ports_arg, index, &gid, &v2, &ifindex))
		return refuse(EINVAL,
			      "%s: sgid_index %u is outside the GID table of %d entries; use "
			      "one that ibv_query_gid() shows",
			      call, index, LIMIT_GIDS);
	if (is_zero(&gid))
		return refuse(EINVAL,
			      "%s: sgid_index %u is an empty entry of the GID table; use one "
			      "that ibv_query_gid() shows",
			      call, index);
	return 0;
}

int ah_source_check(const struct hca *hca, const struct ibv_ah_attr *attr, const char *call)
{
	if (attr->port_num != 1)
		return refuse(EINVAL,
			      "%s: the address vector's port_num is %u; %s has one port, "
			      "number 1",
			      call, attr->port_num, hca->name);
	if (!attr->is_global)
		return refuse(EINVAL,
			      "%s: the address vector has no GRH (is_global 0), which RoCE "
			      "needs; set is_global, grh.dgid and grh.sgid_index (-g of many "
			      "programs)",
			      call);
	if (attr->sl > SL_MAX)
		return refuse(EINVAL, "%s: the address vector's sl is %u, above %d; set less", call,
			      attr->sl, SL_MAX);
	return sgid_check(hca, attr->grh.sgid_index, call);
}

int ah_attr_check(const struct hca *hca, const struct ibv_ah_attr *attr, const char *call)
{
	int err = ah_source_check(hca, attr, call);

	if (!err && is_zero(&attr->grh.dgid))
		err = refuse(EINVAL,
			     "%s: the address vector's dgid is ::; set grh.dgid to the peer's GID",
			     call);
	return err;
}

int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, struct ah **out)
{
	int err = pd_use(pd, "ibv_create_ah");
	struct ah *ah;

	if (!err)
		err = ah_attr_check(pd->ctx->hca, attr, "ibv_create_ah");
	if (!err)
		err = device_take(&pd->ctx->hca->count.ah, LIMIT_AH, "ibv_create_ah");
	if (err)
		return err;
	ah = calloc(1, sizeof(*ah));
	if (!ah) {
		device_give(&pd->ctx->hca->count.ah);
		return refuse(ENOMEM, "ibv_create_ah: no memory; raise the limit (ulimit -v)");
	}
	pd_get(pd);
	ah->ib = (struct ibv_ah){ .context = pd->ib.context, .pd = &pd->ib };
	ah->pd = pd;
	ah->epoch = fork_epoch();
	av_from_attr(attr, &ah->av);
	if (ah->av.flow_label)
		ah->av.sport = udp_flow_sport(ah->av.flow_label);
	av_encode(&ah->av, &ah->wire);
	*out = ah;
	return 0;
}

int ah_destroy(struct ah *ah)
{
	if (fork_is_ours(ah->epoch))
		device_give(&ah->pd->ctx->hca->count.ah);
	pd_put(ah->pd);
	free(ah);
	return 0;
}
