// SPDX-License-Identifier: MIT
#include "util/page_trap.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include "util/barrier.h"
#include "util/clock.h"
#include "util/guard_trap.h"
#include "util/spin.h"
#include "util/store_insn.h"
#include "util/uncancelled.h"

#define TASKS "/proc/self/task"

enum { LOOKS = 64, LOOKS_OPEN = 8 }; /* of page_trap_recheck(), until masks are read again */
enum { PAUSE = 50 }; /* between two readings at least, in times that the last one took */
enum { FAULTS_OPEN = 1000 }; /* more than threads can have begun before it was opened */

static struct {
	uint8_t *page; /* published last */
	size_t len;
	page_trap_fn stored;
	bool closed; /* atomic */
	bool given_up; /* it stays open; atomic */
	unsigned int faults_open; /* since it was opened; atomic */
	unsigned int blocked; /* calls of page_trap_make() in a thread that cannot fault; atomic */
	bool rests; /* the rechecking thread's, as the next */
	nlink_t links; /* of TASKS when the masks were read last, one for each thread */
	unsigned int looks; /* since then */
	uint64_t not_before; /* when they may be read again, though TASKS is the same */
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

/* The number behind @name in a status file of /proc. 0, or why it is not known. */
static int status(const char *path, const char *name, int base, uint64_t *out)
{
	FILE *f = fopen(path, "re");
	int err = f ? ENODATA : errno;
	size_t len = strlen(name);
	char line[128];

	while (err == ENODATA && fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, len) != 0)
			continue;
		*out = strtoumax(line + len, NULL, base);
		err = 0;
	}
	if (err == ENODATA && ferror(f))
		err = errno;
	if (f)
		fclose(f);
	return err;
}

static bool possible(void)
{
	uint64_t tracer;

	return !status("/proc/self/status", "TracerPid:", 10, &tracer) && !tracer;
}

/* What cannot be read counts as blocked, unless the thread has ended. */
static bool may_block(const char *tid)
{
	char path[sizeof(TASKS) + NAME_MAX + sizeof("//status")];
	uint64_t mask;
	int err;

	snprintf(path, sizeof(path), TASKS "/%s/status", tid);
	err = status(path, "SigBlk:", 16, &mask);
	return err ? err != ENOENT && err != ESRCH : mask >> (SIGSEGV - 1) & 1;
}

static bool any_thread_may_block(void)
{
	DIR *all = opendir(TASKS);
	const struct dirent *d;
	bool found;

	if (!all)
		return true;
	do {
		errno = 0;
		d = readdir(all);
		found = d ? may_block(d->d_name) : errno;
	} while (d && !found);
	closedir(all);
	return found;
}

#else

static bool any_thread_may_block(void)
{
	return true;
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

/* Guards that the page is made, and from page_trap_make() that it is closed. */
static struct spin lock;

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
	if (p && !guard_trap_open()) {
		fetch_add_acq_rel(&trap.blocked, 1); /* (A) */
		open_page();
	}
	spin_unlock(&lock);
	return p;
}

/* Not if a thread that blocks the signal has come meanwhile: its mask may have been read before. */
static void close_unless_blocked(unsigned int before)
{
	spin_lock(&lock);
	if (load_relaxed(&trap.blocked) == before)
		close_page();
	spin_unlock(&lock);
}

static void read_masks(void)
{
	unsigned int blocked = load_acquire(&trap.blocked); /* (A) before the masks */
	uint64_t begin = clock_now(), end;

	if (any_thread_may_block())
		open_page();
	else if (!page_trap_closed() && guard_trap_open())
		close_unless_blocked(blocked);
	end = clock_now();
	trap.not_before = end + PAUSE * (end - begin);
	trap.looks = 0;
}

static bool masks_are_due(nlink_t links)
{
	unsigned int looks = page_trap_closed() ? LOOKS : LOOKS_OPEN;

	return links != trap.links || (++trap.looks >= looks && clock_now() >= trap.not_before);
}

void page_trap_recheck(void)
{
	struct stat st;

	if (!load_acquire(&trap.page) || load_relaxed(&trap.given_up) || trap.rests)
		return;
	if (stat(TASKS, &st)) {
		st.st_nlink = 0;
		if (page_trap_closed())
			open_page();
	} else if (masks_are_due(st.st_nlink)) {
		read_masks();
	}
	trap.links = st.st_nlink;
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
