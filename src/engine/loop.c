// SPDX-License-Identifier: MIT
#include "engine/loop.h"
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "engine/backlog.h"
#include "engine/frames.h"
#include "engine/gsi/gsi_own.h"
#include "engine/idle/linger.h"
#include "engine/idle/nap.h"
#include "engine/idle/own_core.h"
#include "engine/idle/rest.h"
#include "engine/leader.h"
#include "engine/links.h"
#include "engine/port_counts.h"
#include "engine/port_events.h"
#include "engine/progress.h"
#include "engine/timers.h"
#include "engine/unanswered.h"
#include "engine/unrung_look.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "util/guard.h"
#include "util/own_thread.h"
#include "util/page_trap.h"
#include "util/quiesce.h"

#define EVENTS	   8 /* of descriptors at a time */
#define RETRY_NS   1000000ULL /* until senders whose link had no room are told again */
#define LINGER	   50000ULL /* ns: as long as a wake takes, so at most twice as much is spent */
#define LINGER_MAX 2000000ULL /* ns: then descriptors are looked at */
#define TURN	   1000000ULL /* ns: from one look at descriptors to the next, on its own core */
#define LOOKS	   32 /* while lingering, between two yields */
#define ROUNDS	   1024 /* of work, while more keeps coming */
#define WORK_MAX   2000000ULL /* ns: the same, since a round may be long */
#define UNTIMED	   4 /* rounds of work from one look at the clock to the next */
#define NET_ROUNDS 64
#define PATIENCE   20000000ULL /* ns: some slices of the scheduler's */
#define SLICE	   100000 /* ns: of sched_setattr, so that a wake onto a busy core is short */

static bool may_go_on(unsigned int rounds, uint64_t end)
{
	return rounds < ROUNDS && (rounds % UNTIMED || clock_now() < end);
}

void loop_work(struct node *n)
{
	uint64_t end = clock_now() + WORK_MAX;
	unsigned int got, rounds = 0;

	do {
		quiesce_enter();
		got = progress_round(n);
		quiesce_exit();
		gsi_own_flush();
		/* A round that finds nothing lets ACKs leave: it is the last. But descriptors are
		 * looked at under any load. */
	} while ((got || (host_has_inbound(n->host) && !host_has_left())) &&
		 may_go_on(++rounds, end));
}

static void doorbell_watch(struct node *n, bool on)
{
	struct epoll_event ev = { .events = on ? EPOLLIN : 0 };

	ev.data.fd = host_doorbell_fd(n->host);
	epoll_ctl(n->epoll_fd, EPOLL_CTL_MOD, ev.data.fd, &ev);
}

/* More are looked for at addresses that have brought some; what comes to others wakes the engine
 * again. */
bool loop_network(struct node *n)
{
	enum links_sources which = LINKS_ALL;
	unsigned int got, rounds = 0;
	bool any = false;

	if (likely(!load_relaxed(&n->networks)))
		return false;
	do {
		quiesce_enter();
		got = progress_network(n, which);
		if (got < LINKS_BUDGET) /* else one of them may have taken all of it */
			which = LINKS_POLLED;
		quiesce_exit();
		gsi_own_flush();
		any |= got != 0;
	} while (got && ++rounds < NET_ROUNDS);
	return any;
}

/* How long the engine may sleep, ns; UINT64_MAX: until something comes. */
static uint64_t timeout(struct node *n)
{
	uint64_t next = timers_next(n), tended = links_deadline(n), now = clock_now();
	uint64_t backlog = backlog_deadline(n);

	if (tended < next)
		next = tended;
	if (backlog < next)
		next = backlog;
	if (timers_next_watch(n) < next)
		next = timers_next_watch(n);
	if (unrung_due(n) < next)
		next = unrung_due(n);
	if (port_counts_due(n) < next)
		next = port_counts_due(n);
	if ((unanswered_any(n) || host_own_waits(n->host)) && next > now + RETRY_NS)
		next = now + RETRY_NS;
	if (next == UINT64_MAX)
		return next;
	return next <= now ? 0 : next - now;
}

