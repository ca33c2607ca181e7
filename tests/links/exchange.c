// SPDX-License-Identifier: MIT
/* Two processes exchange segments through rings: by value, by reference, with a full ring, by
 * direct access. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "station.h"
#include "util/barrier.h"
#include "util/clock.h"
#include "util/rand.h"

enum { VALUES = 20000, LARGE = 3 << 20, MANY = 200000, EXECUTED = 41 };

static struct seg send_of(const struct station *st, uint32_t to, const struct piece *p, uint16_t n)
{
	struct seg s = { .op = 4,
			 .flags = SEG_SQPN,
			 .pkey = 0xffff,
			 .dqpn = to,
			 .sqpn = station_number(st),
			 .npsn = 1,
			 .npieces = n,
			 .pieces = p };

	for (uint16_t i = 0; i < n; i++)
		s.len += p[i].len;
	return s;
}

/* The payload of message @n: both sides know it. */
static uint32_t pattern(uint32_t n, uint8_t *to)
{
	struct rand r;
	uint32_t len;

	rand_init(&r, n);
	len = (uint32_t)rand_below(&r, n % 50 ? 300 : 16384);
	for (uint32_t i = 0; i < len; i++)
		to[i] = (uint8_t)rand_u64(&r);
	return len;
}

static void check_pattern(struct station *st, const struct seg *s)
{
	static uint8_t want[16384];
	uint64_t *bad = st->arg;

	if (s->psn != st->count || s->len != pattern(s->psn, want) || memcmp(s->data, want, s->len))
		++*bad;
}

static uint64_t met(struct station *st, int talk)
{
	station_open(st);
	child_tell(talk, station_number(st));
	return child_hear(talk);
}

static void send_patterns(struct station *st, uint32_t peer)
{
	static uint8_t buf[16384];
	struct dest *d = station_dest(st, peer);
	struct piece p = { (uintptr_t)buf, 0, 0 };

	for (uint32_t n = 0; n < VALUES; n++) {
		struct seg s;

		p.len = pattern(n, buf);
		s = send_of(st, peer, &p, 1);
		s.psn = n;
		if (station_send(st, d, &s))
			exit(1);
	}
	d->ops->put(d);
}

static int values(int talk, void *arg)
{
	struct station st = { .got = check_pattern };
	uint64_t bad = 0;
	uint32_t peer;

	(void)arg;
	st.arg = &bad;
	peer = (uint32_t)met(&st, talk);
	send_patterns(&st, peer);
	station_until(&st, &st.count, VALUES);
	child_hear(talk);
	station_close(&st);
	return bad ? 1 : 0;
}

/* Both begin at the same time, so the contacts meet half way. */
TEST(values_of_all_sizes_arrive_in_order_both_ways)
{
	struct child c = child_start(values, NULL);
	struct station st = { .got = check_pattern };
	uint64_t bad = 0;
	uint32_t peer;

	st.arg = &bad;
	peer = (uint32_t)met(&st, c.talk);
	send_patterns(&st, peer);
	station_until(&st, &st.count, VALUES);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	check_eq(bad, 0);
	check_eq(st.count, VALUES);
	station_close(&st);
}

enum { LAST_PSN = 7 };

static void check_last(struct station *st, const struct seg *s)
{
	uint64_t *bad = st->arg;

	*bad += s->psn != LAST_PSN;
}

static int one_taker(int talk, void *arg)
{
	struct station st = { .got = check_last };
	uint64_t bad = 0;

	(void)arg;
	st.arg = &bad;
	met(&st, talk);
	station_until(&st, &st.count, 1);
	child_hear(talk);
	station_close(&st);
	return bad || st.count != 1;
}

TEST(a_record_whose_payload_cannot_be_read_is_never_seen)
{
	struct child c = child_start(one_taker, NULL);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *hole = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct station st = { 0 };
	struct piece p = { (uintptr_t)hole, (uint32_t)page, 0 };
	uint8_t byte = 1;
	uint32_t peer = (uint32_t)met(&st, c.talk);
	struct dest *d = station_dest(&st, peer);
	struct seg s = send_of(&st, peer, &p, 1);

	check(hole != MAP_FAILED);
	check_eq(station_send(&st, d, &s), EFAULT);
	p = (struct piece){ (uintptr_t)&byte, 1, 0 };
	s = send_of(&st, peer, &p, 1);
	s.psn = LAST_PSN;
	check_eq(station_send(&st, d, &s), 0);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
	munmap(hole, page);
}

