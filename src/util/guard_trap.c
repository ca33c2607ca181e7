// SPDX-License-Identifier: MIT
/* Chaining. A library that replaces our handler may call it later as the handler that was there
 * before, or put it back; and ours calls the replacement, which was there before ours. So that this
 * ends, another of our entries is set each time that we go in front again: entry k leads to the
 * handler that it found, below[k], and a program that saved entry k and calls it gets the handler
 * that was there before its own. A handler that meets itself that way (it was set twice) is passed
 * over: @busy names the levels that this thread is inside of. The raw system calls are used,
 * because sanitizers and UCX interpose sigaction(). */
#include "util/guard_trap.h"
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "util/barrier.h"
#include "util/guard_asm.h"

#if GUARD_ASM

enum { LEVELS = 8, RESTORER = 0x04000000 };

typedef void (*trap_fn)(int sig, siginfo_t *info, void *ctx);

/* The kernel's struct sigaction */
struct action {
	union {
		trap_fn fn;
		void (*plain)(int sig);
	};
	unsigned long flags;
	const char *restorer;
	uint64_t mask;
};

struct slot {
	int sig;
	int top; /* level of our entry that is set, or was when last looked; -1 none */
	struct action below[LEVELS];
};

static struct slot slots[] = { { .sig = SIGSEGV, .top = -1 }, { .sig = SIGBUS, .top = -1 } };
static __thread uint8_t busy[2] __attribute__((tls_model("initial-exec")));

static int action_swap(int sig, const struct action *new, struct action *old)
{
	return syscall(SYS_rt_sigaction, sig, new, old, sizeof(new->mask)) ? errno : 0;
}

static int mask_swap(int how, uint64_t mask, uint64_t *old)
{
	return syscall(SYS_rt_sigprocmask, how, &mask, old, sizeof(mask)) ? errno : 0;
}

static uint64_t mask_bit(int sig)
{
	return UINT64_C(1) << (sig - 1);
}

#if defined(__x86_64__)
static uintptr_t ctx_pc(const ucontext_t *ctx)
{
	return (uintptr_t)ctx->uc_mcontext.gregs[REG_RIP];
}

static void ctx_set_pc(ucontext_t *ctx, const char *pc)
{
	ctx->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)pc;
}
#else
static uintptr_t ctx_pc(const ucontext_t *ctx)
{
	return ctx->uc_mcontext.pc;
}

static void ctx_set_pc(ucontext_t *ctx, const char *pc)
{
	ctx->uc_mcontext.pc = (uintptr_t)pc;
}
#endif

/* After a fault in our routines, continues at the landing. @info tells a fault from a kill(), whose
 * code is not > 0. */
static bool land(const siginfo_t *info, ucontext_t *ctx)
{
	uintptr_t pc = ctx_pc(ctx);

	if (info->si_code <= 0 || pc < (uintptr_t)guard_asm_begin || pc >= (uintptr_t)guard_asm_end)
		return false;
	ctx_set_pc(ctx,
		   pc < (uintptr_t)guard_asm_wide ? guard_asm_landing : guard_asm_landing_wide);
	return true;
}

static guard_trap_fn watch[2]; /* atomic */

void guard_trap_watch(guard_trap_fn fn)
{
	for (unsigned int i = 0; i < sizeof(watch) / sizeof(watch[0]); i++) {
		guard_trap_fn was = NULL;

		if (cas_acq_rel(&watch[i], &was, fn) || was == fn)
			return;
	}
}

static bool watched(const siginfo_t *info, ucontext_t *ctx)
{
	if (info->si_code <= 0 || (uintptr_t)info->si_addr == ctx_pc(ctx))
		return false;
	for (unsigned int i = 0; i < sizeof(watch) / sizeof(watch[0]); i++) {
		guard_trap_fn fn = load_acquire(&watch[i]);

		if (fn && fn(info, ctx))
			return true;
	}
	return false;
}

/* As the kernel does it: a fault ends the process even if ignored. The faulting instruction runs
 * again after the return, with the default action; a signal that was sent is sent again. */
static void act_default(int sig, siginfo_t *info, bool ignore)
{
	struct action dfl = { .plain = SIG_DFL };

	if (ignore && info->si_code <= 0)
		return;
	action_swap(sig, &dfl, NULL);
	if (info->si_code <= 0)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info);
}

static bool is_busy(const struct slot *s, uint8_t levels, int level)
{
	for (int i = 0; i < LEVELS; i++)
		if (levels >> i & 1 && (i == level || s->below[i].fn == s->below[level].fn))
			return true;
	return false;
}

