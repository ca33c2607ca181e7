// SPDX-License-Identifier: MIT
#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "link/fault_live.h"
#include "test.h"
#include "util/clock.h"
#include "util/fork.h"
#include "util/guard.h"

enum { N = 20000, DELAYED_MAX = 4096 /* of a destination */ };

/* The wrapped link: it keeps the PSNs that come through. */
static struct {
	uint32_t psn[3 * N];
	unsigned int n, puts, damaged;
	uint32_t flags;
} sink;

static int sink_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	(void)d;
	(void)w;
	sink.flags |= s->flags;
	sink.psn[sink.n++] = s->damaged ? UINT32_MAX : s->psn;
	sink.damaged += s->damaged;
	return 0;
}

static void sink_put(struct dest *d)
{
	(void)d;
	sink.puts++;
}

static const struct link_ops sink_ops = { .name = "sink", .send = sink_send, .put = sink_put };
static struct dest inner = {
	.ops = &sink_ops, .refs = 1, .max_seg = 16384, .max_ref = 1 << 20, .same_host = true
};

static void send_n(struct dest *d, uint32_t n)
{
	uint8_t bytes[200] = { 1, 2, 3 };

	for (uint32_t i = 0; i < n; i++) {
		struct seg s = { .op = 4,
				 .pkey = 0xffff,
				 .dqpn = 7,
				 .psn = i,
				 .npsn = 1,
				 .len = i % 200,
				 .data = bytes };

		check_eq(dest_send(d, &s, NULL), 0);
	}
}

/* What comes out of @text's faults. */
static struct fault_counts through(const char *text, uint32_t n)
{
	struct fault_counts before, after;
	struct fault_config cfg;
	struct dest *d;

	memset(&sink, 0, sizeof(sink));
	check_eq(fault_parse(text, &cfg), 0);
	fault_count(&before);
	check_eq(fault_wrap(&inner, &cfg, &d), 0);
	check(!d->same_host && !d->max_ref && d->max_seg <= 4096);
	send_n(d, n);
	while (fault_deadline() != UINT64_MAX)
		fault_progress();
	fault_count(&after);
	d->ops->put(d);
	check_eq(sink.puts, 1);
	for (unsigned int i = 0; i < sizeof(after) / 8; i++)
		((uint64_t *)&after)[i] -= ((const uint64_t *)&before)[i];
	return after;
}

TEST(settings_are_parsed_and_nonsense_is_refused)
{
	static const char *const bad[] = { "loss",	     "loss=",	    "loss=2",
					   "loss=-1",	     "loss=101%",   "x=1",
					   "loss=1%;dup=1%", "delay=5",	    "delay=-1us",
					   "seed=x",	     "loss=1%,",    ",",
					   "loss=nan",	     "delay=nanus", "qp=",
					   "qp=0x1000000",   "psn=5-",	    "psn=16777216",
					   "count=x",	     "loss=0x1p-3", "delay= 5us",
					   "loss=.",	     "loss=1e",	    "loss=1.2.3" };
	struct fault_config c;

	check_eq(fault_parse("loss=1%,dup=0.1%,delay=50us,reorder=0.002,corrupt=100%,seed=9", &c),
		 0);
	check(c.loss > 0.0099 && c.loss < 0.0101 && c.dup > 0.0009 && c.dup < 0.0011);
	check(c.reorder > 0.0019 && c.reorder < 0.0021);
	check(c.corrupt >= 1 && c.corrupt <= 1);
	check_eq(c.delay, 50000);
	check_eq(c.seed, 9);
	check_eq(fault_parse("qp=0x412,psn=16777215-3,count=2", &c), 0);
	check(c.qp == 0x412 && c.only_psn && c.psn == 0xffffff && c.psn_last == 3 && c.count == 2);
	check_eq(fault_parse("loss=1e-4,dup=.5,delay=2.5e1us", &c), 0);
	check(c.loss > 0.000099 && c.loss < 0.000101 && c.dup > 0.49 && c.dup < 0.51);
	check_eq(c.delay, 25000);
	check_eq(fault_parse("psn=7", &c), 0);
	check(!c.qp && c.only_psn && c.psn == 7 && c.psn_last == 7);
	check_eq(fault_parse("", &c), 0);
	check(!c.only_psn);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_eq(fault_parse(bad[i], &c), EINVAL);
}

