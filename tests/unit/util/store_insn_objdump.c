// SPDX-License-Identifier: MIT
/* The decoder against objdump: each instruction that it takes has the length that objdump gives it,
 * and stores so many bytes. What objdump calls bad raises no fault on a page: no processor runs
 * it. */
#include "util/store_insn.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "util/rand.h"
#include "test.h"

#if defined(__x86_64__)

enum {
	INSNS = 40000,
	RANDOM = 16, /* bytes: an instruction, and what may follow it */
	PLACE = 2 * RANDOM, /* NOPs behind them: objdump is in step again for the next */
	NOP = 0x90,
};

static const uint8_t prefixes[] = { 0x66, 0xf2, 0xf3, 0x67, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65 },
		     moves[] = { 0x88, 0x89, 0xc6, 0xc7 },
		     vector_moves[] = { 0x11, 0x13, 0x17, 0x29, 0x2b, 0x7e, 0x7f, 0xd6, 0xe7 };

static struct store_insn taken[INSNS];
static uint8_t text[INSNS][PLACE];

static uint8_t any(struct rand *r)
{
	return (uint8_t)rand_u64(r);
}

/* One of @of mostly, or any byte. */
static uint8_t one(struct rand *r, const uint8_t *of, size_t n)
{
	return rand_chance(r, 0.8) ? of[rand_below(r, n)] : any(r);
}

/* Prefixes and an opcode as programs have them. */
static uint8_t *classic(struct rand *r, uint8_t *to)
{
	for (uint64_t n = rand_below(r, 5); n > 2; n--) /* none, one or two */
		*to++ = prefixes[rand_below(r, sizeof(prefixes))];
	if (rand_chance(r, 0.5))
		*to++ = 0x40 | (any(r) & 15);
	if (rand_chance(r, 0.5)) {
		*to++ = one(r, moves, sizeof(moves));
		return to;
	}
	*to++ = 0x0f;
	*to++ = rand_chance(r, 0.1) ? 0xc3 : one(r, vector_moves, sizeof(vector_moves));
	return to;
}

/* The prefixes of AVX, whose unused fields are as an instruction needs them, or not. */
static uint8_t *wide(struct rand *r, uint8_t *to)
{
	uint8_t first = (uint8_t[]){ 0xc5, 0xc4, 0x62 }[rand_below(r, 3)];
	bool fits = rand_chance(r, 0.7);

	*to++ = first;
	if (first == 0xc4)
		*to++ = (any(r) & 0xe0) | (fits ? 1 : any(r) & 0x1f);
	if (first == 0x62)
		*to++ = (any(r) & 0xf0) | (fits ? 1 : any(r) & 15);
	*to++ = any(r) | (fits ? 0x78 : 0) | (first == 0x62 ? 4 : 0);
	if (first == 0x62)
		*to++ = fits ? (any(r) & 0x67) | 8 : any(r);
	*to++ = one(r, vector_moves, sizeof(vector_moves));
	return to;
}

/* Mostly bytes that look like a store; then NOPs. */
static void make(struct rand *r, uint8_t at[PLACE])
{
	uint8_t *to;

	for (unsigned int i = 0; i < PLACE; i++)
		at[i] = i < RANDOM ? any(r) : NOP;
	if (rand_chance(r, 0.1))
		return;
	to = rand_chance(r, 0.6) ? classic(r, at) : wide(r, at);
	if (rand_chance(r, 0.4))
		*to &= 0xc7; /* a constant's middle field is 0 */
}

/* All that the decoder takes, one behind the other. */
static void make_all(void)
{
	static const uint64_t reg[16];
	struct rand r;

	rand_init(&r, 1);
	for (unsigned int n = 0; n < INSNS;) {
		make(&r, text[n]);
		n += store_insn_decode(text[n], reg, &taken[n]);
	}
}

/* objdump reads them from a file that it has inherited. */
static FILE *dump(int fd)
{
	char command[160];

	snprintf(command, sizeof(command),
		 "objdump -D -z -b binary -m i386:x86-64 -M intel --no-show-raw-insn "
		 "/proc/self/fd/%d",
		 fd);
	return popen(command, "r");
}

static unsigned int pointer_bytes(const char *operand)
{
	static const struct {
		const char *name;
		unsigned int bytes;
	} sizes[] = {
		{ " BYTE PTR ", 1 }, { " WORD PTR ", 2 }, { " DWORD PTR ", 4 }, { " QWORD PTR ", 8 }
	};

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (strstr(operand, sizes[i].name))
			return sizes[i].bytes;
	return 0;
}

/* @insn: as objdump writes it, its destination first. */
static bool stores(const char *insn, unsigned int bytes)
{
	char to[128];

	snprintf(to, sizeof(to), "%.*s", (int)strcspn(insn, ","), insn);
	return strstr(to, "mov") && strstr(to, " PTR ") && (!bytes || pointer_bytes(to) == bytes);
}

/* Of the @n-th, which objdump calls @insn and gives @len bytes. False: it is bad. */
static bool agrees(unsigned int n, unsigned long len, const char *insn)
{
	if (strstr(insn, "(bad)") || strstr(insn, "{bad}"))
		return false;
	if (len != taken[n].len || !stores(insn, taken[n].bytes)) {
		for (unsigned int i = 0; i < RANDOM; i++)
			printf("%02x ", text[n][i]);
		printf("\nobjdump: %lu bytes: %s\ndecoder: %u bytes, stores %u\n", len, insn,
		       taken[n].len, taken[n].bytes);
		fail();
	}
	return true;
}

/* Reads the lines "ADDRESS:\tINSTRUCTION". Returns how many instructions are good ones. */
static unsigned int compare(FILE *f, unsigned int *all)
{
	char line[256], insn[200], first[200] = "";
	unsigned long at, begin = 0;
	unsigned int good = 0;

	*all = 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %lx:\t%199[^\n]", &at, insn) != 2)
			continue;
		if (*first)
			good += agrees((unsigned int)(begin / PLACE), at - begin, first);
		*first = '\0';
		if (at % PLACE)
			continue;
		begin = at;
		memcpy(first, insn, sizeof(first));
		++*all;
	}
	return good;
}

TEST(stores_have_the_length_and_the_operand_that_objdump_sees)
{
	int fd = memfd_create("insns", 0), err;
	unsigned int all, good;
	FILE *f;

	make_all();
	check_eq(write(fd, text, sizeof(text)), sizeof(text));
	f = dump(fd);
	check(f);
	good = compare(f, &all);
	err = pclose(f);
	close(fd);
	if (err && !all)
		skip(); /* there is no objdump */
	check_eq(err, 0);
	check_eq(all, INSNS);
	check(good > INSNS / 2);
}

RUN_TESTS(unit_test(stores_have_the_length_and_the_operand_that_objdump_sees))

#else

TEST(there_is_no_decoder_for_this_machine)
{
}

RUN_TESTS(unit_test(there_is_no_decoder_for_this_machine))

#endif
