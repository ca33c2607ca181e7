// SPDX-License-Identifier: MIT
#include "hca/service.h"

#define SEG_BYTES 16

/* Work requests */
#define OP(name)     (1U << IBV_WR_##name)
#define SEND_OPS     (OP(SEND) | OP(SEND_WITH_IMM))
#define WRITE_OPS    (OP(RDMA_WRITE) | OP(RDMA_WRITE_WITH_IMM))
#define WINDOW_OPS   (OP(BIND_MW) | OP(LOCAL_INV))
#define ANSWERED_OPS (OP(RDMA_READ) | OP(ATOMIC_CMP_AND_SWP) | OP(ATOMIC_FETCH_AND_ADD))
#define RELIABLE_OPS (SEND_OPS | OP(SEND_WITH_INV) | WRITE_OPS | WINDOW_OPS | ANSWERED_OPS)

/* Attributes of ibv_modify_qp() */
enum {
	CUR = IBV_QP_CUR_STATE,
	NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACCESS = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	QKEY = IBV_QP_QKEY,
	AV = IBV_QP_AV,
	MTU = IBV_QP_PATH_MTU,
	TIMEOUT = IBV_QP_TIMEOUT,
	RETRY = IBV_QP_RETRY_CNT,
	RNR = IBV_QP_RNR_RETRY,
	RQ_PSN = IBV_QP_RQ_PSN,
	SRC_RD = IBV_QP_MAX_QP_RD_ATOMIC,
	ALT = IBV_QP_ALT_PATH,
	RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	SQ_PSN = IBV_QP_SQ_PSN,
	DST_RD = IBV_QP_MAX_DEST_RD_ATOMIC,
	MIG = IBV_QP_PATH_MIG_STATE,
	DQPN = IBV_QP_DEST_QPN,
	RATE = IBV_QP_RATE_LIMIT,
};

/* The specification's table of required and optional attributes (10.3; ibv_modify_qp(3)), read by
 * columns. IBV_QP_RATE_LIMIT goes with every move to RTS of a service that sends. Where no peer
 * acknowledges, a queue pair enters SQE by itself after a failed send. */
