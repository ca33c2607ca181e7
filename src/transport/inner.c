// SPDX-License-Identifier: MIT
#include "transport/inner.h"
#include <stdlib.h>
#include <string.h>
#include "transport/tag_cqe.h"

static struct inner *entry(const struct tqp *q, uint32_t number)
{
	return &q->req.inner->e[number & (INNER_MAX - 1)];
}

bool inner_room(struct tqp *q, unsigned int n)
{
	if (!q->req.inner)
		q->req.inner = calloc(1, sizeof(*q->req.inner));
	return q->req.inner && q->req.inner->tail - q->req.inner->done + n <= INNER_MAX;
}

void inner_add(struct tqp *q, const struct inner *w)
{
	*entry(q, q->req.inner->tail++) = *w;
}

uint16_t inner_take(struct tqp *q)
{
	return (uint16_t)q->req.inner->next++;
}

void inner_wqe(const struct tqp *q, uint16_t number, struct wqe *w)
{
	const struct inner *in = entry(q, number);

	memset(w, 0, offsetof(struct wqe, sge));
	w->opcode = in->opcode;
	w->raddr = in->raddr;
	w->rkey = in->rkey;
	w->len = in->len;
	if (in->opcode == MLX5_OPCODE_RDMA_READ) {
		w->nsge = 1;
		w->sge[0] = in->sge;
		return;
	}
	w->fence = true;
	w->nsge = 1;
	w->inlined = 1;
	w->sge[0] = (struct sge){ (uintptr_t)in->data, in->len, 0 };
}

int inner_retire(struct tqp *q, const struct cqe *error, uint64_t now)
{
	const struct inner *in = entry(q, q->req.inner->done++);

	return in->opcode == MLX5_OPCODE_RDMA_READ ? tag_cqe_arrived(q, in, error, now) : 0;
}

void inner_flush(struct tqp *q, const struct cqe *error, uint64_t now)
{
	struct inner_queue *in = q->req.inner;

	while (in && in->done != in->tail)
		inner_retire(q, error, now);
	if (in)
		in->next = in->done;
}
