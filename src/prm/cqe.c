// SPDX-License-Identifier: MIT
#include "prm/cqe.h"
#include <string.h>
#include "util/barrier.h"
#include "util/be.h"

#define OWNER	  1
#define SOLICITED 2
#define L3_SHIFT  2 /* in l4_hdr_type_etc */
#define HAS_VLAN  1
#define CSUM_OK	  (MLX5_CQE_L3_OK | MLX5_CQE_L4_OK)
#define GRH	  (1U << 28)
#define INVALID	  (MLX5_CQE_INVALID << 4)

static bool is_error(uint8_t opcode)
{
	return opcode == MLX5_CQE_REQ_ERR || opcode == MLX5_CQE_RESP_ERR;
}

static void write_error(struct mlx5_err_cqe *e, const struct cqe *c)
{
	memcpy(e, &c->reason, sizeof(c->reason)); /* rsvd0: number of the explain record */
	put_be64(e->rsvd0 + 8, c->timestamp);
	e->vendor_err_synd = c->vendor_err;
	e->syndrome = c->syndrome;
}

#define APP_TAG_MATCHING 1 /* mlx5's */
#define TM_SUCCESS	 (1U << 31)
#define TM_CONSUMED	 1

/* MLX5_CQE_NO_PACKET: list operations, but for the first half of a rendezvous. */
static bool is_match(uint8_t app_op)
{
	return app_op == TM_CONSUMED;
}

static void write_more(struct mlx5_cqe64 *e, const struct cqe *c)
{
	if (c->app_op == CQE_STRIDED) {
		e->wqe_id = htobe16(c->wqe_id);
		return;
	}
	e->app = APP_TAG_MATCHING;
	e->app_op = c->app_op;
	e->app_info = htobe16(c->app_info);
	if (is_error(c->opcode))
		return; /* app and the rest are reserved bytes there */
	if (c->opcode == MLX5_CQE_NO_PACKET && !is_match(c->app_op)) {
		e->tm_cqe.success = htobe32(c->tm_success ? TM_SUCCESS : 0);
		e->tm_cqe.hw_phase_cnt = htobe16(c->tm_phase);
	} else {
		e->tmh.app_ctx = htobe32(c->tm_ctx);
		e->tmh.tag = htobe64(c->tm_tag);
	}
}

/* The slot may be read meanwhile; its last byte says whose it is, and is stored last. */
void cqe_write(struct mlx5_cqe64 *slot, const struct cqe *c, uint8_t owner)
{
	memset(slot, 0, offsetof(struct mlx5_cqe64, op_own));
	slot->srqn_uidx = htobe32(c->uidx);
	slot->wqe_counter = htobe16(c->wqe_counter);
	slot->sop_drop_qpn = htobe32((uint32_t)c->wqe_opcode << 24 | (c->qpn & 0xffffff));
	if (is_error(c->opcode)) {
		write_error((struct mlx5_err_cqe *)slot, c);
	} else {
		slot->imm_inval_pkey = c->imm;
		slot->byte_cnt = htobe32(c->byte_cnt);
		slot->timestamp = htobe64(c->timestamp);
		slot->vlan_info = htobe16(c->vlan);
		slot->flags_rqpn = htobe32((c->grh ? GRH : 0) | (uint32_t)c->l3 << 24 |
					   (c->src_qp & 0xffffff));
		if (c->csum_ok) {
			slot->hds_ip_ext = CSUM_OK;
			slot->l4_hdr_type_etc = MLX5_CQE_L3_HDR_TYPE_IPV4 << L3_SHIFT;
		}
		if (c->vlan)
			slot->l4_hdr_type_etc |= HAS_VLAN;
	}
	if (unlikely(c->app_op))
		write_more(slot, c);
	/* (A) */
	store_release(&slot->op_own,
		      (uint8_t)(c->opcode << 4 | (c->solicited ? SOLICITED : 0) | (owner & OWNER)));
}

void cqe_write_inlined(uint8_t *entry, uint32_t cqe_size, const struct cqe *c, const void *data,
		       uint8_t owner)
{
	bool apart = cqe_size > sizeof(struct mlx5_cqe64);
	struct mlx5_cqe64 *slot = (void *)(entry + cqe_size - sizeof(*slot)), e;

	cqe_write(&e, c, owner);
	memcpy(apart ? entry : (uint8_t *)&e, data, c->byte_cnt);
	memcpy(slot, &e, offsetof(struct mlx5_cqe64, op_own));
	/* (A) */
	store_release(&slot->op_own, (uint8_t)(e.op_own | (apart ? MLX5_INLINE_SCATTER_64
								 : MLX5_INLINE_SCATTER_32)));
}