/* clang-format off */
const struct service services[SERVICES] = {
	[SERVICE_RC] = {
		.name = "RC", .type = IBV_QPT_RC, .wire = SVC_RC, .wqe = WQE_CONNECTED,
		.home = HOME_PD, .verbs = RELIABLE_OPS | OP(ATOMIC_WRITE),
		.sends = true, .receives = true, .reliable = true, .connected = true,
		.credits = true, .direct = true, .alternate_path = true, .srq = true, .tags = true,
		.inlines = true, .copies = true,
		.moves = {
			[MOVE_INIT] = { true, PKEY | PORT | ACCESS, 0 },
			[MOVE_INIT_AGAIN] = { true, 0, PKEY | PORT | ACCESS },
			[MOVE_RTR] = { true, AV | MTU | DQPN | RQ_PSN | DST_RD | RNR_TIMER,
				       ALT | ACCESS | PKEY },
			[MOVE_RTS] = { true, TIMEOUT | RETRY | RNR | SQ_PSN | SRC_RD,
				       CUR | ALT | ACCESS | RNR_TIMER | MIG | RATE },
			[MOVE_RTS_AGAIN] = { true, 0, CUR | ALT | ACCESS | RNR_TIMER | MIG | RATE },
			[MOVE_DRAIN] = { true, 0, NOTIFY },
			[MOVE_DRAIN_AGAIN] = { true, 0,
				PORT | AV | TIMEOUT | RETRY | RNR | SRC_RD | DST_RD | ALT | ACCESS |
				PKEY | RNR_TIMER | MIG },
			[MOVE_UNDRAIN] = { true, 0, CUR | ALT | ACCESS | RNR_TIMER | MIG | RATE },
		},
	},
	[SERVICE_UC] = {
		.name = "UC", .type = IBV_QPT_UC, .wire = SVC_UC, .wqe = WQE_CONNECTED,
		.home = HOME_PD, .verbs = SEND_OPS | WRITE_OPS | WINDOW_OPS,
		.sends = true, .receives = true, .connected = true, .direct = true,
		.alternate_path = true,
		.moves = {
			[MOVE_INIT] = { true, PKEY | PORT | ACCESS, 0 },
			[MOVE_INIT_AGAIN] = { true, 0, PKEY | PORT | ACCESS },
			[MOVE_RTR] = { true, AV | MTU | DQPN | RQ_PSN, ALT | ACCESS | PKEY },
			[MOVE_RTS] = { true, SQ_PSN, CUR | ALT | ACCESS | MIG | RATE },
			[MOVE_RTS_AGAIN] = { true, 0, CUR | ALT | ACCESS | MIG | RATE },
			[MOVE_DRAIN] = { true, 0, NOTIFY },
			[MOVE_DRAIN_AGAIN] = { true, 0, AV | ALT | ACCESS | PKEY | MIG },
			[MOVE_UNDRAIN] = { true, 0, CUR | ALT | ACCESS | MIG | RATE },
			[MOVE_REPAIR] = { true, 0, CUR | ACCESS | RATE },
		},
	},
	[SERVICE_UD] = {
		.name = "UD", .type = IBV_QPT_UD, .wire = SVC_UD, .wqe = WQE_DATAGRAM,
		.address_segs = sizeof(struct mlx5_wqe_av) / SEG_BYTES,
		.home = HOME_PD, .verbs = SEND_OPS,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
		.sends = true, .receives = true, .any_sender = true, .one_packet = true,
		.srq = true, .multicast = true, .steered = true,
		.moves = {
			[MOVE_INIT] = { true, PKEY | PORT | QKEY, 0 },
			[MOVE_INIT_AGAIN] = { true, 0, PKEY | PORT | QKEY },
			[MOVE_RTR] = { true, 0, PKEY | QKEY },
			[MOVE_RTS] = { true, SQ_PSN, CUR | QKEY | RATE },
			[MOVE_RTS_AGAIN] = { true, 0, CUR | QKEY | RATE },
			[MOVE_DRAIN] = { true, 0, NOTIFY },
			[MOVE_DRAIN_AGAIN] = { true, 0, PKEY | QKEY },
			[MOVE_UNDRAIN] = { true, 0, CUR | QKEY | RATE },
			[MOVE_REPAIR] = { true, 0, CUR | QKEY | RATE },
		},
	},
	[SERVICE_RAW_PACKET] = {
		.name = "RAW_PACKET", .type = IBV_QPT_RAW_PACKET, .wire = SERVICE_NO_OPCODES,
		.wqe = WQE_ETHERNET, .home = HOME_PD, .verbs = OP(SEND) | OP(TSO),
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB | IBV_QP_CREATE_SCATTER_FCS |
				IBV_QP_CREATE_CVLAN_STRIPPING,
		.sends = true, .receives = true, .any_sender = true,
		.frames = true, .steered = true,
		.moves = {
			[MOVE_INIT] = { true, PORT, 0 },
			[MOVE_INIT_AGAIN] = { true, 0, PORT },
			[MOVE_RTR] = { true, 0, 0 },
			[MOVE_RTS] = { true, 0, RATE },
			[MOVE_RTS_AGAIN] = { true, 0, RATE },
			[MOVE_DRAIN] = { true, 0, NOTIFY },
			[MOVE_DRAIN_AGAIN] = { true, 0, 0 },
			[MOVE_UNDRAIN] = { true, 0, RATE },
			[MOVE_REPAIR] = { true, 0, RATE },
		},
	},
	[SERVICE_XRC_SEND] = {
		.name = "XRC_SEND", .type = IBV_QPT_XRC_SEND, .wire = SVC_XRC, .wqe = WQE_XRC,
		.address_segs = 1,
		.home = HOME_PD, .verbs = RELIABLE_OPS, .ignores = DST_RD | RNR_TIMER,
		.sends = true, .reliable = true, .connected = true, .routed = true,
		.moves = {
			[MOVE_INIT] = { true, PKEY | PORT | ACCESS, 0 },
			[MOVE_INIT_AGAIN] = { true, 0, PKEY | PORT | ACCESS },
			[MOVE_RTR] = { true, AV | MTU | DQPN | RQ_PSN, ALT | ACCESS | PKEY },
			[MOVE_RTS] = { true, TIMEOUT | RETRY | RNR | SQ_PSN | SRC_RD,
				       CUR | ALT | ACCESS | MIG | RATE },
			[MOVE_RTS_AGAIN] = { true, 0, CUR | ALT | ACCESS | MIG | RATE },
			[MOVE_DRAIN] = { true, 0, NOTIFY },
			[MOVE_DRAIN_AGAIN] = { true, 0,
				PORT | AV | TIMEOUT | RETRY | RNR | SRC_RD | ALT | ACCESS | PKEY |
				MIG },
			[MOVE_UNDRAIN] = { true, 0, CUR | ALT | ACCESS | MIG | RATE },
		},
	},
	[SERVICE_XRC_RECV] = {
		.name = "XRC_RECV", .type = IBV_QPT_XRC_RECV, .wire = SVC_XRC, .wqe = WQE_XRC,
		.home = HOME_XRCD, .ignores = SRC_RD | RETRY | RNR,
		.receives = true, .reliable = true, .connected = true,
		.moves = {
			[MOVE_INIT] = { true, PKEY | PORT | ACCESS, 0 },
			[MOVE_INIT_AGAIN] = { true, 0, PKEY | PORT | ACCESS },
			[MOVE_RTR] = { true, AV | MTU | DQPN | RQ_PSN | DST_RD | RNR_TIMER,
				       ALT | ACCESS | PKEY },
			[MOVE_RTS] = { true, TIMEOUT | SQ_PSN,
				       CUR | ALT | ACCESS | RNR_TIMER | MIG },
			[MOVE_RTS_AGAIN] = { true, 0, CUR | ALT | ACCESS | RNR_TIMER | MIG },
			[MOVE_DRAIN] = { true, 0, NOTIFY },
			[MOVE_DRAIN_AGAIN] = { true, 0,
				PORT | AV | TIMEOUT | DST_RD | ALT | ACCESS | PKEY | RNR_TIMER |
				MIG },
			[MOVE_UNDRAIN] = { true, 0, CUR | ALT | ACCESS | RNR_TIMER | MIG },
		},
	},
	/* Dynamically connected: an initiator names the target in each work request (mlx5dv). Once
	 * a target has made a responder for it, both talk as RC queue pairs do. */
	[SERVICE_DCI] = {
		.name = "DC initiator", .type = IBV_QPT_DRIVER, .wire = SVC_RC, .wqe = WQE_DC,
		.address_segs = sizeof(struct mlx5_wqe_av) / SEG_BYTES,
		.home = HOME_DRIVER,
		.verbs = SEND_OPS | OP(SEND_WITH_INV) | WRITE_OPS | ANSWERED_OPS,
		.sends = true, .reliable = true, .connected = true, .routed = true, .direct = true,
		.copies = true,
		.moves = {
			[MOVE_INIT] = { true, PKEY | PORT, 0 },
			[MOVE_INIT_AGAIN] = { true, 0, PKEY | PORT },
			[MOVE_RTR] = { true, MTU, AV | PKEY },
			[MOVE_RTS] = { true, TIMEOUT | RETRY | RNR | SRC_RD, CUR | SQ_PSN | RATE },
			[MOVE_RTS_AGAIN] = { true, 0, CUR | RATE },
			[MOVE_DRAIN] = { true, 0, NOTIFY },
			[MOVE_DRAIN_AGAIN] = { true, 0, TIMEOUT | RETRY | RNR | SRC_RD | PKEY },
			[MOVE_UNDRAIN] = { true, 0, CUR | RATE },
		},
	},
	[SERVICE_DCT] = { /* it is complete in RTR */
		.name = "DC target", .type = IBV_QPT_DRIVER, .wire = SVC_DC, .wqe = WQE_DC,
		.home = HOME_DRIVER,
		.receives = true, .reliable = true, .any_sender = true, .srq = true,
		.moves = {
			[MOVE_INIT] = { true, PKEY | PORT | ACCESS, 0 },
			[MOVE_RTR] = { true, MTU | AV | RNR_TIMER, 0 },
		},
	},
	[SERVICE_DC_RESPONDER] = { /* a target's end of one connection (src/dc) */
		.name = "DC responder", .type = IBV_QPT_DRIVER, .wire = SVC_RC, .wqe = WQE_DC,
		.receives = true, .reliable = true, .connected = true, .direct = true, .srq = true,
	},
};
/* clang-format on */

const struct service *service_find(enum ibv_qp_type type)
{
	for (int i = 0; i < SERVICES; i++)
		if (services[i].type == type && type != IBV_QPT_DRIVER)
			return &services[i];
	return NULL;
}

uint32_t service_types(enum ibv_wr_opcode op)
{
	uint32_t types = 0;

	for (int i = 0; i < SERVICES; i++)
		if (services[i].home == HOME_PD && service_takes(&services[i], op))
			types |= 1U << services[i].type;
	return types;
}

uint64_t service_send_ops(const struct service *s)
{
	uint64_t same = s->verbs & (OP(TSO) * 2 - 1); /* both enums count alike up to TSO */

	return same | (service_takes(s, IBV_WR_ATOMIC_WRITE) ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0);
}
