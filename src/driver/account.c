// SPDX-License-Identifier: MIT
#include "driver/account.h"
#include "hca/async.h"
#include "util/barrier.h"
#include "util/uncancelled.h"

void account_taken(const struct account *a)
{
	fetch_add_relaxed(a->delivered, 1);
}

void account_acknowledge(const struct account *a, uint32_t n)
{
	pthread_mutex_lock(a->mutex);
	*a->completed += n;
	pthread_cond_signal(a->cond);
	pthread_mutex_unlock(a->mutex);
}

/* The object is gone from every queue of events, so *delivered does not change any more. */
void account_settle(const struct account *a)
{
	int was = uncancelled_begin();

	pthread_mutex_lock(a->mutex);
	while (*a->completed != load_relaxed(a->delivered))
		pthread_cond_wait(a->cond, a->mutex);
	pthread_mutex_unlock(a->mutex);
	uncancelled_end(was);
}

void account_close(const struct account *a, struct context *ctx, const void *element)
{
	async_drop(ctx, element);
	account_settle(a);
}
