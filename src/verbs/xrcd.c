// SPDX-License-Identifier: MIT
/* XRC domains. */
#include <errno.h>
#include "hca/alive.h"
#include "obs/explain.h"
#include "verbs/export.h"
#include "verbs/ops.h"
#include "xrc/xrc_domain.h"

struct ibv_xrcd *ops_open_xrcd(struct ibv_context *ib, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t need = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct xrcd *x;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_open_xrcd");

	if (err)
		return null_errno(err);
	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return null_errno(
			refuse(EOPNOTSUPP,
			       "ibv_open_xrcd: comp_mask 0x%x has unknown bits; leave them out",
			       attr->comp_mask));
	if ((attr->comp_mask & need) != need)
		return null_errno(refuse(EINVAL,
					 "ibv_open_xrcd: comp_mask 0x%x; fd and oflags are both "
					 "needed (0x%x)",
					 attr->comp_mask, need));
	err = xrc_domain_open(to_context(ib), attr->fd, attr->oflags, &x);
	return err ? null_errno(err) : alive_made(ALIVE_XRCD, &x->ib);
}

int ops_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct alive_end end;
	int err = alive_take(ALIVE_XRCD, xrcd, "ibv_close_xrcd", &end);

	return positive_errno(err ? err : alive_left(&end, xrc_domain_close(to_xrcd(xrcd))));
}
