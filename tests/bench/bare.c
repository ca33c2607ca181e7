// SPDX-License-Identifier: MIT
/* What the machine itself can do, without any library: the loops that softhca is measured against.
 * Two processes, each on a core of its own; the first prints one figure. Latencies are the median
 * of many short runs (a latency tool's "typical"), bandwidths the average of one long run (its
 * "average"). */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNKS	   101
#define CHUNK	   2000 /* rounds; a futex round costs far more and takes a tenth */
#define BW_SECONDS 0.4
#define STOP	   UINT32_MAX

/* The page that both processes map; a word and its neighbour line are one core's each. */
struct shared {
	_Alignas(128) atomic_uint ping;
	_Alignas(128) atomic_uint pong;
	_Alignas(128) atomic_bool done;
};

static struct shared *shared;
static char *area; /* both map it; for the process_vm loops each has a private one */
static char *own;
static size_t size;
static pid_t other;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* @round CHUNKS times @n times; the median time of one, in microseconds. */
static double median_us(void (*round)(uint32_t number), unsigned int n)
{
	double took[CHUNKS];
	uint32_t number = 1;

	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		double start = now();

		for (unsigned int i = 0; i < n; i++)
			round(number++);
		took[chunk] = (now() - start) / n * 1e6;
	}
	qsort(took, CHUNKS, sizeof(took[0]), ascending);
	return took[CHUNKS / 2];
}

/* @move again and again; GB/s. */
static double bandwidth(void (*move)(void))
{
	double start, took;
	uint64_t n = 0;

	for (int warm = 0; warm < 8; warm++)
		move();
	start = now();
	do {
		for (int i = 0; i < 16; i++, n++)
			move();
		took = now() - start;
	} while (took < BW_SECONDS);
	return n * (double)size / took / 1e9;
}

/* A cache line there and back. */

static void line_round(uint32_t number)
{
	atomic_store_explicit(&shared->ping, number, memory_order_release);
	while (atomic_load_explicit(&shared->pong, memory_order_acquire) != number)
		;
}

static void line_answer(void)
{
	uint32_t seen = 0, v;

	while ((v = atomic_load_explicit(&shared->ping, memory_order_acquire)) != STOP) {
		if (v == seen)
			continue;
		seen = v;
		atomic_store_explicit(&shared->pong, v, memory_order_release);
	}
}

static double line(void)
{
	double rtt = median_us(line_round, CHUNK);

	atomic_store(&shared->ping, STOP);
	return rtt / 2;
}

/* A futex wake there and back: nobody spins. */

static void futex_set(atomic_uint *word, uint32_t value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint32_t futex_get(atomic_uint *word, uint32_t seen)
{
	uint32_t v;

	while ((v = atomic_load(word)) == seen)
		syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
	return v;
}

static void futex_round(uint32_t number)
{
	futex_set(&shared->ping, number);
	futex_get(&shared->pong, number - 1);
}

static void futex_answer(void)
{
	uint32_t v = 0;

	while ((v = futex_get(&shared->ping, v)) != STOP)
		futex_set(&shared->pong, v);
}

static double futex(void)
{
	double rtt = median_us(futex_round, CHUNK / 10);

	futex_set(&shared->ping, STOP);
	return rtt;
}

/* process_vm_writev to the other process. */

static void vm_move(bool write, const void *mine, void *theirs, size_t n)
{
	struct iovec local = { (void *)mine, n }, remote = { theirs, n };
	ssize_t moved = write ? process_vm_writev(other, &local, 1, &remote, 1, 0)
			      : process_vm_readv(other, &local, 1, &remote, 1, 0);

	if (moved != (ssize_t)n)
		die("process_vm_*");
}

static void vm_tell(uint32_t number)
{
	uint64_t value = number;

	vm_move(true, &value, own, sizeof(value));
}

/* The caller's cost of one, while the other process spins on the memory. */
static double vm_call(void)
{
	double us = median_us(vm_tell, CHUNK);

	vm_tell(STOP);
	return us;
}

static void spin_on_memory(void)
{
	while (*(volatile uint64_t *)own != STOP)
		;
}

static void vm_round(uint32_t number)
{
	vm_tell(number);
	while (*(volatile uint64_t *)own != number)
		;
}

static void vm_answer(void)
{
	uint64_t seen = 0, v;

	while ((v = *(volatile uint64_t *)own) != STOP) {
		if (v == seen)
			continue;
		seen = v;
		vm_tell(v);
	}
}

static double vm_pingpong(void)
{
	double rtt = median_us(vm_round, CHUNK);

	vm_tell(STOP);
	return rtt / 2;
}

static void wait_done(void)
{
	while (!atomic_load(&shared->done))
		usleep(1000);
}

static void write_all(void)
{
	vm_move(true, own, own, size);
}

static void read_all(void)
{
	vm_move(false, own, own, size);
}

static double vm_write(void)
{
	return bandwidth(write_all);
}

static double vm_read(void)
{
	return bandwidth(read_all);
}

/* memcpy into memory that both have mapped. */

static void copy_all(void)
{
	memcpy(area, own, size);
	atomic_signal_fence(memory_order_seq_cst);
}

static double copy(void)
{
	return bandwidth(copy_all);
}

static const struct loop {
	const char *name;
	double (*run)(void);
	void (*answer)(void);
	const char *unit;
} loops[] = {
	// clang-format off
	{ "line",        line,        line_answer,    "us one way" },
	{ "futex",       futex,       futex_answer,   "us a round trip" },
	{ "vm_call",     vm_call,     spin_on_memory, "us a call" },
	{ "vm_pingpong", vm_pingpong, vm_answer,      "us one way" },
	{ "vm_write",    vm_write,    wait_done,      "GB/s" },
	{ "vm_read",     vm_read,     wait_done,      "GB/s" },
	{ "memcpy",      copy,        wait_done,      "GB/s" },
	// clang-format on
};

static void *map(int flags)
{
	size_t len = size < 4096 ? 4096 : size;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void answer_in_child(const struct loop *l, int cpu, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(cpu);
	other = parent;
	memset(own, 0, size); /* pages of its own, at the same address */
	atomic_store(&shared->done, true);
	while (atomic_load(&shared->done))
		sched_yield();
	l->answer();
	_exit(0);
}

static double measure(const struct loop *l, int cpus[2])
{
	pid_t parent = getpid();
	double figure;

	shared = map(MAP_SHARED);
	area = map(MAP_SHARED);
	own = map(MAP_PRIVATE);
	other = fork();
	if (other < 0)
		die("fork");
	if (!other)
		answer_in_child(l, cpus[1], parent);
	pin(cpus[0]);
	memset(own, 0, size);
	while (!atomic_load(&shared->done))
		sched_yield();
	atomic_store(&shared->done, false);
	figure = l->run();
	atomic_store(&shared->done, true);
	if (waitpid(other, NULL, 0) != other)
		die("waitpid");
	return figure;
}

int main(int argc, char **argv)
{
	if (argc == 5) {
		int cpus[2] = { atoi(argv[1]), atoi(argv[2]) };

		size = strtoul(argv[4], NULL, 0);
		for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
			if (strcmp(loops[i].name, argv[3]))
				continue;
			printf("%.4f %s\n", measure(&loops[i], cpus), loops[i].unit);
			return 0;
		}
	}
	fprintf(stderr, "usage: bare CPU CPU LOOP BYTES\nloops:");
	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
		fprintf(stderr, " %s", loops[i].name);
	fprintf(stderr, "\n");
	return 2;
}
