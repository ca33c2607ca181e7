// SPDX-License-Identifier: MIT
/* placement PATH [ARRIVALS]: messages of many sizes and alignments are stored by PATH, one after
 * the other, while another process spins on the last byte of each and then looks whether all
 * bytes before it are there (docs/design/guarded-copies.md). Prints how many had stale bytes; exit
 * 1 when any had, 77 on a single CPU. Two paths are wrong on purpose: `memcpy` (how often depends
 * on the C library), and `control`, which stores from the end to the start and has the verdict
 * turned round: it shows that this program can see stale bytes on this machine. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "length.h"
#include "link/copy.h"
#include "peers/mapping.h"
#include "peers/remote.h"
#include "util/barrier.h"
#include "util/guard.h"
#include "util/rand.h"

enum { ARENA = 256 * 1024, PATIENCE = 20000 };

/* Shared by writer and observer: a message is [at, at + len), every byte of it @value. */
struct board {
	uint32_t posted, ready, seen; /* numbers of messages: (A), (C), (B) */
	uint32_t at, len;
	uint8_t value;
	uint32_t stale; /* messages; of the observer */
	uint8_t arena[ARENA] __attribute__((aligned(4096)));
};

static struct board *board;
static struct remote *remote;
static uint8_t *source;
static void *(*volatile plain_memcpy)(void *, const void *, size_t) = memcpy;

static int by_memcpy(uint8_t *dst, const uint8_t *src, size_t n)
{
	plain_memcpy(dst, src, n);
	return 0;
}

static int by_descent(uint8_t *dst, const uint8_t *src, size_t n)
{
	while (n--)
		store_relaxed(dst + n, src[n]);
	return 0;
}

static int by_copy(uint8_t *dst, const uint8_t *src, size_t n)
{
	return guard_copy(dst, src, n);
}

/* @n bytes at @p in three pieces, the last one short */
static void in_three(struct piece out[3], const uint8_t *p, size_t n)
{
	uint32_t a = (uint32_t)n / 3, c = n > 20 ? 5 : 0, b = (uint32_t)n - a - c;
	uintptr_t at = (uintptr_t)p;

	out[0] = (struct piece){ at, a, 0 };
	out[1] = (struct piece){ at + a, b, 0 };
	out[2] = (struct piece){ at + a + b, c, 0 };
}

static int by_scatter(uint8_t *dst, const uint8_t *src, size_t n)
{
	struct piece to[3];

	in_three(to, dst, n);
	return copy_scatter(to, 3, 0, src, n);
}

static int by_pieces(uint8_t *dst, const uint8_t *src, size_t n)
{
	struct piece to = { (uintptr_t)dst, (uint32_t)n, 0 }, from[3];

	in_three(from, src, n);
	return copy_pieces(&to, 1, from, 3, 0);
}

static int by_write(uint8_t *dst, const uint8_t *src, size_t n)
{
	struct iovec v = { (void *)(uintptr_t)src, n };

	return remote_write(remote, &v, 1, (uintptr_t)dst);
}

static int by_read(uint8_t *dst, const uint8_t *src, size_t n)
{
	struct iovec v = { dst, n };

	return remote_read(remote, &v, 1, (uintptr_t)src);
}

/* Into another mapping of the same file, as a peer has it. */
static struct mapping mapping;

static int by_mapping(uint8_t *dst, const uint8_t *src, size_t n)
{
	uint8_t *at = mapping.at + (dst - (uint8_t *)board);
	struct piece to = { (uintptr_t)at, (uint32_t)n, 0 }, from[3];

	in_three(from, src, n);
	return copy_pieces(&to, 1, from, 3, 0);
}

enum peer { NOBODY, BY_FD, BY_PID };
struct path {
	const char *name;
	int (*store)(uint8_t *dst, const uint8_t *src, size_t n);
	enum peer peer;
	uint32_t min; /* bytes of the smallest message */
};

static const struct path paths[] = {
	{ "copy", by_copy, NOBODY, 1 },		 { "scatter", by_scatter, NOBODY, 1 },
	{ "pieces", by_pieces, NOBODY, 1 },	 { "write-fd", by_write, BY_FD, 1 },
	{ "write-pid", by_write, BY_PID, 8193 }, { "read-fd", by_read, BY_FD, 1 },
	{ "read-pid", by_read, BY_PID, 8193 },	 { "memcpy", by_memcpy, NOBODY, 1 },
	{ "mapped", by_mapping, NOBODY, 1 },	 { "control", by_descent, NOBODY, 1 },
};

static void spin_wait_once(unsigned int *looks)
{
	cpu_relax();
	if (++*looks % PATIENCE == 0)
		sched_yield();
}

/* The caller's acquire of the last byte comes first. */
static bool all_are(const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return false;
	return true;
}

