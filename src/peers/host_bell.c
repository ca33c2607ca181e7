// SPDX-License-Identifier: MIT
#include "peers/host_bell.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "util/log.h"
#include "util/uncancelled.h"

int host_doorbell_fd(struct host *h)
{
	return h->bell;
}

void host_ring_self(struct host *h)
{
	const uint64_t one = 1;
	ssize_t n;

	UNCANCELLED(n, write(h->bell, &one, sizeof(one)));
	if (n < 0)
		log_debug("our own doorbell cannot be rung: %s", strerror(errno));
}

void host_chore(struct host *h)
{
	if (!load_relaxed(&h->chores) && !xchg_acq_rel(&h->chores, 1))
		host_ring_self(h);
}

/* Each arming has a number, so that a sender rings once for it. */
static uint32_t mode_word(uint32_t old, enum host_mode mode)
{
	bool sleeps = mode == HOST_ARMED || mode == HOST_LED;

	return ((old & ~HOST_MODE_MASK) + (sleeps ? HOST_MODE_STEP : 0)) | mode;
}

void host_set_mode(struct host *h, enum host_mode mode)
{
	uint32_t old = load_relaxed(&h->page->mode);

	while (!cas_acq_rel(&h->page->mode, &old, mode_word(old, mode)))
		;
}

bool host_change_mode(struct host *h, enum host_mode from, enum host_mode to)
{
	uint32_t old = load_relaxed(&h->page->mode);

	while ((old & HOST_MODE_MASK) == from)
		if (cas_acq_rel(&h->page->mode, &old, mode_word(old, to)))
			return true;
	return false;
}

void host_use_mail(struct host *h)
{
	uint32_t old = load_relaxed(&h->page->mode);

	while (!cas_acq_rel(&h->page->mode, &old, old | HOST_MODE_MAIL))
		;
	full_fence(); /* a sender that has not seen it has stored its record already */
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i])
			fetch_or_acq_rel(&h->mail[i / 64], UINT64_C(1) << i % 64);
}
