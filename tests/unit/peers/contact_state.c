// SPDX-License-Identifier: MIT
#include "peers/contact_state.h"
#include "test.h"

static const struct contact_facts nothing;

TEST(what_is_not_awaited_is_refused)
{
	static const struct {
		enum contact_state state;
		uint32_t kind;
	} awaited[] = {
		{ CONTACT_CAME, CONTACT_HELLO },  { CONTACT_ASKED, CONTACT_WELCOME },
		{ CONTACT_ASKED, CONTACT_ALIAS }, { CONTACT_WELCOMED, CONTACT_READY },
		{ CONTACT_UP, CONTACT_RING },	  { CONTACT_UP, CONTACT_FETCHES },
		{ CONTACT_UP, CONTACT_SHARE },	  { CONTACT_UP, CONTACT_SHARED },
		{ CONTACT_UP, CONTACT_UNSHARE },  { CONTACT_CAME, CONTACT_YIELD },
		{ CONTACT_ASKED, CONTACT_YIELD }, { CONTACT_WELCOMED, CONTACT_YIELD },
		{ CONTACT_UP, CONTACT_YIELD },	  { CONTACT_CAME, CONTACT_SHOW },
		{ CONTACT_UP, CONTACT_RUNG },	  { CONTACT_CAME, CONTACT_CLAIM },
	};

	for (int state = 0; state < CONTACT_STATES; state++)
		for (uint32_t kind = 0; kind < CONTACT_CLAIMED + 3; kind++) {
			struct contact_move m = contact_move(state, kind, &nothing);
			bool found = false;

			for (size_t i = 0; i < sizeof(awaited) / sizeof(awaited[0]); i++)
				found |= (int)awaited[i].state == state && awaited[i].kind == kind;
			check_eq(m.step != CONTACT_DO_REFUSE, found);
			check(found || (int)m.next == state);
		}
	check_eq(contact_move(CONTACT_UP, UINT32_MAX, &nothing).step, CONTACT_DO_REFUSE);
}

TEST(a_known_process_gets_no_second_contact)
{
	static const struct contact_facts known = { .known = true, .asking = true, .first = true };

	check_eq(contact_move(CONTACT_CAME, CONTACT_HELLO, &known).step, CONTACT_DO_ALIAS);
	check_eq(contact_move(CONTACT_CAME, CONTACT_HELLO, &known).next, CONTACT_CAME);
	check_eq(contact_move(CONTACT_ASKED, CONTACT_WELCOME, &known).step, CONTACT_DO_LEAVE);
}

/* --- two processes, with a connection that each has asked for, and messages on their way --- */

enum { MAIL = 4 };

struct end {
	enum contact_state state;
	bool open;
	uint32_t mail[MAIL]; /* kinds that are on their way to this end */
	unsigned int n;
};

struct world {
	struct end end[2][2]; /* connection, process: connection 0 is asked for by process 0 */
};

static unsigned int outcomes;

static void say(struct world *w, int conn, int to, uint32_t kind)
{
	struct end *e = &w->end[conn][to];

	check(e->n < MAIL);
	e->mail[e->n++] = kind;
}

static bool listed(const struct end *e)
{
	return e->open && (e->state == CONTACT_WELCOMED || e->state == CONTACT_UP);
}

/* One message is read, or, when there is none, that the other end has closed. */
static void hear(struct world *w, int conn, int who)
{
	struct end *e = &w->end[conn][who], *mine = &w->end[who][who];
	struct contact_facts f = { .known = listed(&w->end[!conn][who]),
				   .asking = mine->open && mine->state == CONTACT_ASKED,
				   .first = who == 0 };
	struct contact_move m;

	if (!e->n) {
		e->open = false;
		return;
	}
	m = contact_move(e->state, e->mail[0], &f);
	memmove(e->mail, e->mail + 1, --e->n * sizeof(e->mail[0]));
	e->state = m.next;
	switch (m.step) {
	case CONTACT_DO_WELCOME:
		if (f.asking)
			mine->open = false;
		say(w, conn, !who, CONTACT_WELCOME);
		return;
	case CONTACT_DO_READY:
		say(w, conn, !who, CONTACT_READY);
		return;
	case CONTACT_DO_COMPLETE:
		return;
	case CONTACT_DO_ALIAS:
	case CONTACT_DO_YIELD:
		say(w, conn, !who, m.step == CONTACT_DO_ALIAS ? CONTACT_ALIAS : CONTACT_YIELD);
		break;
	default:
		check_ne(m.step, CONTACT_DO_REFUSE);
	}
	e->open = false;
}

static bool is_up(const struct world *w, int conn)
{
	return listed(&w->end[conn][0]) && w->end[conn][0].state == CONTACT_UP &&
	       listed(&w->end[conn][1]) && w->end[conn][1].state == CONTACT_UP;
}

/* Every order in which the messages can be read. */
static void all_orders(const struct world *w)
{
	bool over = true;

	for (int i = 0; i < 4; i++) {
		int conn = i / 2, who = i % 2;
		const struct end *e = &w->end[conn][who];
		struct world next = *w;

		if (!e->open || (!e->n && w->end[conn][!who].open))
			continue;
		over = false;
		hear(&next, conn, who);
		all_orders(&next);
	}
	if (!over)
		return;
	outcomes++;
	check_eq(is_up(w, 0) + is_up(w, 1), 1);
	for (int conn = 0; conn < 2; conn++)
		check(is_up(w, conn) || (!w->end[conn][0].open && !w->end[conn][1].open));
}

static void ask(struct world *w, int who)
{
	w->end[who][who] = (struct end){ .state = CONTACT_ASKED, .open = true };
	w->end[who][!who] = (struct end){ .state = CONTACT_CAME, .open = true };
	say(w, who, !who, CONTACT_HELLO);
}

TEST(who_asks_alone_gets_one_contact)
{
	for (int who = 0; who < 2; who++) {
		struct world w = { 0 };

		outcomes = 0;
		ask(&w, who);
		all_orders(&w);
		check_eq(outcomes, 1);
	}
}

TEST(two_that_ask_each_other_get_one_contact_in_every_order)
{
	struct world w = { 0 };

	outcomes = 0;
	ask(&w, 0);
	ask(&w, 1);
	all_orders(&w);
	check_eq(outcomes, 5);
}

RUN_TESTS(unit_test(what_is_not_awaited_is_refused),
	  unit_test(a_known_process_gets_no_second_contact),
	  unit_test(who_asks_alone_gets_one_contact),
	  unit_test(two_that_ask_each_other_get_one_contact_in_every_order))
