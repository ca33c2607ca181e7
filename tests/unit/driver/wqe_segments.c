// SPDX-License-Identifier: MIT
/* Each verb's WQE, byte for byte, at every place of the ring: the control segment, then what the
 * mlx5 format has behind it for that opcode and service. */
#include "queue.h"
#include "hca/ah.h"

enum {
	LKEY = 0x11223344,
	RKEY = 0x55667788,
	QPN = 0x0a0b0c,
	QKEY = 0x0d0e0f10,
	SRQN = 0x123abc,
};
#define VA  0x0102030405060708ULL
#define RVA 0x1112131415161718ULL

#define B16(x) (uint8_t)((x) >> 8), (uint8_t)(x)
#define B32(x) B16((uint32_t)(x) >> 16), B16(x)
#define B64(x) B32((uint64_t)(x) >> 32), B32(x)
/* Behind the opcode's own word, which differs from place to place. */
#define CTRL(segments, flags, ...) B32(0x12345600U | (segments)), B32(flags), __VA_ARGS__
#define NO_IMM			   0, 0, 0, 0
#define DATA(len)		   B32(len), B32(LKEY), B64(VA)
#define REMOTE			   B64(RVA), B32(RKEY), B32(0)

struct expected {
	uint8_t opcode;
	size_t n;
	uint8_t byte[256];
};

#define EXPECT(op, ...)                                                                            \
	&(const struct expected)                                                                   \
	{                                                                                          \
		op, sizeof((uint8_t[]){ __VA_ARGS__ }),                                            \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

/* Posts @wr at each block of the ring, and compares what stands there then. */
static void check_wqe(enum ibv_qp_type type, const struct ibv_send_wr *wr, const struct expected *e)
{
	uint32_t blocks = (uint32_t)(4 + e->n + WQE_BB - 1) / WQE_BB;
	struct queue q;

	open_queue(&q, type);
	for (uint32_t pi = 0; pi < 2 * BLOCKS_IN_RING; pi++) {
		struct ibv_send_wr copy = *wr, *bad = NULL;
		uint8_t head[] = { 0, B16(pi), e->opcode }, found[260];

		start_at(&q, pi);
		check_eq(dqp_post_send(&q.qp->ib.qp_base, &copy, &bad), 0);
		check_eq(q.qp->sq.pi, pi + blocks);
		check_eq(sq_record(&q), pi + blocks);
		read_ring(&q, pi, found, 4 + e->n);
		if (type == IBV_QPT_RAW_PACKET)
			memset(found + 30, 0, 2); /* headers' place, of which there are none */
		check_mem(found, head, 4);
		check_mem(found + 4, e->byte, e->n);
	}
	check_eq(rung.sq, 2 * BLOCKS_IN_RING);
	close_queue(&q);
}

static struct ibv_sge one[] = { { VA, 100, LKEY } };

static struct ibv_send_wr send_of(enum ibv_wr_opcode op)
{
	return (struct ibv_send_wr){ .opcode = op, .sg_list = one, .num_sge = 1 };
}

TEST(sends)
{
	struct ibv_send_wr wr = send_of(IBV_WR_SEND);

	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x0a, CTRL(2, 0, NO_IMM), DATA(100)));
	check_wqe(IBV_QPT_UC, &wr, EXPECT(0x0a, CTRL(2, 0, NO_IMM), DATA(100)));
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htobe32(0xa1b2c3d4);
	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x0b, CTRL(2, 0, B32(0xa1b2c3d4)), DATA(100)));
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = RKEY;
	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x01, CTRL(2, 0, B32(RKEY)), DATA(100)));
}

TEST(flags_are_bits_of_the_control_segment)
{
	static const struct {
		unsigned int flag, bit;
	} map[] = { { IBV_SEND_SIGNALED, 8 }, { IBV_SEND_SOLICITED, 2 }, { IBV_SEND_FENCE, 0x80 } };

	for (unsigned int i = 0; i < 8; i++) {
		struct ibv_send_wr wr = send_of(IBV_WR_SEND);
		uint32_t bits = 0;

		for (unsigned int k = 0; k < 3; k++) {
			wr.send_flags |= i >> k & 1 ? map[k].flag : 0;
			bits |= i >> k & 1 ? map[k].bit : 0;
		}
		check_wqe(IBV_QPT_RC, &wr, EXPECT(0x0a, CTRL(2, bits, NO_IMM), DATA(100)));
	}
}

