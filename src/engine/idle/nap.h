// SPDX-License-Identifier: MIT
/* How long the engine thread sleeps while other threads do its work (docs/design/wakeups.md): short
 * naps while the program polls, longer and longer ones under a leader. Pure: the caller counts the
 * other threads' polls. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* While the program polls. After two naps without a poll it counts as not polling. */
struct nap {
	uint32_t seen; /* count of polls at the last look */
	unsigned int misses; /* naps without a poll since then */
	uint64_t ns; /* the next nap's length */
};

void nap_begin(struct nap *p, uint32_t polls); /* as if the program had never polled */
/* True: nap for p->ns. False: the program does not poll, the engine is to watch everything. */
bool nap_goes_on(struct nap *p, uint32_t polls);
void nap_led(struct nap *p); /* a leader has been the engine meanwhile */

enum {
	NAP_NS = 200000, /* the shortest */
	NAP_CROWDED = 64000000, /* the longest in a crowd */
};

/* The next nap, if a thread that polls may wait for its core for @turn ns: twice as long, so that
 * it has polled meanwhile if it does at all. */
uint64_t nap_length(const struct nap *p, uint64_t turn);

/* Under a leader; lengths in ms. */
enum {
	NAP_LED_FIRST = 1,
	NAP_LED_LONG = 4, /* from here on a leader that ends wakes the engine */
	NAP_LED_MOST = 64, /* then without a limit */
};

/* The nap after one of @ms. @worked: the leader has done something meanwhile. */
unsigned int nap_led_next(unsigned int ms, bool worked);
/* ns: the nap of @ms, or less, since something is due in @due ns (UINT64_MAX: nothing is). */
uint64_t nap_led_limit(unsigned int ms, uint64_t due);
