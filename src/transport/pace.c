// SPDX-License-Identifier: MIT
#include "transport/pace.h"

enum {
	HEADERS = 58, /* bytes a packet: Ethernet, IPv4, UDP, BTH, ICRC */
	BURST_MAX = 1 << 18, /* bytes, whatever the rate */
	ASK_NS = 1000000,
};

/* A kbit/s is a bit a millisecond. */
static uint64_t ns_of(const struct pace *p, uint64_t bytes)
{
	return bytes * 8 * 1000000 / p->kbps;
}

void pace_set(struct tqp *q, uint32_t kbps, uint32_t burst)
{
	uint32_t b = burst ? burst : kbps / 8; /* bytes a millisecond */

	q->req.pace = (struct pace){ .kbps = kbps, .burst = b < BURST_MAX ? b : BURST_MAX };
}

bool pace_open(struct tqp *q, uint64_t now)
{
	uint64_t at = q->req.pace.at;

	if (now >= at)
		return true;
	if (at < q->deadline)
		q->deadline = at;
	return false;
}

uint32_t pace_segment(const struct tqp *q, uint32_t max)
{
	uint32_t mtu = q->req.mtu, b = q->req.pace.burst & ~(mtu - 1); /* a power of two */

	if (b < mtu)
		b = mtu;
	return b < max ? b : max;
}

bool pace_asks(struct tqp *q, uint64_t now)
{
	struct pace *p = &q->req.pace;
	bool yes = now - p->asked >= ASK_NS;

	if (yes)
		p->asked = now;
	return yes;
}

void pace_sent(struct tqp *q, uint32_t len, uint32_t npsn, uint64_t now)
{
	struct pace *p = &q->req.pace;
	uint64_t behind = ns_of(p, p->burst), from = now > behind ? now - behind : 0;

	if (p->at > from)
		from = p->at;
	p->at = from + ns_of(p, len + (uint64_t)npsn * HEADERS);
}
