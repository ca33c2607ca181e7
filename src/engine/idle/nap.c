// SPDX-License-Identifier: MIT
#include "engine/idle/nap.h"

#define LONGEST 1000000ULL /* ns */
#define MISSES	2

void nap_begin(struct nap *p, uint32_t polls)
{
	*p = (struct nap){ .seen = polls, .misses = MISSES, .ns = NAP_NS };
}

bool nap_goes_on(struct nap *p, uint32_t polls)
{
	if (polls == p->seen)
		return ++p->misses < MISSES;
	if (p->misses)
		p->ns = NAP_NS;
	else
		p->ns = p->ns * 2 < LONGEST ? p->ns * 2 : LONGEST;
	p->misses = 0;
	p->seen = polls;
	return true;
}

uint64_t nap_length(const struct nap *p, uint64_t turn)
{
	uint64_t ns = 2 * turn < NAP_CROWDED ? 2 * turn : NAP_CROWDED;

	return ns > p->ns ? ns : p->ns;
}

void nap_led(struct nap *p)
{
	p->misses = 0;
}

unsigned int nap_led_next(unsigned int ms, bool worked)
{
	if (worked)
		return NAP_LED_FIRST;
	return ms > NAP_LED_MOST ? ms : ms * 2;
}

uint64_t nap_led_limit(unsigned int ms, uint64_t due)
{
	uint64_t ns = (uint64_t)ms * 1000000;

	return ms <= NAP_LED_MOST && ns < due ? ns : due;
}