static void read_tag(const struct mlx5_cqe64 *e, struct cqe *out)
{
	out->app_op = e->app_op;
	out->app_info = be16toh(e->app_info);
	out->tm_tag = out->tm_ctx = 0;
	out->tm_success = true;
	out->tm_phase = 0;
	if (is_error(out->opcode))
		return;
	if (out->opcode == MLX5_CQE_NO_PACKET && !is_match(out->app_op)) {
		out->tm_success = be32toh(e->tm_cqe.success) & TM_SUCCESS;
		out->tm_phase = be16toh(e->tm_cqe.hw_phase_cnt);
	} else {
		out->tm_ctx = be32toh(e->tmh.app_ctx);
		out->tm_tag = be64toh(e->tmh.tag);
	}
}

uint16_t cqe_wqe_id(const struct mlx5_cqe64 *slot)
{
	return be16toh(slot->wqe_id);
}

bool cqe_ours(const struct mlx5_cqe64 *slot, uint32_t ci, uint32_t cnt)
{
	uint8_t own = load_acquire(&slot->op_own); /* (A) */

	return own >> 4 != MLX5_CQE_INVALID && (own & OWNER) == !!(ci & cnt);
}

void cqe_read(const struct mlx5_cqe64 *e, struct cqe *out)
{
	uint8_t own = e->op_own;
	uint32_t sop = be32toh(e->sop_drop_qpn);

	out->opcode = own >> 4;
	out->solicited = (own & SOLICITED) != 0;
	out->uidx = be32toh(e->srqn_uidx) & 0xffffff;
	out->wqe_counter = be16toh(e->wqe_counter);
	out->wqe_opcode = sop >> 24;
	out->qpn = sop & 0xffffff;
	out->reason = 0;
	out->app_op = 0;
	if (unlikely(e->app == APP_TAG_MATCHING))
		read_tag(e, out);
	out->syndrome = out->vendor_err = 0;
	if (is_error(out->opcode)) {
		const struct mlx5_err_cqe *err = (const struct mlx5_err_cqe *)e;

		memcpy(&out->reason, err, sizeof(out->reason));
		out->vendor_err = err->vendor_err_synd;
		out->syndrome = err->syndrome;
		out->imm = out->byte_cnt = out->src_qp = 0;
		out->grh = false;
		out->l3 = out->sl = 0;
		out->timestamp = get_be64(err->rsvd0 + 8);
		out->csum_ok = false;
		out->vlan = 0;
		return;
	}
	uint32_t rqpn = be32toh(e->flags_rqpn);

	out->imm = e->imm_inval_pkey;
	out->byte_cnt = be32toh(e->byte_cnt);
	out->timestamp = be64toh(e->timestamp);
	out->vlan = be16toh(e->vlan_info);
	out->src_qp = rqpn & 0xffffff;
	out->grh = (rqpn & GRH) != 0;
	out->l3 = out->sl = (rqpn >> 24) & 0xf;
	out->csum_ok = (e->hds_ip_ext & CSUM_OK) == CSUM_OK &&
		       (e->l4_hdr_type_etc >> L3_SHIFT & 3) == MLX5_CQE_L3_HDR_TYPE_IPV4;
}

void cqe_init(void *buf, uint32_t cnt, uint32_t cqe_size)
{
	uint8_t *p = buf;

	memset(buf, 0, (size_t)cnt * cqe_size);
	for (uint32_t i = 0; i < cnt; i++)
		p[(size_t)(i + 1) * cqe_size - 1] = INVALID | OWNER;
}

enum ibv_wc_status cqe_status(uint8_t syndrome)
{
	static const struct {
		uint8_t syndrome, status;
	} map[] = {
		{ MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, IBV_WC_LOC_LEN_ERR },
		{ MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, IBV_WC_LOC_QP_OP_ERR },
		{ MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, IBV_WC_LOC_PROT_ERR },
		{ MLX5_CQE_SYNDROME_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR },
		{ MLX5_CQE_SYNDROME_MW_BIND_ERR, IBV_WC_MW_BIND_ERR },
		{ MLX5_CQE_SYNDROME_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR },
		{ MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR },
		{ MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, IBV_WC_REM_INV_REQ_ERR },
		{ MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR },
		{ MLX5_CQE_SYNDROME_REMOTE_OP_ERR, IBV_WC_REM_OP_ERR },
		{ MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR },
		{ MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR },
		{ MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR, IBV_WC_REM_ABORT_ERR },
	};

	for (unsigned int i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		if (map[i].syndrome == syndrome)
			return map[i].status;
	return IBV_WC_GENERAL_ERR;
}
