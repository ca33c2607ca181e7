// SPDX-License-Identifier: MIT
#include "transport/rtt.h"
#include "wire/aeth.h"

/* ns */
#define LEAST_NS 10000000000UL /* how long the shortest counts: paths change */
#define GROWN_NS 100000UL

void rtt_sent(struct tqp *q, uint32_t psn, uint64_t now)
{
	struct rtt *t = &q->req.rtt;

	if (t->at)
		return;
	t->at = now;
	t->psn = psn;
}

void rtt_forget(struct tqp *q)
{
	q->req.rtt.at = 0;
}

void rtt_acked(struct tqp *q, uint64_t now)
{
	struct rtt *t = &q->req.rtt;
	uint64_t ns = now - t->at, off;

	if (!t->at || !psn_after(q->req.una, t->psn))
		return;
	t->at = 0;
	if (!t->mean || ns < t->least || now - t->least_at > LEAST_NS) {
		t->least = ns;
		t->least_at = now;
	}
	if (!t->mean) {
		t->mean = ns ? ns : 1;
		t->deviation = ns / 2;
		return;
	}
	off = ns > t->mean ? ns - t->mean : t->mean - ns;
	t->deviation = (3 * t->deviation + off) / 4;
	t->mean = (7 * t->mean + ns) / 8;
}

uint64_t rtt_overdue_ns(const struct tqp *q)
{
	return q->req.rtt.mean ? q->req.rtt.mean + 4 * q->req.rtt.deviation : 0;
}

bool rtt_grown(const struct tqp *q, unsigned int times)
{
	return q->req.rtt.mean > q->req.rtt.least * times + GROWN_NS;
}
