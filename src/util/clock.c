// SPDX-License-Identifier: MIT
/* The TSC is tied to CLOCK_MONOTONIC by a line: ns = ns0 + (tsc - tsc0) * rate. A line is used for
 * its span of ticks only; the first call after that draws the next one (other threads ask the
 * kernel meanwhile), beginning no earlier than the old line can have gone. The rate is what was
 * measured since the line before, so no thread waits for a calibration: the kernel is asked for the
 * first 10 ms, and spans double from there to one second. A forked child in which the writer of a
 * line is lost asks the kernel for ever: slower, and right. */
#include <time.h>
#include "util/clock.h"
#include "util/spin.h"

enum { NS_PER_S = 1000000000, SPAN_MIN_NS = 10000000, SPAN_MAX_NS = NS_PER_S };
enum { TRIES = 5, TIGHT_NS = 1000 /* a reading that nothing has interrupted */ };

static uint64_t kernel_clock(clockid_t which)
{
	struct timespec ts;

	clock_gettime(which, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t kernel_now(void)
{
	return kernel_clock(CLOCK_MONOTONIC);
}

static uint64_t wall_now(void)
{
	return kernel_clock(CLOCK_REALTIME);
}

/* Two clocks at one moment: the tightest of a few tries, or the first within @enough of @outer;
 * the middle of the call of @inner. */
static uint64_t straddle(uint64_t (*outer)(void), uint64_t (*inner)(void), uint64_t enough,
			 uint64_t *ns)
{
	uint64_t width = UINT64_MAX, at = 0;

	for (int i = 0; i < TRIES && width > enough; i++) {
		uint64_t before = outer(), between = inner(), after = outer();

		if (after - before >= width)
			continue;
		width = after - before;
		at = before + width / 2;
		*ns = between;
	}
	return at;
}

/* The later of @ns and the time this thread got last: the kernel's clock and a line differ by some
 * 10 ns. */
static uint64_t never_back(uint64_t ns)
{
	static __thread uint64_t last __attribute__((tls_model("initial-exec")));

	if (ns > last)
		last = ns;
	return last;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

__extension__ typedef unsigned __int128 u128;

struct point {
	uint64_t tsc, ns;
};

/* Written under line_lock while seq is odd; a reader uses what it read between two looks at the
 * same even seq. */
static struct {
	uint64_t seq;
	uint64_t tsc0, ns0;
	uint64_t rate; /* ns per tick, 32 bits of fraction */
	uint64_t span; /* ticks; 0: no line yet */
} line;
static struct spin line_lock; /* guards writes to line, and base and measured */
static struct point base; /* the rate is measured from here */
static uint64_t measured; /* the rate of the last line, before draw() flattened it; 0: none */
static uint64_t span_ns = SPAN_MIN_NS;

static uint8_t usable; /* 0 not known yet, 1 yes, 2 no */

/* Not ordered against the loads before it: a time that another thread handed over in memory may
 * be later than ours by some 10 ns. Ordered, it would cost what the kernel's clock costs (28 ns
 * against 20). */
static uint64_t read_tsc(void)
{
	return __builtin_ia32_rdtsc();
}

/* False when the kernel measures time by something slower: it has found the TSC wrong. */
static bool kernel_trusts_tsc(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	static const char *const slow[] = { "hpet", "acpi_pm", "jiffies", "refined-jiffies" };
	char name[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);

	if (fd >= 0)
		close(fd);
	for (unsigned int i = 0; n > 0 && i < sizeof(slow) / sizeof(slow[0]); i++)
		if (!strncmp(name, slow[i], strlen(slow[i])))
			return false;
	return true;
}

static bool tsc_usable(void)
{
	unsigned int a, b, c, d = 0;
	uint8_t known = load_relaxed(&usable);

	if (likely(known))
		return known == 1;
	known = __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1 && kernel_trusts_tsc() ? 1
											     : 2;
	store_relaxed(&usable, known); /* two threads at once find the same */
	return known == 1;
}

static struct point take_point(void)
{
	struct point p = { 0, 0 };

	p.tsc = straddle(read_tsc, kernel_now, 0, &p.ns);
	return p;
}

static uint64_t along(uint64_t ticks, uint64_t rate)
{
	return (uint64_t)((u128)ticks * rate >> 32);
}

/* Draws the line from @p on. Where the old one ran ahead of the kernel the new one begins at the
 * old one's end and is flatter, so that they meet at its own end. */
static void draw(struct point p, uint64_t rate)
{
	uint64_t ran = line.span && p.tsc - line.tsc0 < line.span ? p.tsc - line.tsc0 : line.span;
	uint64_t reached = line.span ? line.ns0 + along(ran, line.rate) : 0, ahead = 0;

	if (reached > p.ns)
		ahead = reached - p.ns;
	if (ahead > span_ns / 2)
		ahead = span_ns / 2; /* the TSC jumped: never_back() covers the rest */
	store_relaxed(&line.seq, line.seq + 1); /* (A) */
	write_barrier();
	store_relaxed(&line.tsc0, p.tsc);
	store_relaxed(&line.ns0, p.ns + ahead);
	store_relaxed(&line.rate, (uint64_t)((u128)rate * (span_ns - ahead) / span_ns));
	store_relaxed(&line.span, (uint64_t)(((u128)span_ns << 32) / rate));
	store_release(&line.seq, line.seq + 1); /* (B) */
}

/* The rate from base to @p; 0 when it makes no sense: the machine has slept or moved. */
static uint64_t measure(struct point p)
{
	uint64_t rate;

	if (!base.tsc || p.tsc <= base.tsc || p.ns <= base.ns)
		return 0;
	rate = (uint64_t)(((u128)(p.ns - base.ns) << 32) / (p.tsc - base.tsc));
	if (measured && (rate < measured - measured / 64 || rate > measured + measured / 64))
		return 0;
	return rate;
}

/* There is no line, or it has ended: draws one as soon as enough time has passed to know the
 * rate. */
static uint64_t next_line(void)
{
	uint64_t now = kernel_now();
	struct point p;

	if (base.tsc && now - base.ns < SPAN_MIN_NS)
		return now;
	p = take_point();
	measured = measure(p);
	base = p;
	if (!measured) {
		span_ns = SPAN_MIN_NS;
		return p.ns;
	}
	draw(p, measured);
	span_ns = span_ns * 2 < SPAN_MAX_NS ? span_ns * 2 : SPAN_MAX_NS;
	return line.ns0;
}

static uint64_t by_tsc(void)
{
	uint64_t seq = load_acquire(&line.seq); /* pairs with (B) */
	uint64_t tsc0 = load_relaxed(&line.tsc0), ns0 = load_relaxed(&line.ns0);
	uint64_t rate = load_relaxed(&line.rate), span = load_relaxed(&line.span);
	uint64_t ticks, ns;
	bool whole;

	read_barrier(); /* pairs with the barrier behind (A) */
	whole = !(seq & 1) && seq == load_relaxed(&line.seq);
	ticks = read_tsc() - tsc0;
	if (likely(whole && ticks < span))
		return ns0 + along(ticks, rate);
	if (!spin_trylock(&line_lock))
		return kernel_now();
	ns = next_line();
	spin_unlock(&line_lock);
	return ns;
}

uint64_t clock_now(void)
{
	return never_back(tsc_usable() ? by_tsc() : kernel_now());
}
#else
uint64_t clock_now(void)
{
	return never_back(kernel_now());
}
#endif

uint64_t clock_wall_offset(void)
{
	uint64_t wall = 0, now = straddle(clock_now, wall_now, TIGHT_NS, &wall);

	return wall - now;
}
