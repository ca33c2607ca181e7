// SPDX-License-Identifier: MIT
#include "engine/loop.h"
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "engine/frames.h"
#include "engine/acks.h"
#include "engine/backlog.h"
#include "engine/links.h"
#include "engine/port_events.h"
#include "engine/progress.h"
#include "engine/timers.h"
#include "engine/unanswered.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "util/guard.h"
#include "util/quiesce.h"

#define NAP_MIN	    200000ULL /* ns: while the program polls */
#define NAP_MAX	    1000000ULL
#define EVENTS	    8 /* of descriptors at a time */
#define NAP_LONG_MS 4 /* a leader that leaves ends naps from here on */
#define LED_MAX_MS  64 /* longest nap under a leader; then without a limit */
#define RETRY_NS    1000000ULL /* who is to be told something waits for room */
#define LINGER	    50000ULL /* ns: what a wake costs, so at most twice as much is spent */
#define LINGER_MAX  2000000ULL /* then descriptors have their turn */
#define LOOKS	    32 /* of who lingers, between two yields */
#define ROUNDS	    1024 /* of work, while more keeps coming */
#define NET_ROUNDS  64
#define SLICE	    100000 /* ns: sched_setattr, so that a wake onto a busy core is short (M4) */

void loop_work(struct node *n)
{
	unsigned int got, rounds = 0;

	do {
		quiesce_enter();
		got = progress_round(n);
		quiesce_exit();
		/* A round that finds nothing lets go the ACKs that were held back: it is the
		 * last. But descriptors have their turn under any load. */
	} while ((got || host_has_inbound(n->host)) && ++rounds < ROUNDS);
}

/* The doorbell's count is worth nothing: who wakes looks at everything. But a leader that came
 * meanwhile sleeps in it, and senders ring once for it: what was its ring goes back. */
static void doorbell_clear(struct node *n)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };

	if (preadv2(host_doorbell_fd(n->host), &iov, 1, -1, RWF_NOWAIT) < 0)
		return;
	full_fence(); /* pairs with leader_begin(): we see the leader, or it sees the segment */
	if (load_relaxed(&n->led))
		host_ring_self(n->host);
}

static void doorbell_watch(struct node *n, bool on)
{
	struct epoll_event ev = { .events = on ? EPOLLIN : 0 };

	ev.data.fd = host_doorbell_fd(n->host);
	epoll_ctl(n->epoll_fd, EPOLL_CTL_MOD, ev.data.fd, &ev);
}

/* True: there were packets. */
static bool network_work(struct node *n)
{
	bool any = false;
	unsigned int got, rounds = 0;

	if (likely(!load_relaxed(&n->networks)))
		return false;
	do {
		quiesce_enter();
		got = progress_network(n);
		quiesce_exit();
		any |= got != 0;
	} while (got && ++rounds < NET_ROUNDS);
	return any;
}

/* How long the engine may sleep, ns; UINT64_MAX: until something comes. */
static uint64_t timeout(struct node *n)
{
	uint64_t next = timers_next(n), tended = links_deadline(n), now = clock_now();
	uint64_t acks = acks_deadline(n);

	if (tended < next)
		next = tended;
	if (acks < next)
		next = acks;
	if (unanswered_any(n) && next > now + RETRY_NS)
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
		doorbell_clear(n);
		return true;
	}
	if (ev->data.fd == n->kick_fd)
		count = read(n->kick_fd, &count, sizeof(count));
	else if (!frames_read(n, ev->data.fd))
		port_events_read(n,
				 ev->data.fd); /* a link's is no device's: links_tend() serves it */
	return false;
}

static bool serve_all(struct node *n, const struct epoll_event *ev, int got)
{
	bool rung = false;

	for (int i = 0; i < got; i++)
		rung |= serve(n, &ev[i]);
	links_tend(n, clock_now());
	return rung;
}

static int wait_events(struct node *n, struct epoll_event *ev, uint64_t ns)
{
	const struct timespec limit = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	int got = epoll_pwait2(n->epoll_fd, ev, EVENTS, ns == UINT64_MAX ? NULL : &limit, NULL);

	if (got < 0 && errno == ENOSYS) { /* before Linux 5.11 */
		ns = ns / 1000000 + (ns % 1000000 != 0);
		got = epoll_wait(n->epoll_fd, ev, EVENTS, ns > INT_MAX ? -1 : (int)ns);
	}
	return got;
}

/* Waits on descriptors for at most @ns and serves what came. True: the doorbell was rung. */
static bool epoll_round(struct node *n, uint64_t ns)
{
	struct epoll_event ev[EVENTS];

	return serve_all(n, ev, wait_events(n, ev, ns));
}

/* Where somebody has rung more is to be expected. To look for it a little costs less than to
 * sleep and be woken, and nobody has to ring. A program that polls or leads takes over. */
