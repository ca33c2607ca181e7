// SPDX-License-Identifier: MIT
#include "transport/hold.h"
#include <stdlib.h>
#include <string.h>
#include "link/parcel.h"
#include "util/be.h"
#include "wire/aeth.h"

enum { REPORT_EVERY = 16 /* packets that arrive in order behind a gap */ };

struct hold {
	struct parcel *slot[HOLD_PSNS]; /* by PSN, from the missing one on */
	uint32_t n, bytes; /* requests that are kept, and their payload */
	uint32_t top; /* one past the highest PSN kept, since the gap opened */
	uint32_t quiet; /* requests kept since the last report */
};

bool hold_able(const struct tqp *q)
{
	return link_reports_loss(q->dest);
}

bool hold_any(const struct tqp *q)
{
	return q->rsp.hold && q->rsp.hold->n;
}

static struct parcel **slot(struct hold *h, uint32_t psn)
{
	return &h->slot[psn % HOLD_PSNS];
}

static struct parcel *take(struct hold *h, uint32_t psn)
{
	struct parcel **at = slot(h, psn), *p = *at;

	if (!p)
		return NULL;
	*at = NULL;
	h->n--;
	h->bytes -= p->seg.len;
	return p;
}

static bool keep(struct hold *h, const struct seg *s)
{
	struct parcel **at = slot(h, s->psn);

	if (*at || h->bytes + s->len > HOLD_BYTES || parcel_make(s, true, at))
		return false;
	h->n++;
	h->bytes += s->len;
	return true;
}

bool hold_keep(struct tqp *q, const struct seg *s)
{
	struct hold *h = q->rsp.hold;
	uint32_t end = psn_add(s->psn, s->npsn);
	bool gap, in_order;

	if (s->flags & SEG_BYREF || ((s->psn - q->rsp.epsn) & PSN_MASK) + s->npsn > HOLD_PSNS)
		return false;
	if (!h)
		h = q->rsp.hold = calloc(1, sizeof(*h));
	if (!h)
		return false;
	gap = !h->n || psn_after(s->psn, h->top);
	in_order = h->n && s->psn == h->top;
	if (!keep(h, s))
		return s->flags & SEG_ACKREQ;
	if (gap)
		counters_inc(q->qp.ctx->hca->counters, COUNTER_OUT_OF_SEQUENCE);
	if (gap || psn_after(end, h->top))
		h->top = end;
	if (in_order && !(s->flags & SEG_ACKREQ) && ++h->quiet < REPORT_EVERY)
		return false;
	h->quiet = 0;
	return true;
}

struct parcel *hold_take(struct tqp *q)
{
	return hold_any(q) ? take(q->rsp.hold, q->rsp.epsn) : NULL;
}

void hold_passed(struct tqp *q, uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < HOLD_PSNS && hold_any(q); i++)
		parcel_free(take(q->rsp.hold, psn + i));
}

uint32_t hold_report(const struct tqp *q, uint8_t syndrome, uint8_t out[REPORT_MAX])
{
	struct hold *h = q->rsp.hold;
	uint32_t first = psn_add(q->rsp.epsn, 1), n = (h->top - first) & PSN_MASK;

	memset(out, 0, REPORT_MAX);
	put_be32(out, (uint32_t)syndrome << 24 | q->rsp.msn);
	n = n < HOLD_PSNS ? n : HOLD_PSNS;
	for (uint32_t i = 0; i < n; i++)
		if (*slot(h, first + i))
			out[REPORT_AETH + i / 8] |= (uint8_t)(1 << i % 8);
	return REPORT_AETH + (n + 7) / 8;
}

void hold_forget(struct tqp *q)
{
	struct hold *h = q->rsp.hold;

	q->rsp.hold = NULL;
	for (uint32_t i = 0; h && i < HOLD_PSNS; i++)
		parcel_free(h->slot[i]);
	free(h);
}