struct fetched {
	uint8_t *into;
	int err;
	uint32_t skip;
};

static void fetch_it(struct station *st, const struct seg *s)
{
	struct fetched *f = st->arg;
	struct piece dst[2] = { { (uintptr_t)f->into, 1000, 0 },
				{ (uintptr_t)f->into + 1000, s->len - f->skip - 1000, 0 } };

	f->err = s->flags & SEG_BYREF ? s->from->ops->fetch(s->from, s, f->skip, dst, 2) : ENOMSG;
}

/* What the other side's page says about us: from the first segment on. */
static int referrer(int talk, void *arg)
{
	uint8_t *buf = aligned_alloc(4096, LARGE);
	struct station st = { 0 };
	struct piece p[3];
	struct dest *d;
	struct seg s;
	uint32_t peer, key;

	(void)arg;
	peer = (uint32_t)met(&st, talk);
	for (uint32_t i = 0; i < LARGE; i++)
		buf[i] = (uint8_t)(i * 7 + i / 256);
	key = station_key(&st, 1, buf, LARGE);
	d = station_dest(&st, peer);
	while (!load_relaxed(&d->max_ref))
		station_turn(&st);
	p[0] = (struct piece){ (uintptr_t)buf, 100, key };
	p[1] = (struct piece){ (uintptr_t)buf + 100, LARGE - 200, key };
	p[2] = (struct piece){ (uintptr_t)buf + LARGE - 100, 100, key };
	s = send_of(&st, peer, p, 3);
	if (station_send(&st, d, &s))
		return 2;
	child_hear(talk);
	station_unkey(&st, 1);
	host_revoke(st.h, key);
	if (station_send(&st, d, &s))
		return 3;
	child_hear(talk);
	return 0;
}

TEST(large_payloads_are_fetched_while_their_key_is_published_and_not_after)
{
	struct child c = child_start(referrer, NULL);
	struct fetched f = { malloc(LARGE), -1, 50 };
	struct station st = { .got = fetch_it, .arg = &f };
	uint32_t wrong = 0;

	met(&st, c.talk);
	station_until(&st, &st.count, 1);
	check_eq(f.err, 0);
	for (uint32_t i = 50; i < LARGE; i++)
		wrong += f.into[i - 50] != (uint8_t)(i * 7 + i / 256);
	check_eq(wrong, 0);
	child_tell(c.talk, 1);
	station_until(&st, &st.count, 2);
	check_eq(f.err, EREMOTEIO);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	station_close(&st);
	free(f.into);
}

/* Takes nothing until it is told to, then enough for its ring to be half free. */
static int slow(int talk, void *arg)
{
	struct station st = { 0 };

	(void)arg;
	met(&st, talk);
	station_until(&st, &st.count, 1);
	child_tell(talk, 1);
	while (child_hear(talk) == 1) {
		station_until(&st, &st.count, st.count + 400);
		host_control(st.h, clock_now()); /* where it offers a larger ring */
	}
	station_until(&st, &st.count, 1 + MANY);
	return st.count == 1 + MANY ? 0 : 1;
}

static uint64_t resumed;

static void resume(struct waiter *w)
{
	(void)w;
	resumed++;
}

/* The largest ring that is mapped, bytes. */
static size_t largest_ring(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[512];
	size_t max = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "softhca-ring") && sscanf(line, "%lx-%lx", &from, &to) == 2 &&
		    to - from > max)
			max = to - from;
	if (f)
		fclose(f);
	return max;
}

/* Fills the ring with copies of @s; returns how many were taken. */
static uint32_t fill_up(struct dest *d, const struct seg *s, struct waiter *w, uint32_t max)
{
	uint32_t n = 0;
	int err = 0;

	while (n < max && !(err = dest_send(d, s, w)))
		n++;
	check(n == max || err == EAGAIN);
	return n;
}