/* True: the doorbell was rung. */
static bool serve(struct node *n, const struct epoll_event *ev)
{
	uint64_t count;

	if (ev->data.fd == host_doorbell_fd(n->host)) {
		leader_take_ring(n);
		return true;
	}
	if (ev->data.fd == n->kick_fd)
		count = read(n->kick_fd, &count, sizeof(count));
	else if (!frames_read(n, ev->data.fd))
		port_events_read(n, ev->data.fd); /* nothing when it is a link's: links_tend() */
	return false;
}

static bool serve_all(struct node *n, const struct epoll_event *ev, int got)
{
	bool rung = false;

	store_relaxed(&n->rounds, n->rounds + 1);
	for (int i = 0; i < got; i++)
		rung |= serve(n, &ev[i]);
	links_tend(n, clock_now());
	progress_watch(n, clock_now());
	port_counts_tend(n, clock_now());
	return rung;
}

static int wait_ms(const struct node *n, struct epoll_event *ev, uint64_t ns)
{
	uint64_t ms = ns / 1000000 + (ns % 1000000 != 0);

	return epoll_wait(n->epoll_fd, ev, EVENTS, ms > INT_MAX ? -1 : (int)ms);
}

/* Before Linux 5.11, under valgrind, and by filters of older container engines, which answer EPERM,
 * there is no epoll_pwait2(). It is tried once: valgrind prints five lines for each call. */
static int sleep_for(struct node *n, struct epoll_event *ev, uint64_t ns)
{
	const struct timespec limit = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	int got;

	if (n->in_ms)
		return wait_ms(n, ev, ns);
	got = epoll_pwait2(n->epoll_fd, ev, EVENTS, ns == UINT64_MAX ? NULL : &limit, NULL);
	if (got >= 0 || (errno != ENOSYS && errno != EPERM))
		return got;
	n->in_ms = true;
	return wait_ms(n, ev, ns);
}

/* The program may have set signal handlers of its own meanwhile: before anything is delivered. */
static int wait_events(struct node *n, struct epoll_event *ev, uint64_t ns)
{
	int got = sleep_for(n, ev, ns);

	guard_recheck();
	return got;
}

/* Waits on descriptors for at most @ns and serves what came. True: the doorbell was rung. */
static bool epoll_round(struct node *n, uint64_t ns)
{
	struct epoll_event ev[EVENTS];

	return serve_all(n, ev, wait_events(n, ev, ns));
}

/* The mode is POLLED again: a sender that saw another one has not rung. */
static void look_once_more(struct node *n)
{
	full_fence(); /* pairs with contact_wake(): it sees the mode, or we its record */
	loop_work(n);
}

/* Behind a ring more segments are likely. To look for them for a moment costs less than to sleep
 * and be woken, and spares senders the ring. A program that polls or leads takes over. */
static void linger_by_the_rings(struct node *n)
{
	uint32_t seq = load_relaxed(&n->poll_seq);
	uint64_t now = clock_now(), end = now + LINGER_MAX, until = now + LINGER;

	if (!host_change_mode(n->host, HOST_POLLED, HOST_WATCHED))
		return;
	for (unsigned int looks = 1; now < until && now < end; looks++) {
		if (load_relaxed(&n->led) || load_relaxed(&n->poll_seq) != seq)
			break;
		if (host_has_inbound(n->host) && !host_has_left()) {
			loop_work(n);
			until = now + LINGER;
		} else if (looks % LOOKS) {
			cpu_relax();
		} else {
			sched_yield(); /* the sender may need this very CPU */
		}
		now = clock_now();
	}
	host_change_mode(n->host, HOST_WATCHED, HOST_POLLED);
	look_once_more(n);
}

/* A program that reads its CQs without a call spins, and needs its core for that. */
static bool may_linger(struct node *n)
{
	return unrung_due(n) == UINT64_MAX;
}

/* The network has brought a request that the program does not see (a WRITE, a READ), and no poll
 * has taken it: the program may spin on its memory. What only a poll would use wakes nobody, since
 * to be woken for each ACK takes the program's core. */
static bool network_spins(struct node *n)
{
	uint32_t unasked = load_relaxed(&n->unasked);

	return loop_network(n) && load_relaxed(&n->unasked) != unasked;
}

/* In a crowd a nap lasts until the thread that polls has had its turn: else the engine would take
 * that thread's packets one by one, on a core that others want. */