static void linger(struct node *n)
{
	uint32_t seq = load_relaxed(&n->poll_seq);
	uint64_t now = clock_now(), end = now + LINGER_MAX, until = now + LINGER;

	if (!host_change_mode(n->host, HOST_POLLED, HOST_WATCHED))
		return;
	for (unsigned int looks = 1; now < until && now < end; looks++) {
		if (load_relaxed(&n->led) || load_relaxed(&n->poll_seq) != seq)
			break;
		if (host_has_inbound(n->host)) {
			loop_work(n);
			until = now + LINGER;
		} else if (looks % LOOKS) {
			cpu_relax();
		} else {
			sched_yield(); /* who is to send it may need this very CPU */
		}
		now = clock_now();
	}
	host_change_mode(n->host, HOST_WATCHED, HOST_POLLED);
	full_fence(); /* pairs with contact_wake(): it sees the mode, or we its record */
	loop_work(n);
}

/* The program polls. But a sender whose request needs no program at the other end rings all the
 * same (peers/shm.c): it may spin on its memory. */
static void doze(struct node *n, uint64_t ns)
{
	uint64_t now = clock_now(), acks = acks_deadline(n);
	struct epoll_event ev[EVENTS];
	int got;

	if (unlikely(acks < now + ns))
		ns = acks > now ? acks - now : 0;
	got = wait_events(n, ev, ns);
	links_watch(n, network_work(n));
	if (!serve_all(n, ev, got)) {
		if (unlikely(acks_deadline(n) <= clock_now()))
			loop_work(n);
		return;
	}
	loop_work(n);
	linger(n);
}

/* Nobody polls: sleep until there is a reason. */
static void armed(struct node *n)
{
	bool rung = false;

	loop_work(n);
	links_watch(n, true);
	store_relaxed(&n->asleep, LOOP_ARMED);
	host_change_mode(n->host, HOST_POLLED, HOST_ARMED);
	/* Before the last look: senders store their segment, fence, and read the mode; a leader
	 * sets n->led, fences, and reads n->asleep. */
	full_fence();
	if (!load_relaxed(&n->led))
		rung = epoll_round(n, backlog_any(n) || host_has_inbound(n->host) ? 0 : timeout(n));
	store_relaxed(&n->asleep, LOOP_AWAKE);
	links_watch(n, false);
	network_work(n);
	if (!host_change_mode(n->host, HOST_ARMED, HOST_POLLED))
		return; /* the mode is a leader's now */
	guard_recheck();
	loop_work(n);
	if (rung)
		linger(n);
}

/* A leader sits in the doorbell: stay out of its way, but be back when it has gone. Descriptors
 * other than the doorbell and deadlines are served from here. */
static void under_leader(struct node *n)
{
	uint64_t nap = 1, limit;

	doorbell_watch(n, false);
	while (load_acquire(&n->led)) {
		uint32_t seq = load_relaxed(&n->led_seq);

		store_relaxed(&n->asleep, nap < NAP_LONG_MS ? LOOP_NAPPING : LOOP_UNDER_LEADER);
		full_fence(); /* before the last look; pairs with leader_end() */
		limit = timeout(n);
		if (nap <= LED_MAX_MS && limit > nap * 1000000)
			limit = nap * 1000000;
		links_watch(n, true);
		if (load_relaxed(&n->led) && !backlog_any(n))
			epoll_round(n, limit);
		store_relaxed(&n->asleep, LOOP_AWAKE);
		network_work(n);
		/* a contact that came up just now may have brought what the leader was woken for
		 * before */
		if (timers_next(n) <= clock_now() || backlog_any(n) || unanswered_any(n) ||
		    host_has_inbound(n->host))
			loop_work(n);
		nap = load_relaxed(&n->led_seq) == seq ? nap * 2 : 1;
		if (nap > 2 * LED_MAX_MS)
			nap = 2 * LED_MAX_MS;
	}
	doorbell_watch(n, true);
	links_watch(n, false);
}

static void *run(void *arg)
{
	struct node *n = arg;
	uint32_t seen = load_relaxed(&n->poll_seq);
	uint64_t nap = NAP_MIN;
	unsigned int misses = 2;

	for (;;) {
		uint32_t seq;

		if (load_acquire(&n->led)) {
			under_leader(n);
			misses = 0;
			continue;
		}
		seq = load_relaxed(&n->poll_seq);
		if (seq != seen) {
			nap = misses ? NAP_MIN : nap < NAP_MAX ? nap * 2 : NAP_MAX;
			misses = 0;
		} else if (++misses >= 2) {
			armed(n);
			continue;
		}
		seen = seq;
		doze(n, nap);
	}
	return NULL;
}

/* M31: the inherited affinity may be a single CPU that the creator pinned itself to. */
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
	own_affinity();
	syscall(SYS_sched_setattr, 0, &attr, 0); /* an old kernel ignores it */
	quiesce_enter(); /* makes this thread's slot */
	quiesce_exit();
	sem_post(&start->up); /* and *start is gone */
	return run(n);
}

/* Waits until the thread is up: a fork() right behind the call finds it past what a thread that
 * starts takes of the allocator's and of a sanitizer's locks, which a child would never get. */
int loop_start(struct node *n)
{
	struct start start = { .n = n };
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	if (n->started)
		return 0;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 << 10);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	sem_init(&start.up, 0, 0);
	err = pthread_create(&thread, &attr, thread_main, &start);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		return refuse(err,
			      "the engine thread could not be started: error %d; raise the limit "
			      "of processes (ulimit -u)",
			      err);
	while (sem_wait(&start.up)) /* EINTR */
		;
	sem_destroy(&start.up);
	n->started = true;
	return 0;
}
