// SPDX-License-Identifier: MIT
/* The program's own SIGSEGV and SIGBUS handlers see the program's faults and not ours, whether
 * they were there before us or came later. Each case runs in a child that never saw our handlers
 * before. */
#include "util/guard.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test.h"
#include "util/guard_asm.h"

static sigjmp_buf back;
static volatile int seen, seen_first;
static char *volatile hole; /* no access */
static struct sigaction older;

static bool guarded_fault_is_efault(void)
{
	char c = 0;
	int before = seen + seen_first;

	return guard_copy(hole, &c, 1) == EFAULT && guard_copy(&c, hole, 1) == EFAULT &&
	       seen + seen_first == before;
}

static void own_fault(void)
{
	if (!sigsetjmp(back, 1))
		*hole = 1;
}

static void plain_handler(int sig)
{
	(void)sig;
	seen++;
	siglongjmp(back, 1);
}

static void first_handler(int sig)
{
	(void)sig;
	seen_first++;
	siglongjmp(back, 1);
}

static void info_handler(int sig, siginfo_t *info, void *ctx)
{
	(void)ctx;
	if (sig == SIGSEGV && info->si_addr == hole)
		seen++;
	siglongjmp(back, 1);
}

/* As well-behaved libraries do: not mine, so the one before me */
static void chaining_handler(int sig, siginfo_t *info, void *ctx)
{
	seen++;
	if (older.sa_flags & SA_SIGINFO)
		older.sa_sigaction(sig, info, ctx);
	else if (older.sa_handler != SIG_DFL && older.sa_handler != SIG_IGN)
		older.sa_handler(sig);
}

/* Puts the one before back and lets the instruction fault again */
static void restoring_handler(int sig)
{
	seen++;
	sigaction(sig, &older, NULL);
}

static void set_plain(int sig, void (*fn)(int), int flags, struct sigaction *old)
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	if (sigaction(sig, &sa, old))
		_exit(3);
}

static void set_info(void (*fn)(int, siginfo_t *, void *), struct sigaction *old)
{
	struct sigaction sa = { .sa_sigaction = fn, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGSEGV, &sa, old))
		_exit(3);
}

static int in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		alarm(20); /* a chain without end must not hang the test */
		hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		_exit(body());
	}
	check(pid > 0);
	check_eq(waitpid(pid, &status, 0), pid);
	return status;
}

#define check_passes(body) check_eq(in_child(body), 0)

static void check_dies(int (*body)(void), int sig)
{
	int status = in_child(body);

	check(WIFSIGNALED(status));
	check_eq(WTERMSIG(status), sig);
}

static int handler_before(void)
{
	set_plain(SIGSEGV, plain_handler, 0, NULL);
	guard_init();
	for (int i = 1; i <= 3; i++) {
		own_fault();
		if (seen != i || !guarded_fault_is_efault())
			return 1;
	}
	return 0;
}

static int handler_with_info(void)
{
	set_info(info_handler, NULL);
	guard_init();
	own_fault();
	return seen == 1 && guarded_fault_is_efault() ? 0 : 1;
}

static int handler_after(void)
{
	guard_init();
	set_plain(SIGSEGV, plain_handler, 0, NULL);
	guard_recheck();
	own_fault();
	return seen == 1 && guarded_fault_is_efault() ? 0 : 1;
}

/* ThreadSanitizer has one handler of its own in the kernel, whatever the program sets: there is
 * then no chain of handlers for us to keep in order. */
static bool interposed(void)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} action;

	set_info(chaining_handler, &older);
	syscall(SYS_rt_sigaction, SIGSEGV, NULL, &action, sizeof(action.mask));
	sigaction(SIGSEGV, &older, NULL);
	return (uintptr_t)action.handler != (uintptr_t)chaining_handler;
}

/* One that chains also saves us between the change and the re-check. */
static int handler_that_chains(void)
{
	if (interposed())
		return 0;
	set_plain(SIGSEGV, first_handler, 0, NULL);
	guard_init();
	set_info(chaining_handler, &older);
	if (guard_copy(hole, "", 1) != EFAULT || seen != 1)
		return 1;
	guard_recheck();
	seen = 0;
	own_fault();
	return seen == 1 && seen_first == 1 && guarded_fault_is_efault() ? 0 : 1;
}

/* Set again on top of us, a handler's "one before" is we, and we lead to it. */
static int handler_set_twice(void)
{
	if (interposed())
		return 0;
	set_plain(SIGSEGV, first_handler, 0, NULL);
	guard_init();
	for (int i = 0; i < 20; i++) {
		set_info(chaining_handler, &older);
		guard_recheck();
		seen = seen_first = 0;
		own_fault();
		if (seen != 1 || seen_first != 1 || !guarded_fault_is_efault())
			return 1;
	}
	return 0;
}

static int handler_that_restores(void)
{
	if (interposed())
		return 0;
	set_plain(SIGSEGV, first_handler, 0, NULL);
	guard_init();
	set_plain(SIGSEGV, restoring_handler, 0, &older);
	guard_recheck();
	own_fault();
	if (seen != 1 || seen_first != 1)
		return 1;
	guard_recheck();
	return guarded_fault_is_efault() ? 0 : 1;
}

