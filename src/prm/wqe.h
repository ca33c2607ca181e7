// SPDX-License-Identifier: MIT
/* Work queue elements in the mlx5 format (structs of <infiniband/mlx5dv.h>): what the driver, which
 * programs call, and the device have in common (docs/design/driver-and-device.md). Pure: bytes in,
 * struct out. Rings are application memory and hostile: wqe_parse() reads each field once into its
 * own copy, bounds everything by the ring, and never follows anything in a loop that the ring
 * controls. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/mlx5dv.h>
#include "prm/av.h"

/* Ours, in codes that the public header leaves free (README). */
#define WQE_OPCODE_ATOMIC_WRITE 0x3f

#define WQE_BB	       64 /* basic block of a send queue, bytes */
#define WQE_MAX_SEGS   63 /* of 16 bytes */
#define WQE_MAX_BB     16 /* that many segments */
#define WQE_MAX_SGE    30
#define WQE_MAX_RUNS   63 /* entries of a send list: 62 segments, one of which may wrap */
#define WQE_INLINE_LEN 0x3ffU /* of the header of inline data: its bytes */
#define WQE_LIST_END   0x100 /* with a byte count of 0 it ends a list (MLX5_INVALID_LKEY) */
#define WQE_INLINE_MAX 828 /* advertised max_inline_data: ctrl, AV and a 4-byte header leave room */

struct sge {
	uint64_t addr;
	uint32_t len; /* bytes; in a send queue 0..2^31, the code 0 for 2^31 resolved */
	uint32_t key;
};

/* A send queue's memory. cnt is a power of two, in basic blocks. */
struct sq_ring {
	uint8_t *buf;
	uint32_t cnt;
	volatile uint32_t *dbrec; /* MLX5_SND_DBR: big-endian count of posted blocks, 16 bits */
};

/* Ours, where the public header has no opcode. */
enum { WQE_OPCODE_BIND_MW = 0x3d };

/* The segment behind the control segment of WQE_OPCODE_BIND_MW. Big-endian. The control segment's
 * imm is an rkey of the window: its index counts. */
struct wqe_bind_seg {
	uint32_t rkey; /* of the window from now on */
	uint32_t lkey; /* of the region */
	uint64_t addr; /* as the region's keys name it */
	uint64_t len; /* bytes; 0: unbind */
	uint32_t access; /* IBV_ACCESS_* */
	uint32_t reserved;
};

/* What wqe_parse() finds malformed. */
enum wqe_wrong {
	WQE_RIGHT,
	WQE_EMPTY, /* ds is 0 */
	WQE_TOO_LONG, /* ds makes more blocks than were posted, or than the ring has */
	WQE_CUT_OFF, /* ds ends it before a segment that the opcode or the service needs */
	WQE_INLINE_CUT_OFF, /* ds ends it before the end of its inline data */
	WQE_MANY_SGES, /* more than WQE_MAX_SGE */
	WQE_MASKED_SIZE, /* a masked atomic on other than 8 bytes */
	WQE_COMPACT_AV, /* its address vector is the form of 16 bytes, which names a LID */
};

/* opmod of a masked atomic on 8 bytes: 8, and the logarithm of the bytes less 2. */
enum { WQE_MASKED_8 = 9 };

static inline bool wqe_is_masked(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_ATOMIC_MASKED_CS || opcode == MLX5_OPCODE_ATOMIC_MASKED_FA;
}

