// SPDX-License-Identifier: MIT
#include <endian.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include "prm/cqe.h"
#include "test.h"

enum { ENTRIES = 8 };

static struct mlx5_cqe64 ring[ENTRIES];

TEST(a_fresh_ring_holds_nothing)
{
	cqe_init(ring, ENTRIES, sizeof(ring[0]));
	for (uint32_t ci = 0; ci < 3 * ENTRIES; ci++)
		check(!cqe_ours(&ring[ci % ENTRIES], ci, ENTRIES));
}

TEST(an_entry_belongs_to_one_pass_only)
{
	struct cqe c = { .opcode = MLX5_CQE_REQ };

	cqe_init(ring, ENTRIES, sizeof(ring[0]));
	for (uint32_t pi = 0; pi < 5 * ENTRIES; pi++) {
		struct mlx5_cqe64 *e = &ring[pi % ENTRIES];

		check(!cqe_ours(e, pi, ENTRIES));
		cqe_write(e, &c, !!(pi & ENTRIES));
		check(cqe_ours(e, pi, ENTRIES));
		check(!cqe_ours(e, pi + ENTRIES, ENTRIES));
	}
}

/* An entry whose second half lies on a page that is not there: the first store that faults must not
 * be the one that hands the entry over. */
static struct mlx5_cqe64 *halved;
static uint8_t *second_page;
static uintptr_t first_fault;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	first_fault = (uintptr_t)info->si_addr;
	if (mprotect(second_page, 4096, PROT_READ | PROT_WRITE))
		_exit(1);
}

TEST(the_owner_bit_is_stored_after_the_body)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, before;
	uint8_t *two =
		mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct cqe c = { .opcode = MLX5_CQE_REQ, .byte_cnt = 77, .wqe_counter = 5 }, out;

	check(two != MAP_FAILED);
	second_page = two + 4096;
	halved = (struct mlx5_cqe64 *)(void *)(second_page - sizeof(*halved) / 2);
	check_eq(mprotect(second_page, 4096, PROT_NONE), 0);
	check_eq(sigaction(SIGSEGV, &sa, &before), 0);
	cqe_write(halved, &c, 1);
	check_eq(sigaction(SIGSEGV, &before, NULL), 0);
	check(first_fault >= (uintptr_t)halved);
	check(first_fault < (uintptr_t)&halved->op_own);
	cqe_read(halved, &out);
	check_eq(out.byte_cnt, 77);
	check_eq(out.wqe_counter, 5);
	munmap(two, 2 * 4096);
}

TEST(a_receive_reads_back)
{
	struct cqe in = { .opcode = MLX5_CQE_RESP_SEND_IMM,
			  .solicited = true,
			  .grh = true,
			  .l3 = 2,
			  .sl = 2,
			  .wqe_counter = 0xfedc,
			  .uidx = 0x123456,
			  .qpn = 0xabcdef,
			  .src_qp = 0x654321,
			  .byte_cnt = 0x80000000,
			  .imm = 0x01020304,
			  .timestamp = 0x1122334455667788 };
	struct cqe out;

	cqe_write(&ring[0], &in, 0);
	cqe_read(&ring[0], &out);
	check_eq(out.opcode, in.opcode);
	check(out.solicited && out.grh);
	check_eq(out.l3, 2);
	check_eq(out.wqe_counter, in.wqe_counter);
	check_eq(out.uidx, in.uidx);
	check_eq(out.qpn, in.qpn);
	check_eq(out.src_qp, in.src_qp);
	check_eq(out.byte_cnt, in.byte_cnt);
	check_eq(out.imm, in.imm);
	check_eq(out.timestamp, in.timestamp);
	check_eq(out.syndrome, 0);
}

TEST(an_error_reads_back_with_its_reason)
{
	struct cqe in = { .opcode = MLX5_CQE_REQ_ERR,
			  .syndrome = MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR,
			  .vendor_err = VENDOR_REM_ACCESS,
			  .wqe_opcode = MLX5_OPCODE_RDMA_WRITE,
			  .wqe_counter = 5,
			  .uidx = 9,
			  .qpn = 0x4002,
			  .reason = 0x1234567890abcdef };
	struct cqe out;

	cqe_write(&ring[1], &in, 1);
	cqe_read(&ring[1], &out);
	check_eq(out.syndrome, in.syndrome);
	check_eq(out.vendor_err, VENDOR_REM_ACCESS);
	check_eq(out.wqe_opcode, MLX5_OPCODE_RDMA_WRITE);
	check_eq(out.wqe_counter, 5);
	check_eq(out.uidx, 9);
	check_eq(out.reason, in.reason);
	check_eq(cqe_status(out.syndrome), IBV_WC_REM_ACCESS_ERR);
	check_eq(cqe_status(0xee), IBV_WC_GENERAL_ERR);
}

/* Byte count and stride index are the entry's; the WQE stands where others have nothing. */
TEST(an_entry_of_strides_names_its_receive)
{
	struct cqe in = { .opcode = MLX5_CQE_RESP_SEND,
			  .app_op = CQE_STRIDED,
			  .wqe_id = 0xfedc,
			  .wqe_counter = 0xffff,
			  .byte_cnt = 0xffff | 0x3fff << CQE_STRIDES_SHIFT };
	struct cqe out;

	cqe_write(&ring[2], &in, 0);
	cqe_read(&ring[2], &out);
	check_eq(be16toh(ring[2].wqe_id), 0xfedc);
	check_eq(cqe_wqe_id(&ring[2]), 0xfedc);
	check_eq(out.wqe_counter, 0xffff);
	check_eq(out.byte_cnt, 0x3fffffff);
	check_eq(cqe_strides(out.byte_cnt), 0x3fff);
	check_eq(cqe_strides(CQE_FILLER | 5 << CQE_STRIDES_SHIFT), 5);
	check_eq(out.app_op, 0);
	in.app_op = 0;
	cqe_write(&ring[2], &in, 0);
	check_eq(ring[2].wqe_id, 0);
}

RUN_TESTS(unit_test(a_fresh_ring_holds_nothing), unit_test(an_entry_belongs_to_one_pass_only),
	  unit_test(the_owner_bit_is_stored_after_the_body), unit_test(a_receive_reads_back),
	  unit_test(an_error_reads_back_with_its_reason),
	  unit_test(an_entry_of_strides_names_its_receive))
