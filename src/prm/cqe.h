// SPDX-License-Identifier: MIT
/* Completion queue entries in the mlx5 format (struct mlx5_cqe64, mlx5_err_cqe). Pure. Ownership:
 * an entry belongs to the consumer when its owner bit equals the pass's parity (ci / cnt) & 1,
 * first pass 0, and its opcode is not invalid (0xf); cqe_write() stores op_own last, with release
 * (A); cqe_ours() loads it with acquire (A). */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/mlx5dv.h>

enum { /* vendor_err as ConnectX shows it */
       VENDOR_LOC_PROT = 0x53,
       VENDOR_TRANSPORT_RETRY = 0x81,
       VENDOR_RNR_RETRY = 0x87,
       VENDOR_REM_ACCESS = 0x88,
       VENDOR_REM_INV_REQ = 0x8a,
       VENDOR_REM_OP = 0x89,
       VENDOR_LOC_LEN = 0x6a,
       VENDOR_LOC_QP_OP = 0x52,
       VENDOR_SEND_FLUSH = 0xf5,
       VENDOR_RECV_FLUSH = 0xf9,
       VENDOR_BAD_RESP = 0x8b,
       VENDOR_MW_BIND = 0x78,
};

/* mlx5's: of what headers a hash is. */
enum cqe_hash_type {
	CQE_HASH_IP4 = 1 << 2,
	CQE_HASH_IP6 = 2 << 2,
	CQE_HASH_TCP = 1 << 6,
	CQE_HASH_UDP = 2 << 6,
	CQE_HASH_SPI = 3 << 6,
};

struct cqe {
	uint8_t opcode; /* MLX5_CQE_REQ, _RESP_*, _REQ_ERR, _RESP_ERR, … */
	uint8_t syndrome; /* errors: MLX5_CQE_SYNDROME_* */
	uint8_t vendor_err; /* errors */
	uint8_t wqe_opcode; /* requester: MLX5_OPCODE_* of the WQE (high 8 bits of sop_drop_qpn) */
	bool solicited;
	bool grh; /* UD receive */
	uint8_t l3; /* UD receive: 0 GRH, 1 IPv6, 2 IPv4 (bits of sl that UCX reads) */
	uint8_t sl;
	bool csum_ok; /* RAW_PACKET receive: IPv4, and both checksums are right */
	uint16_t vlan; /* receives of raw frames: the TCI that was stripped; 0: none */
	/* Of the WQE: first block of a send; number of a receive; SRQ slot. Strided: the stride of
	 * the WQE at which the frame begins. */
	uint16_t wqe_counter;
	uint16_t pkey;
	uint32_t uidx; /* srqn_uidx: index of the QP or SRQ among the driver's objects */
	uint32_t qpn; /* local QPN (XRC receive: the target QPN) or flow tag */
	uint32_t src_qp; /* UD receive */
	/* Receives: bytes incl. 40 of GRH on UD; READ, atomics: bytes placed. Strided: bytes of the
	 * frame, without those of the shift; the strides that it takes (cqe_strides()), or, with
	 * CQE_FILLER and no bytes, that are passed over. */
	uint32_t byte_cnt;
	uint32_t imm; /* the four bytes as in memory; RESP_SEND_INV: the rkey of the IETH */
	uint32_t brief; /* compressed RAW_PACKET receives: the hash, or the checksum (16 bits) */
	uint64_t timestamp; /* clock_raw() */
	uint64_t reason; /* errors: number of the explain record; 0: none */
	uint8_t hash_type; /* of brief: enum cqe_hash_type */
	/* Tag matching: hca/srq_tags.h's enum tag_cqe; 0: an ordinary entry. CQE_STRIDED: of a
	 * striding WQ, and no error; such an entry has 0 in its own app_op. */
	uint8_t app_op;
	bool tm_success; /* list operations */
	uint16_t app_info; /* the tagged buffer's slot */
	uint16_t tm_phase; /* list operations: unexpected messages so far */
	uint16_t wqe_id; /* strided: the WQE */
	uint32_t tm_ctx; /* app_ctx and tag of a message that matched */
	uint64_t tm_tag;
};

enum { CQE_STRIDED = 0xff };
#define CQE_FILLER	  (1U << 31)
#define CQE_STRIDES_SHIFT 16
static inline uint32_t cqe_strides(uint32_t byte_cnt)
{
	return byte_cnt >> CQE_STRIDES_SHIFT & 0x3fff;
}

void cqe_write(struct mlx5_cqe64 *slot, const struct cqe *c, uint8_t owner);
void cqe_read(const struct mlx5_cqe64 *slot, struct cqe *out);
/* The same, with c->byte_cnt bytes of the message, cqe_size / 2 at most, in the entry: in its first
 * half if it has 128 bytes, else in the first half of the cqe64, where an RC entry has no field. */
void cqe_write_inlined(uint8_t *entry, uint32_t cqe_size, const struct cqe *c, const void *data,
		       uint8_t owner);
uint16_t cqe_wqe_id(const struct mlx5_cqe64 *slot); /* of a strided entry; cqe_read() leaves it */
bool cqe_ours(const struct mlx5_cqe64 *slot, uint32_t ci, uint32_t cnt);
void cqe_init(void *buf, uint32_t cnt, uint32_t cqe_size); /* all entries invalid */
/* Syndrome → IBV_WC_*; IBV_WC_GENERAL_ERR for unknown ones. */
enum ibv_wc_status cqe_status(uint8_t syndrome);
