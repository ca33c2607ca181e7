// SPDX-License-Identifier: MIT
/* How many events that name an object the program has taken, and how many of these it has
 * acknowledged. Destroying the object waits until the two are equal (ibv_get_async_event(3),
 * ibv_ack_cq_events(3)). The public ABI counts the acknowledged ones, under the mutex and the
 * condition of the public struct. */
#pragma once
#include <pthread.h>
#include <stdint.h>

struct context;

struct account {
	pthread_mutex_t *mutex; /* of the public struct; guards *completed */
	pthread_cond_t *cond; /* of the public struct */
	uint32_t *completed; /* events acknowledged, in the public struct */
	uint32_t *delivered; /* events taken, in the driver's object; atomic */
};

void account_taken(const struct account *a);
void account_acknowledge(const struct account *a, uint32_t n);
void account_settle(const struct account *a); /* waits until every event taken is acknowledged */
/* The same for the asynchronous events of @element, after those still queued are dropped. */
void account_close(const struct account *a, struct context *ctx, const void *element);
