// SPDX-License-Identifier: MIT
/* Waiting for other processes' accesses to end (docs/design/direct-access.md). The owner has
 * unpublished the key or the QP already. It waits for each peer that has set a hazard before, until
 * the peer clears it, the peer's address space is gone, or, after a second, the peer turns out to
 * be stopped. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "obs/explain.h"
#include "peers/host_state.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/quiesce.h"
#include "util/uncancelled.h"

enum { YIELDS = 100 };
#define NAP_NS	    50000
#define PATIENCE_NS UINT64_C(1000000000)

/* Whether the peer of contact @i is inside an access; *name: which process that is. */
static bool is_inside(struct host *h, uint32_t i, uint64_t word, struct trust_name *name)
{
	const struct contact *c;
	struct remote *r;
	bool inside;

	quiesce_enter();
	c = load_acquire(&h->contact[i]);
	/* unless each may trace the other, no word counts: the peer could keep us for ever */
	r = c && load_acquire(&c->trusted) ? load_acquire(&c->remote) : NULL; /* reach() */
	inside = r && hazard_is_set(c->page->hazard, word) && remote_alive(r);
	if (inside)
		*name = c->name;
	quiesce_exit();
	return inside;
}

/* By a signal or a tracer; a process that is not in our /proc counts as stopped too. */
static bool stopped(pid_t shown)
{
	char path[32], text[512] = "", *state;
	int fd;

	if (shown <= 0)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)shown);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	state = strrchr(text, ')'); /* the name before it may contain anything */
	return state && (!strncmp(state, ") T", 3) || !strncmp(state, ") t", 3));
}

static void explain(enum hazard_kind kind, uint32_t number, pid_t pid)
{
	const char *what = kind == HAZARD_KEY ? "ibv_dereg_mr: key" : "ibv_modify_qp: QP";

	reason("%s 0x%x is in use by process %d, which is stopped: not waited for; its access may "
	       "still come when it goes on, so continue or kill it before the memory is used anew",
	       what, number, (int)pid);
	log_warn("%s 0x%x is in use by process %d, which is stopped: not waited for", what, number,
		 (int)pid);
}

/* Until the hazard is cleared. A peer that runs clears it in the time of a copy; for a stopped one
 * the wait could last for ever. */
static void wait_for(struct host *h, uint32_t i, enum hazard_kind kind, uint32_t number)
{
	uint64_t word = hazard_word(kind, host_first_slot(h), h->page->gen, number), next = 0;
	const struct timespec nap = { .tv_nsec = NAP_NS };
	struct trust_name name = { 0 };

	for (unsigned int looks = 0; is_inside(h, i, word, &name); looks++) {
		if (looks < YIELDS) {
			sched_yield();
			continue;
		}
		if (!next)
			next = clock_now() + PATIENCE_NS;
		nanosleep(&nap, NULL);
		if (clock_now() < next)
			continue;
		if (stopped(name.shown)) {
			explain(kind, number, name.pid);
			return;
		}
		next = clock_now() + PATIENCE_NS;
	}
}

/* A thread that ended here would leave the object half destroyed, and locks of others held. */
static void release(struct host *h, enum hazard_kind kind, uint32_t number)
{
	int was = uncancelled_begin();
	uint32_t top;

	full_fence(); /* unpublished, then the hazards: pairs with hazard_set() */
	top = load_acquire(&h->top);
	for (uint32_t i = 0; i < top; i++)
		wait_for(h, i, kind, number);
	uncancelled_end(was);
}

void host_revoke(struct host *h, uint32_t key)
{
	release(h, HAZARD_KEY, key);
	contact_unshare(h, key);
}

void host_revoke_qp(struct host *h, uint32_t qpn)
{
	release(h, HAZARD_QP, qpn);
}