static void says(const char *text, const char *want)
{
	char why[192];

	check(fault_wrong(text, why, sizeof(why)));
	check_str(why, want);
}

TEST(what_is_mistyped_is_named)
{
	char why[192];

	check(!fault_wrong("loss=1%,seed=7", why, sizeof(why)));
	check(!fault_wrong("", why, sizeof(why)));
	says("loss=1%,dleay=5us", "'dleay' is no setting; is it 'delay'?");
	says("los=1%", "'los' is no setting; is it 'loss'?");
	says("1%", "'1%' is no setting; there are loss, dup, reorder, corrupt, delay, seed, qp, "
		   "psn and count");
	says("delay=5,loss=1%", "'delay=5' has no value that delay takes; one is like loss=1%, "
				"delay=50us, qp=0x412, psn=17-20, count=1");
}

static bool came(uint32_t psn)
{
	for (unsigned int i = 0; i < sink.n; i++)
		if (sink.psn[i] == psn)
			return true;
	return false;
}

/* send_n() sends to QP 7. */
TEST(faults_may_be_for_some_segments_only)
{
	static const struct {
		const char *text;
		uint64_t lost;
		uint32_t first, last; /* of those */
	} rules[] = { { "loss=100%,qp=7", 100, 0, 99 },
		      { "loss=100%,qp=8", 0, 1, 0 },
		      { "loss=100%,psn=17", 1, 17, 17 },
		      { "loss=100%,psn=17-20", 4, 17, 20 },
		      { "loss=100%,psn=0xfffffe-1", 2, 0, 1 },
		      { "loss=100%,qp=7,psn=30-90,count=3", 3, 30, 32 },
		      { "corrupt=100%,qp=7,psn=5", 0, 5, 5 } };

	for (unsigned int i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct fault_counts c = through(rules[i].text, 100);

		check_eq(c.lost, rules[i].lost);
		for (uint32_t psn = 0; psn < 100; psn++)
			check_eq(came(psn), psn < rules[i].first || psn > rules[i].last);
	}
}

TEST(faults_change_while_segments_go)
{
	static const struct {
		const char *text;
		unsigned int come;
	} steps[] = { { "loss=100%", 0 },	  { "seed=2", 10 },   { "loss=100%,count=4", 6 },
		      { "loss=100%,count=4", 6 }, { "nonsense", 10 }, { "loss=100%,qp=8", 10 } };
	struct fault_config cfg = { 0 };
	struct dest *d;

	check_eq(fault_live_write(getpid(), "loss=100%"), ENOENT);
	fault_live_start();
	memset(&sink, 0, sizeof(sink));
	check_eq(fault_wrap(&inner, &cfg, &d), 0);
	send_n(d, 10);
	check_eq(sink.n, 10);
	for (unsigned int i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		check_eq(fault_live_write(getpid(), steps[i].text), 0);
		sink.n = 0;
		send_n(d, 10);
		check_eq(sink.n, steps[i].come);
	}
	check_eq(fault_live_write(getpid(), ""), 0);
	d->ops->put(d);
}

/* It has no page of its own yet, and its parent's is not taken for one. */
TEST(a_forked_child_does_not_have_its_parents_page)
{
	char byte = 0;
	int ends[2];
	pid_t child;

	fault_live_start();
	check_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	fault_fork_begin();
	child = fork();
	fault_fork_end(!child);
	if (!child) {
		close(ends[1]);
		_exit(write(ends[0], &byte, 1) == 1 && !read(ends[0], &byte, 1) ? 0 : 1);
	}
	close(ends[0]);
	check_eq(read(ends[1], &byte, 1), 1);
	check_eq(fault_live_write(child, "loss=100%"), ENOENT);
	close(ends[1]);
	check_eq(waitpid(child, NULL, 0), child);
}

TEST(without_faults_everything_comes_through_by_value)
{
	through("seed=1", N);
	check_eq(sink.n, N);
	for (uint32_t i = 0; i < N; i++)
		check_eq(sink.psn[i], i);
	check(sink.flags & SEG_NO_REF);
}

