// SPDX-License-Identifier: MIT
#include "hca/device.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "hca/limits.h"
#include "hca/service.h"
#include "hca/tag_list.h"
#include "obs/explain.h"
#include "util/barrier.h"

#define VENDOR_ID     0x02c9
#define PART_ID	      4129
#define PAGE_SIZES    0xfffffffffffff000ULL /* 4 KiB and every larger power of two */
#define CA_ACK_DELAY  16 /* 4.096 us << 16 */
#define ATOMIC_WRITE  (1ULL << 40) /* newer headers: IBV_DEVICE_ATOMIC_WRITE */
#define WIDTH_4X      2
#define SPEED_25G     32
#define PHYS_DISABLED 3
#define PHYS_LINK_UP  5
#define DEVICE_CAPS                                                                                \
	(IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID | \
	 IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |                      \
	 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_AUTO_PATH_MIG |        \
	 IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING)
#define SCATTER_FCS IBV_DEVICE_RAW_SCATTER_FCS

#define HASH_FIELDS                                                                                \
	(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 |                      \
	 IBV_RX_HASH_DST_IPV6 | IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP |              \
	 IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP | IBV_RX_HASH_IPSEC_SPI |             \
	 IBV_RX_HASH_INNER)

/* Any memory of the process is reached as it is mapped at that moment, whatever the operation. */
#define ODP_UD	(IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)
#define ODP_UC	(IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE)
#define ODP_RC	(ODP_UC | ODP_UD | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC)
#define ODP_XRC (ODP_RC & ~IBV_ODP_SUPPORT_RECV)

void device_query(const struct hca *hca, struct ibv_device_attr *out)
{
	*out = (struct ibv_device_attr){
		.fw_ver = "softhca-" SOFTHCA_VERSION,
		.node_guid = hca->node_guid,
		.sys_image_guid = hca->node_guid,
		.max_mr_size = LIMIT_MR_SIZE,
		.page_size_cap = PAGE_SIZES,
		.vendor_id = VENDOR_ID,
		.vendor_part_id = PART_ID,
		.max_qp = LIMIT_QP,
		.max_qp_wr = LIMIT_QP_WR,
		.device_cap_flags = DEVICE_CAPS,
		.max_sge = LIMIT_SGE,
		.max_sge_rd = LIMIT_SGE_RD,
		.max_cq = LIMIT_CQ,
		.max_cqe = LIMIT_CQE,
		.max_mr = LIMIT_MR,
		.max_mw = LIMIT_MW,
		.max_pd = LIMIT_PD,
		.max_qp_rd_atom = LIMIT_RD_ATOMIC,
		.max_res_rd_atom = LIMIT_RD_ATOMIC * LIMIT_QP,
		.max_qp_init_rd_atom = LIMIT_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mcast_grp = LIMIT_MCAST_GRP,
		.max_mcast_qp_attach = LIMIT_MCAST_QP_ATTACH,
		.max_total_mcast_qp_attach = LIMIT_MCAST_GRP * LIMIT_MCAST_QP_ATTACH,
		.max_ah = LIMIT_AH,
		.max_srq = LIMIT_SRQ,
		.max_srq_wr = LIMIT_SRQ_WR,
		.max_srq_sge = LIMIT_SRQ_SGE,
		.max_pkeys = LIMIT_PKEYS,
		.local_ca_ack_delay = CA_ACK_DELAY,
		.phys_port_cnt = 1,
	};
}

/* The caller's struct may be older (shorter) or newer (its tail reads zero) than ours. */
static void hand_out(void *out, size_t size, const void *ours, size_t len)
{
	memset(out, 0, size);
	memcpy(out, ours, size < len ? size : len);
}