TEST(writes_and_reads)
{
	struct ibv_send_wr wr = send_of(IBV_WR_RDMA_WRITE);

	wr.wr.rdma.remote_addr = RVA;
	wr.wr.rdma.rkey = RKEY;
	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x08, CTRL(3, 0, NO_IMM), REMOTE, DATA(100)));
	wr.opcode = IBV_WR_RDMA_READ;
	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x10, CTRL(3, 0, NO_IMM), REMOTE, DATA(100)));
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htobe32(7);
	check_wqe(IBV_QPT_UC, &wr, EXPECT(0x09, CTRL(3, 0, B32(7)), REMOTE, DATA(100)));
}

TEST(atomics)
{
	struct ibv_send_wr wr = send_of(IBV_WR_ATOMIC_CMP_AND_SWP);

	wr.wr.atomic.remote_addr = RVA;
	wr.wr.atomic.rkey = RKEY;
	wr.wr.atomic.compare_add = 5;
	wr.wr.atomic.swap = 6;
	check_wqe(IBV_QPT_RC, &wr,
		  EXPECT(0x11, CTRL(4, 0, NO_IMM), REMOTE, B64(6), B64(5), DATA(100)));
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	check_wqe(IBV_QPT_RC, &wr,
		  EXPECT(0x12, CTRL(4, 0, NO_IMM), REMOTE, B64(5), B64(0), DATA(100)));
}

/* The opcode is our own; the device takes it only after the driver has said so. */
TEST(atomic_writes_are_announced)
{
	struct ibv_send_wr wr = send_of(IBV_WR_ATOMIC_WRITE), *bad;
	struct queue q;

	wr.wr.rdma.remote_addr = RVA;
	wr.wr.rdma.rkey = RKEY;
	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x3f, CTRL(3, 0, NO_IMM), REMOTE, DATA(100)));
	open_queue(&q, IBV_QPT_RC);
	check(!q.dev.qp.atomic_writes);
	check_eq(dqp_post_send(&q.qp->ib.qp_base, &wr, &bad), 0);
	check(q.dev.qp.atomic_writes);
	close_queue(&q);
}

TEST(local_operations_carry_no_data)
{
	struct ibv_mr mr = { .lkey = LKEY };
	struct ibv_mw mw = { .type = IBV_MW_TYPE_2, .rkey = 0x0a00 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = RKEY };

	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x1b, CTRL(1, 0, B32(RKEY))));
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_BIND_MW };
	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = RKEY;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ &mr, VA, 4096, IBV_ACCESS_REMOTE_READ };
	check_wqe(IBV_QPT_RC, &wr,
		  EXPECT(0x3d, CTRL(3, 0, B32(0x0a00)), B32(RKEY), B32(LKEY), B64(VA), B64(4096),
			 B32(IBV_ACCESS_REMOTE_READ), B32(0)));
}

/* The address vector in its long form stands behind the control segment. */
TEST(datagrams_name_their_receiver)
{
	struct ah ah = { .av = { .dgid.raw = { 0xfe, 0x80, [15] = 9 },
				 .flow_label = 0x12345,
				 .sgid_index = 3,
				 .hop_limit = 64,
				 .traffic_class = 0x20,
				 .sl = 5,
				 .dmac = { 2, 3, 4, 5, 6, 7 } } };
	struct ibv_send_wr wr = send_of(IBV_WR_SEND);
	struct expected e = { 0x0a, 76, { CTRL(5, 0, NO_IMM) } };
	struct mlx5_wqe_av av;

	wr.wr.ud.ah = &ah.ib;
	wr.wr.ud.remote_qpn = QPN;
	wr.wr.ud.remote_qkey = QKEY;
	av_encode(&ah.av, &av);
	av.key.qkey.qkey = htobe32(QKEY);
	av.dqp_dct |= htobe32(QPN);
	memcpy(e.byte + 12, &av, 48);
	memcpy(e.byte + 60, (uint8_t[]){ DATA(100) }, 16);
	check_wqe(IBV_QPT_UD, &wr, &e);
}

