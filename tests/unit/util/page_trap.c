// SPDX-License-Identifier: MIT
/* Stores to a trapped page are told of, in the thread that stores; what is no store opens it. Each
 * case runs in a child, since the page stays. */
#include "util/page_trap.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "util/clock.h"
#include "util/guard.h"
#include "test.h"

enum { PAGE = 4096, SKIPPED = 77 };

#if defined(__x86_64__)
enum { DECODES = true };
#else
enum { DECODES = false }; /* the page is always open */
#endif

static struct {
	unsigned int n, bytes;
	size_t at;
	uint64_t value;
	pthread_t thread;
	bool delicate;
} told;

static void stored(size_t at, unsigned int bytes, uint64_t value, bool delicate)
{
	told.n++;
	told.at = at;
	told.bytes = bytes;
	told.value = value;
	told.thread = pthread_self();
	told.delicate = delicate;
	errno = EDOM;
}

static volatile uint8_t *page(bool on)
{
	return guard_init() ? NULL : page_trap_make(PAGE, stored, on);
}

/* The compiler does not know that a store is a call. */
static void call(void)
{
	__asm__ volatile("" ::: "memory");
}

static bool told_of(size_t at, unsigned int bytes, uint64_t value)
{
	call();
	return told.at == at && told.bytes == bytes && told.value == value &&
	       pthread_equal(told.thread, pthread_self());
}

static bool each_store_is_a_call(void)
{
	volatile uint8_t *p = page(true);
	bool good = p && page_trap_closed();

	errno = EBADF;
	for (uint64_t i = 0; good && i < 1000; i++) {
		*(volatile uint64_t *)(p + 0x800 + i % 2 * 0x100) = i << 32;
		good = told_of(0x800 + i % 2 * 0x100, 8, i << 32);
	}
	*(volatile uint32_t *)(p + 4) = 9;
	good = good && told_of(4, 4, 9) && !told.delicate;
	*(p + 1) = 3;
	good = good && told_of(1, 1, 3) && told.n == 1002;
	call();
	return good && errno == EBADF && page_trap_closed() &&
	       page_trap_make(PAGE, stored, true) == p;
}

static bool a_load_opens_it(void)
{
	volatile uint8_t *p = page(true);
	bool good = p && page_trap_closed() && !p[0x800] && !page_trap_closed();

	p[0x800] = 1;
	call();
	return good && p[0x800] == 1 && !told.n;
}

static bool it_may_be_open_from_the_beginning(void)
{
	volatile uint8_t *p = page(false);

	p[0] = 1;
	call();
	return !page_trap_closed() && p[0] == 1 && !told.n;
}

static unsigned int readings;
static void (*masks_are_read)(void); /* is called once */

