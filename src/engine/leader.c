// SPDX-License-Identifier: MIT
#include "engine/leader.h"
#include <errno.h>
#include <sched.h>
#include "engine/wake.h"
#include "hca/event_fd.h"

static __thread bool leading __attribute__((tls_model("initial-exec")));

bool leader_is_me(void)
{
	return leading;
}

bool leader_begin(struct node *n)
{
	uint32_t none = 0;

	if (!cas_acq_rel(&n->led, &none, 1))
		return false;
	leading = true;
	full_fence(); /* pairs with armed(), take_alone() */
	while (load_acquire(&n->emptying))
		sched_yield();
	if (load_relaxed(&n->asleep) == LOOP_ARMED)
		wake_kick(n);
	return true;
}

void leader_end(struct node *n)
{
	uint32_t asleep;

	leading = false;
	host_set_mode(n->host, HOST_POLLED);
	store_relaxed(&n->led_seq, load_relaxed(&n->led_seq) + 1);
	store_release(&n->led, 0);
	full_fence(); /* pairs with under_leader() */
	asleep = load_relaxed(&n->asleep);
	if (asleep == LOOP_UNDER_LEADER || (asleep == LOOP_NAPPING && load_relaxed(&n->followers)))
		wake_kick(n);
}

/* Where preadv2() cannot tell, a plain read follows a look. So that it does not sleep no other
 * thread reads the doorbell meanwhile: a leader that begins waits for the end of this, and one that
 * leads already takes the ring itself. */
static void take_alone(struct node *n, int fd)
{
	uint32_t none = 0;

	if (!cas_acq_rel(&n->emptying, &none, 1))
		return;
	full_fence(); /* pairs with leader_begin(): we see the leader, or it waits */
	if (!load_relaxed(&n->led))
		event_fd_look_and_read(fd);
	store_release(&n->emptying, 0);
}

void leader_take_ring(struct node *n)
{
	int fd = host_doorbell_fd(n->host), err = event_fd_try(fd);

	if (unlikely(err && err != EAGAIN))
		take_alone(n, fd);
	if (err)
		return;
	full_fence(); /* pairs with leader_begin(): we see the leader, or it sees the segment */
	if (load_relaxed(&n->led))
		host_ring_self(n->host);
}
