// SPDX-License-Identifier: MIT
/* Enhanced connection establishment: options of the vendor that both ends' queue pairs share. */
#include "rdmacm/id.h"

int ece_take(struct id *i, bool passive)
{
	struct ibv_ece ece = i->remote_ece;
	int err;

	if (!i->id.qp || !i->local_ece.vendor_id)
		return 0;
	if (ece.vendor_id != i->local_ece.vendor_id) {
		if (ece.vendor_id && !passive)
			return EINVAL;
		ece = (struct ibv_ece){ .vendor_id = i->local_ece.vendor_id };
	}
	err = ibv_set_ece(i->id.qp, &ece);
	if (err)
		return err == EOPNOTSUPP ? 0 : err;
	if (ibv_query_ece(i->id.qp, &ece))
		return 0;
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