int device_query_ex(const struct hca *hca, const struct ibv_query_device_ex_input *in,
		    struct ibv_device_attr_ex *out, size_t size)
{
	struct ibv_device_attr_ex a = {
		.device_cap_flags_ex = DEVICE_CAPS | ATOMIC_WRITE | SCATTER_FCS,
		.tso_caps = { LIMIT_TSO, service_types(IBV_WR_TSO) },
		.rss_caps = {
			/* gate: services: an attribute that names types to programs */
			.supported_qpts = 1 << IBV_QPT_RAW_PACKET,
			.max_rwq_indirection_tables = LIMIT_RWQ_TABLES,
			.max_rwq_indirection_table_size = 1 << LIMIT_RWQ_TABLE_LOG,
			.rx_hash_fields_mask = HASH_FIELDS,
			.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
		},
		.max_wq_type_rq = LIMIT_WQ,
		.raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
				   IBV_RAW_PACKET_CAP_SCATTER_FCS | IBV_RAW_PACKET_CAP_IP_CSUM,
		.phys_port_cnt_ex = 1,
		.tm_caps = { .max_rndv_hdr_size = LIMIT_TM_RNDV,
			     .max_num_tags = LIMIT_TM_TAGS,
			     .flags = IBV_TM_CAP_RC,
			     .max_ops = LIMIT_TM_OPS,
			     .max_sge = TAG_SGES },
		.odp_caps = { .general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
			      .per_transport_caps = { .rc_odp_caps = ODP_RC,
						      .uc_odp_caps = ODP_UC,
						      .ud_odp_caps = ODP_UD } },
		.xrc_odp_caps = ODP_XRC,
		.max_dm_size = LIMIT_DM,
		.completion_timestamp_mask = LIMIT_CLOCK_MASK,
		.hca_core_clock = LIMIT_CLOCK_KHZ,
		.packet_pacing_caps = { LIMIT_RATE_MIN, LIMIT_RATE, service_types(IBV_WR_SEND) },
		.cq_mod_caps = { LIMIT_MODERATE, LIMIT_MODERATE },
	};

	if (in && in->comp_mask)
		return refuse(EINVAL,
			      "ibv_query_device_ex: input comp_mask 0x%x, nothing is defined; "
			      "pass 0",
			      in->comp_mask);
	if (size < offsetof(struct ibv_device_attr_ex, odp_caps))
		return refuse(EINVAL,
			      "ibv_query_device_ex: attr_size %zu B is shorter than its first "
			      "members (%zu B); pass sizeof(struct ibv_device_attr_ex)",
			      size, offsetof(struct ibv_device_attr_ex, odp_caps));
	device_query(hca, &a.orig_attr);
	hand_out(out, size, &a, sizeof(a));
	return 0;
}

int device_query_port(const struct hca *hca, uint8_t port, struct ibv_port_attr *out, size_t size)
{
	bool up;
	struct ibv_port_attr a;

	if (port != 1)
		return refuse(EINVAL, "ibv_query_port: port %u; %s has one port, number 1", port,
			      hca->name);
	up = hca->ports->active(hca->ports_arg);
	a = (struct ibv_port_attr){
		.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = hca->ports->active_mtu(hca->ports_arg),
		.gid_tbl_len = LIMIT_GIDS,
		.port_cap_flags = IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = LIMIT_MSG,
		.pkey_tbl_len = LIMIT_PKEYS,
		.max_vl_num = 1,
		.active_width = WIDTH_4X,
		.active_speed = SPEED_25G,
		.phys_state = up ? PHYS_LINK_UP : PHYS_DISABLED,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = IBV_QPF_GRH_REQUIRED,
	};
	hand_out(out, size, &a, sizeof(a));
	return 0;
}

int device_port_speed(const struct hca *hca, uint32_t port, uint64_t *out)
{
	if (port != 1)
		return refuse(EINVAL, "ibv_query_port_speed: port %u; %s has one port, number 1",
			      port, hca->name);
	*out = 4 * 250; /* WIDTH_4X lanes of SPEED_25G */
	return 0;
}

int device_take(uint32_t *count, uint32_t limit, const char *what)
{
	uint32_t n = load_relaxed(count);

	do {
		if (n >= limit)
			return refuse(ENOMEM,
				      "%s: all %u that the device allows are in use; destroy "
				      "some first",
				      what, limit);
	} while (!cas_acq_rel(count, &n, n + 1));
	return 0;
}

void device_give(uint32_t *count)
{
	fetch_sub_acq_rel(count, 1);
}
