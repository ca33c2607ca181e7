// SPDX-License-Identifier: MIT
#include "hca/strides.h"

void strides_init(struct strides *s, const struct stride_form *form)
{
	s->form = *form;
	s->used = 1U << form->count_log;
}

static uint32_t left(const struct strides *s)
{
	return (1U << s->form.count_log) - s->used;
}

/* The next posted WQE comes to hand. */
static bool next(struct strides *s, struct rq *rq)
{
	uint16_t none;

	if (!rq_posted(rq))
		return false;
	srwqe_parse(&rq->ring, rq->head, &s->wqe, &none);
	s->wqe.idx = rq->head++;
	s->used = 0;
	return true;
}

enum strides_found strides_take(struct strides *s, struct rq *rq, uint32_t len,
				struct stride_run *out)
{
	uint32_t need = (len + (1U << s->form.size_log) - 1) >> s->form.size_log;
	bool fits = need <= 1U << s->form.count_log;

	if (!left(s) && !next(s, rq))
		return STRIDES_NONE;
	*out = (struct stride_run){ s->used, need <= left(s) ? need : left(s) };
	s->used += out->n;
	if (out->n == need)
		return STRIDES_FRAME;
	return fits ? STRIDES_REST : STRIDES_LONG;
}

bool strides_end(struct strides *s)
{
	bool was = left(s) != 0;

	s->used += left(s);
	return was;
}