struct wqe {
	uint8_t wrong; /* enum wqe_wrong */
	uint8_t ds; /* its 16-byte segments, as it says */
	uint8_t opcode; /* MLX5_OPCODE_* or one of ours (see README) */
	uint8_t opmod;
	uint8_t nbb; /* blocks it takes */
	uint16_t idx; /* block number of its start, as the producer counts */
	uint32_t qpn; /* of the queue pair that it is for, as the producer says */
	bool signaled, solicited, fence;
	uint32_t imm; /* ImmDt or IETH as it stands in memory (big-endian, opaque) */
	uint64_t raddr;
	uint32_t rkey;
	uint64_t swap_add, compare; /* host order */
	/* Masked atomics: of a swap the bits that are swapped and those that are compared; of an
	 * addition swap_mask has the highest bit of each field, but of the last one. */
	uint64_t swap_mask, compare_mask;
	struct { /* WQE_OPCODE_BIND_MW */
		uint32_t rkey, lkey, access;
		uint64_t addr, len;
	} bind;
	struct av av; /* UD, DC: destination */
	uint32_t dqpn, qkey; /* UD; DC: dqpn alone */
	uint64_t dc_key; /* DC: access key of the target */
	uint32_t srqn; /* XRC: the SRQ it names; 0 on other services */
	/* Payload bytes of the whole list, <= 2^31; WQE_INLINE_CUT_OFF: of its inline data. */
	uint32_t len;
	uint8_t nsge; /* entries of sge: data segments and runs of inline data, in order */
	uint8_t cs_flags; /* Ethernet: MLX5_ETH_WQE_*_CSUM */
	uint8_t nhead; /* Ethernet: runs of inline headers, 0..2 */
	uint16_t mss; /* TSO: payload bytes of a segment */
	uint16_t head_len; /* bytes of inline headers */
	struct sge head[2]; /* runs of inline headers: address in the ring, key 0 */
	uint64_t inlined; /* bit i: sge[i] is a run of inline data, as in head; a wrap makes two */
	struct sge sge[WQE_MAX_RUNS]; /* WQE_MAX_SGE data segments at most */
};

/* WQE_XRC: behind the control segment stands one of 16 bytes, whose first 4 are the number of the
 * SRQ that the message goes to (big-endian, 24 bits), as on ConnectX; the rest is reserved.
 * WQE_DC: an address vector, as WQE_DATAGRAM, that begins with the access key. A NOP has one too,
 * an MMO has none: its list names the source and the destination of a copy. */
enum wqe_service { WQE_CONNECTED, WQE_DATAGRAM, WQE_ETHERNET, WQE_XRC, WQE_DC };

/* Parses the WQE that starts at block number @pi of @ring. @avail: blocks posted from there on.
 * 0; EBADMSG: malformed (too short, past @avail or longer than the ring, a list that is too long);
 * EMSGSIZE: length over 2^31. After an error *out has idx, opcode, qpn and nbb >= 1, and what is
 * wrong. */
int wqe_parse(const struct sq_ring *ring, uint16_t pi, uint16_t avail, enum wqe_service svc,
	      struct wqe *out);

/* Of a WQE_CUT_OFF: the segments that a WQE of its opcode has before its list, or would have. */
unsigned int wqe_fixed_segs(const struct sq_ring *ring, uint16_t pi, enum wqe_service svc);

/* Just the first segment: opcode, idx, nbb (>= 1), flags. For flushing. */
void wqe_peek(const struct sq_ring *ring, uint16_t pi, struct wqe *out);

/* The DCI stream that the WQE at block @pi names. */
uint16_t wqe_stream(const struct sq_ring *ring, uint16_t pi);

/* A receive queue's memory: stride is 16 << n bytes. */
struct rq_ring {
	uint8_t *buf;
	uint32_t cnt; /* power of two */
	uint32_t stride; /* bytes */
	volatile uint32_t *dbrec; /* MLX5_RCV_DBR: big-endian count of posted WQEs, 16 bits */
	const uint64_t *wr_id; /* the driver's, by slot, so that reasons can name them; or NULL */
};

/* Of a receive that is outstanding; 0: not known. */
static inline uint64_t rq_ring_wr_id(const struct rq_ring *r, uint32_t index)
{
	return r->wr_id ? r->wr_id[index & (r->cnt - 1)] : 0;
}

struct rwqe {
	uint16_t idx; /* wqe_counter of the CQE */
	uint8_t nsge;
	uint64_t len; /* capacity, bytes */
	struct sge sge[WQE_MAX_SGE];
};

/* The receive WQE @idx, as the producer counts: 16 bits that go round. Its list ends at the stride,
 * or at a byte count of 0 with the key 0x100, MLX5_INVALID_LKEY. */
void rwqe_parse(const struct rq_ring *ring, uint16_t idx, struct rwqe *out);
/* The receive WQE in slot @idx of an SRQ, which starts with a struct mlx5_wqe_srq_next_seg. @next:
 * the next_wqe_index in that, which the caller has to bound by cnt. */
void srwqe_parse(const struct rq_ring *ring, uint16_t idx, struct rwqe *out, uint16_t *next);
