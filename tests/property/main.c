// SPDX-License-Identifier: MIT
/* property: random programs of verbs calls against a model. Without arguments it runs as many
 * seeds as are known to fit into a minute, always the same ones; at full length, for half an hour,
 * or its part of that, from the same one on. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "length.h"
#include "property/side.h"
#include "verbs/cases.h"

enum { TAIL = 40, HANG_NAPS = 200000 }; /* of at least 0.1 ms, and longer where all is slow */

static struct {
	pid_t pid[PROCS];
	bool stacks, verbose;
} all;

static void start(unsigned int proc)
{
	fflush(NULL);
	all.pid[proc] = fork();
	if (all.pid[proc] < 0)
		die("fork");
	if (!all.pid[proc])
		exit(process_run(proc));
}

static void stop(void)
{
	for (unsigned int i = 0; i < PROCS; i++)
		if (all.pid[i] > 0) {
			kill(all.pid[i], SIGKILL);
			waitpid(all.pid[i], NULL, 0);
			all.pid[i] = 0;
		}
}

static void stacks(void)
{
	char line[128];

	for (unsigned int i = 0; all.stacks && i < PROCS; i++) {
		if (all.pid[i] <= 0)
			continue;
		snprintf(line, sizeof(line), "gdb -p %d -batch -ex 'thread apply all bt' 2>&1",
			 (int)all.pid[i]);
		if (system(line))
			puts("# no gdb");
	}
}

static bool killed_on_purpose(unsigned int proc, int status)
{
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		return false;
	for (unsigned int s = 0; s < SIDES; s++)
		if (board->program.link[0].proc[s] == proc)
			return !atomic_load(&board->gone[proc]);
	return false;
}

/* One has ended. False: as it may not. */
static bool reaped(pid_t pid, int status)
{
	for (unsigned int i = 0; i < PROCS; i++) {
		if (all.pid[i] != pid)
			continue;
		all.pid[i] = 0;
		if (!status)
			return true;
		if (killed_on_purpose(i, status)) {
			board_died(i);
			start(i);
			return true;
		}
		if (!atomic_load(&board->failed))
			snprintf(board->why, sizeof(board->why),
				 "process %u ended with status 0x%x", i, status);
		return false;
	}
	return true;
}

static bool running(void)
{
	for (unsigned int i = 0; i < PROCS; i++)
		if (all.pid[i])
			return true;
	return false;
}

/* Waits for all; what stands still for long hangs. A machine that stood still is no hang. */
static bool watch(void)
{
	uint32_t most = HANG_NAPS * (cases_sanitized() ? 4 : 1), naps = 0, ticks = 0;

	while (running()) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid > 0) {
			if (!reaped(pid, status))
				return false;
			continue;
		}
		board_nap();
		if (atomic_load(&board->ticks) != ticks) {
			ticks = atomic_load(&board->ticks);
			naps = 0;
		} else if (++naps > most) {
			snprintf(board->why, sizeof(board->why), "nothing goes on any more");
			stacks();
			return false;
		}
	}
	return true;
}

static uint64_t due[LOSSY], came[LOSSY]; /* of all runs */

static bool run(const struct program *p)
{
	bool fine;

	board_clear(p);
	board->domain = memfd_create("domain", 0);
	if (board->domain < 0)
		die("memfd_create");
	for (unsigned int i = 0; i < PROCS; i++)
		start(i);
	fine = watch();
	stop();
	close(board->domain);
	for (unsigned int i = 0; i < LOSSY; i++) {
		due[i] += board->due[i];
		came[i] += board->came[i];
	}
	return fine;
}

static void report(const struct program *p, unsigned int steps)
{
	printf("# the last steps of seed %llu:\n", (unsigned long long)p->seed);
	board_tail(steps);
	for (unsigned int l = 0; l < p->links; l++)
		for (unsigned int i = 0; i < SIDES; i++)
			printf("# link %u side %c (type %u, process %u%s): %s\n", l, "ab"[i],
			       p -> link[l].type, p->link[l].proc[i],
			       p->link[l].srq[i] ? ", SRQ" : "", board->seat[l][i].waits);
	printf("# seed %llu: %s\n# again: %s --seed %llu; smaller: --seed %llu --shrink\n",
	       (unsigned long long)p->seed, board->why, program_invocation_short_name,
	       (unsigned long long)p->seed, (unsigned long long)p->seed);
}

