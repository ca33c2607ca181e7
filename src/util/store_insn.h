// SPDX-License-Identifier: MIT
/* x86-64 instructions that store to memory, as far as programs use them on pages of a device: MOV
 * and MOVNTI of a general register or a constant; and the SSE and AVX moves, of which only the
 * instruction's length is decoded. Intel SDM, volume 2, chapter 2 and the instructions' pages. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct store_insn {
	uint8_t len; /* of the instruction, bytes */
	uint8_t bytes; /* stored: 1, 2, 4, 8; 0: more, or from a register that @reg lacks */
	uint64_t value; /* of those bytes, in the machine's byte order; 0 if bytes is 0 */
};

/* @at: the instruction; no byte behind its last one is read. @reg: the values of rax, rcx, rdx,
 * rbx, rsp, rbp, rsi, rdi, r8 to r15. False: another instruction. */
bool store_insn_decode(const uint8_t *at, const uint64_t reg[16], struct store_insn *out);
