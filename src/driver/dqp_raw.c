// SPDX-License-Identifier: MIT
#include "driver/dqp_raw.h"
#include <errno.h>
#include <string.h>
#include "hca/limits.h"
#include "obs/explain.h"
#include "wire/frame.h"

#define HASH_IP4   (IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)
#define HASH_IP6   (IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6)
#define HASH_TCP   (IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP)
#define HASH_UDP   (IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP)
#define HASH_KNOWN (HASH_IP4 | HASH_IP6 | HASH_TCP | HASH_UDP | IBV_RX_HASH_IPSEC_SPI)

_Static_assert(sizeof(((struct qp_hash *)NULL)->key) == FRAME_HASH_KEY, "frame_hash() reads it");

static int fields_check(uint64_t f)
{
	unsigned int l4 = !!(f & HASH_TCP) + !!(f & HASH_UDP) + !!(f & IBV_RX_HASH_IPSEC_SPI);

	if (f & ~(HASH_KNOWN | FRAME_HASH_INNER))
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp_ex: rx_hash_fields_mask 0x%llx, known are 0x%llx; "
			      "leave the rest out",
			      (unsigned long long)f,
			      (unsigned long long)(HASH_KNOWN | FRAME_HASH_INNER));
	if (((f & HASH_IP4) && (f & HASH_IP6)) || l4 > 1)
		return refuse(EINVAL,
			      "ibv_create_qp_ex: rx_hash_fields_mask 0x%llx has fields that no "
			      "packet has at once; take one of IPv4 and IPv6, and one of TCP, UDP "
			      "and IPsec, and another QP for the rest",
			      (unsigned long long)f);
	return 0;
}

/* What belongs to queues that a QP with an indirection table does not have itself. */
static int queues_check(const struct ibv_qp_init_attr_ex *a)
{
	uint32_t flags = a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? a->create_flags : 0;

	if (a->srq ||
	    (a->comp_mask & (IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER)))
		return refuse(EINVAL, "ibv_create_qp_ex: a QP with an indirection table only "
				      "receives, by its work queues; leave srq, send_ops_flags "
				      "and max_tso_header out");
	if (flags & (IBV_QP_CREATE_SCATTER_FCS | IBV_QP_CREATE_CVLAN_STRIPPING))
		return refuse(EINVAL,
			      "ibv_create_qp_ex: create_flags 0x%x with an indirection table; set "
			      "IBV_WQ_FLAGS_SCATTER_FCS and IBV_WQ_FLAGS_CVLAN_STRIPPING on its "
			      "work queues",
			      flags);
	return 0;
}

static int rss_check(const struct ibv_qp_init_attr_ex *a)
{
	const struct ibv_rx_hash_conf *h = &a->rx_hash_conf;
	int err;

	if (!(a->comp_mask & IBV_QP_INIT_ATTR_RX_HASH) || !a->rwq_ind_tbl)
		return refuse(EINVAL,
			      "ibv_create_qp_ex: an indirection table needs rwq_ind_tbl and "
			      "rx_hash_conf (IBV_QP_INIT_ATTR_RX_HASH); set both");
	err = queues_check(a);
	if (err)
		return err;
	if (h->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ)
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp_ex: rx_hash_function %u; IBV_RX_HASH_FUNC_TOEPLITZ "
			      "is what there is",
			      h->rx_hash_function);
	if (h->rx_hash_key_len != QP_HASH_KEY || !h->rx_hash_key)
		return refuse(EINVAL,
			      "ibv_create_qp_ex: rx_hash_key_len %u; a Toeplitz key has %d B",
			      h->rx_hash_key_len, QP_HASH_KEY);
	return fields_check(h->rx_hash_fields_mask);
}

int dqp_raw_check(struct dqp *qp, const struct ibv_qp_init_attr_ex *a)
{
	uint32_t mask = a->comp_mask & DQP_RAW_MASK;

	if (mask && !qp->service->frames)
		return refuse(EINVAL,
			      "ibv_create_qp_ex: comp_mask has 0x%x, which only RAW_PACKET QPs "
			      "take; qp_type is %s here",
			      mask, qp->service->name);
	if (mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) {
		if (a->max_tso_header > LIMIT_TSO_HEADER)
			return refuse(EINVAL,
				      "ibv_create_qp_ex: max_tso_header %u B, at most %d B; ask "
				      "for less",
				      a->max_tso_header, LIMIT_TSO_HEADER);
		qp->max_tso_header = a->max_tso_header;
	}
	if (mask & IBV_QP_INIT_ATTR_IND_TABLE)
		return rss_check(a);
	if (mask & IBV_QP_INIT_ATTR_RX_HASH)
		return refuse(EINVAL, "ibv_create_qp_ex: rx_hash_conf without rwq_ind_tbl "
				      "(IBV_QP_INIT_ATTR_IND_TABLE); set both");
	return 0;
}

void dqp_hash(const struct ibv_qp_init_attr_ex *a, struct qp_hash *out)
{
	out->table = (struct rwq_table *)a->rwq_ind_tbl;
	out->fields = a->rx_hash_conf.rx_hash_fields_mask;
	memcpy(out->key, a->rx_hash_conf.rx_hash_key, sizeof(out->key));
}
