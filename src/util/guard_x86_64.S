// SPDX-License-Identifier: MIT
/* Copies that may fault: see guard_asm.h. Arguments %rdi destination, %rsi source, %rdx bytes;
 * result in %eax. Only registers that a caller expects to lose are used, and never the stack.
 * Stores are seen in program order on this architecture, those of one string instruction
 * excepted; these all come before the stores of later instructions. */
#ifdef __CET__
#include <cet.h> /* marks the object for it */
#else
#define _CET_ENDBR
#endif

#define EFAULT	   14
#define CPU_WIDE   1 /* as GUARD_CPU_WIDE */
#define CPU_STRING 2 /* as GUARD_CPU_STRING */
#define STRING_MIN 8192 /* bytes from which rep movsb is at least as fast as the loop */

	.hidden guard_cpu

.macro ENTRY name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 6
\name:
	.cfi_startproc
	_CET_ENDBR
.endm

.macro END name
	.cfi_endproc
	.size	\name, . - \name
.endm

.macro LABEL name
	.globl	\name
	.hidden	\name
\name:
.endm

/* Stores as wide as the register and moves on. */
.macro STEP mov, reg, bytes
	\mov	(%rsi), \reg
	\mov	\reg, (%rdi)
	add	$\bytes, %rsi
	add	$\bytes, %rdi
	sub	$\bytes, %rdx
.endm

.macro WORD at
	mov	\at(%rsi), %rcx
	mov	%rcx, \at(%rdi)
.endm

	.text
LABEL guard_asm_begin

ENTRY guard_asm_fetch_add /* address, addend, where the old value goes */
	lock xadd %rsi, (%rdi)
	mov	%rsi, (%rdx)
	xor	%eax, %eax
	ret
END guard_asm_fetch_add

ENTRY guard_asm_cmp_swap /* address, compare, swap, where the old value goes */
	mov	%rsi, %rax
	lock cmpxchg %rdx, (%rdi)
	mov	%rax, (%rcx)
	xor	%eax, %eax
	ret
END guard_asm_cmp_swap

ENTRY guard_asm_line
	xor	%eax, %eax
	test	$7, %dil
	jnz	.Lhead
	cmp	$8, %rdx
	jne	.Lwords
	WORD	0
	ret
.Lwords:
	cmp	$64, %rdx
	jne	.Lnext_word
	WORD	0
	WORD	8
	WORD	16
	WORD	24
	WORD	32
	WORD	40
	WORD	48
	WORD	56
	ret
.Lnext_word:
	mov	%rdx, %r8
	and	$-8, %r8
	jz	.Ltail
	add	%r8, %rsi
	add	%r8, %rdi
	neg	%r8
	.p2align 4
1:	mov	(%rsi,%r8), %rcx
	mov	%rcx, (%rdi,%r8)
	add	$8, %r8
	jnz	1b
.Ltail:
	test	$7, %dl
	jz	1f
	test	$4, %dl
	jz	1f
	mov	(%rsi), %ecx
	mov	%ecx, (%rdi)
	add	$4, %rsi
	add	$4, %rdi
1:	test	$2, %dl
	jz	1f
	movzwl	(%rsi), %ecx
	mov	%cx, (%rdi)
	add	$2, %rsi
	add	$2, %rdi
1:	test	$1, %dl
	jz	1f
	movzbl	(%rsi), %ecx
	mov	%cl, (%rdi)
1:	ret
.Lhead: /* up to an aligned word, or to the end: what is left is then shorter than the alignment */
	test	$1, %dil
	jz	1f
	test	%rdx, %rdx
	jz	.Ltail
	STEP	movb, %cl, 1
1:	test	$2, %dil
	jz	1f
	cmp	$2, %rdx
	jb	.Ltail
	STEP	movw, %cx, 2
1:	test	$4, %dil
	jz	.Lnext_word
	cmp	$4, %rdx
	jb	.Ltail
	STEP	movl, %ecx, 4
	jmp	.Lnext_word
END guard_asm_line

/* Up to 128 bytes: everything is loaded first, from both ends towards an overlap in the middle. */
ENTRY guard_asm_bulk
	xor	%eax, %eax
	cmp	$16, %rdx
	jb	.Lbelow_16
	cmp	$32, %rdx
	ja	.Labove_32
	movups	(%rsi), %xmm0
	movups	-16(%rsi,%rdx), %xmm1
	movups	%xmm0, (%rdi)
	movups	%xmm1, -16(%rdi,%rdx)
	ret
.Labove_32:
	cmp	$64, %rdx
	ja	.Labove_64
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	-32(%rsi,%rdx), %xmm2
	movups	-16(%rsi,%rdx), %xmm3
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	movups	%xmm2, -32(%rdi,%rdx)
	movups	%xmm3, -16(%rdi,%rdx)
	ret
.Labove_64:
	cmp	$128, %rdx
	ja	.Labove_128
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	32(%rsi), %xmm2
	movups	48(%rsi), %xmm3
	movups	-64(%rsi,%rdx), %xmm4
	movups	-48(%rsi,%rdx), %xmm5
	movups	-32(%rsi,%rdx), %xmm6
	movups	-16(%rsi,%rdx), %xmm7
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	movups	%xmm2, 32(%rdi)
	movups	%xmm3, 48(%rdi)
	movups	%xmm4, -64(%rdi,%rdx)
	movups	%xmm5, -48(%rdi,%rdx)
	movups	%xmm6, -32(%rdi,%rdx)
	movups	%xmm7, -16(%rdi,%rdx)
	ret
