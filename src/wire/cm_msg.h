// SPDX-License-Identifier: MIT
/* The messages of connection management: MADs of 256 bytes, class 7 version 2, to QP 1 with Q_Key
 * CM_QKEY (IB specification volume 1, chapters 12 and 13.4), and the addresses that the RDMA IP CM
 * service puts before a request's private data (annex A11). Parser and builder walk one table of
 * fields, so they are each other's inverse. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { MAD_LEN = 256, CM_QKEY = (int)0x80010000, CM_PRIVATE_MAX = 224, CM_INFO_MAX = 72 };

/* The attribute of the MAD. */
enum cm_kind {
	CM_REQ = 0x10,
	CM_MRA,
	CM_REJ,
	CM_REP,
	CM_RTU,
	CM_DREQ,
	CM_DREP,
	CM_SIDR_REQ,
	CM_SIDR_REP,
	CM_LAP,
	CM_APR,
};

/* As the sender of a REQ or LAP sees it: the path from itself ("local") to the receiver. */
struct cm_path {
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label; /* 20 bits */
	uint8_t rate; /* 6 bits: enum ibv_rate */
	uint8_t tclass, hop_limit;
	uint8_t sl; /* 4 bits */
	uint8_t subnet_local; /* 1 bit */
	uint8_t ack_timeout; /* 5 bits: 4.096 us * 2^n */
};

/* The fields of all messages; those that a message does not have are 0. */
struct cm_msg {
	uint16_t kind; /* enum cm_kind */
	uint16_t status; /* of the MAD */
	uint64_t tid; /* a reply has its request's */
	uint32_t modifier; /* REQ, REP, SIDR_REP: the option word of ECE */
	uint32_t local_id, remote_id; /* SIDR: local_id is the request's */
	uint32_t vendor_id; /* 24 bits: ECE */
	uint64_t service_id, ca_guid;
	uint32_t qkey;
	uint32_t qpn; /* 24 bits: QP of the sender; DREQ, LAP: of the receiver */
	uint32_t local_eecn, remote_eecn; /* 24 bits; REP for XRC: local_eecn is the target QP */
	uint32_t psn; /* 24 bits: PSN with which the receiver of this message begins to send */
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_timeout, local_timeout; /* 5 bits: of CM responses, 4.096 us * 2^n */
	uint8_t transport; /* 2 bits: 0 RC, 1 UC, 3 see ext_transport */
	uint8_t ext_transport; /* 3 bits: 1 XRC */
	uint8_t flow_control; /* 1 bit: end to end */
	uint8_t retry_count, rnr_retry, max_cm_retries; /* 3, 3, 4 bits */
	uint16_t pkey;
	uint8_t path_mtu; /* 4 bits: enum ibv_mtu */
	uint8_t rdc_exists, srq; /* 1 bit */
	struct cm_path path[2]; /* the primary, the alternate; LAP: the alternate is path[1] */
	uint8_t sap_supported; /* 1 bit */
	uint8_t about; /* 2 bits, the message meant: 0 REQ, 1 REP; 2: LAP (MRA), none (REJ) */
	uint8_t service_timeout; /* 5 bits: MRA */
	uint16_t reason; /* REJ; SIDR_REP, APR: the status */
	uint8_t info_len; /* of info; REJ 7 bits */
	uint8_t info[CM_INFO_MAX];
	uint8_t ack_delay; /* 5 bits: of the target's CA */
	uint8_t failover; /* 2 bits */
	uint8_t private_len; /* bytes; the parser sets it to the message's whole room for them */
	uint8_t private_data[CM_PRIVATE_MAX];
};

/* EBADMSG: not a MAD of 256 bytes of this class, version and method, or no such message. Values are
 * not checked. */
int cm_parse(const uint8_t *mad, size_t len, struct cm_msg *out);
/* EINVAL: no such kind. Private data beyond the message's room is left out. */
int cm_build(const struct cm_msg *m, uint8_t mad[MAD_LEN]);
const char *cm_name(uint16_t kind); /* "REQ", …; NULL: no such kind */
size_t cm_private_room(uint16_t kind); /* bytes; 0: no such kind */

/* The first 36 bytes of the private data of a REQ or SIDR_REQ to an IP port. */
enum { CM_IP_LEN = 36 };

struct cm_ip {
	uint16_t port; /* the sender's */
	uint8_t version; /* 4 or 6 */
	uint8_t from[16], to[16]; /* IPv4 in the last four bytes, zeros before them */
};

int cm_ip_parse(const uint8_t *data, size_t len, struct cm_ip *out); /* EBADMSG: it is not there */
void cm_ip_build(const struct cm_ip *ip, uint8_t data[CM_IP_LEN]);