TEST(loss_and_doubling_happen_as_often_as_asked)
{
	struct fault_counts c = through("loss=10%,dup=5%,seed=3", N);

	check(c.lost > N / 12 && c.lost < N / 8);
	check(c.doubled > N / 28 && c.doubled < N / 17);
	check_eq(sink.n, N - c.lost + c.doubled);
}

TEST(damage_is_always_noticed_by_the_icrc)
{
	struct fault_counts c = through("corrupt=50%,seed=4", N);

	check(c.damaged > N * 2 / 5);
	check_eq(c.undetected, 0);
	check_eq(sink.n, N);
	check_eq(sink.damaged, c.damaged);
}

static void reordered(const char *text)
{
	static uint8_t seen[N];
	struct fault_counts c = through(text, N);
	unsigned int moved = 0;

	memset(seen, 0, sizeof(seen));
	check_eq(sink.n, N);
	check(c.reordered);
	for (uint32_t i = 0; i < N; i++) {
		check(!seen[sink.psn[i]]++);
		moved += i && sink.psn[i] < sink.psn[i - 1];
	}
	check(moved);
}

TEST(reordering_moves_and_loses_nothing)
{
	reordered("reorder=1%,seed=5");
	reordered("reorder=1%,seed=5,delay=50us");
}

TEST(delay_holds_back_until_the_time_and_keeps_the_order)
{
	struct fault_config cfg = { .delay = 20000000, .seed = 1 };
	uint64_t start = clock_now();
	struct dest *d;

	memset(&sink, 0, sizeof(sink));
	check_eq(fault_wrap(&inner, &cfg, &d), 0);
	send_n(d, 100);
	check_eq(sink.n, 0);
	check(fault_deadline() >= start + cfg.delay);
	while (fault_deadline() != UINT64_MAX)
		fault_progress();
	check(clock_now() - start >= cfg.delay);
	check_eq(sink.n, 100);
	for (uint32_t i = 0; i < 100; i++)
		check_eq(sink.psn[i], i);
	d->ops->put(d);
}

/* A datagram's destination lives as long as its post. */
TEST(what_is_delayed_leaves_though_its_destination_was_put)
{
	struct fault_config cfg = { .delay = 1000000, .seed = 1 };
	struct dest *d;

	memset(&sink, 0, sizeof(sink));
	check_eq(fault_wrap(&inner, &cfg, &d), 0);
	send_n(d, 10);
	d->ops->put(d);
	check_eq(sink.puts, 0);
	while (fault_deadline() != UINT64_MAX)
		fault_progress();
	check_eq(sink.n, 10);
	check_eq(sink.puts, 1);
}

static bool has_room;
static struct waiter *waits;

static int send_if_room(struct dest *d, const struct seg *s, struct waiter *w)
{
	waits = has_room ? NULL : w;
	return has_room ? sink_send(d, s, w) : EAGAIN;
}

static struct dest *delayed(struct dest *to, uint32_t psn)
{
	struct seg s = { .op = 100, .pkey = 0xffff, .psn = psn, .npsn = 1 };
	struct fault_config cfg;
	struct dest *d;

	check_eq(fault_parse("delay=1us", &cfg), 0);
	check_eq(fault_wrap(to, &cfg, &d), 0);
	check_eq(dest_send(d, &s, NULL), 0);
	return d;
}

/* The first of a full queue leaves early, or its link has no room for it and the sender waits
 * there: nothing is lost, nothing overtakes. */
TEST(a_queue_that_is_full_makes_room_or_waits)
{
	static const struct link_ops ops = { .name = "full",
					     .send = send_if_room,
					     .put = sink_put };
	struct dest to = { .ops = &ops, .refs = 1, .max_seg = 4096 }, *d;
	struct fault_config cfg = { .delay = 20000000, .seed = 1 };
	struct seg s = { .op = 100, .pkey = 0xffff, .psn = DELAYED_MAX, .npsn = 1 };
	struct waiter w = { .resume = NULL };

	memset(&sink, 0, sizeof(sink));
	has_room = false;
	check_eq(fault_wrap(&to, &cfg, &d), 0);
	send_n(d, DELAYED_MAX);
	waits = NULL;
	check_eq(dest_send(d, &s, &w), EAGAIN);
	check(waits == &w);
	check_eq(sink.n, 0);
	has_room = true;
	check_eq(dest_send(d, &s, &w), 0);
	check_eq(sink.n, 1);
	while (fault_deadline() != UINT64_MAX)
		fault_progress();
	check_eq(sink.n, DELAYED_MAX + 1);
	for (uint32_t i = 0; i <= DELAYED_MAX; i++)
		check_eq(sink.psn[i], i);
	d->ops->put(d);
}

