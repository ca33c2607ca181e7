// SPDX-License-Identifier: MIT
/* libFuzzer's main() without arguments: the corpus is unpacked into a folder of TMPDIR, and the
 * target runs on it for FUZZ_SECONDS; at full length for thirty times as long, or its part of
 * that. With arguments everything is libFuzzer's. It prints its seed, and the input that failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "fuzz.h"
#include "length.h"

enum { FUZZ_SECONDS = 10, FULL = 30, ARGS = 12, ARG = 256 };

int LLVMFuzzerInitialize(int *argc, char ***argv);

static void write_input(const char *dir, size_t i, const struct fuzz_input *in)
{
	char path[2 * ARG];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%zu", dir, i);
	f = fopen(path, "w");
	if (!f || fwrite(in->data, 1, in->len, f) != in->len || fclose(f)) {
		perror(path);
		exit(1);
	}
	free(in->data);
}

static void unpack(const char *dir)
{
	static struct fuzz_input in[FUZZ_INPUTS];
	size_t n = fuzz_corpus(in, FUZZ_INPUTS);

	if (mkdir(dir, 0700)) {
		perror(dir);
		exit(1);
	}
	for (size_t i = 0; i < n; i++)
		write_input(dir, i, &in[i]);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char text[ARGS][ARG], *args[ARGS + 1];
	unsigned int seconds = length_full() ? length_part(FUZZ_SECONDS * FULL) : FUZZ_SECONDS;
	const char *tmp = getenv("TMPDIR");
	int n = 0;

	if (*argc > 1)
		return 0;
	snprintf(text[n++], ARG, "%s", (*argv)[0]);
	snprintf(text[n++], ARG, "-max_total_time=%u", seconds);
	snprintf(text[n++], ARG, "-max_len=%u", fuzz_target.max_len);
	snprintf(text[n++], ARG, "-artifact_prefix=%s/", tmp ? tmp : "/tmp");
	snprintf(text[n++], ARG, "-timeout=20");
	snprintf(text[n++], ARG, "-error_exitcode=1");
	snprintf(text[n++], ARG, "-detect_leaks=0"); /* but at the end: else most of the time */
	snprintf(text[n++], ARG, "-verbosity=0");
	snprintf(text[n++], ARG, "-print_final_stats=1");
	snprintf(text[n++], ARG, "%s/corpus-%s", tmp ? tmp : "/tmp", fuzz_target.name);
	unpack(text[n - 1]);
	for (int i = 0; i < n; i++)
		args[i] = text[i];
	*argc = n;
	*argv = args;
	return 0;
}