static uint64_t nap_ns(struct node *n, const struct nap *p)
{
	if (likely(!vain_turn(&n->vain, clock_now())) || host_has_left())
		return p->ns;
	store_relaxed(&n->naps_long, 1);
	full_fence(); /* pairs with doorbell_armed(): it sees this, or we that there is no crowd */
	return nap_length(p, vain_turn(&n->vain, clock_now()));
}

/* The program polls. But the sender of a request that the program does not see rings all the same
 * (peers/shm.c). */
static void doze(struct node *n, uint64_t ns)
{
	uint64_t now = clock_now(), due = backlog_ends_nap(n);
	uint64_t unrung = unrung_due(n), rests = rest_until(n);
	uint32_t seq = load_relaxed(&n->poll_seq);
	struct epoll_event ev[EVENTS];
	int got;

	if (unlikely(rests > now))
		ns += rests - now;
	if (unlikely(unrung < due))
		due = unrung;
	if (unlikely(due < now + ns))
		ns = due > now ? due - now : 0;
	got = wait_events(n, ev, ns);
	store_relaxed(&n->naps_long, 0);
	/* Packets that the poller finds need not wake two threads. */
	links_watch(n, network_spins(n) && rest_until(n) < clock_now());
	if (!serve_all(n, ev, got)) {
		if (load_relaxed(&n->poll_seq) == seq || backlog_deadline(n) <= clock_now())
			loop_work(n);
		return;
	}
	loop_work(n);
	if (rest_until(n) < clock_now() && may_linger(n))
		linger_by_the_rings(n);
}

/* The program does not poll: the engine sleeps until there is a reason. */
static void armed(struct node *n, struct lingering *l)
{
	bool rung = false, requested;

	loop_work(n);
	store_relaxed(&n->asleep, LOOP_ARMED);
	host_change_mode(n->host, HOST_POLLED, HOST_ARMED);
	/* Before the last look: senders store their segment, fence, and read the mode; a leader
	 * sets n->led, fences, and reads n->asleep; so does a thread that has opened a network. */
	full_fence();
	links_watch(n, true);
	if (!load_relaxed(&n->led))
		rung = epoll_round(n, backlog_any(n) || host_has_inbound(n->host) ? 0 : timeout(n));
	store_relaxed(&n->asleep, LOOP_AWAKE);
	links_watch(n, false);
	requested = network_spins(n);
	if (!host_change_mode(n->host, HOST_ARMED, HOST_POLLED))
		return; /* a leader has set the mode */
	loop_work(n);
	if (!may_linger(n)) {
		if (rung || requested)
			unrung_ask();
		return;
	}
	if (rung)
		linger_by_the_rings(n);
	else if (requested && linger(n, l))
		look_once_more(n);
}

/* True: more has to be done than the leader does. */
static bool needs_engine(struct node *n)
{
	/* A contact that came up just now may have brought what the leader was woken for before. */
	return timers_next(n) <= clock_now() || backlog_any(n) || unanswered_any(n) ||
	       host_own_waits(n->host) || host_has_inbound(n->host);
}

/* A leader sleeps in the doorbell: the engine stays out of its way, but is back when it has ended.
 * All other descriptors, and deadlines, are served from here. */
static void under_leader(struct node *n)
{
	unsigned int nap = NAP_LED_FIRST;
	bool delivering;

	doorbell_watch(n, false);
	while (load_acquire(&n->led)) {
		uint32_t seq = load_relaxed(&n->led_seq);

		store_relaxed(&n->asleep, nap < NAP_LED_LONG ? LOOP_NAPPING : LOOP_UNDER_LEADER);
		full_fence(); /* before the last look; pairs with leader_end() */
		delivering = links_delivering(n);
		links_watch(n, !delivering);
		if (load_relaxed(&n->led) && !backlog_any(n))
			epoll_round(n, nap_led_limit(nap, delivering ? NAP_NS : timeout(n)));
		store_relaxed(&n->asleep, LOOP_AWAKE);
		loop_network(n);
		if (needs_engine(n))
			loop_work(n);
		unrung_look(n);
		nap = nap_led_next(nap, load_relaxed(&n->led_seq) != seq);
	}
	doorbell_watch(n, true);
	links_watch(n, false);
}