static bool fails_within(const struct program *p, unsigned int tries)
{
	while (tries--)
		if (!run(p))
			return true;
	return false;
}

static unsigned int count_on(const struct program *p)
{
	unsigned int n = 0;

	for (unsigned int l = 0; l < p->links; l++)
		for (unsigned int i = 0; i < EPISODES * SIDES * STEPS; i++) {
			unsigned int e = i / (SIDES * STEPS), s = i / STEPS % SIDES, k = i % STEPS;

			n += k < p->link[l].ep[e].side[s].steps &&
			     !p->off[program_index(l, e, s, k)];
		}
	return n;
}

/* Switches off ever smaller runs of steps, as long as it fails without them. */
static void shrink(struct program *p, unsigned int tries)
{
	struct program best = *p;

	for (unsigned int size = ALL_STEPS / 2; size; size /= 2)
		for (unsigned int at = 0; at < ALL_STEPS; at += size) {
			*p = best;
			memset(p->off + at, 1, size < ALL_STEPS - at ? size : ALL_STEPS - at);
			if (count_on(p) == count_on(&best) || !fails_within(p, tries))
				continue;
			best = *p;
			printf("# fails with %u steps: %s\n", count_on(p), board->why);
			fflush(stdout);
		}
	*p = best;
	program_print(p);
	if (fails_within(p, tries * 4))
		report(p, 2 * TAIL);
}

static int usage(void)
{
	fputs("usage: property [--seed N] [--count N] [--minutes N] [--shrink] [--tries N] "
	      "[--stacks] [--print]\n",
	      stderr);
	return 2;
}

struct options {
	uint64_t seed;
	unsigned int count, tries;
	unsigned int minutes; /* 0: count alone says how many */
	bool shrink, print;
};

static bool parse(int argc, char **argv, struct options *o)
{
	static const struct option list[] = {
		{ "seed", 1, NULL, 's' },    { "count", 1, NULL, 'c' },
		{ "minutes", 1, NULL, 'm' }, { "shrink", 0, NULL, 'x' },
		{ "tries", 1, NULL, 't' },   { "stacks", 0, NULL, 'g' },
		{ "print", 0, NULL, 'p' },   { 0 }
	};
	int c;

	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1)
		switch (c) {
		case 's':
			o->seed = strtoull(optarg, NULL, 0);
			o->count = 1;
			o->minutes = 0;
			break;
		case 'c':
			o->count = (unsigned int)strtoul(optarg, NULL, 0);
			o->minutes = 0;
			break;
		case 'm':
			o->count = UINT_MAX;
			o->minutes = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'x':
			o->shrink = true;
			break;
		case 't':
			o->tries = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'g':
			all.stacks = true;
			break;
		case 'p':
			o->print = true;
			break;
		default:
			return false;
		}
	return optind == argc;
}

/* What may be lost mostly is not: there is no network in between. */
static bool too_few_came(void)
{
	static const char *const names[] = { "UC", "UD", "RAW_PACKET" };
	bool few = false;

	for (unsigned int i = 0; i < LOSSY; i++) {
		printf("# %s: of %llu messages came %llu\n", names[i], (unsigned long long)due[i],
		       (unsigned long long)came[i]);
		few |= due[i] > 1000 && came[i] < due[i] / 8;
	}
	return few;
}

static uint64_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

int main(int argc, char **argv)
{
	struct options o = { .seed = 1, .count = 400, .tries = 5 };
	static struct program p;
	unsigned int failed = 0;
	uint64_t seed, end;

	if (cases_full()) {
		o.count = UINT_MAX;
		o.minutes = length_part(30);
	}

	if (!parse(argc, argv, &o))
		return usage();
	board_make();
	end = seconds() + o.minutes * 60ULL;
	for (seed = o.seed; seed < o.seed + o.count && !failed; seed++) {
		if (o.minutes && seconds() >= end)
			break;
		program_make(&p, seed);
		if (o.print)
			program_print(&p);
		if (fails_within(&p, o.count == 1 ? o.tries : 1)) {
			failed = 1;
			report(&p, TAIL);
			if (o.shrink)
				shrink(&p, o.tries);
		}
	}
	failed |= too_few_came();
	printf("1..1\n%sok 1 - seeds %llu to %llu\n", failed ? "not " : "",
	       (unsigned long long)o.seed, (unsigned long long)seed - 1);
	return (int)failed;
}
