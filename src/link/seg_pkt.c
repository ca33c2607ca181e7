// SPDX-License-Identifier: MIT
#include "link/seg_pkt.h"
#include <endian.h>
#include "wire/opcode.h"

/* Only connections have a path that migrates. */
static bool connected(uint8_t op)
{
	return opcode_service(op) == SVC_RC || opcode_service(op) == SVC_UC ||
	       opcode_service(op) == SVC_XRC || op == OP_REPORT || op == OP_GROUNDS;
}

void seg_to_pkt(const struct seg *s, struct pkt *out)
{
	*out = (struct pkt){
		.opcode = s->op,
		.solicited = s->flags & SEG_SOLICITED,
		.migreq = !(s->flags & SEG_ARMING),
		.ackreq = s->flags & SEG_ACKREQ,
		.becn = s->op == OP_CNP,
		.pkey = s->pkey,
		.dqpn = s->dqpn,
		.psn = s->psn,
		.va = s->va,
		.rkey = s->rkey,
		.dma_len = s->dma_len,
		.swap_add = s->swap_add,
		.compare = s->compare,
		.syndrome = s->syndrome,
		.msn = s->msn,
		.orig = s->orig,
		.qkey = s->qkey,
		.sqpn = s->sqpn,
		.xrc_srqn = s->srqn,
		.imm = s->imm,
		.inv_rkey = be32toh(s->imm),
		.payload_len = s->len,
	};
}

void seg_from_pkt(const struct pkt *p, struct seg *out)
{
	*out = (struct seg){
		.op = p->opcode,
		.flags = (uint16_t)((p->solicited ? SEG_SOLICITED : 0) |
				    (p->ackreq ? SEG_ACKREQ : 0) |
				    (!p->migreq && connected(p->opcode) ? SEG_ARMING : 0)),
		.syndrome = p->syndrome,
		.pkey = p->pkey,
		.dqpn = p->dqpn,
		.sqpn = p->sqpn,
		.psn = p->psn,
		.npsn = 1,
		.msn = p->msn,
		.imm = p->op->flags & WIRE_IETH ? htobe32(p->inv_rkey) : p->imm,
		.qkey = p->qkey,
		.srqn = p->xrc_srqn,
		.va = p->va,
		.rkey = p->rkey,
		.dma_len = p->dma_len,
		.swap_add = p->op->flags & WIRE_ATOMICACKETH ? p->orig : p->swap_add,
		.compare = p->compare,
		.len = (uint32_t)p->payload_len,
		.data = p->payload,
	};
}