/* Descriptors have their turn now and then. True: it was so. */
static bool on_its_own_core(struct node *n, struct own_core *o)
{
	uint64_t due;
	bool goes_on;

	if (!own_core_begin(n, o))
		return false;
	do {
		due = clock_now() + TURN;
		do
			goes_on = own_core_look(n, o);
		while (goes_on && clock_now() < due);
		epoll_round(n, 0);
		loop_network(n); /* those that have brought nothing yet */
	} while (goes_on);
	own_core_end(n);
	look_once_more(n);
	return true;
}

struct last_poll {
	uint32_t seen; /* polls */
	uint64_t at; /* ns: when the engine thread saw their number change; 0: it has not */
};

/* Those that made no progress count too: a program that finds completions each time polls. */
static uint32_t polls(const struct node *n)
{
	return load_relaxed(&n->poll_seq) + load_relaxed(&n->glances);
}

/* A program that has polled just now has only lost its core, and will post receives in answer to
 * what it finds (docs/design/receiver-not-ready.md). */
static bool polled_lately(struct last_poll *l, uint32_t polls)
{
	uint64_t now = clock_now();

	if (polls != l->seen)
		*l = (struct last_poll){ polls, now };
	return l->at && now - l->at < PATIENCE;
}

static void *run(void *arg)
{
	struct node *n = arg;
	struct last_poll last = { polls(n), 0 };
	struct lingering l = { 0 };
	struct own_core own = { 0 };
	struct nap nap;

	page_trap_rest(false); /* a parent's engine thread may have had it open at fork() */
	nap_begin(&nap, polls(n));
	for (;;) {
		host_patience(false);
		unrung_look(n);
		if (on_its_own_core(n, &own))
			continue;
		if (load_acquire(&n->led)) {
			under_leader(n);
			nap_led(&nap);
			continue;
		}
		host_patience(polled_lately(&last, polls(n)));
		if (nap_goes_on(&nap, polls(n)))
			doze(n, nap_ns(n, &nap));
		else if (links_delivering(n) || host_has_left())
			doze(n, nap.ns);
		else
			armed(n, &l);
	}
	return NULL;
}

/* The inherited affinity may be a single CPU, to which the creating thread has pinned itself: then
 * the main thread's is taken (docs/design/wakeups.md). */
static void own_affinity(void)
{
	cpu_set_t mine, main_thread;

	if (sched_getaffinity(0, sizeof(mine), &mine) || CPU_COUNT(&mine) > 1)
		return;
	if (!sched_getaffinity(getpid(), sizeof(main_thread), &main_thread) &&
	    CPU_COUNT(&main_thread) > 1)
		sched_setaffinity(0, sizeof(main_thread), &main_thread);
}

struct sched_attr_v0 {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

struct start {
	struct node *n;
	sem_t up;
};

static void *thread_main(void *arg)
{
	struct start *start = arg;
	struct node *n = start->n;
	struct sched_attr_v0 attr = { .size = sizeof(attr),
				      .policy = SCHED_OTHER,
				      .nice = getpriority(PRIO_PROCESS, 0), /* as it is */
				      .runtime = SLICE };

	host_mark_alive(n->host);
	timers_run_watches();
	own_affinity();
	syscall(SYS_sched_setattr, 0, &attr, 0); /* an old kernel ignores it */
	quiesce_enter(); /* makes this thread's slot */
	quiesce_exit();
	gsi_own_keep();
	sem_post(&start->up); /* *start is gone from here on */
	return run(n);
}

/* Waits until the thread is up. A thread that starts takes locks of the allocator and of
 * sanitizers; in the child of a fork() right behind this call they would never be free. */
int loop_start(struct node *n)
{
	struct start start = { .n = n };
	int err;

	if (n->started)
		return 0;
	sem_init(&start.up, 0, 0);
	err = own_thread_start(256 << 10, thread_main, &start);
	if (err)
		return refuse(err,
			      "the engine thread could not be started: error %d; raise the limit "
			      "of %s",
			      err, err == EINVAL ? "stacks (ulimit -s)" : "processes (ulimit -u)");
	while (sem_wait(&start.up)) /* EINTR */
		;
	sem_destroy(&start.up);
	n->started = true;
	return 0;
}
