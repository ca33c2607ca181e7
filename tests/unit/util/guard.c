// SPDX-License-Identifier: MIT
/* Guarded copies move the right bytes and no others, and answer EFAULT wherever a page is
 * missing: in an ordinary thread, and in one that blocks the signals. */
#include "util/guard.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include "util/guard_asm.h"
#include "util/rand.h"
#include "test.h"

enum { PAGE = 4096, ARENA = 160 * 1024, EDGE = 128 };

typedef int (*copy_fn)(void *dst, const void *src, size_t n);
static const copy_fn copies[] = { guard_copy, guard_copy_unordered };

static void fill(struct rand *r, uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)rand_u64(r);
}

static void check_copy(copy_fn copy, size_t dst_at, size_t src_at, size_t n)
{
	static uint8_t dst[ARENA], src[ARENA], model[ARENA];
	static bool filled;
	struct rand r;
	size_t end = EDGE + dst_at + n + EDGE;

	rand_init(&r, n);
	if (!filled)
		fill(&r, src, sizeof(src));
	filled = true;
	memset(dst, (int)n + 1, end);
	memset(model, (int)n + 1, end);
	memcpy(model + EDGE + dst_at, src + src_at, n);
	check_eq(copy(dst + EDGE + dst_at, src + src_at, n), 0);
	check_mem(dst, model, end);
}

static void sweep_sizes(void)
{
	struct rand r;

	rand_init(&r, 1);
	for (unsigned int c = 0; c < 2; c++) {
		for (size_t n = 0; n <= 300; n++)
			for (size_t at = 0; at < 64; at += 1 + rand_below(&r, 3))
				check_copy(copies[c], at, rand_below(&r, 64), n);
		for (int i = 0; i < 500; i++)
			check_copy(copies[c], rand_below(&r, 64), rand_below(&r, 64),
				   rand_below(&r, 140 * 1024));
	}
}

/* The pages around an island are of an empty file. PROT_NONE: SIGSEGV, else SIGBUS; and unlike
 * other memory without access a descriptor of memory finds nothing there either. */
enum { SHORE = 8 * PAGE };
static int shore_access = PROT_NONE;

