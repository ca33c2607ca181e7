// SPDX-License-Identifier: MIT
#include "engine/leader.h"
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
	full_fence(); /* pairs with armed() */
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

void leader_take_ring(struct node *n)
{
	if (event_fd_try(host_doorbell_fd(n->host)))
		return;
	full_fence(); /* pairs with leader_begin(): we see the leader, or it sees the segment */
	if (load_relaxed(&n->led))
		host_ring_self(n->host);
}
