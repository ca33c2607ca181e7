// SPDX-License-Identifier: MIT
#include "attacks/speaker.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "hca/key_table.h"
#include "peers/contact_talk.h"
#include "peers/host_names.h"
#include "peers/ring_seg.h"
#include "util/sealed.h"
#include "verbs/cases.h"

enum { PATIENCE_MS = 60000, PRESENTED = 4 };

static void made(int err, const char *what)
{
	errno = err;
	if (err)
		die(what);
}

static struct contact_message message(const struct speaker *x, uint32_t kind, unsigned int mine)
{
	return (struct contact_message){ .kind = kind,
					 .slot = mine,
					 .cookie = x->page->cookie,
					 .cookie_addr = (uintptr_t)&x->page->cookie,
					 .gen = x->page->gen,
					 .n_keys = SPEAKER_KEYS,
					 .key_bytes = SPEAKER_KEYS * sizeof(struct key_entry),
					 .ring_size = RING_MIN,
					 .offers = 1,
					 .trusts = 1,
					 .secret_addr = (uintptr_t)&x->page->cookie,
					 .nonce = 1,
					 .echo = x->welcome.nonce,
					 /* what it would have to read at welcome.secret_addr */
					 .proof = x->welcome.cookie };
}

static void hello(struct speaker *x, unsigned int mine)
{
	int fds[PRESENTED];
	struct contact_message m;
	struct host_layout l;
	void *map;

	host_layout(SPEAKER_KEYS, SPEAKER_KEYS * sizeof(struct key_entry), &l);
	made(sealed_make("page", HOST_PAGE_BYTES, SEALED_SPARSE, &fds[0], &map), "page");
	x->page = map;
	x->page->cookie = UINT64_C(0x6174746163736b65) + (uint64_t)getpid();
	x->page->gen = 1;
	made(sealed_make("ring", RING_CTL + RING_MIN, SEALED_SPARSE, &fds[1], &map), "ring");
	made(sealed_make("mail", HOST_MAIL_BYTES, SEALED_SPARSE, &fds[2], &map), "mail");
	made(sealed_make("tables", l.bytes, SEALED_SPARSE, &fds[3], &map), "tables");
	m = message(x, CONTACT_HELLO, mine);
	made(contact_talk_send(x->conn, &m, fds, PRESENTED), "HELLO");
	contact_talk_close(fds, PRESENTED);
}

uint32_t speaker_hear(struct speaker *x, struct contact_message *m, int ms)
{
	struct pollfd p = { .fd = x->conn, .events = POLLIN };
	unsigned int n = CONTACT_FDS;
	int fds[CONTACT_FDS];

	if (poll(&p, 1, ms) != 1)
		return 0;
	made(contact_talk_receive(x->conn, m, fds, &n, NULL), "the victim's message");
	for (unsigned int i = 0; i < n && x->n_fds < SPEAKER_FDS; i++)
		x->fd[x->n_fds++] = fds[i];
	return m->kind;
}

/* WELCOME: page, ring, mail page, tables. */
static void welcomed(struct speaker *x)
{
	want_eq(speaker_hear(x, &x->welcome, PATIENCE_MS), CONTACT_WELCOME);
	want(x->n_fds >= PRESENTED);
	made(ring_end_map(&x->out, x->welcome.ring_size, x->fd[1]), "the victim's ring");
}

void speaker_meet(struct speaker *x, unsigned int slot, unsigned int mine)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct contact_message m;

	*x = (struct speaker){ 0 };
	made(host_name_bind(mine, &x->name), "a slot's name");
	made(host_name_connect(slot, &x->conn), "the victim's name");
	hello(x, mine);
	welcomed(x);
	m = message(x, CONTACT_READY, mine);
	made(contact_talk_send(x->conn, &m, NULL, 0), "READY");
	m = message(x, CONTACT_FETCHES, mine);
	made(contact_talk_send(x->conn, &m, &bell, 1), "FETCHES");
	close(bell);
}

/* The victim may sleep: this makes it look into its rings. What it has sent is heard as well. */
static void ring_bell(struct speaker *x)
{
	struct contact_message m = message(x, CONTACT_RUNG, 0);
	int err = contact_talk_send(x->conn, &m, NULL, 0);

	if (err && err != EAGAIN)
		made(err, "the contact has ended");
	while (speaker_hear(x, &m, 0))
		;
	sched_yield();
}

void speaker_put(struct speaker *x, const struct seg *s, const void *payload)
{
	struct ring_plan plan;
	uint8_t *rec;
	int err;

	ring_seg_plan(s, false, &plan);
	while ((err = ring_reserve(&x->out.ring, plan.bytes, &rec)) == EAGAIN)
		ring_bell(x);
	made(err, "the victim's ring");
	if (s->len)
		memcpy(rec + plan.head, payload, s->len);
	ring_publish(&x->out.ring, ring_seg_encode(s, &plan, false, rec));
}

void speaker_taken(struct speaker *x)
{
	bool told = false;

	while (!told || x->out.ring.seen != x->out.ring.pos) {
		made(ring_ask(&x->out.ring, &told), "the victim's ring");
		ring_bell(x);
	}
}