static void act_call(const struct action *a, int sig, siginfo_t *info, void *ctx)
{
	uint64_t mask;

	if (mask_swap(SIG_BLOCK, a->mask | (a->flags & SA_NODEFER ? 0 : mask_bit(sig)), &mask))
		return;
	if (a->flags & SA_SIGINFO)
		a->fn(sig, info, ctx);
	else
		a->plain(sig);
	mask_swap(SIG_SETMASK, mask, NULL);
}

/* @inside: levels whose handler has called us, directly or not. */
static void chain(unsigned int which, int level, uint8_t inside, siginfo_t *info, void *ctx)
{
	struct slot *s = &slots[which];
	struct action a = { .plain = SIG_DFL };
	uint8_t before = busy[which];

	while (level >= 0 && is_busy(s, inside, level))
		level--;
	if (level >= 0)
		a = s->below[level];
	if (a.plain == SIG_DFL || a.plain == SIG_IGN) {
		act_default(s->sig, info, a.plain == SIG_IGN);
		return;
	}
	if (a.flags & SA_RESETHAND)
		s->below[level].plain = SIG_DFL;
	busy[which] = inside | (uint8_t)(1 << level);
	act_call(&a, s->sig, info, ctx);
	busy[which] = before;
}

/* @direct: called by another handler, not by the kernel. One that was left by longjmp() has not
 * cleaned up, so a fresh delivery starts from nothing. */
static void trap(int level, int sig, siginfo_t *info, void *ctx, bool direct)
{
	unsigned int which = sig == SIGBUS;
	int saved = errno;

	if (!land(info, ctx) && !watched(info, ctx))
		chain(which, level, direct ? busy[which] : 0, info, ctx);
	errno = saved;
}

#define ENTRY(level)                                                                               \
	static void entry_##level(int sig, siginfo_t *info, void *ctx)                             \
	{                                                                                          \
		trap(level, sig, info, ctx, __builtin_return_address(0) != guard_asm_restorer);    \
	}

ENTRY(0)
ENTRY(1)
ENTRY(2)
ENTRY(3)
ENTRY(4)
ENTRY(5)
ENTRY(6)
ENTRY(7)

static const trap_fn entries[LEVELS] = { entry_0, entry_1, entry_2, entry_3,
					 entry_4, entry_5, entry_6, entry_7 };

/* level of one of our entries; -1: another function */
static int level_of(trap_fn fn)
{
	int level = LEVELS - 1;

	while (level >= 0 && entries[level] != fn)
		level--;
	return level;
}

/* One level up, but for a handler that was only put back once more. The last level is used again
 * and again: then one of nine stacked handlers is passed over. */
static int next_level(const struct slot *s, const struct action *found)
{
	if (s->top >= 0 && s->below[s->top].fn == found->fn)
		return s->top;
	return s->top + 1 < LEVELS ? s->top + 1 : LEVELS - 1;
}

static int slot_set(struct slot *s)
{
	struct action found, mine;
	int level, err = action_swap(s->sig, NULL, &found);

	if (err)
		return err;
	level = level_of(found.fn);
	if (level < 0) {
		level = next_level(s, &found);
		/* What was only put back is being read, where a fault is handled now. */
		if (memcmp(&s->below[level], &found, sizeof(found)) != 0)
			s->below[level] = found;
		mine = (struct action){ .fn = entries[level], .restorer = guard_asm_restorer };
		mine.flags = SA_SIGINFO | SA_NODEFER | RESTORER;
		mine.flags |= found.flags & (SA_ONSTACK | SA_RESTART);
		err = action_swap(s->sig, &mine, NULL);
	}
	if (!err)
		s->top = level;
	return err;
}

static bool set;

int guard_trap_set(void)
{
	int err = slot_set(&slots[0]);

	if (!err)
		err = slot_set(&slots[1]);
	if (!err)
		store_release(&set, true); /* (A) what the handlers read is in place */
	return err;
}

bool guard_trap_open(void)
{
	uint64_t mask, both = mask_bit(SIGSEGV) | mask_bit(SIGBUS);

	return load_acquire(&set) /* (A) */ && !mask_swap(SIG_BLOCK, 0, &mask) && !(mask & both);
}

int guard_trap_unblock(uint64_t *saved)
{
	uint64_t both = mask_bit(SIGSEGV) | mask_bit(SIGBUS);

	return load_acquire(&set) /* (A) */ ? mask_swap(SIG_UNBLOCK, both, saved) : ENOSYS;
}

void guard_trap_restore(uint64_t saved)
{
	mask_swap(SIG_SETMASK, saved, NULL);
}

#else

int guard_trap_set(void)
{
	return 0;
}

bool guard_trap_open(void)
{
	return false;
}

int guard_trap_unblock(uint64_t *saved)
{
	*saved = 0;
	return ENOSYS;
}

void guard_trap_restore(uint64_t saved)
{
	(void)saved;
}

void guard_trap_watch(guard_trap_fn fn)
{
	(void)fn;
}

#endif
