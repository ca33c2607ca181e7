// SPDX-License-Identifier: MIT
/* The decoder against the assembler: of each instruction that stores the right length, of each
 * other one nothing. */
#include "util/store_insn.h"
#include <string.h>
#include "util/rand.h"
#include "test.h"

#if defined(__x86_64__)

struct range {
	const uint8_t *begin, *end;
};

extern const struct range __start_store_insns[], __stop_store_insns[];
extern const struct range __start_other_insns[], __stop_other_insns[];

/* Never run. */
// clang-format off
#define IN(table, insn) \
	"9: " insn "\n8: .pushsection " table ",\"aw\"\n.quad 9b, 8b\n.popsection\n"
#define STORE(insn) IN("store_insns", insn)
#define OTHER(insn) IN("other_insns", insn)
__asm__(".pushsection .text\n"
	STORE("mov %rax, (%rcx)")
	STORE("mov %rdi, (%rsi)")
	STORE("mov %r9, 0x800(%r12)")
	STORE("mov %r15, 0x20(%r13)")
	STORE("mov %rcx, -8(%rdi,%rdx)")
	STORE("mov %eax, (%rsp,%rbx,4)")
	STORE("mov %eax, 0x12345678(,%rbx,8)")
	STORE("mov %rbp, 0x1000(%rip)")
	STORE("mov %ax, (%rbp)")
	STORE("mov %ah, (%rcx)")
	STORE("mov %sil, (%r8)")
	STORE("movq $-1, (%rdi)")
	STORE("movq $5, 0x800(%rsp)")
	STORE("movl $7, 4(%r13)")
	STORE("movw $7, (%rax)")
	STORE("movb $1, 0x90(%rip)")
	STORE("movnti %rax, (%rdx)")
	STORE("movnti %eax, 4(%rdx)")
	STORE("mov %rax, %fs:(%rdx)")
	STORE("mov %rax, (%edx)")
	STORE("movups %xmm3, (%rdi)")
	STORE("movaps %xmm12, 0x10(%rdi)")
	STORE("movdqu %xmm0, -16(%rdi,%rdx)")
	STORE("movdqa %xmm1, (%rdi)")
	STORE("movntdq %xmm1, (%rdi)")
	STORE("movntps %xmm1, (%rdi)")
	STORE("movq %xmm1, (%rdx)")
	STORE("movd %xmm1, (%rdx)")
	STORE("movlps %xmm1, (%rdx)")
	STORE("movhps %xmm1, 8(%rdx)")
	STORE("movsd %xmm1, (%rdx)")
	STORE("vmovdqu %ymm0, (%rdi)")
	STORE("vmovups %ymm9, 0x40(%r13)")
	STORE("vmovdqu %ymm0, -32(%r8,%r9)")
	STORE("vmovntdq %ymm0, (%rdi)")
	STORE("vmovdqu64 %zmm16, (%rdi)")
	STORE("vmovdqu64 %zmm1, 0x1c0(%rdi)")
	STORE("vmovups %zmm17, -64(%rdi,%rdx)")
	OTHER("mov (%rcx), %rax")
	OTHER("mov %rax, %rcx")
	OTHER("movups (%rdi), %xmm3")
	OTHER("movups %xmm1, %xmm2")
	OTHER("movq (%rdx), %xmm1")
	OTHER("vmovdqu (%rdi), %ymm0")
	OTHER("vmovq (%rdx), %xmm1")
	OTHER("vmovdqu64 (%rdi), %zmm16")
	OTHER("add %rax, (%rcx)")
	OTHER("xchg %rax, (%rcx)")
	OTHER("incq (%rcx)")
	OTHER("lock cmpxchg %rcx, (%rdx)")
	OTHER("push (%rax)")
	OTHER("rep movsb")
	OTHER("stosq")
	OTHER("vmovd %xmm1, %eax")
	OTHER("clflush (%rdi)")
	OTHER("ret")
	".popsection\n");
// clang-format on

enum { STORES = 38, OTHERS = 18 };

static uint64_t reg[16];

/* A decoder that reads on finds another byte each time. */
static bool decode(const struct range *r, struct store_insn *out)
{
	uint8_t at[16];
	size_t len = (size_t)(r->end - r->begin);
	bool is = false;

	assert_true(len <= 15);
	for (unsigned int fill = 0; fill < 256; fill++) {
		memset(at, (int)fill, sizeof(at));
		memcpy(at, r->begin, len);
		is = store_insn_decode(at, reg, out);
		check_eq(is && out->len != len, false);
	}
	return is;
}

TEST(stores_have_the_length_that_the_assembler_gave_them)
{
	struct store_insn s;

	check_eq(__stop_store_insns - __start_store_insns, STORES);
	for (const struct range *r = __start_store_insns; r < __stop_store_insns; r++)
		check(decode(r, &s));
}

TEST(loads_and_other_instructions_are_none)
{
	struct store_insn s;

	check_eq(__stop_other_insns - __start_other_insns, OTHERS);
	for (const struct range *r = __start_other_insns; r < __stop_other_insns; r++)
		check(!decode(r, &s));
}

/* Of the @n-th store above. */
static void stores(unsigned int n, unsigned int bytes, uint64_t value)
{
	struct store_insn s;

	check(decode(&__start_store_insns[n], &s));
	check_eq(s.bytes, bytes);
	check_eq(s.value, value);
}

TEST(values_come_from_the_register_or_the_instruction)
{
	for (unsigned int i = 0; i < 16; i++)
		reg[i] = UINT64_C(0x0123456789abcdef) * (2 * i + 1);
	stores(0, 8, reg[0]);
	stores(1, 8, reg[7]);
	stores(2, 8, reg[9]);
	stores(3, 8, reg[15]);
	stores(5, 4, (uint32_t)reg[0]);
	stores(7, 8, reg[5]);
	stores(8, 2, (uint16_t)reg[0]);
	stores(9, 1, (uint8_t)(reg[0] >> 8));
	stores(10, 1, (uint8_t)reg[6]);
	stores(11, 8, UINT64_MAX);
	stores(12, 8, 5);
	stores(13, 4, 7);
	stores(14, 2, 7);
	stores(15, 1, 1);
	stores(16, 8, reg[0]);
	stores(17, 4, (uint32_t)reg[0]);
	stores(20, 0, 0);
	stores(35, 0, 0);
}

/* Bytes of any kind: no more than an instruction may have, and no more than are there. */
TEST(any_bytes_are_an_instruction_of_15_bytes_at_most_or_none)
{
	struct store_insn s;
	uint8_t at[64];
	struct rand r;

	rand_init(&r, 1);
	for (unsigned int i = 0; i < 2000000; i++) {
		for (unsigned int k = 0; k < sizeof(at); k += 8) {
			uint64_t v = rand_u64(&r);

			memcpy(at + k, &v, 8);
		}
		check_eq(store_insn_decode(at, reg, &s) && (s.len < 2 || s.len > 15), false);
	}
}

RUN_TESTS(unit_test(stores_have_the_length_that_the_assembler_gave_them),
	  unit_test(loads_and_other_instructions_are_none),
	  unit_test(values_come_from_the_register_or_the_instruction),
	  unit_test(any_bytes_are_an_instruction_of_15_bytes_at_most_or_none))

#else

TEST(there_is_no_decoder_for_this_machine)
{
}

RUN_TESTS(unit_test(there_is_no_decoder_for_this_machine))

#endif
