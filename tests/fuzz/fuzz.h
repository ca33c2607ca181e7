// SPDX-License-Identifier: MIT
/* A fuzz target: one decoder of bytes that others wrote, fed with any bytes. It defines
 * fuzz_target and LLVMFuzzerTestOneInput(), which libFuzzer (libfuzzer.c) or our own main()
 * (seeded.c) call again and again in one process; so an input leaves nothing behind. What must
 * hold for every input is said by must(). */
#pragma once
#include <stddef.h>
#include <stdint.h>

extern const struct fuzz_target {
	const char *name; /* of the corpus: corpus/NAME.hex */
	uint32_t max_len; /* of an input, bytes */
	uint32_t runs; /* of seeded.c, in `test` */
} fuzz_target;

/* Always 0. @data: exactly @len bytes, on the heap. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define must(cond) ((cond) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #cond))
_Noreturn void fuzz_fail(const char *file, int line, const char *what);

/* Inputs, one a line of hexadecimal digits; '#' begins a comment. */
enum { FUZZ_INPUTS = 2048, FUZZ_INPUT_MAX = 4096 };

struct fuzz_input {
	uint8_t *data;
	size_t len;
};

/* Reads the target's corpus; exits when there is none. */
size_t fuzz_corpus(struct fuzz_input *out, size_t max);

/* Takes an input apart from its front; zeros when it has ended. */
struct fuzz_bytes {
	const uint8_t *p;
	size_t left;
};

uint64_t fuzz_take(struct fuzz_bytes *b, unsigned int n); /* n bytes, 1..8, little-endian */
/* At most @n bytes; how many. */
size_t fuzz_take_run(struct fuzz_bytes *b, size_t n, const uint8_t **out);
