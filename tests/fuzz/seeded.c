// SPDX-License-Identifier: MIT
/* main() of a target for compilers without libFuzzer: the corpus as it is, then changes of it by
 * the printed seed. SOFTHCA_FUZZ_SEED chooses one; arguments are files to be tried, once each. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fuzz.h"
#include "length.h"
#include "util/rand.h"

enum { CHANGES = 6, FULL = 20, LONGEST = 30 /* seconds that an input may take */ };

static struct fuzz_input corpus[FUZZ_INPUTS];
static size_t n_corpus;
static uint8_t now[FUZZ_INPUT_MAX]; /* the input that is being tried */
static size_t now_len;

static void too_long(int signal)
{
	static const char said[] = "an input takes longer than 30 s\n";

	(void)signal;
	if (write(STDERR_FILENO, said, sizeof(said) - 1) > 0)
		abort();
	_exit(1);
}

static void try_it(const uint8_t *data, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);

	if (!exact)
		abort();
	memcpy(exact, data, len);
	alarm(LONGEST);
	LLVMFuzzerTestOneInput(exact, len);
	alarm(0);
	free(exact);
}

static void change_byte(struct rand *r)
{
	static const uint8_t edges[] = { 0, 1, 0x7f, 0x80, 0xff, 64, 40, 20 };
	size_t at = rand_below(r, now_len);

	switch (rand_below(r, 4)) {
	case 0:
		now[at] ^= (uint8_t)(1U << rand_below(r, 8));
		break;
	case 1:
		now[at] = edges[rand_below(r, sizeof(edges))];
		break;
	case 2:
		now[at] = (uint8_t)(now[at] + rand_below(r, 9) - 4);
		break;
	default:
		now[at] = (uint8_t)rand_u64(r);
	}
}

static void cut_out(struct rand *r)
{
	size_t at = rand_below(r, now_len), n = 1 + rand_below(r, now_len - at);

	memmove(now + at, now + at + n, now_len - at - n);
	now_len -= n;
}

/* A piece of another input, in place of what is there or in front of it. */
static void splice(struct rand *r)
{
	const struct fuzz_input *other = &corpus[rand_below(r, n_corpus)];
	size_t from = rand_below(r, other->len), n = rand_below(r, other->len - from + 1);
	size_t at = rand_below(r, now_len + 1);

	if (rand_chance(r, 0.5) && now_len + n <= fuzz_target.max_len) {
		memmove(now + at + n, now + at, now_len - at);
		now_len += n;
	}
	if (n > now_len - at)
		n = now_len - at;
	memcpy(now + at, other->data + from, n);
}

static void change(struct rand *r)
{
	uint64_t what = rand_below(r, 8);

	if (what == 0 || !now_len)
		splice(r);
	else if (what == 1)
		cut_out(r);
	else
		change_byte(r);
}

static void mutate(struct rand *r)
{
	const struct fuzz_input *from = &corpus[rand_below(r, n_corpus)];

	now_len = from->len < fuzz_target.max_len ? from->len : fuzz_target.max_len;
	memcpy(now, from->data, now_len);
	for (uint64_t i = rand_below(r, CHANGES); i < CHANGES; i++)
		change(r);
}

static uint64_t choose_seed(void)
{
	const char *said = getenv("SOFTHCA_FUZZ_SEED");

	return said ? strtoull(said, NULL, 0) : (uint64_t)time(NULL) << 16 ^ (uint64_t)getpid();
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int try_files(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "r");

		if (!f) {
			perror(argv[i]);
			return 1;
		}
		now_len = fread(now, 1, sizeof(now), f);
		fclose(f);
		try_it(now, now_len);
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seed = choose_seed();
	uint32_t runs = fuzz_target.runs * (length_full() ? length_part(FULL) : 1);
	double begun = seconds();
	struct rand r;

	signal(SIGALRM, too_long);
	if (argc > 1)
		return try_files(argc, argv);
	n_corpus = fuzz_corpus(corpus, FUZZ_INPUTS);
	fprintf(stderr, "%s: %zu inputs, then %u by SOFTHCA_FUZZ_SEED=%llu\n", fuzz_target.name,
		n_corpus, runs, (unsigned long long)seed);
	for (size_t i = 0; i < n_corpus; i++)
		try_it(corpus[i].data, corpus[i].len);
	rand_init(&r, seed);
	for (uint32_t i = 0; i < runs; i++) {
		mutate(&r);
		try_it(now, now_len);
	}
	fprintf(stderr, "%s: %.0f executions/s\n", fuzz_target.name,
		(double)(n_corpus + runs) / (seconds() - begun));
	for (size_t i = 0; i < n_corpus; i++)
		free(corpus[i].data);
	return 0;
}