DIR *opendir(const char *path)
{
	readings++;
	return (__extension__(DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir"))(path);
}

int closedir(DIR *d)
{
	void (*fn)(void) = masks_are_read;

	masks_are_read = NULL;
	if (fn)
		fn();
	return (__extension__(int (*)(DIR *)) dlsym(RTLD_NEXT, "closedir"))(d);
}

/* Until masks are read again, which they may not be at all. */
static void recheck(void)
{
	unsigned int was = readings;

	for (int i = 0; i < 100000 && readings == was; i++)
		page_trap_recheck();
}

static bool what_was_opened_for_good_stays_open(void)
{
	volatile uint8_t *p = page(true);
	bool good = p && page_trap_closed() && !p[0x800];

	recheck();
	return good && !page_trap_closed();
}

/* A thread that was joined may be listed for a moment. */
static bool it_closes(void)
{
	for (int i = 0; i < 1000 && !page_trap_closed(); i++)
		recheck();
	return page_trap_closed();
}

static void change_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	pthread_sigmask(how, &set, NULL);
}

/* A thread that is being made blocks all signals for a moment. */
static bool it_closes_when_no_thread_blocks_the_signal_any_more(void)
{
	volatile uint8_t *p = page(true);
	bool opened;

	change_mask(SIG_BLOCK);
	recheck();
	opened = p && !page_trap_closed();
	p[0] = 1;
	change_mask(SIG_UNBLOCK);
	if (!opened || !it_closes())
		return false;
	p[1] = 2;
	return told_of(1, 1, 2) && told.n == 1;
}

static pthread_barrier_t both;

static void *blocks_for_a_while(void *arg)
{
	(void)arg;
	change_mask(SIG_BLOCK);
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	return NULL;
}

static bool limit_descriptors(int n)
{
	struct rlimit all;

	if (getrlimit(RLIMIT_NOFILE, &all))
		return false;
	all.rlim_cur = n < 0 ? all.rlim_max : (rlim_t)n;
	return !setrlimit(RLIMIT_NOFILE, &all);
}

static bool stays_open_with_descriptors(int n)
{
	bool good = limit_descriptors(n);

	recheck();
	return limit_descriptors(-1) && good && !page_trap_closed();
}

/* Masks that cannot be read may be blocked. */
static bool it_stays_open_without_descriptors(void)
{
	volatile uint8_t *p = page(true);
	int next_fd = dup(STDERR_FILENO);
	pthread_t thread;
	bool good;

	if (!p || !page_trap_closed() || next_fd < 0 || close(next_fd) ||
	    pthread_barrier_init(&both, NULL, 2) ||
	    pthread_create(&thread, NULL, blocks_for_a_while, NULL))
		return false;
	pthread_barrier_wait(&both);
	recheck();
	good = !page_trap_closed();
	good = stays_open_with_descriptors(0) && good;
	good = stays_open_with_descriptors(next_fd + 1) && good; /* the list of threads alone */
	pthread_barrier_wait(&both);
	pthread_join(thread, NULL);
	return good && it_closes();
}

static bool it_is_open_for_good_if_nothing_can_be_read(void)
{
	volatile uint8_t *p;

	if (guard_init() || !limit_descriptors(0))
		return false;
	p = page_trap_make(PAGE, stored, true);
	if (!limit_descriptors(-1))
		return false;
	recheck();
	p[0] = 1;
	call();
	return !page_trap_closed() && p[0] == 1 && !told.n;
}

static void for_20_ms(void)
{
	uint64_t end = clock_now() + 20000000;

	while (clock_now() < end)
		;
}

/* They are not read again within 50 times that: a second. */
static bool masks_of_many_threads_are_read_seldom(void)
{
	volatile uint8_t *p = page(true);
	uint64_t begun;

	masks_are_read = for_20_ms;
	page_trap_rest(false);
	readings = 0;
	begun = clock_now();
	for (int i = 0; i < 1000; i++)
		page_trap_recheck();
	if (!p || masks_are_read)
		return false;
	return !readings || clock_now() - begun > 900000000; /* this process had no core */
}

static void *blocks_and_makes(void *arg)
{
	(void)arg;
	change_mask(SIG_BLOCK);
	return page_trap_make(PAGE, stored, true);
}

static void a_thread_comes(void)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, blocks_and_makes, NULL))
		pthread_join(thread, NULL);
}

/* Whose mask has not been seen by the thread that is about to close the page. */
static bool it_stays_open_for_a_thread_that_comes_meanwhile(void)
{
	volatile uint8_t *p = page(true);
	bool good;

	page_trap_rest(true);
	masks_are_read = a_thread_comes;
	page_trap_rest(false);
	good = p && !masks_are_read && !page_trap_closed();
	return good && it_closes();
}

static bool it_opens_without_proc(void)
{
	volatile uint8_t *p = page(true);
	bool good = p && page_trap_closed();

	if ((geteuid() && unshare(CLONE_NEWUSER)) || chroot("/sys"))
		_exit(SKIPPED);
	page_trap_recheck();
	return good && !page_trap_closed();
}

static bool it_rests_while_it_is_told_to(void)
{
	volatile uint8_t *p = page(true);
	bool rested;

	page_trap_rest(true);
	recheck();
	rested = p && !page_trap_closed();
	p[0] = 1;
	call();
	rested = rested && p[0] == 1 && !told.n;
	page_trap_rest(false);
	p[1] = 2;
	return rested && page_trap_closed() && told_of(1, 1, 2) && told.n == 1;
}