static uint8_t *island(size_t pages)
{
	int fd = memfd_create("shore", MFD_CLOEXEC);
	uint8_t *p = mmap(NULL, 2 * SHORE + pages * PAGE, shore_access, MAP_SHARED, fd, 0);

	check(fd >= 0 && p != MAP_FAILED);
	check(mmap(p + SHORE, pages * PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	close(fd);
	return p + SHORE;
}

static void island_free(uint8_t *p, size_t pages)
{
	check_eq(munmap(p - SHORE, 2 * SHORE + pages * PAGE), 0);
}

/* Every position at which the bytes leave the mapped page, forwards and backwards, for both
 * sides. */
static void check_straddles(copy_fn copy, uint8_t *page, uint8_t *good, size_t n, size_t step)
{
	for (size_t in = 0; in < n && in <= PAGE; in += step) {
		uint8_t *up = page + PAGE - in, *down = page - (n - in);

		check_eq(copy(up, good, n), EFAULT);
		check_eq(copy(good, up, n), EFAULT);
		check_eq(copy(down, good, n), EFAULT);
		check_eq(copy(good, down, n), EFAULT);
	}
	check_eq(copy(page + PAGE - (n < PAGE ? n : PAGE), good, n < PAGE ? n : PAGE), 0);
}

static void sweep_straddles(size_t coarse)
{
	static const size_t sizes[] = { 1,   2,	  3,   4,   7,	 8,    9,    15,   16,
					17,  31,  33,  63,  64,	 65,   100,  128,  129,
					200, 255, 256, 257, 600, 1500, 4096, 8192, 20000 };
	uint8_t *page = island(1), *good = island(8);

	for (unsigned int c = 0; c < 2; c++)
		for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			check_straddles(copies[c], page, good, sizes[i],
					sizes[i] <= 129 ? 1 : coarse);
	island_free(page, 1);
	island_free(good, 8);
}

static void check_read_only(void)
{
	uint8_t *page = island(1), good[256] = { 0 };
	uint64_t old;

	memset(page, 7, PAGE);
	check_eq(mprotect(page, PAGE, PROT_READ), 0);
	check_eq(guard_copy(page + 100, good, sizeof(good)), EFAULT);
	check_eq(guard_copy(page + 64, good, 8), EFAULT);
	check_eq(guard_copy_unordered(page, good, sizeof(good)), EFAULT);
	check_eq(guard_fetch_add((uint64_t *)page, 1, &old), EFAULT);
	check_eq(guard_cmp_swap((uint64_t *)page, 0, 1, &old), EFAULT);
	for (int i = 0; i < PAGE; i++)
		check_eq(page[i], 7);
	check_eq(guard_copy(good, page + 5, sizeof(good)), 0);
	check_eq(good[255], 7);
	island_free(page, 1);
}

static void check_truncated_file(void)
{
	int fd = memfd_create("guard", MFD_CLOEXEC);
	uint8_t *p, good[300] = { 0 };
	uint64_t old;

	check_eq(ftruncate(fd, PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(p != MAP_FAILED);
	check_eq(guard_copy(p + PAGE - 150, good, sizeof(good)), EFAULT);
	check_eq(guard_copy(p + PAGE, good, 8), EFAULT);
	check_eq(guard_copy(good, p + PAGE - 150, sizeof(good)), EFAULT);
	check_eq(guard_copy_unordered(good, p + PAGE, sizeof(good)), EFAULT);
	check_eq(guard_fetch_add((uint64_t *)(p + PAGE), 1, &old), EFAULT);
	check_eq(guard_copy(p + PAGE - sizeof(good), good, sizeof(good)), 0);
	munmap(p, 2 * PAGE);
	close(fd);
}

static void check_wild_addresses(void)
{
	uint64_t wild[] = { 0, 8, UINT64_C(1) << 47, UINT64_C(1) << 62, UINT64_C(1) << 63, -64 };
	uint8_t good[200] = { 0 };
	uint64_t old;

	for (unsigned int i = 0; i < sizeof(wild) / sizeof(*wild); i++)
		for (size_t n = 1; n <= sizeof(good); n += 9) {
			void *bad = (void *)(uintptr_t)wild[i];

			check_eq(guard_copy(bad, good, n), EFAULT);
			check_eq(guard_copy(good, bad, n), EFAULT);
			check_eq(guard_copy_unordered(good, bad, n), EFAULT);
			check_eq(guard_fetch_add(bad, 1, &old), EFAULT);
			check_eq(guard_cmp_swap(bad, 1, 1, &old), EFAULT);
		}
}

static void check_atomics(void)
{
	uint64_t word = 40, old = 0;
	uint8_t *page = island(1);

	check_eq(guard_fetch_add(&word, 2, &old), 0);
	check_eq(old, 40);
	check_eq(word, 42);
	check_eq(guard_fetch_add(&word, -43, &old), 0);
	check_eq(word, -1);
	check_eq(guard_cmp_swap(&word, 5, 6, &old), 0);
	check_eq(old, -1);
	check_eq(word, -1);
	check_eq(guard_cmp_swap(&word, -1, 6, &old), 0);
	check_eq(old, -1);
	check_eq(word, 6);
	check_eq(guard_fetch_add((uint64_t *)(page + PAGE), 1, &old), EFAULT);
	check_eq(guard_cmp_swap((uint64_t *)(page - 8), 1, 1, &old), EFAULT);
	check_eq(guard_fetch_add((uint64_t *)(page + PAGE - 8), 1, &old), 0);
	island_free(page, 1);
}

/* Runs @fn in a thread that blocks what a fault would raise. */
static void *blocked_main(void *fn)
{
	sigset_t set;

	sigfillset(&set);
	check_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	(*(void (**)(void))fn)();
	check_eq(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	check(sigismember(&set, SIGSEGV) && sigismember(&set, SIGBUS));
	return NULL;
}

static void run_blocked(void (*fn)(void))
{
	pthread_t t;

	check_eq(pthread_create(&t, NULL, blocked_main, &fn), 0);
	check_eq(pthread_join(t, NULL), 0);
}

static void straddles_fine(void)
{
	sweep_straddles(13);
}

static void straddles_coarse(void)
{
	sweep_straddles(500);
}

/* cmocka sets handlers of its own before each test. */
static void set_up(void)
{
	check_eq(guard_init(), 0);
	guard_recheck();
}

TEST(copies_move_what_they_should_and_nothing_else)
{
	uint32_t found;

	set_up();
	found = guard_cpu;
	for (uint32_t mask = 0; mask < 4; mask++) { /* each flavour of the routine that runs here */
		guard_cpu = found & mask;
		sweep_sizes();
		straddles_coarse();
	}
	guard_cpu = found;
}

TEST(missing_page_is_efault_at_every_position)
{
	set_up();
	straddles_fine();
	shore_access = PROT_READ | PROT_WRITE;
	straddles_coarse();
	shore_access = PROT_NONE;
	check_wild_addresses();
}

TEST(read_only_page_and_truncated_file_are_efault)
{
	set_up();
	check_read_only();
	check_truncated_file();
}

TEST(atomics_return_the_old_value_and_fault_in_order)
{
	set_up();
	check_atomics();
}

TEST(all_of_it_with_the_signals_blocked)
{
	set_up();
	run_blocked(sweep_sizes);
	run_blocked(straddles_coarse);
	run_blocked(check_wild_addresses);
	run_blocked(check_read_only);
	run_blocked(check_truncated_file);
	run_blocked(check_atomics);
}

static void *add_main(void *word)
{
	uint64_t old;

	for (int i = 0; i < 20000; i++)
		guard_fetch_add(word, 1, &old);
	return NULL;
}

TEST(atomics_of_several_threads_add_up)
{
	pthread_t t[4];
	uint64_t word = 0;

	set_up();
	for (int i = 0; i < 4; i++)
		check_eq(pthread_create(&t[i], NULL, add_main, &word), 0);
	for (int i = 0; i < 4; i++)
		check_eq(pthread_join(t[i], NULL), 0);
	check_eq(word, 80000);
}

/* Before guard_init() everything goes through /proc/self/mem. */
TEST(copies_work_before_the_handlers_are_set)
{
	uint64_t old;

	check_copy(guard_copy, 5, 9, 1000);
	check_eq(guard_copy((void *)8, "x", 1), EFAULT);
	check_eq(guard_fetch_add((uint64_t *)8, 1, &old), EFAULT);
	check_atomics();
}

RUN_TESTS(unit_test(copies_work_before_the_handlers_are_set),
	  unit_test(copies_move_what_they_should_and_nothing_else),
	  unit_test(missing_page_is_efault_at_every_position),
	  unit_test(read_only_page_and_truncated_file_are_efault),
	  unit_test(atomics_return_the_old_value_and_fault_in_order),
	  unit_test(all_of_it_with_the_signals_blocked),
	  unit_test(atomics_of_several_threads_add_up))