.Labove_128:
	mov	guard_cpu(%rip), %ecx
	cmp	$STRING_MIN, %rdx
	jb	1f
	test	$CPU_STRING, %cl
	jnz	.Lstring
1:	test	$CPU_WIDE, %cl
	jnz	.Lwide
	/* the ends are kept in registers; between them four aligned stores a round */
	movups	(%rsi), %xmm4
	movups	-64(%rsi,%rdx), %xmm5
	movups	-48(%rsi,%rdx), %xmm6
	movups	-32(%rsi,%rdx), %xmm7
	movups	-16(%rsi,%rdx), %xmm8
	lea	-64(%rdi,%rdx), %r9
	lea	16(%rdi), %rcx
	and	$-16, %rcx
	sub	%rdi, %rsi
	add	%rcx, %rsi
	.p2align 4
1:	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	32(%rsi), %xmm2
	movups	48(%rsi), %xmm3
	movaps	%xmm0, (%rcx)
	movaps	%xmm1, 16(%rcx)
	movaps	%xmm2, 32(%rcx)
	movaps	%xmm3, 48(%rcx)
	add	$64, %rsi
	add	$64, %rcx
	cmp	%r9, %rcx
	jb	1b
	movups	%xmm5, (%r9)
	movups	%xmm6, 16(%r9)
	movups	%xmm7, 32(%r9)
	movups	%xmm8, 48(%r9)
	movups	%xmm4, (%rdi)
	ret
.Lstring: /* from a line of the destination on */
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	32(%rsi), %xmm2
	movups	48(%rsi), %xmm3
	lea	64(%rdi), %r8
	and	$-64, %r8
	lea	(%rdi,%rdx), %rcx
	sub	%r8, %rcx
	sub	%rdi, %rsi
	add	%r8, %rsi
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	movups	%xmm2, 32(%rdi)
	movups	%xmm3, 48(%rdi)
	mov	%r8, %rdi
	rep movsb
	ret
.Lbelow_16:
	cmp	$8, %rdx
	jb	1f
	mov	(%rsi), %rcx
	mov	-8(%rsi,%rdx), %r8
	mov	%rcx, (%rdi)
	mov	%r8, -8(%rdi,%rdx)
	ret
1:	cmp	$4, %rdx
	jb	1f
	mov	(%rsi), %ecx
	mov	-4(%rsi,%rdx), %r8d
	mov	%ecx, (%rdi)
	mov	%r8d, -4(%rdi,%rdx)
	ret
1:	cmp	$2, %rdx
	jb	1f
	movzwl	(%rsi), %ecx
	movzbl	-1(%rsi,%rdx), %r8d
	mov	%cx, (%rdi)
	mov	%r8b, -1(%rdi,%rdx)
	ret
1:	test	%rdx, %rdx
	jz	1f
	movzbl	(%rsi), %ecx
	mov	%cl, (%rdi)
1:	ret

LABEL guard_asm_wide
	.p2align 4
.Lwide: /* more than 128 bytes, as above with registers twice as wide */
	vmovdqu	(%rsi), %ymm4
	vmovdqu	-128(%rsi,%rdx), %ymm5
	vmovdqu	-96(%rsi,%rdx), %ymm6
	vmovdqu	-64(%rsi,%rdx), %ymm7
	vmovdqu	-32(%rsi,%rdx), %ymm8
	lea	-128(%rdi,%rdx), %r9
	lea	32(%rdi), %rcx
	and	$-32, %rcx
	sub	%rdi, %rsi
	add	%rcx, %rsi
	cmp	%r9, %rcx
	jae	2f
	.p2align 4
1:	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	64(%rsi), %ymm2
	vmovdqu	96(%rsi), %ymm3
	vmovdqa	%ymm0, (%rcx)
	vmovdqa	%ymm1, 32(%rcx)
	vmovdqa	%ymm2, 64(%rcx)
	vmovdqa	%ymm3, 96(%rcx)
	add	$128, %rsi
	add	$128, %rcx
	cmp	%r9, %rcx
	jb	1b
2:	vmovdqu	%ymm5, (%r9)
	vmovdqu	%ymm6, 32(%r9)
	vmovdqu	%ymm7, 64(%r9)
	vmovdqu	%ymm8, 96(%r9)
	vmovdqu	%ymm4, (%rdi)
LABEL guard_asm_end
	vzeroupper
	ret
LABEL guard_asm_landing_wide
	vzeroupper
LABEL guard_asm_landing
	mov	$EFAULT, %eax
	ret
END guard_asm_bulk

	/* An unwinder knows a signal frame by these very bytes at an address without frame data; it
	 * looks one byte before the return address. */
	.p2align 4
	nop
LABEL guard_asm_restorer
	mov	$15, %rax
	syscall
	.type	guard_asm_restorer, @function

	.section .note.GNU-stack, "", @progbits
