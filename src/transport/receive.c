// SPDX-License-Identifier: MIT
#include "transport/receive.h"

/* Both out of line: few queues compress. */
__attribute__((noinline)) int receive_delay(struct tqp *q, struct cq *cq, const struct cqe *c)
{
	int err = cq_push_run(cq, c, &q->delaying);

	if (q->delaying)
		q->unsettled |= UNSETTLED_ENTRIES;
	return err;
}

__attribute__((noinline)) void receive_end_run(struct tqp *q)
{
	q->unsettled &= (uint8_t)~UNSETTLED_ENTRIES;
	cq_run_end(&q->delaying);
}