static bool rest_closes_nothing_that_was_opened_for_good(void)
{
	volatile uint8_t *p = page(true);
	bool good = p && !p[0x800];

	page_trap_rest(true);
	page_trap_rest(false);
	p[0] = 1;
	call();
	return good && !page_trap_closed() && !told.n;
}

/* No handler would catch the store. */
static bool it_stays_open_without_handlers(void)
{
	volatile uint8_t *p = page_trap_make(PAGE, stored, true);

	recheck();
	p[0] = 1;
	call();
	return !page_trap_closed() && p[0] == 1 && !told.n;
}

static bool it_is_open_where_the_signal_is_blocked(void)
{
	volatile uint8_t *p;

	change_mask(SIG_BLOCK);
	p = page(true);
	p[0] = 1;
	call();
	return !page_trap_closed() && p[0] == 1 && !told.n;
}

static bool a_small_stack_is_told_of(void)
{
	static uint8_t small[65536];
	stack_t ss = { .ss_sp = small, .ss_size = sizeof(small) };
	struct sigaction sa = { .sa_handler = SIG_DFL, .sa_flags = SA_ONSTACK };
	volatile uint8_t *p;

	/* ours takes over the flag of the handler that it replaces */
	if (sigaltstack(&ss, NULL) || sigaction(SIGSEGV, &sa, NULL))
		return false;
	p = page(true);
	*(volatile uint64_t *)p = 1;
	call();
	return told.n == 1 && told.delicate;
}

static bool it_opens_without_memory(void)
{
	struct rlimit none = { 0, 0 };
	volatile uint8_t *p = page(true);
	bool good = p && page_trap_closed() && !setrlimit(RLIMIT_DATA, &none);

	alarm(30);
	return good && !p[0x800] && !page_trap_closed();
}

static volatile uint8_t *target;

static void stores(int sig)
{
	(void)sig;
	*(volatile uint64_t *)target = 2;
}

/* It may have interrupted malloc(). */
static bool a_handler_is_told_of(void)
{
	struct sigaction sa = { .sa_handler = stores };
	bool good;

	target = page(true);
	if (!target || sigaction(SIGUSR1, &sa, NULL))
		return false;
	*(volatile uint64_t *)target = 1;
	call();
	good = told.n == 1 && !told.delicate;
	raise(SIGUSR1);
	call();
	good = good && told.n == 2 && told.delicate;
	*(volatile uint64_t *)target = 3;
	call();
	return good && told.n == 3 && !told.delicate;
}

/* A child that faults for ever is ended by the alarm. */
static bool what_is_unmapped_comes_back(bool on, bool load)
{
	volatile uint8_t *p = page(on);

	alarm(30);
	if (!p || munmap((void *)p, PAGE) || (load && p[1]))
		return false;
	p[0x800] = 1;
	call();
	return page_trap_closed() ? told_of(0x800, 1, 1) : p[0x800] == 1 && !told.n;
}

static bool an_open_page_comes_back_to_a_store(void)
{
	return what_is_unmapped_comes_back(false, false) && !page_trap_closed();
}

static bool a_closed_page_comes_back_to_a_load(void)
{
	return what_is_unmapped_comes_back(true, true) && !page_trap_closed();
}

static bool a_store_to_a_closed_page_needs_no_memory(void)
{
	return what_is_unmapped_comes_back(true, false) && page_trap_closed();
}

static bool an_open_page_may_lose_its_rights(void)
{
	volatile uint8_t *p = page(false);

	alarm(30);
	if (!p || mprotect((void *)p, PAGE, PROT_NONE))
		return false;
	p[0x800] = 1;
	call();
	return p[0x800] == 1 && !told.n && !page_trap_closed();
}

static volatile sig_atomic_t own;
static uint8_t *hole;

static void handler(int sig, siginfo_t *info, void *ctx)
{
	(void)sig;
	(void)ctx;
	own++;
	_exit(info->si_addr == hole && own == 1 && told.n == 1 ? 0 : 1);
}

/* Another address' fault is the program's. */
static bool other_faults_are_the_programs(void)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	volatile uint8_t *p;

	if (sigaction(SIGSEGV, &sa, NULL))
		return false;
	p = page(true);
	*p = 1;
	call();
	hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*(volatile uint8_t *)hole = 1;
	return false;
}