TEST(a_full_ring_resumes_its_waiter_and_grows)
{
	struct child c = child_start(slow, NULL);
	struct waiter w = { .resume = resume };
	struct station st = { 0 };
	char buf[64] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	uint32_t peer = (uint32_t)met(&st, c.talk), sent = 0;
	struct dest *d = station_dest(&st, peer);
	struct seg s = send_of(&st, peer, &p, 1);

	list_init(&w.node);
	check_eq(station_send(&st, d, &s), 0);
	check_eq(child_hear(c.talk), 1);
	for (uint64_t round = 1; largest_ring() <= (64 << 10) + 4096; round++) {
		check(round < 50);
		sent += fill_up(d, &s, &w, MANY);
		check_eq(resumed, round - 1); /* the other side has taken nothing */
		child_tell(c.talk, 1);
		station_until(&st, &resumed, round);
		host_control(st.h, clock_now()); /* where we take it */
	}
	child_tell(c.talk, 0);
	while (sent < MANY) {
		sent += fill_up(d, &s, NULL, MANY - sent);
		station_turn(&st);
	}
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
}

/* Sends one, and another one when it is told to. */
static int sends_two(int talk, void *arg)
{
	struct station st = { 0 };
	uint32_t peer = (uint32_t)met(&st, talk);
	struct dest *d = station_dest(&st, peer);
	struct seg s = send_of(&st, peer, NULL, 0);

	(void)arg;
	for (int i = 0; i < 2; i++) {
		if (station_send(&st, d, &s))
			return 1;
		child_tell(talk, 1);
		child_hear(talk);
	}
	return 0;
}

static void count_others(struct station *st, const struct seg *s)
{
	*(uint64_t *)st->arg += s->sqpn != station_number(st);
}

TEST(what_a_process_sends_to_itself_does_not_keep_the_rings_unread)
{
	enum { BUDGET = 64, CALLS = 2 };
	uint64_t others = 0;
	struct child c = child_start(sends_two, NULL);
	struct station st = { .got = count_others, .arg = &others };
	struct dest *d;
	struct seg s;

	met(&st, c.talk);
	d = station_dest(&st, station_number(&st));
	s = send_of(&st, station_number(&st), NULL, 0);
	station_until(&st, &others, 1);
	check_eq(child_hear(c.talk), 1);
	child_tell(c.talk, 1);
	check_eq(child_hear(c.talk), 1);
	for (int i = 0; i < CALLS; i++) {
		fill_up(d, &s, NULL, MANY);
		check_eq(host_drain(st.h, BUDGET), BUDGET); /* nor is any of it left unused */
	}
	check_eq(others, 2);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
}

/* As slow(), and says after each round whether a larger ring has been offered. */
static int offers(int talk, void *arg)
{
	struct station st = { 0 };

	(void)arg;
	met(&st, talk);
	station_until(&st, &st.count, 1);
	child_tell(talk, 0);
	while (child_hear(talk) == 1) {
		station_until(&st, &st.count, st.count + 400);
		host_control(st.h, clock_now());
		child_tell(talk, st.h->contact[0]->in_next.map != NULL);
	}
	station_until(&st, &st.count, 1 + MANY);
	return st.count == 1 + MANY ? 0 : 1;
}

enum { FDS = 64 };

static void limit_descriptors(rlim_t n)
{
	struct rlimit lim;

	check_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = n;
	check_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
}

static void use_up_descriptors(int *fds)
{
	limit_descriptors(FDS);
	for (int i = 0; i < FDS; i++)
		fds[i] = dup(0);
	check_eq(fds[FDS - 1], -1);
}

static int said = -1, stderr_was;

static void keep_the_log(void)
{
	stderr_was = dup(STDERR_FILENO);
	said = memfd_create("log", MFD_CLOEXEC);
	check_eq(dup2(said, STDERR_FILENO), STDERR_FILENO);
}