/* Each has a way of its own. The first has found no room and waits; the others become due. */
TEST(datagrams_do_not_overtake_one_that_found_no_room)
{
	static const struct link_ops ops = { .name = "full",
					     .send = send_if_room,
					     .put = sink_put };
	struct dest to = { .ops = &ops, .refs = 1, .max_seg = 4096 }, *d[3];

	memset(&sink, 0, sizeof(sink));
	has_room = false;
	d[0] = delayed(&to, 0);
	while (fault_deadline() <= clock_now() + 1000) /* until it was tried */
		fault_progress();
	has_room = true;
	d[1] = delayed(&to, 1);
	d[2] = delayed(&to, 2);
	while (fault_deadline() != UINT64_MAX)
		fault_progress();
	check_eq(sink.n, 3);
	for (uint32_t i = 0; i < 3; i++) {
		check_eq(sink.psn[i], i);
		d[i]->ops->put(d[i]);
	}
}

TEST(a_seed_makes_the_same_faults_again)
{
	static uint32_t first[3 * N];
	struct fault_config cfg = { .loss = 0.2, .dup = 0.2, .seed = 40 };
	struct dest *d;
	unsigned int n = 0;

	for (int run = 0; run < 2; run++) {
		memset(&sink, 0, sizeof(sink));
		check_eq(fault_wrap(&inner, &cfg, &d), 0);
		send_n(d, N);
		d->ops->put(d);
		cfg.seed--; /* the second wrapped destination of a process has the next seed */
		if (run)
			continue;
		n = sink.n;
		memcpy(first, sink.psn, sizeof(first));
	}
	check_eq(sink.n, n);
	check_mem(first, sink.psn, sizeof(first));
}

TEST(direct_access_is_refused)
{
	struct fault_config cfg = { .seed = 1 };
	struct direct_ask ask = { .len = 8 };
	struct dest *d;

	check_eq(fault_wrap(&inner, &cfg, &d), 0);
	check_ne(d->ops->direct(d, &ask), 0);
	d->ops->put(d);
}

TEST(destinations_with_the_same_dice_count_as_one)
{
	struct fault_dice *dice;
	struct fault_config cfg;
	struct dest *a, *b;

	memset(&sink, 0, sizeof(sink));
	check_eq(fault_parse("loss=100%,count=3", &cfg), 0);
	check_eq(fault_dice_make(&cfg, &dice), 0);
	check_eq(fault_wrap_with(&inner, dice, &a), 0);
	check_eq(fault_wrap_with(&inner, dice, &b), 0);
	send_n(a, 2);
	send_n(b, 2);
	a->ops->put(a);
	b->ops->put(b);
	check_eq(sink.n, 1);
	free(dice);
}

RUN_TESTS(unit_test(settings_are_parsed_and_nonsense_is_refused),
	  unit_test(what_is_mistyped_is_named), unit_test(faults_may_be_for_some_segments_only),
	  unit_test(without_faults_everything_comes_through_by_value),
	  unit_test(loss_and_doubling_happen_as_often_as_asked),
	  unit_test(damage_is_always_noticed_by_the_icrc),
	  unit_test(reordering_moves_and_loses_nothing),
	  unit_test(delay_holds_back_until_the_time_and_keeps_the_order),
	  unit_test(a_queue_that_is_full_makes_room_or_waits),
	  unit_test(what_is_delayed_leaves_though_its_destination_was_put),
	  unit_test(datagrams_do_not_overtake_one_that_found_no_room),
	  unit_test(a_seed_makes_the_same_faults_again),
	  unit_test(destinations_with_the_same_dice_count_as_one),
	  unit_test(direct_access_is_refused),
	  /* the last two: they leave their page */
	  unit_test(faults_change_while_segments_go),
	  unit_test(a_forked_child_does_not_have_its_parents_page))
