// SPDX-License-Identifier: MIT
/* Faults by seed: a destination that wraps another and loses, doubles, delays, reorders and damages
 * segments on their way out, as a network would. It is not same_host, whatever it wraps: the
 * transport uses its timers, payload goes by value, direct access is refused. A damaged segment
 * leaves as one whose ICRC is wrong, and its receiver counts and drops it; that the ICRC does find
 * flipped bits is tried with a packet built of it. fault_live.h changes the settings while a
 * program runs. Delayed segments leave by fault_progress(), which the engine calls where it drains
 * the links. Any thread. */
#pragma once
#include "link/link.h"

struct fault_config {
	double loss, dup, reorder, corrupt; /* probabilities, 0 to 1 */
	uint64_t delay; /* ns, of every segment */
	uint64_t seed;
	/* which segments */
	uint64_t qp; /* number of their sender or receiver; 0: any */
	uint64_t psn, psn_last; /* range of their first PSN, if only_psn */
	bool only_psn;
	uint64_t count; /* only so many segments of each destination; 0: all */
};

/* Over all wrapped destinations of this process. */
struct fault_counts {
	uint64_t sent, lost, doubled, delayed, reordered, damaged;
	uint64_t undetected; /* damaged, but with a right ICRC: must stay 0 */
};

/* "loss=1%,dup=0.1%,delay=50us,reorder=0.1%,corrupt=0.01,seed=7": probabilities as percentages or
 * fractions, times with ns, us, ms or s. "qp=0x412,psn=17,count=1" or "psn=17-20": only these.
 * EINVAL: anything else. */
int fault_parse(const char *text, struct fault_config *out);
/* Writes into @buf which part of @text fault_parse() refuses: "'los' is no setting; is it 'loss'?"
 * False: it refuses none. */
bool fault_wrong(const char *text, char *buf, size_t n);
/* Takes over the caller's reference on @inner, on success only. */
int fault_wrap(struct dest *inner, const struct fault_config *cfg, struct dest **out);
/* The same for one of several destinations that count as one: what they draw from, as long as one
 * of them is there. free() ends it. */
struct fault_dice;
int fault_dice_make(const struct fault_config *cfg, struct fault_dice **out);
int fault_wrap_with(struct dest *inner, struct fault_dice *dice, struct dest **out);
void fault_count(struct fault_counts *out);

extern uint32_t fault_queued; /* delayed segments of all destinations */
void fault_progress_now(void);
static inline void fault_progress(void)
{
	if (__builtin_expect(__atomic_load_n(&fault_queued, __ATOMIC_RELAXED) != 0, 0))
		fault_progress_now();
}
/* At exit(): segments that are delayed leave now, since packets on a wire do not vanish with their
 * sender. Returns when all have left, or when the links have had no room for a second. */
void fault_leave(void);
/* Around fork(): the child does not send segments that its parent has delayed. */
void fault_fork_begin(void);
void fault_fork_end(bool child);
/* @fn is called when a segment is delayed while no other is, so that fault_deadline() is no longer
 * UINT64_MAX. Set before a destination is wrapped. */
void fault_when_delayed(void (*fn)(void *arg), void *arg);
uint64_t fault_deadline(void); /* ns: when fault_progress() is due; UINT64_MAX: never */