static void observe(uint32_t arrivals)
{
	for (uint32_t i = 1; i <= arrivals; i++) {
		unsigned int looks = 0;
		const uint8_t *at, *last;

		while (load_acquire(&board->posted) != i) /* (A) */
			spin_wait_once(&looks);
		at = board->arena + board->at;
		last = at + board->len - 1;
		/* its old bytes into this CPU's cache: each store then has to fetch its line */
		if (!all_are(at, board->len, (uint8_t)(board->value - 1)))
			_exit(1);
		store_release(&board->ready, i); /* (C) */
		while (load_acquire(last) != board->value)
			spin_wait_once(&looks);
		if (!all_are(at, board->len, board->value))
			board->stale++;
		store_release(&board->seen, i); /* (B) */
	}
}

/* Mostly 1 B to 4 KiB, each size class as likely as the next, now and then 64 KiB and more. */
static uint32_t pick_len(struct rand *r, uint32_t min)
{
	uint32_t len = 1 + (uint32_t)rand_below(r, UINT64_C(1) << rand_below(r, 13));

	if (rand_below(r, 32) == 0)
		len = 65536 + (uint32_t)rand_below(r, 65536);
	return len < min ? min + (uint32_t)rand_below(r, min) : len;
}

static int write_all(const struct path *p, uint32_t arrivals)
{
	struct rand r;

	rand_init(&r, 42);
	for (uint32_t i = 1; i <= arrivals; i++) {
		uint32_t len = pick_len(&r, p->min);
		unsigned int looks = 0;
		uint8_t *src = source + rand_below(&r, 64);

		board->len = len;
		board->at = (uint32_t)rand_below(&r, ARENA - len);
		board->at &= rand_chance(&r, 0.5) ? ~UINT32_C(63) : ~UINT32_C(0);
		board->value = board->arena[board->at + len - 1] + 1;
		memset(board->arena + board->at, board->value - 1, len);
		memset(src, board->value, len);
		store_release(&board->posted, i); /* (A) */
		while (load_acquire(&board->ready) != i) /* (C) */
			spin_wait_once(&looks);
		if (p->store(board->arena + board->at, src, len))
			return 1;
		while (load_acquire(&board->seen) != i) /* (B) */
			spin_wait_once(&looks);
	}
	return 0;
}

/* Writing reaches the observer's memory, reading is from our own: what is looked at is how it is
 * stored. */
static int peer_open(const struct path *p, pid_t observer)
{
	static uint64_t cookie = 0xc00c1e;
	pid_t pid = p->store == by_read ? getpid() : observer;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/mem", (int)pid);
	return remote_open(open(name, O_RDWR | O_CLOEXEC), p->peer == BY_PID ? pid : 0,
			   (uintptr_t)&cookie, cookie, &remote);
}

static bool one_cpu(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) < 2;
}

static const struct path *path_find(const char *name)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (name && !strcmp(paths[i].name, name))
			return &paths[i];
	return NULL;
}

static uint32_t arrivals_default(void)
{
	return length_full() ? 1000000 : 20000;
}

static bool board_make(void)
{
	int fd = memfd_create("board", MFD_CLOEXEC), found;
	struct mapping_file f;

	if (fd < 0 || ftruncate(fd, sizeof(*board)))
		return false;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return board != MAP_FAILED && !mapping_find((uintptr_t)board, sizeof(*board), &f, &found) &&
	       !mapping_make(&f, found, &mapping);
}

static int run(const struct path *p, uint32_t arrivals)
{
	pid_t pid;
	int err = 1;

	source = malloc(ARENA);
	if (!board_make() || !source || guard_init())
		return 2;
	pid = fork();
	if (!pid) {
		observe(arrivals);
		_exit(0);
	}
	if (pid < 0)
		return 2;
	if (p->peer == NOBODY || !peer_open(p, pid))
		err = write_all(p, arrivals);
	if (err)
		kill(pid, SIGKILL);
	if (waitpid(pid, NULL, 0) != pid || err) {
		fprintf(stderr, "%s: storing failed\n", p->name);
		return 2;
	}
	printf("%s: %u arrivals, %u with stale bytes\n", p->name, arrivals, board->stale);
	return !board->stale == !strcmp(p->name, "control");
}

int main(int argc, char **argv)
{
	const struct path *p = path_find(argc > 1 ? argv[1] : NULL);
	uint32_t arrivals = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : arrivals_default();

	if (!p || !arrivals) {
		fprintf(stderr, "usage: placement PATH [ARRIVALS]\n");
		return 2;
	}
	if (one_cpu()) {
		printf("SKIP: one CPU only: nobody can look while it is stored\n");
		return 77;
	}
	return run(p, arrivals);
}