static int handler_once(void)
{
	set_plain(SIGSEGV, plain_handler, SA_RESETHAND, NULL);
	guard_init();
	own_fault();
	if (seen != 1)
		return 1;
	own_fault();
	return 2;
}

static volatile bool blocked_inside;

static void mask_handler(int sig)
{
	sigset_t set;

	sigprocmask(SIG_BLOCK, NULL, &set);
	blocked_inside = sigismember(&set, sig) && sigismember(&set, SIGUSR1);
	siglongjmp(back, 1);
}

static int handler_with_mask(void)
{
	struct sigaction sa = { .sa_handler = mask_handler };
	sigset_t set;

	sigaddset(&sa.sa_mask, SIGUSR1);
	sigaction(SIGSEGV, &sa, NULL);
	guard_init();
	own_fault();
	sigprocmask(SIG_BLOCK, NULL, &set);
	return blocked_inside && !sigismember(&set, SIGUSR1) ? 0 : 1;
}

static int default_fault(void)
{
	set_plain(SIGSEGV, SIG_DFL, 0, NULL);
	guard_init();
	*hole = 1;
	return 1;
}

static int default_sent(void)
{
	set_plain(SIGBUS, SIG_DFL, 0, NULL);
	guard_init();
	raise(SIGBUS);
	return 1;
}

static int ignored_sent(void)
{
	set_plain(SIGSEGV, SIG_IGN, 0, NULL);
	guard_init();
	raise(SIGSEGV);
	return guarded_fault_is_efault() ? 0 : 1;
}

static int ignored_fault(void)
{
	set_plain(SIGSEGV, SIG_IGN, 0, NULL);
	guard_init();
	*hole = 1;
	return 1;
}

static int chains_to_default(void)
{
	set_plain(SIGSEGV, SIG_DFL, 0, NULL);
	guard_init();
	set_info(chaining_handler, &older);
	guard_recheck();
	*hole = 1;
	return 1;
}

TEST(program_handler_gets_the_program_faults)
{
	check_passes(handler_before);
	check_passes(handler_with_info);
	check_passes(handler_after);
	check_passes(handler_with_mask);
	check_dies(handler_once, SIGSEGV);
}

TEST(handlers_that_lead_to_us_never_go_round)
{
	check_passes(handler_that_chains);
	check_passes(handler_set_twice);
	check_passes(handler_that_restores);
	check_dies(chains_to_default, SIGSEGV);
}

TEST(without_a_handler_the_process_dies_as_before)
{
	check_dies(default_fault, SIGSEGV);
	check_dies(default_sent, SIGBUS);
	check_dies(ignored_fault, SIGSEGV);
	check_passes(ignored_sent);
}

/* The descriptor of /proc/self/mem that a child inherits is its parent's memory. */
static int copies_in_a_child(void)
{
	static volatile int value = 1;
	int copy = 0, two = 2, status;
	sigset_t set;
	pid_t pid;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	guard_init();
	if (guard_copy(&copy, (void *)&value, sizeof(copy)) || copy != 1)
		return 1;
	pid = fork();
	if (!pid) {
		value = 5;
		if (guard_copy(&copy, (void *)&value, sizeof(copy)) || copy != 5)
			_exit(2);
		if (guard_copy((void *)&value, &two, sizeof(two)) || value != 2)
			_exit(3);
		_exit(guard_copy(hole, &two, 1) == EFAULT ? 0 : 4);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		return 5;
	return value == 1 ? 0 : 6;
}

static int faults_in_a_child(void)
{
	int status;
	pid_t pid;

	guard_init();
	pid = fork();
	if (!pid)
		_exit(guarded_fault_is_efault() ? 0 : 1);
	return waitpid(pid, &status, 0) == pid ? status : 1;
}

TEST(forked_child_copies_its_own_memory)
{
	check_passes(copies_in_a_child);
	check_passes(faults_in_a_child);
}

/* As in a process that cannot open its own memory any more, or has no descriptor left. */
static int copies_without_descriptors(void)
{
	struct rlimit none = { 0, 0 };
	int from = 7, copy = 0;
	sigset_t set, after;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	guard_init();
	if (setrlimit(RLIMIT_NOFILE, &none))
		return 1;
	if (guard_copy(&copy, &from, sizeof(copy)) || copy != 7)
		return 2;
	from = 8;
	if (guard_copy_unordered(&copy, &from, sizeof(copy)) || copy != 8)
		return 3;
	if (!guarded_fault_is_efault() || guard_copy_unordered(hole, &from, 4) != EFAULT)
		return 4;
	sigprocmask(SIG_BLOCK, NULL, &after);
	return sigismember(&after, SIGSEGV) && sigismember(&after, SIGBUS) ? 0 : 5;
}

TEST(a_thread_that_blocks_the_signals_needs_no_descriptor)
{
#if GUARD_ASM
	check_passes(copies_without_descriptors);
#else
	(void)copies_without_descriptors;
	skip();
#endif
}

RUN_TESTS(unit_test(program_handler_gets_the_program_faults),
	  unit_test(handlers_that_lead_to_us_never_go_round),
	  unit_test(without_a_handler_the_process_dies_as_before),
	  unit_test(forked_child_copies_its_own_memory),
	  unit_test(a_thread_that_blocks_the_signals_needs_no_descriptor))
