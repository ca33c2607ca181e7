// SPDX-License-Identifier: MIT
#include "udp/udp_ident.h"

enum { NEAR = 64, FAR = 30000 };
#define TICK_NS UINT64_C(1000000) /* of the fastest kernel clock */

static struct udp_sender *find(struct udp_ident *t, uint32_t addr)
{
	return &t->sender[(addr * UINT32_C(0x9e3779b1)) >> 24];
}

/* @id is at most @ahead further than @from, or a little older (reordered, repeated). */
static bool follows(uint16_t id, uint16_t from, uint64_t ahead)
{
	uint16_t step = (uint16_t)(id - from);

	return step <= ahead || (uint16_t)-step <= NEAR;
}

static bool believe(struct udp_sender *s, uint16_t id, uint64_t now)
{
	if ((uint16_t)(id - s->last) < FAR)
		s->last = id;
	s->guessed = false;
	s->at = now;
	return true;
}

static bool expected(const struct udp_sender *s, uint16_t id, uint64_t now)
{
	uint64_t ahead = NEAR + (now - s->at) / TICK_NS;

	if (s->zeros)
		return !id;
	return follows(id, s->last, ahead < FAR ? ahead : FAR);
}

bool udp_ident_fits(struct udp_ident *t, uint32_t addr, uint16_t id, uint64_t now)
{
	struct udp_sender *s = find(t, addr);

	if (s->addr != addr) {
		*s = (struct udp_sender){ .addr = addr, .last = id, .zeros = !id, .at = now };
		return true;
	}
	if (expected(s, id, now))
		return believe(s, id, now);
	if (s->guessed && follows(id, s->guess, NEAR)) {
		s->last = id;
		s->zeros = !id && !s->guess;
		return believe(s, id, now);
	}
	s->guess = id;
	s->guessed = true;
	return false;
}
