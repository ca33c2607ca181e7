// SPDX-License-Identifier: MIT
/* Transport services: what a queue pair of each kind may do and how, one row a service. Driver,
 * transport and engine look at the row, so a new service is a row, and new code only for abilities
 * that no other service has. A queue pair points to its row from its creation on. Constant.
 * docs/design/service-table.md tells why. */
#pragma once
#include <stdbool.h>
#include <infiniband/verbs.h>
#include "prm/wqe.h"
#include "wire/opcode.h"

enum service_id {
	SERVICE_RC,
	SERVICE_UC,
	SERVICE_UD,
	SERVICE_RAW_PACKET,
	SERVICE_XRC_SEND,
	SERVICE_XRC_RECV,
	SERVICE_DCI,
	SERVICE_DCT,
	SERVICE_DC_RESPONDER,
	SERVICES
};

enum { SERVICE_NO_OPCODES = 0xff }; /* no RoCE packet is of this service */

/* Which call makes a queue pair of a service, and in what. */
enum service_home {
	HOME_NONE, /* no call of a program: the device makes it for itself */
	HOME_PD, /* ibv_create_qp() in a protection domain */
	HOME_XRCD, /* ibv_create_qp_ex() or ibv_open_qp() in an XRC domain, for all its processes */
	HOME_DRIVER, /* mlx5dv_create_qp() in a protection domain */
};

/* The state moves that take attributes. To RESET and to ERR all services go without any. */
enum service_move {
	MOVE_INIT, /* from RESET */
	MOVE_INIT_AGAIN,
	MOVE_RTR, /* from INIT */
	MOVE_RTS, /* from RTR */
	MOVE_RTS_AGAIN,
	MOVE_DRAIN, /* from RTS to SQD */
	MOVE_DRAIN_AGAIN,
	MOVE_UNDRAIN, /* from SQD to RTS */
	MOVE_REPAIR, /* from SQE to RTS: services whose send queue alone can fail */
	SERVICE_MOVES
};

/* IBV_QP_* that a move must have, and those that it may have beside IBV_QP_STATE. */
struct service_step {
	bool legal;
	int need, may;
};

struct service {
	const char *name; /* "RC" */
	enum ibv_qp_type type; /* as programs call it; two services may share it */
	uint8_t wire; /* SVC_* of its packets' opcodes, or SERVICE_NO_OPCODES */
	enum wqe_service wqe; /* form of its work requests */
	uint8_t address_segs; /* 16-byte segments of a work request that name the receiver */
	enum service_home home;
	uint32_t verbs; /* 1 << IBV_WR_*: work requests it takes */
	uint32_t create_flags; /* IBV_QP_CREATE_* it takes */
	int ignores; /* IBV_QP_* of ibv_modify_qp() that concern the half that it lacks */
	bool sends, receives; /* has a send queue; messages may arrive */
	bool reliable; /* acknowledged, in order, each message once: retries, NAKs, timers */
	bool connected; /* one peer at a time, which the move to RTR names unless routed is set */
	bool routed; /* each work request says which process or target it goes to */
	bool any_sender; /* takes packets of every sender */
	bool one_packet; /* a message has one packet, of the port's MTU */
	bool credits; /* ACKs tell the sender how many receives are posted */
	bool direct; /* one-sided operations on one host may be done without the responder */
	bool alternate_path; /* automatic path migration */
	bool copies; /* its work requests may copy from memory to memory */
	bool inlines; /* small messages may stand in the entries of completions */
	bool srq, tags; /* may take receives from an SRQ, and from one that matches tags */
	bool multicast; /* may join groups */
	bool frames; /* what it sends and gets are Ethernet frames */
	bool steered; /* flow rules may name it */
	struct service_step moves[SERVICE_MOVES];
};

extern const struct service services[SERVICES];

/* NULL: no such type, or one that does not say which service (IBV_QPT_DRIVER). */
const struct service *service_find(enum ibv_qp_type type);
/* Types of the services that a program can create and that take the work request @op: 1 << type */
uint32_t service_types(enum ibv_wr_opcode op);
/* IBV_QP_EX_WITH_*: @s->verbs as ibv_create_qp_ex() names them */
uint64_t service_send_ops(const struct service *s);

static inline bool service_takes(const struct service *s, unsigned int op)
{
	return op < 32 && (s->verbs >> op & 1);
}