TEST(xrc_sends_name_an_srq)
{
	struct ibv_send_wr wr = send_of(IBV_WR_RDMA_WRITE);

	wr.wr.rdma.remote_addr = RVA;
	wr.wr.rdma.rkey = RKEY;
	wr.qp_type.xrc.remote_srqn = 0xff000000 | SRQN; /* 24 bits of it */
	check_wqe(IBV_QPT_XRC_SEND, &wr,
		  EXPECT(0x08, CTRL(4, 0, NO_IMM), B32(SRQN), B64(0), B32(0), REMOTE, DATA(100)));
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = RKEY };
	check_wqe(IBV_QPT_XRC_SEND, &wr,
		  EXPECT(0x1b, CTRL(2, 0, B32(RKEY)), B64(0), B64(0))); /* it goes nowhere */
}

/* The Ethernet segment; headers of a TSO send begin in its last 2 bytes. */
TEST(frames)
{
	static uint8_t headers[18] = {
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18
	};
	struct ibv_send_wr wr = send_of(IBV_WR_SEND);
	struct queue q;

	check_wqe(IBV_QPT_RAW_PACKET, &wr,
		  EXPECT(0x0a, CTRL(3, 0, NO_IMM), B64(0), B32(0), B32(0), DATA(100)));
	wr.send_flags = IBV_SEND_IP_CSUM;
	check_wqe(IBV_QPT_RAW_PACKET, &wr,
		  EXPECT(0x0a, CTRL(3, 0, NO_IMM), B32(0), 0xc0, 0, B16(0), B64(0), DATA(100)));
	wr = send_of(IBV_WR_TSO);
	wr.tso.hdr = headers;
	wr.tso.hdr_sz = sizeof(headers);
	wr.tso.mss = 1460;
	open_queue(&q, IBV_QPT_RAW_PACKET);
	q.qp->max_tso_header = sizeof(headers);
	for (uint32_t pi = 0; pi < BLOCKS_IN_RING; pi++) {
		const uint8_t expected[] = { 0,	       B16(pi), 0x0e, CTRL(4, 0, NO_IMM),
					     B32(0),   0,	0,    B16(1460),
					     B32(0),   B16(18), 1,    2,
					     3,	       4,	5,    6,
					     7,	       8,	9,    10,
					     11,       12,	13,   14,
					     15,       16,	17,   18,
					     DATA(100) };
		struct ibv_send_wr *bad;
		uint8_t found[sizeof(expected)];

		start_at(&q, pi);
		check_eq(dqp_post_send(&q.qp->ib.qp_base, &wr, &bad), 0);
		read_ring(&q, pi, found, sizeof(found));
		check_mem(found, expected, sizeof(found));
	}
	close_queue(&q);
}

/* Five segments are two blocks: at the ring's last block they go on at its start. */
TEST(gather_lists_wrap_and_leave_empty_entries_out)
{
	struct ibv_sge sg[] = { { VA, 1, LKEY }, { VA, 0, 1 }, { VA, 2, LKEY }, { VA, 3, LKEY } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = sg, .num_sge = 4 };

	wr.wr.rdma.remote_addr = RVA;
	wr.wr.rdma.rkey = RKEY;
	check_wqe(IBV_QPT_RC, &wr,
		  EXPECT(0x08, CTRL(5, 0, NO_IMM), REMOTE, DATA(1), DATA(2), DATA(3)));
	wr.num_sge = 0;
	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x08, CTRL(2, 0, NO_IMM), REMOTE));
}

TEST(inline_data_stand_in_the_wqe)
{
	static char text[] = "0123456789abcde";
	struct ibv_sge sg[] = { { (uintptr_t)text, 10, 0 }, { (uintptr_t)text + 10, 3, 0 } };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = sg, .num_sge = 2, .send_flags = IBV_SEND_INLINE
	};

	check_wqe(IBV_QPT_RC, &wr,
		  EXPECT(0x0a, CTRL(3, 0, NO_IMM), B32(0x8000000d), '0', '1', '2', '3', '4', '5',
			 '6', '7', '8', '9', 'a', 'b', 'c'));
	sg[0].length = sg[1].length = 0;
	check_wqe(IBV_QPT_RC, &wr, EXPECT(0x0a, CTRL(1, 0, NO_IMM)));
}

RUN_TESTS(unit_test(sends), unit_test(flags_are_bits_of_the_control_segment),
	  unit_test(writes_and_reads), unit_test(atomics), unit_test(atomic_writes_are_announced),
	  unit_test(local_operations_carry_no_data), unit_test(datagrams_name_their_receiver),
	  unit_test(xrc_sends_name_an_srq), unit_test(frames),
	  unit_test(gather_lists_wrap_and_leave_empty_entries_out),
	  unit_test(inline_data_stand_in_the_wqe))
