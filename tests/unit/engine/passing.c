// SPDX-License-Identifier: MIT
/* Packets for another process of the host, whose destination has no room for a while. */
#include "engine/passing.h"
#include <errno.h>
#include <stdlib.h>
#include "test.h"

enum { SENT = 4096, LEN = 1024 };

static struct {
	struct dest d;
	int refuse; /* what it answers */
	unsigned int room; /* then: segments that it takes before */
	unsigned int meanwhile; /* room that there is while send() still has the waiter */
	struct waiter *waits;
	uint32_t psn[SENT];
	unsigned int sent;
} peer;

static struct node node;
static uint8_t payload[LEN];

static int take(struct dest *d, const struct seg *s, struct waiter *w);

/* As a link does that has put @w on its list: there is room now, and another thread calls @w. The
 * link looks at @w then, and if @w is on the list again, sends @s. */
static int look_again(struct dest *d, const struct seg *s, struct waiter *w)
{
	peer.waits = NULL;
	peer.room = peer.meanwhile;
	peer.meanwhile = 0;
	w->resume(w);
	check_eq(d->refs, 2);
	check(list_empty(&w->node));
	if (!peer.waits)
		return EAGAIN;
	peer.waits = NULL;
	peer.room = 1;
	return take(d, s, w);
}

static int take(struct dest *d, const struct seg *s, struct waiter *w)
{
	check(d == &peer.d);
	if (peer.refuse && !peer.room) {
		if (peer.refuse == EAGAIN && w)
			peer.waits = w;
		return w && peer.meanwhile ? look_again(d, s, w) : peer.refuse;
	}
	peer.room -= peer.room != 0;
	check_eq(s->data[0], (uint8_t)s->psn);
	peer.psn[peer.sent++] = s->psn;
	return 0;
}

static void put(struct dest *d)
{
	d->refs--;
}

static void begin(void)
{
	static const struct link_ops ops = { .name = "test", .send = take, .put = put };

	memset(&peer, 0, sizeof(peer));
	memset(&node, 0, sizeof(node));
	peer.d = (struct dest){ .ops = &ops, .refs = 1, .same_host = true };
}

static void pass(uint32_t psn)
{
	struct seg s = { .psn = psn, .data = payload, .len = LEN };

	payload[0] = (uint8_t)psn;
	peer.d.refs++;
	passing_send(&node, &peer.d, &s);
}

/* There is room for @room segments, or for all; the link calls whoever waits. */
static void make_room(int refuse, unsigned int room)
{
	struct waiter *w = peer.waits;

	peer.refuse = refuse;
	peer.room = room;
	peer.waits = NULL;
	if (w)
		w->resume(w);
}

static void check_sent(unsigned int n)
{
	check_eq(peer.sent, n);
	for (unsigned int i = 0; i < n; i++)
		check_eq(peer.psn[i], i);
}

/* Nothing is left, and nobody waits. */
static void end(void)
{
	check(!peer.waits);
	check(!node.passing.all);
	check_eq(node.passing.bytes, 0);
	check_eq(peer.d.refs, 1);
}

TEST(with_room_a_packet_goes_at_once)
{
	begin();
	pass(0);
	pass(1);
	check_sent(2);
	end();
}

TEST(packets_wait_in_their_order)
{
	begin();
	peer.refuse = EAGAIN;
	for (uint32_t psn = 0; psn < 4; psn++)
		pass(psn);
	check_sent(0);
	check_eq(peer.d.refs, 2);
	make_room(EAGAIN, 2);
	check_sent(2);
	pass(4); /* behind the others, though there would be room */
	peer.room = 1;
	pass(5);
	check_sent(2);
	make_room(0, 0);
	check_sent(6);
	end();
}

/* The link calls the waiter in one thread while send() still uses it in another one. */
TEST(nothing_is_lost_that_a_send_still_uses)
{
	begin();
	peer.refuse = EAGAIN;
	peer.meanwhile = 2;
	pass(0);
	check_sent(1);
	end();
}

TEST(two_threads_send_no_packet_twice)
{
	begin();
	peer.refuse = EAGAIN;
	for (uint32_t psn = 0; psn < 4; psn++)
		pass(psn);
	peer.meanwhile = 1;
	make_room(EAGAIN, 0);
	check_sent(1);
	check(peer.waits);
	make_room(0, 0);
	check_sent(4);
	end();
}

TEST(of_a_process_that_has_ended_nothing_is_kept)
{
	begin();
	peer.refuse = EAGAIN;
	pass(0);
	pass(1);
	make_room(ENETUNREACH, 0);
	check_sent(0);
	end();
	pass(2);
	end();
}

TEST(what_is_kept_has_an_end)
{
	unsigned int most = PASSING_BYTES / LEN;

	begin();
	peer.refuse = EAGAIN;
	for (uint32_t psn = 0; psn < 2 * most; psn++)
		pass(psn);
	check(node.passing.bytes <= PASSING_BYTES + LEN);
	make_room(0, 0);
	check(peer.sent > most / 2 && peer.sent <= most);
	check_sent(peer.sent);
	end();
}

RUN_TESTS(unit_test(with_room_a_packet_goes_at_once), unit_test(packets_wait_in_their_order),
	  unit_test(nothing_is_lost_that_a_send_still_uses),
	  unit_test(two_threads_send_no_packet_twice),
	  unit_test(of_a_process_that_has_ended_nothing_is_kept),
	  unit_test(what_is_kept_has_an_end))
