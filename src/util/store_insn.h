// SPDX-License-Identifier: MIT
/* x86-64 instructions that store to memory, as far as programs use them on pages of a device: MOV
 * and MOVNTI of a general register or a constant, and the SSE and AVX moves, of which only the
 * length is told. Intel SDM, volume 2, chapter 2 and the instructions' pages. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct store_insn {
	uint8_t len; /* of the instruction, bytes */
	uint8_t bytes; /* that it stores: 1, 2, 4, 8; 0: more, or a register that is not known */
	uint64_t value; /* of those bytes, as memory has them on this machine; else 0 */
};

/* @at: the instruction, of which no byte behind its last one is read. @reg: rax, rcx, rdx, rbx,
 * rsp, rbp, rsi, rdi, r8 to r15. False: another instruction. */
bool store_insn_decode(const uint8_t *at, const uint64_t reg[16], struct store_insn *out);
