// SPDX-License-Identifier: MIT
/* The part of util/guard.c that each architecture has of its own: routines that may fault
 * (guard_<arch>.S), and the labels by which the signal handler makes them return EFAULT. None of
 * them uses the stack, so after a fault the handler continues at a landing, which sets the result
 * and returns. An architecture without them has GUARD_ASM 0: every copy then goes through
 * /proc/self/mem. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__aarch64__)
#define GUARD_ASM 1
#else
#define GUARD_ASM 0
#endif

#if GUARD_ASM
/* @n bytes that lie in one 64-byte line of @dst: ascending aligned stores, each visible before
 * the next. */
int guard_asm_line(void *dst, const void *src, size_t n);
/* Any size, any order; the ranges do not overlap. */
int guard_asm_bulk(void *dst, const void *src, size_t n);
int guard_asm_fetch_add(uint64_t *addr, uint64_t add, uint64_t *old);
int guard_asm_cmp_swap(uint64_t *addr, uint64_t compare, uint64_t swap, uint64_t *old);

/* Where a signal handler returns to: makes the rt_sigreturn system call. */
extern const char guard_asm_restorer[];

/* The code that may fault; from guard_asm_wide on it uses wide registers. */
extern const char guard_asm_begin[], guard_asm_wide[], guard_asm_end[];
extern const char guard_asm_landing[], guard_asm_landing_wide[];
#endif

/* Instructions that guard_asm_bulk() may use; 0 until guard_init(): those that every CPU has. */
enum { GUARD_CPU_WIDE = 1, GUARD_CPU_STRING = 2 };
extern uint32_t guard_cpu;
