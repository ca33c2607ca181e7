// SPDX-License-Identifier: MIT
#include "util/page_trap.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include "util/barrier.h"
#include "util/guard_trap.h"
#include "util/spin.h"
#include "util/store_insn.h"
#include "util/uncancelled.h"

#define TASKS "/proc/self/task"

enum { LOOKS = 64, LOOKS_OPEN = 8 }; /* of page_trap_recheck(), until masks are read again */
enum { FAULTS_OPEN = 1000 }; /* more than threads can have begun before it was opened */

static struct {
	uint8_t *page; /* published last */
	size_t len;
	page_trap_fn stored;
	bool closed; /* atomic */
	bool given_up; /* it stays open; atomic */
	unsigned int faults_open; /* since it was opened; atomic */
	bool rests; /* the rechecking thread's, as the next */
	nlink_t links; /* of TASKS when the masks were read last, one for each thread */
} trap;

static void open_page(void)
{
	store_release(&trap.closed, false);
	mprotect(trap.page, trap.len, PROT_READ | PROT_WRITE);
}

static void give_up(void)
{
	store_relaxed(&trap.given_up, true);
	full_fence(); /* pairs with close_page() */
	open_page();
}

/* A thread that gives up meanwhile has the last word. */
static void close_page(void)
{
	if (mprotect(trap.page, trap.len, PROT_NONE))
		return;
	store_relaxed(&trap.closed, true);
	store_relaxed(&trap.faults_open, 0);
	full_fence();
	if (load_relaxed(&trap.given_up))
		open_page();
}

#if defined(__x86_64__)

enum { STACK_APART = 1 << 16 }; /* a handler on the thread's own stack is nearer to it, bytes */

static void registers(const greg_t *g, uint64_t reg[16])
{
	static const uint8_t order[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
					   REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
					   REG_R12, REG_R13, REG_R14, REG_R15 };

	for (unsigned int i = 0; i < 16; i++)
		reg[i] = (uint64_t)g[order[i]];
}

static bool on_signal_stack(uint64_t sp)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);

	return sp - here > STACK_APART;
}

/* As every thread does inside a handler, of its signal at least. */
static bool blocks_any(const ucontext_t *ctx)
{
	uint64_t mask; /* the kernel's, which is shorter than sigset_t */

	memcpy(&mask, &ctx->uc_sigmask, sizeof(mask));
	return mask;
}

/* The program has unmapped it. */
static bool map_again(void)
{
	return mmap(trap.page, trap.len, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED ||
	       errno == EEXIST; /* another thread has had the same fault */
}

/* A fault though it is open: the store runs again, to which another thread has just opened it, or
 * which the program has taken the memory away from. */
static bool fault_open(const siginfo_t *info)
{
	if (info->si_code == SEGV_MAPERR)
		return map_again();
	if (fetch_add_relaxed(&trap.faults_open, 1) >= FAULTS_OPEN)
		give_up();
	return true;
}

static bool fault(const siginfo_t *info, ucontext_t *ctx)
{
	greg_t *g = ctx->uc_mcontext.gregs;
	size_t at = (uintptr_t)info->si_addr - (uintptr_t)trap.page;
	struct store_insn s;
	uint64_t reg[16];

	if (at >= trap.len || info->si_signo != SIGSEGV)
		return false;
	if (!load_acquire(&trap.closed))
		return fault_open(info);
	registers(g, reg);
	/* The CPU has just read the instruction. */
	if (!store_insn_decode((const uint8_t *)(uintptr_t)g[REG_RIP], reg, &s)) {
		give_up();
		return true;
	}
	g[REG_RIP] += s.len;
	trap.stored(at, s.bytes, s.value, on_signal_stack(reg[4]) || blocks_any(ctx));
	return true;
}

/* The number behind @name in a status file of /proc; 0 without one. */
static uint64_t status(const char *path, const char *name, int base)
{
	FILE *f = fopen(path, "re");
	size_t len = strlen(name);
	uint64_t value = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, len) != 0)
			continue;
		value = strtoumax(line + len, NULL, base);
		break;
	}
	if (f)
		fclose(f);
	return value;
}

static bool possible(void)
{
	return !status("/proc/self/status", "TracerPid:", 10);
}

static bool any_thread_blocks(void)
{
	DIR *all = opendir(TASKS);
	const struct dirent *d;
	bool found = false;

	while (all && !found && (d = readdir(all))) {
		char path[sizeof(TASKS) + sizeof(d->d_name) + sizeof("//status")];

		snprintf(path, sizeof(path), TASKS "/%s/status", d->d_name);
		found = status(path, "SigBlk:", 16) >> (SIGSEGV - 1) & 1;
	}
	if (all)
		closedir(all);
	return found;
}

#else

static bool any_thread_blocks(void)
{
	return false;
}

static bool fault(const siginfo_t *info, ucontext_t *ctx)
{
	(void)info;
	(void)ctx;
	return false;
}

static bool possible(void)
{
	return false;
}

#endif

static struct spin lock; /* of page_trap_make() */

void page_trap_fork_begin(void)
{
	spin_lock(&lock);
}

void page_trap_fork_end(void)
{
	spin_unlock(&lock);
}

void *page_trap_make(size_t len, page_trap_fn stored, bool on)
{
	void *p = MAP_FAILED;
	bool can;

	spin_lock(&lock);
	/* Shared: what opens it needs no memory, which may be at its limit then. */
	if (!trap.page)
		p = mmap(NULL, len, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED) {
		trap.len = len;
		trap.stored = stored;
		store_release(&trap.page, p); /* pairs with page_trap_recheck() */
		guard_trap_watch(fault);
		store_release(&trap.closed, true);
		UNCANCELLED(can, on && possible());
		if (!can)
			give_up();
	}
	p = trap.page;
	if (p && page_trap_closed() && !guard_trap_open())
		open_page();
	spin_unlock(&lock);
	return p;
}

void page_trap_recheck(void)
{
	static unsigned int looks;
	unsigned int pause = page_trap_closed() ? LOOKS : LOOKS_OPEN;
	struct stat st;

	if (!load_acquire(&trap.page) || load_relaxed(&trap.given_up) || trap.rests ||
	    stat(TASKS, &st) || (st.st_nlink == trap.links && ++looks % pause))
		return;
	trap.links = st.st_nlink;
	if (any_thread_blocks())
		open_page();
	else if (!page_trap_closed() && guard_trap_open())
		close_page();
}

void page_trap_rest(bool rests)
{
	if (!load_acquire(&trap.page))
		return;
	trap.rests = rests;
	if (rests && page_trap_closed())
		open_page();
	trap.links = 0;
	page_trap_recheck();
}

bool page_trap_closed(void)
{
	return load_acquire(&trap.closed);
}
