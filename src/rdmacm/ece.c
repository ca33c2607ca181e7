// SPDX-License-Identifier: MIT
/* Enhanced connection establishment: options of the vendor that both ends' queue pairs share. */
#include "rdmacm/id.h"

int ece_take(struct id *i, bool passive)
{
	struct ibv_ece ece = i->remote_ece;
	bool shared = ece.vendor_id == i->local_ece.vendor_id;
	int err;

	if (!i->id.qp || !i->local_ece.vendor_id)
		return 0;
	if (!shared && ece.vendor_id && !passive)
		return EINVAL;
	if (!shared)
		ece = (struct ibv_ece){ .vendor_id = i->local_ece.vendor_id };
	/* A REP must not name a vendor that is not the REQ's: its receiver ends the connection. */
	if (!shared && passive)
		i->local_ece = (struct ibv_ece){ 0 };
	err = ibv_set_ece(i->id.qp, &ece);
	if (err)
		return err == EOPNOTSUPP ? 0 : err;
	if (ibv_query_ece(i->id.qp, &ece))
		return 0;
	if (i->local_ece.vendor_id)
		i->local_ece.options = ece.options;
	return 0;
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return minus1_errno(EINVAL);
	to_id(id)->local_ece = *ece;
	return 0;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (id->qp || !ece)
		return minus1_errno(EINVAL);
	*ece = to_id(id)->remote_ece;
	return 0;
}