/* Also of a test that has failed, before its reason is printed. */
static int log_as_before(void **state)
{
	(void)state;
	if (said < 0)
		return 0;
	dup2(stderr_was, STDERR_FILENO);
	close(stderr_was);
	close(said);
	said = -1;
	return 0;
}

/* How often the log has @text; needs no descriptor. */
static unsigned int logged(const char *text)
{
	static char log[8192];
	ssize_t len = pread(said, log, sizeof(log) - 1, 0);
	unsigned int n = 0;

	check(len >= 0);
	log[len] = 0;
	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	return n;
}

/* And its person is told so, once, with the limit. */
TEST(what_is_offered_to_a_process_without_descriptors_changes_nothing)
{
	struct child c = child_start(offers, NULL);
	struct waiter w = { .resume = resume };
	struct station st = { 0 };
	char buf[64] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	uint32_t peer = (uint32_t)met(&st, c.talk), sent = 0;
	struct dest *d = station_dest(&st, peer);
	struct seg s = send_of(&st, peer, &p, 1);
	struct rlimit before;
	int fds[FDS];

	list_init(&w.node);
	resumed = 0;
	check_eq(station_send(&st, d, &s), 0);
	station_mutual(&st, d);
	check_eq(child_hear(c.talk), 0);
	check_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	keep_the_log();
	use_up_descriptors(fds);
	for (uint64_t round = 1, offered = 0; !offered; round++) {
		check(round < 50);
		sent += fill_up(d, &s, &w, MANY);
		child_tell(c.talk, 1);
		station_until(&st, &resumed, round);
		offered = child_hear(c.talk);
	}
	child_tell(c.talk, 0);
	for (; sent < MANY; station_turn(&st))
		sent += fill_up(d, &s, NULL, MANY - sent);
	while (still(!logged("no descriptor is free")))
		station_turn(&st);
	check_eq(st.deaths, 0);
	for (int i = 0; fds[i] >= 0; i++)
		close(fds[i]);
	limit_descriptors(before.rlim_cur);
	check_eq(logged("(ulimit -n is 64): what other processes offer is not taken"), 1);
	check_eq(logged("no descriptor is free"), 1);
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
}

static int target(int talk, void *arg)
{
	uint64_t *word = arg;
	struct host_qp qp = { .state = IBV_QPS_RTS,
			      .access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
			      .pdn = 7,
			      .flags = HOST_QP_DIRECT };
	struct station st = { 0 };
	struct dest *d;

	qp.peer_qpn = (uint32_t)met(&st, talk);
	d = station_dest(&st, qp.peer_qpn);
	station_until(&st, &st.count, 1); /* one exchange through the ring */
	station_mutual(&st, d);
	station_key(&st, 2, word, 4096);
	host_publish_qp(st.h, station_number(&st), &qp);
	store_release(host_executed(st.h, station_number(&st)), EXECUTED + 1);
	child_tell(talk, (uintptr_t)word);
	child_hear(talk);
	host_publish_qp(st.h, station_number(&st), NULL);
	host_revoke_qp(st.h, station_number(&st));
	child_tell(talk, *word);
	child_hear(talk);
	d->ops->put(d);
	return 0;
}

static struct direct_ask ask_of(const struct station *st, uint32_t to, uint64_t va,
				const struct piece *p)
{
	static struct link_grant grant;

	return (struct direct_ask){ .write = true,
				    .grant = &grant,
				    .sqpn = station_number(st),
				    .dqpn = to,
				    .rkey = 2 << 8 | 0x5a,
				    .va = va,
				    .len = p->len,
				    .pieces = p,
				    .npieces = 1 };
}

/* Each way to ask for what is not allowed. */
static void check_refusals(struct dest *d, const struct direct_ask *good)
{
	struct direct_ask ask = *good;

	ask.va += 4096;
	check_ne(d->ops->direct(d, &ask), 0);
	ask = *good;
	ask.va = UINT64_MAX - 3;
	check_ne(d->ops->direct(d, &ask), 0);
	ask = *good;
	ask.rkey++;
	check_ne(d->ops->direct(d, &ask), 0);
	ask = *good;
	ask.sqpn++;
	check_ne(d->ops->direct(d, &ask), 0);
	ask = *good;
	ask.dqpn++;
	check_ne(d->ops->direct(d, &ask), 0);
}

