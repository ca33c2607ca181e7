// SPDX-License-Identifier: MIT
/* Copies that may fault: see guard_asm.h. Arguments x0 destination, x1 source, x2 bytes; result
 * in w0. The last line is stored by store-release: each is seen after all before it. */
#define EFAULT 14

.macro ENTRY name
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34 /* bti c */
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

.macro STEP load, store, reg, bytes
	\load	\reg, [x1], #\bytes
	\store	\reg, [x0]
	add	x0, x0, #\bytes
	sub	x2, x2, #\bytes
.endm

	.text
LABEL guard_asm_begin

ENTRY guard_asm_line
	tst	x0, #7
	b.ne	.Lhead
.Lword:
	cmp	x2, #8
	b.lo	.Ltail
	STEP	ldr, stlr, x3, 8
	b	.Lword
.Ltail:
	tbz	x2, #2, 1f
	STEP	ldr, stlr, w3, 4
1:	tbz	x2, #1, 1f
	STEP	ldrh, stlrh, w3, 2
1:	tbz	x2, #0, 1f
	STEP	ldrb, stlrb, w3, 1
1:	mov	w0, #0
	ret
.Lhead: /* up to an aligned word, or to the end: what is left is then shorter than the alignment */
	tbz	x0, #0, 1f
	cbz	x2, .Ltail
	STEP	ldrb, stlrb, w3, 1
1:	tbz	x0, #1, 1f
	cmp	x2, #2
	b.lo	.Ltail
	STEP	ldrh, stlrh, w3, 2
1:	tbz	x0, #2, .Lword
	cmp	x2, #4
	b.lo	.Ltail
	STEP	ldr, stlr, w3, 4
	b	.Lword
END guard_asm_line

ENTRY guard_asm_bulk
	cmp	x2, #64
	b.lo	2f
1:	ldp	x4, x5, [x1]
	ldp	x6, x7, [x1, #16]
	ldp	x8, x9, [x1, #32]
	ldp	x10, x11, [x1, #48]
	stp	x4, x5, [x0]
	stp	x6, x7, [x0, #16]
	stp	x8, x9, [x0, #32]
	stp	x10, x11, [x0, #48]
	add	x1, x1, #64
	add	x0, x0, #64
	sub	x2, x2, #64
	cmp	x2, #64
	b.hs	1b
2:	cmp	x2, #8
	b.lo	3f
	STEP	ldr, str, x3, 8
	b	2b
3:	cbz	x2, 4f
	STEP	ldrb, strb, w3, 1
	b	3b
4:	mov	w0, #0
	ret
END guard_asm_bulk

ENTRY guard_asm_fetch_add /* address, addend, where the old value goes */
1:	ldaxr	x3, [x0]
	add	x4, x3, x1
	stlxr	w5, x4, [x0]
	cbnz	w5, 1b
	str	x3, [x2]
	mov	w0, #0
	ret
END guard_asm_fetch_add

ENTRY guard_asm_cmp_swap /* address, compare, swap, where the old value goes */
1:	ldaxr	x4, [x0]
	cmp	x4, x1
	csel	x6, x2, x4, eq /* stores back what it found: a read-only page must fault here too */
	stlxr	w5, x6, [x0]
	cbnz	w5, 1b
	str	x4, [x3]
	mov	w0, #0
	ret
END guard_asm_cmp_swap

LABEL guard_asm_wide
LABEL guard_asm_end
LABEL guard_asm_landing_wide
LABEL guard_asm_landing
	mov	w0, #EFAULT
	ret

	.p2align 4
	nop
LABEL guard_asm_restorer
	mov	x8, #139
	svc	#0
	.type	guard_asm_restorer, %function

	.section .note.GNU-stack, "", %progbits
