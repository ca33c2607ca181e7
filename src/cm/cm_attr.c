// SPDX-License-Identifier: MIT
#include <errno.h>
#include "cm/cm_call.h"
#include "cm/cm_talk.h"
#include "obs/explain.h"

enum { ACK_DELAY_UP = 1, TIMEOUT_MAX = 31 };

static bool is_rc(const struct cm_id *id)
{
	return id->qp_type == IBV_QPT_RC;
}

static bool is_xrc(const struct cm_id *id)
{
	return id->qp_type == IBV_QPT_XRC_SEND || id->qp_type == IBV_QPT_XRC_RECV;
}

/* A connection is being made, or is there. */
static bool is_joining(const struct cm_id *id)
{
	switch (id->fsm.state) {
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
	case CM_ESTABLISHED:
		return true;
	default:
		return false;
	}
}

static void to_init(const struct cm_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->pkey_index = 0;
	a->port_num = 1;
	if (id->qp_type == IBV_QPT_UD) {
		*mask |= IBV_QP_QKEY;
		a->qkey = id->qkey ? id->qkey : RDMA_UDP_QKEY;
		return;
	}
	*mask |= IBV_QP_ACCESS_FLAGS;
	a->qp_access_flags = 0;
	if (id->fsm.state == CM_IDLE)
		return;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void to_rtr(const struct cm_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE;
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	cm_talk_ah(id, &a->ah_attr);
	a->path_mtu = id->way.mtu;
	a->dest_qp_num = id->fsm.remote_qpn;
	a->rq_psn = id->psn;
	if (is_rc(id) || id->qp_type == IBV_QPT_XRC_RECV) {
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->max_dest_rd_atomic = id->responder_resources;
		a->min_rnr_timer = 0;
	}
}

static void to_rts(const struct cm_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->sq_psn = id->peer.psn;
	if (is_rc(id) || id->qp_type == IBV_QPT_XRC_SEND) {
		*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		a->retry_cnt = id->retry_count;
		a->rnr_retry = id->rnr_retry;
		a->max_rd_atomic = id->initiator_depth;
	}
	if (is_rc(id) || is_xrc(id)) {
		*mask |= IBV_QP_TIMEOUT;
		a->timeout = id->has_ack_timeout   ? id->ack_timeout
			     : id->way.ack_timeout ? id->way.ack_timeout + ACK_DELAY_UP
						   : 18;
		if (a->timeout > TIMEOUT_MAX)
			a->timeout = TIMEOUT_MAX;
	}
}

/* As Linux: what is not a connection, or not yet, has attributes for one move alone, whatever was
 * asked for. */
static int attributes(const struct cm_id *id, struct ibv_qp_attr *a, int *mask)
{
	if (id->phase == PHASE_LISTEN && id->qp_type != IBV_QPT_UD)
		return EINVAL;
	if (id->qp_type == IBV_QPT_UD || id->fsm.state == CM_IDLE) {
		if (!id->way.hca)
			return EINVAL;
		to_init(id, a, mask);
		return 0;
	}
	if (!is_joining(id) && (id->fsm.state != CM_REQ_SENT || a->qp_state != IBV_QPS_INIT))
		return EINVAL;
	switch (a->qp_state) {
	case IBV_QPS_INIT:
		to_init(id, a, mask);
		return 0;
	case IBV_QPS_RTR:
		to_rtr(id, a, mask);
		return 0;
	case IBV_QPS_RTS:
		to_rts(id, a, mask);
		return 0;
	default:
		return EINVAL;
	}
}

int cm_call_qp_attr(struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int err = cm_enter(id, "rdma_init_qp_attr");

	if (err)
		return err;
	err = attributes(id, attr, mask);
	cm_leave();
	return err ? refuse(err,
			    "rdma_init_qp_attr: the id has nothing for a move to state %d: it is "
			    "bound to no device, listens, or its connection is not being made or "
			    "has ended; wait for its event first",
			    attr->qp_state)
		   : 0;
}
