// SPDX-License-Identifier: MIT
/* The program of a reader who has forgotten something. */
#include <infiniband/verbs.h>

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_cq *cq = ctx ? ibv_create_cq(ctx, 1, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr how = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp;

	how.cap = (struct ibv_qp_cap){ 1, 1, 1, 1, 0 };
	qp = pd && cq ? ibv_create_qp(pd, &how) : NULL;
	if (!qp ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return 2;
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.max_dest_rd_atomic = 1;
	attr.ah_attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1 };
	if (ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid))
		return 2;
	return !!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}