static void left(int sig)
{
	(void)sig;
	_exit(page_trap_closed() && !told.n ? 0 : 1);
}

/* There is no code: to return from the fault would be to fault for ever. */
static bool a_jump_there_is_the_programs(void)
{
	struct sigaction sa = { .sa_handler = left };
	union {
		volatile uint8_t *p;
		void (*fn)(void);
	} to;

	if (sigaction(SIGSEGV, &sa, NULL))
		return false;
	to.p = page(true);
	alarm(30);
	to.fn();
	return false;
}

static void in_a_child(bool (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(fn() ? 0 : 1);
	check_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		skip();
	check_eq(status, 0);
}

#define CHILD(name)                                                                                \
	TEST(test_##name)                                                                          \
	{                                                                                          \
		in_a_child(name);                                                                  \
	}

#define CHILD_OF_STORES(name)                                                                      \
	TEST(test_##name)                                                                          \
	{                                                                                          \
		if (!DECODES)                                                                      \
			skip();                                                                    \
		in_a_child(name);                                                                  \
	}

CHILD(it_may_be_open_from_the_beginning)
CHILD(it_is_open_where_the_signal_is_blocked)
CHILD(it_stays_open_without_handlers)
CHILD_OF_STORES(each_store_is_a_call)
CHILD_OF_STORES(it_rests_while_it_is_told_to)
CHILD(rest_closes_nothing_that_was_opened_for_good)
CHILD_OF_STORES(a_load_opens_it)
CHILD_OF_STORES(what_was_opened_for_good_stays_open)
CHILD_OF_STORES(it_closes_when_no_thread_blocks_the_signal_any_more)
CHILD_OF_STORES(it_stays_open_without_descriptors)
CHILD_OF_STORES(it_is_open_for_good_if_nothing_can_be_read)
CHILD_OF_STORES(it_stays_open_for_a_thread_that_comes_meanwhile)
CHILD_OF_STORES(it_opens_without_proc)
CHILD_OF_STORES(masks_of_many_threads_are_read_seldom)
CHILD_OF_STORES(it_opens_without_memory)
CHILD_OF_STORES(a_small_stack_is_told_of)
CHILD_OF_STORES(a_handler_is_told_of)
CHILD_OF_STORES(an_open_page_comes_back_to_a_store)
CHILD_OF_STORES(a_closed_page_comes_back_to_a_load)
CHILD_OF_STORES(a_store_to_a_closed_page_needs_no_memory)
CHILD_OF_STORES(an_open_page_may_lose_its_rights)
CHILD_OF_STORES(other_faults_are_the_programs)
CHILD_OF_STORES(a_jump_there_is_the_programs)

RUN_TESTS(unit_test(test_it_may_be_open_from_the_beginning),
	  unit_test(test_it_is_open_where_the_signal_is_blocked),
	  unit_test(test_it_stays_open_without_handlers), unit_test(test_each_store_is_a_call),
	  unit_test(test_it_rests_while_it_is_told_to),
	  unit_test(test_rest_closes_nothing_that_was_opened_for_good),
	  unit_test(test_a_load_opens_it), unit_test(test_what_was_opened_for_good_stays_open),
	  unit_test(test_it_closes_when_no_thread_blocks_the_signal_any_more),
	  unit_test(test_it_stays_open_without_descriptors),
	  unit_test(test_it_is_open_for_good_if_nothing_can_be_read),
	  unit_test(test_it_stays_open_for_a_thread_that_comes_meanwhile),
	  unit_test(test_it_opens_without_proc),
	  unit_test(test_masks_of_many_threads_are_read_seldom),
	  unit_test(test_it_opens_without_memory), unit_test(test_a_small_stack_is_told_of),
	  unit_test(test_a_handler_is_told_of), unit_test(test_an_open_page_comes_back_to_a_store),
	  unit_test(test_a_closed_page_comes_back_to_a_load),
	  unit_test(test_a_store_to_a_closed_page_needs_no_memory),
	  unit_test(test_an_open_page_may_lose_its_rights),
	  unit_test(test_other_faults_are_the_programs),
	  unit_test(test_a_jump_there_is_the_programs))
