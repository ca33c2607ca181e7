// SPDX-License-Identifier: MIT
#include "util/page_trap.h"
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "util/barrier.h"
#include "util/guard_trap.h"
#include "util/spin.h"
#include "util/store_insn.h"

static struct {
	uint8_t *page; /* published last */
	size_t len;
	page_trap_fn stored;
	bool closed; /* atomic */
} trap;

static void open_page(void)
{
	store_release(&trap.closed, false);
	mprotect(trap.page, trap.len, PROT_READ | PROT_WRITE);
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

static bool fault(uintptr_t address, ucontext_t *ctx)
{
	greg_t *g = ctx->uc_mcontext.gregs;
	size_t at = address - (uintptr_t)trap.page;
	struct store_insn s;
	uint64_t reg[16];

	if (at >= trap.len)
		return false;
	if (!load_acquire(&trap.closed))
		return true; /* another thread has just opened it */
	registers(g, reg);
	/* The CPU has just read the instruction. */
	if (!store_insn_decode((const uint8_t *)(uintptr_t)g[REG_RIP], reg, &s)) {
		open_page();
		return true;
	}
	g[REG_RIP] += s.len;
	trap.stored(at, s.bytes, s.value, on_signal_stack(reg[4]));
	return true;
}

static bool traced(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	int pid = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "TracerPid: %d", &pid) == 1)
			break;
	if (f)
		fclose(f);
	return pid;
}

static bool may_close(void)
{
	return guard_trap_open() && !traced();
}

#else

static bool fault(uintptr_t address, ucontext_t *ctx)
{
	(void)address;
	(void)ctx;
	return false;
}

static bool may_close(void)
{
	return false;
}

#endif

void *page_trap_make(size_t len, page_trap_fn stored, bool on)
{
	static struct spin lock;
	void *p = MAP_FAILED;

	spin_lock(&lock);
	if (!trap.page)
		p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED) {
		trap.len = len;
		trap.stored = stored;
		trap.page = p;
		store_release(&trap.closed, on && may_close());
		guard_trap_watch(fault);
		if (!trap.closed)
			open_page();
	}
	p = trap.page;
	spin_unlock(&lock);
	return p;
}

bool page_trap_closed(void)
{
	return load_acquire(&trap.closed);
}