TEST(direct_access_is_done_only_as_the_published_entries_allow)
{
	uint64_t *word =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct child c = child_start(target, word);
	uint64_t mine = 0x1122334455667788, back = 0, va;
	struct piece p = { (uintptr_t)&mine, 8, 0 }, q = { (uintptr_t)&back, 8, 0 };
	struct station st = { 0 };
	struct direct_ask ask;
	struct dest *d;
	struct seg s;
	uint32_t peer = (uint32_t)met(&st, c.talk);

	d = station_dest(&st, peer);
	s = send_of(&st, peer, &p, 1);
	check_eq(station_send(&st, d, &s), 0);
	station_mutual(&st, d);
	va = child_hear(c.talk);
	ask = ask_of(&st, peer, va, &p);
	check_eq(d->ops->direct(d, &ask), 0);
	ask = ask_of(&st, peer, va, &q);
	ask.write = false;
	check_eq(d->ops->direct(d, &ask), 0);
	check_eq(back, mine);
	check_ne(d->ops->direct(d, &ask), 0); /* nothing is left of it */
	ask.done = 0;
	check_refusals(d, &ask);
	ask.unanswered = true;
	ask.psn = EXECUTED - 1;
	check_ne(d->ops->direct(d, &ask), 0);
	ask.psn = EXECUTED;
	check_eq(d->ops->direct(d, &ask), 0);
	ask.done = 0;
	child_tell(c.talk, 1);
	check_eq(child_hear(c.talk), mine);
	ask.done = 0;
	check_ne(d->ops->direct(d, &ask), 0);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
	munmap(word, 4096);
}

TEST(a_slot_that_nobody_has_is_unreachable)
{
	struct station st = { 0 };
	struct piece p = { 0 };
	struct dest *d;
	struct seg s;

	station_open(&st);
	d = station_dest(&st, ((st.slot + 500) % 1024) << 14);
	s = send_of(&st, 0, &p, 0);
	check_eq(station_send(&st, d, &s), ENETUNREACH);
	check(d->dead);
	d->ops->put(d);
	station_close(&st);
}

/* Listens nowhere: only its name shows what it runs. */
static int of_another_version(unsigned int slot)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "softhca.99.all.slot.%u",
			 slot);

	check(fd >= 0);
	check_eq(bind(fd, (struct sockaddr *)&name,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
		 0);
	return fd;
}

TEST(a_process_of_another_version_is_remembered_when_it_has_ended)
{
	struct link_silence l = { 0 };
	struct station st = { 0 };
	struct piece p = { 0 };
	unsigned int slot;
	struct dest *d;
	struct seg s;
	int fd;

	station_open(&st);
	slot = (st.slot + 500) % 1024;
	fd = of_another_version(slot);
	d = station_dest(&st, slot << 14);
	s = send_of(&st, 0, &p, 0);
	check_eq(station_send(&st, d, &s), ENETUNREACH);
	close(fd);
	d->ops->silence(d, &l);
	check_eq(l.unreached, ECONNREFUSED);
	check_eq(l.layout, 99);
	d->ops->put(d);
	station_close(&st);
}

/* The first one is alone in having the handler of faults that it came to: cmocka sets its own. */
RUN_TESTS(unit_test(a_record_whose_payload_cannot_be_read_is_never_seen),
	  unit_test(values_of_all_sizes_arrive_in_order_both_ways),
	  unit_test(large_payloads_are_fetched_while_their_key_is_published_and_not_after),
	  unit_test(a_full_ring_resumes_its_waiter_and_grows),
	  unit_test(what_a_process_sends_to_itself_does_not_keep_the_rings_unread),
	  cmocka_unit_test_teardown(
		  what_is_offered_to_a_process_without_descriptors_changes_nothing, log_as_before),
	  unit_test(direct_access_is_done_only_as_the_published_entries_allow),
	  unit_test(a_slot_that_nobody_has_is_unreachable),
	  unit_test(a_process_of_another_version_is_remembered_when_it_has_ended))
