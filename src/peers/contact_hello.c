// SPDX-License-Identifier: MIT
#include "peers/contact_hello.h"
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "peers/contact.h"
#include "peers/contact_alive.h"
#include "peers/contact_claim.h"
#include "peers/contact_grow.h"
#include "peers/contact_peer.h"
#include "peers/contact_ring.h"
#include "peers/contact_talk.h"
#include "peers/host_bell.h"
#include "peers/host_contacts.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "peers/host_strangers.h"
#include "peers/host_target.h"
#include "util/closer.h"
#include "util/log.h"
#include "util/sealed.h"

enum { FD_PAGE, FD_RING, FD_MAIL, FD_TABLES, FD_MEMORY };

enum { MESSAGES = 16 /* of one contact, until others have their turn */ };

/* How many descriptors belong to HELLO and WELCOME. */
static unsigned int n_presented(const struct contact *c)
{
	return c->name.stranger ? FD_MAIL : FD_MEMORY;
}

/* Opens our memory for a message that is about to be sent, if the owner of this process wants it
 * lent; -1: not. lend_end() closes it. A child that is forked meanwhile closes its copy. */
static int lend(const struct contact *c)
{
	struct host *h = c->host;

	if (!trust_lend(c->word))
		return -1;
	mutex_lock(&h->names_lock);
	h->lent = contact_own_memory(c->conn.fd);
	mutex_unlock(&h->names_lock);
	return h->lent;
}

static void lend_end(struct host *h)
{
	mutex_lock(&h->names_lock);
	contact_talk_close(&h->lent, 1);
	h->lent = -1;
	mutex_unlock(&h->names_lock);
}

/* Sends HELLO, or WELCOME once the contact has its place in host->contact[]: our page and ring;
 * and to a process of our user the mail page and the tables. */
static int present(struct contact *c, enum contact_kind kind)
{
	struct host *h = c->host;
	struct contact_message m = contact_talk_message(c, kind);
	int fds[CONTACT_FDS] = { h->page_fd, -1, h->mail_fd, h->tables_fd, -1 };
	int err = ring_end_make(&c->in, RING_MIN, &fds[FD_RING]);

	if (err)
		return err;
	contact_watch_ring(c);
	m.ring_size = RING_MIN;
	if (kind == CONTACT_WELCOME)
		fds[FD_MEMORY] = lend(c);
	err = contact_talk_send(c->conn.fd, &m, fds, n_presented(c) + (fds[FD_MEMORY] >= 0));
	contact_talk_close(fds + FD_RING, 1);
	lend_end(h);
	return err;
}

/* Reads what proves to the peer that we reach its memory. */
static bool read_proof(struct contact *c, struct remote *r)
{
	struct iovec here = { &c->proof, sizeof(c->proof) };

	return !remote_read(r, &here, 1, c->their_secret_addr) && c->proof;
}

/* Opens the peer's memory, if the kernel allows it; or leaves the descriptor that the peer has lent
 * if we lend ours too: what is behind it could be the memory of any process. */
static void open_memory(struct contact *c, const struct contact_message *m)
{
	int fd = -1;

	mutex_lock(&c->host->names_lock);
	if (m->offers && trust_offer(c->word))
		fd = contact_open_memory(&c->name, c->pidfd.fd);
	if (fd >= 0 || !trust_lend(c->word)) {
		contact_talk_close(&c->memory, 1);
		c->memory = fd;
	}
	mutex_unlock(&c->host->names_lock);
}

/* The peer may keep the reads waiting, so a fork() does not wait for them. */
static void reach(struct contact *c, const struct contact_message *m)
{
	struct remote *r = NULL;
	int err;

	open_memory(c, m);
	if (c->memory < 0)
		return;
	err = remote_open(c->memory, c->name.pid, c->cookie_addr, c->cookie, &r);
	if (!err && !read_proof(c, r))
		err = EPERM;
	if (err)
		log_debug("memory of slot %u is not reached: %s", c->slot, strerror(err));
	else
		remote_watch(r, &c->page->alive);
	mutex_lock(&c->host->names_lock);
	if (!err)
		store_release(&c->remote, r); /* is_inside() looks at it already: pairs with it */
	else if (r)
		remote_close(r);
	else
		contact_talk_close(&c->memory, 1);
	c->memory = -1;
	mutex_unlock(&c->host->names_lock);
}

/* Keeps what HELLO or WELCOME brought. */
static int learn(struct contact *c, const struct contact_message *m, const int *fds, unsigned int n)
{
	const struct host_config *cfg = &c->host->cfg;
	int err;

	if (n < n_presented(c) || !contact_message_presents(m, cfg->n_keys, cfg->key_bytes))
		return EPROTO;
	c->cookie = m->cookie;
	c->cookie_addr = m->cookie_addr;
	c->gen = m->gen;
	c->slot = m->slot;
	c->mail_bit = m->mail_bit;
	c->their_secret_addr = m->secret_addr;
	c->their_nonce = m->nonce;
	host_layout(m->n_keys, m->key_bytes, &c->layout);
	err = sealed_map(fds[FD_PAGE], HOST_PAGE_BYTES, false, (void **)(uintptr_t)&c->page);
	if (!err && !c->name.stranger)
		err = sealed_map(fds[FD_TABLES], c->layout.bytes, false,
				 (void **)(uintptr_t)&c->tables);
	if (!err && !c->name.stranger)
		err = sealed_map(fds[FD_MAIL], HOST_MAIL_BYTES, true, (void **)&c->mail);
	if (!err)
		err = ring_end_map(&c->out, m->ring_size, fds[FD_RING]);
	return err;
}

/* What a message says of who reaches whom. Direct access and references begin when both have
 * proved it and heed each other's hazards: the peer says that it does, and its proof is here.
 * Before, everything is copied through the rings. */
static void proven(struct contact *c, const struct contact_message *m)
{
	if (trust_proof(m->proof, c->secret)) {
		store_release(&c->trusted, 1);
		full_fence(); /* then the peer is told; pairs with release() in host_revoke.c */
	}
	if (contact_reaches(c) && m->trusts && !c->mutual) {
		store_release(&c->mutual, 1);
		store_release(&c->home->d.max_ref, c->host->cfg.key_read ? HOST_MAX_REF : 0);
	}
}

void contact_tell(struct contact *c, uint64_t now)
{
	struct contact_message m;

	if (c->told || !contact_reaches(c))
		return;
	m = contact_talk_message(c, CONTACT_FETCHES);
	c->told = !contact_talk_send(c->conn.fd, &m, &c->host->bell, 1);
	if (!c->told)
		host_sooner(c->host, now + HOST_RETRY_NS);
}

/* FETCHES. To ring a peer's doorbell may take as long as the peer likes, so that of a peer that
 * could stop us anyway counts, and no other. */
static int refer(struct contact *c, const struct contact_message *m, int *fds, unsigned int n)
{
	proven(c, m);
	if (!n || !c->trusted || c->bell >= 0)
		return 0;
	if (!closer_is_eventfd(fds[0]))
		return EPROTO;
	store_release(&c->bell, fds[0]); /* pairs with ring_bell() */
	fds[0] = -1;
	return 0;
}

/* A thread that is blocked in a call sleeps in the doorbell. */
static void wake_up(struct host *h)
{
	if ((load_relaxed(&h->page->mode) & HOST_MODE_MASK) == HOST_LED)
		host_ring_self(h);
}

/* Not one that was the process's before, of whose death senders have yet to hear, or this process
 * itself: the handshake comes again. */
static bool is_free(const struct target *home)
{
	uint32_t state = load_relaxed(&home->state);

	return state != TARGET_DEAD && (state != TARGET_UP || !load_relaxed(&home->c->broken));
}

/* The peer gets its destination and its place: revocations look at its hazards from here on. */
static int settle_in(struct contact *c, const struct contact_message *m, const int *fds,
		     unsigned int n)
{
	int err = learn(c, m, fds, n);

	if (!err)
		err = host_target(c->host, c->slot, false, &c->home);
	if (!err && !is_free(c->home))
		err = ECONNRESET;
	return err ? err : host_contacts_enlist(c);
}

static int welcome(struct contact *c, const struct contact_message *m, const int *fds,
		   unsigned int n)
{
	struct contact *mine = host_contacts_asking(c->host, m->slot);
	int err = settle_in(c, m, fds, n);

	if (err)
		return err;
	if (mine)
		contact_left(mine); /* theirs stays; ours has promised nothing */
	return present(c, CONTACT_WELCOME);
}

static void up(struct contact *c)
{
	contact_watch_pid(c);
	host_contacts_up(c);
}

/* For the asker the contact is complete; READY completes it for the peer. */
static int welcomed(struct contact *c, const struct contact_message *m, const int *fds,
		    unsigned int n)
{
	struct contact_message answer;
	int fd, err = settle_in(c, m, fds, n);

	if (err)
		return err;
	reach(c, m);
	answer = contact_talk_message(c, CONTACT_READY);
	fd = lend(c);
	err = contact_talk_send(c->conn.fd, &answer, &fd, fd >= 0);
	lend_end(c->host);
	if (!err)
		up(c);
	return err;
}

static void ready(struct contact *c, const struct contact_message *m)
{
	reach(c, m);
	c->mail_bit = m->mail_bit < HOST_MAIL_WORDS * 64 ? m->mail_bit : 0;
	up(c);
	proven(c, m);
}

/* The slot that we ask for is another one of a process that we know. */
static void adopt(struct contact *c, const struct contact_message *m)
{
	struct contact *other = host_contacts_known(c->host, c, m->cookie, m->slot);

	if (!other || other->state != CONTACT_UP)
		return;
	host_contacts_answered(c, other);
	host_target_put(c->asked);
	c->asked = NULL;
}

static void share(struct contact *c, const struct contact_message *m, const int *fds,
		  unsigned int n)
{
	if (m->kind == CONTACT_SHARE)
		contact_share_asked(c, &m->share);
	else if (m->kind == CONTACT_SHARED)
		contact_share_told(c, &m->share, n ? fds[0] : -1);
	else
		contact_share_forget(c, &m->share);
}

/* What the process does, for a tool of the same user; no contact comes of it. */
static void show(const struct contact *c)
{
	const struct host_config *cfg = &c->host->cfg;
	struct contact_message m = contact_talk_message(c, CONTACT_SHOW);
	int fd;

	if (c->name.stranger || !cfg->show || cfg->show(cfg->arg, &fd))
		return;
	contact_talk_send(c->conn.fd, &m, &fd, 1);
	close(fd);
}

/* Somebody has presented himself with our slot: only to whom we did so ourselves. */
static void vouch(const struct contact *c, const struct contact_message *m)
{
	if (contact_claim_ours(c->host, m))
		contact_talk_say(c, CONTACT_CLAIMED);
}

/* From here on the peer is a stranger, and has nothing of ours yet. */
static void estrange(struct contact *c)
{
	c->name.stranger = true;
	c->word = TRUST_NOBODY;
	contact_sieve(c);
}

static bool presents(const struct contact *c, const struct contact_message *m)
{
	return (c->state == CONTACT_CAME && m->kind == CONTACT_HELLO) ||
	       (c->state == CONTACT_ASKED && m->kind == CONTACT_WELCOME);
}

/* The peer presents itself as to a stranger: it may not know that we are of its user. */
static bool estranges(const struct contact *c, const struct contact_message *m)
{
	return !c->name.stranger && !m->cookie_addr && presents(c, m);
}

static struct contact_facts facts(const struct contact *c, const struct contact_message *m)
{
	struct host *h = c->host;

	return (struct contact_facts){
		.known = host_contacts_known(h, c, m->cookie, m->slot),
		.asking = host_contacts_asking(h, m->slot),
		.first = host_first_slot(h) < m->slot,
	};
}

/* ECONNRESET: the connection is to be closed. EPROTO: the peer has broken a rule. */
static int act(struct contact *c, const struct contact_message *m, int *fds, unsigned int n)
{
	const struct contact_facts f = facts(c, m);
	const struct contact_move move = contact_move(c->state, m->kind, &f);

	switch (move.step) {
	case CONTACT_DO_WELCOME:
		c->state = move.next;
		return welcome(c, m, fds, n);
	case CONTACT_DO_READY:
		return welcomed(c, m, fds, n);
	case CONTACT_DO_COMPLETE:
		ready(c, m);
		return 0;
	case CONTACT_DO_ALIAS:
		contact_talk_say(c, CONTACT_ALIAS);
		return ECONNRESET;
	case CONTACT_DO_YIELD:
		contact_talk_say(c, CONTACT_YIELD);
		return ECONNRESET;
	case CONTACT_DO_ADOPT:
		adopt(c, m);
		return ECONNRESET;
	case CONTACT_DO_SHOW:
		show(c);
		return ECONNRESET;
	case CONTACT_DO_VOUCH:
		vouch(c, m);
		return ECONNRESET;
	case CONTACT_DO_LEAVE:
		return ECONNRESET;
	case CONTACT_DO_REFER:
		return refer(c, m, fds, n);
	case CONTACT_DO_WAKE:
		wake_up(c->host);
		return 0;
	case CONTACT_DO_RING:
		return n ? contact_take_ring(c, m->ring_size, fds[0]) : EPROTO;
	case CONTACT_DO_SHARE:
		if (c->name.stranger)
			return EPROTO;
		share(c, m, fds, n);
		return 0;
	default:
		return EPROTO;
	}
}

/* The contact ends, unless nothing is wrong. */
static void ended(struct contact *c, int err)
{
	if (!err || err == EAGAIN)
		return;
	if (err == EPROTO)
		contact_break(c, "it broke the rules of the handshake");
	contact_left(c);
}

/* The owner of the slot that the peer claims has answered. */
static void claim_ready(struct watch *w, uint64_t now)
{
	struct claim *claim = container_of(w, struct claim, owner);
	struct contact *c = claim->c;
	int err;

	(void)now;
	if (load_relaxed(&c->broken)) {
		host_mute(c->host, w);
		return;
	}
	err = contact_claim_answer(claim);
	if (err == EAGAIN)
		return;
	if (!err)
		err = act(c, &claim->m, claim->fds, claim->n);
	contact_claim_free(c);
	ended(c, err);
}

static int on_message(struct contact *c, const struct contact_message *m, int *fds, unsigned int n)
{
	int err = 0;

	if (c->claim)
		return EPROTO; /* it has not been answered yet */
	if (estranges(c, m))
		estrange(c);
	if (presents(c, m))
		err = contact_claim(c, m, fds, n, claim_ready);
	if (err == EINPROGRESS)
		return 0;
	if (err) /* else it comes again, if it has not ended */
		return err == EPROTO ? EPROTO : ECONNRESET;
	return act(c, m, fds, n);
}

/* Descriptors of a message were cut off, since this process has none left. Offers are optional; a
 * handshake comes again. */
static int without(const struct contact *c, int err)
{
	struct rlimit lim = { 0 };

	getrlimit(RLIMIT_NOFILE, &lim);
	if (c->state == CONTACT_UP)
		log_warn_once(
			"no descriptor is free (ulimit -n is %lu): what other processes offer "
			"is not taken; messages go on, more slowly",
			(unsigned long)lim.rlim_cur);
	else
		log_warn_once(
			"no descriptor is free (ulimit -n is %lu): processes that are new are "
			"not reached; raise it, or close some",
			(unsigned long)lim.rlim_cur);
	if (err != EPROTO)
		return err;
	return c->state == CONTACT_UP ? 0 : ECONNRESET;
}

/* How many descriptors its next message may bring. */
static unsigned int n_wanted(const struct contact *c)
{
	switch (c->state) {
	case CONTACT_CAME:
	case CONTACT_ASKED:
		return n_presented(c);
	case CONTACT_WELCOMED:
		return 0;
	default:
		return 1;
	}
}

/* May the next message bring one more, the peer's memory? Only if ours is lent. */
static bool wants_memory(const struct contact *c)
{
	return trust_lend(c->word) && (c->state == CONTACT_ASKED || c->state == CONTACT_WELCOMED);
}

/* contact_talk_receive(); the peer's memory is c->memory then. */
static int hear(struct contact *c, struct contact_message *m, int *fds, unsigned int *n,
		pid_t *from)
{
	const unsigned int others = *n;
	int err;

	if (!wants_memory(c))
		return contact_talk_receive(c->conn.fd, m, fds, n, from);
	*n = others + 1;
	mutex_lock(&c->host->names_lock);
	err = contact_talk_receive(c->conn.fd, m, fds, n, from);
	if (*n > others) {
		contact_talk_close(&c->memory, 1);
		c->memory = fds[--*n];
	}
	mutex_unlock(&c->host->names_lock);
	return err;
}

/* Is one among them that could keep us waiting? It ends the contact, and the user of a stranger is
 * not heard again. */
static bool vet(struct contact *c, int *fds, unsigned int n)
{
	bool found = false;

	for (unsigned int i = 0; i < n && !trust_lend(c->word); i++) {
		if (!closer_waits(fds[i]))
			continue;
		closer_close(fds[i]);
		fds[i] = -1;
		host_strangers_bar(c->host, &c->name);
		found = true;
	}
	return found;
}

static int receive(struct contact *c)
{
	struct contact_message m;
	int fds[CONTACT_FDS], err;
	unsigned int n = n_wanted(c);
	pid_t from = 0;
	bool cut;

	if (host_strangers_barred(c->host, &c->name))
		return ECONNRESET;
	err = hear(c, &m, fds, &n, c->name.exact ? NULL : &from);
	if (vet(c, fds, n))
		err = EPROTO;
	cut = err == EMFILE;
	if (!err || cut) {
		if (m.echo == c->nonce)
			c->name.answered = from;
		err = on_message(c, &m, fds, n);
	}
	contact_talk_close(fds, n);
	return cut ? without(c, err) : err;
}

static void conn_ready(struct watch *w, uint64_t now)
{
	struct contact *c = container_of(w, struct contact, conn);
	unsigned int left = MESSAGES;
	int err;

	(void)now;
	if (load_relaxed(&c->broken)) { /* half built, and about to be ended */
		host_mute(c->host, w);
		return;
	}
	do
		err = receive(c);
	while (!err && --left);
	ended(c, err);
}

/* Which process the connection leads to, and whether it is a stranger. */
static int who(struct contact *c)
{
	int err = contact_name(c->conn.fd, &c->name, &c->pidfd.fd);

	if (!err && c->name.stranger)
		estrange(c);
	return err;
}

/* @conn is closed unless there may be one more. EAGAIN: later perhaps. */
static int admit(struct host *h, int conn, bool asked)
{
	struct trust_name name = { 0 };
	int err = contact_user(conn, &name);

	if (!err && name.stranger && !host_strangers_admit(h, &name, asked))
		err = EAGAIN;
	if (err)
		close(conn);
	return err;
}

static void ask_for(struct contact *c, struct target *t, uint64_t now)
{
	host_target_put(c->asked);
	c->asked = t;
	fetch_add_relaxed(&t->d.refs, 1);
	c->deadline = now + HOST_CONTACT_NS;
}

/* We were one too many there, or descriptors of this user that nobody takes are too many. */
static bool passes(int err)
{
	if (err == ETOOMANYREFS)
		log_warn_once("descriptors that other processes of this user do not take are too "
			      "many for one more: processes that are new are not reached; end or "
			      "continue those that are stopped, or raise ulimit -n");
	return err == EPIPE || err == ECONNRESET || err == ETOOMANYREFS;
}

int contact_ask(struct host *h, struct target *t, uint64_t now)
{
	struct contact *c = host_contacts_asking(h, t->slot);
	int conn, err;

	if (c) { /* contact_put_off() has kept it for us */
		ask_for(c, t, now);
		return 0;
	}
	mutex_lock(&h->names_lock);
	err = host_name_connect(t->slot, &conn);
	if (!err)
		err = admit(h, conn, true);
	if (!err) {
		c = contact_new(h, conn);
		err = c ? 0 : ENOMEM;
	}
	mutex_unlock(&h->names_lock);
	if (err)
		return err;
	c->state = CONTACT_ASKED;
	ask_for(c, t, now);
	err = who(c);
	if (!err)
		err = present(c, CONTACT_HELLO);
	if (!err)
		err = host_watch(h, &c->conn, conn_ready);
	if (err) {
		host_target_put(c->asked);
		c->asked = NULL;
		contact_left(c);
	}
	return passes(err) ? EAGAIN : err;
}

void contact_accept(struct host *h, unsigned int slot, int conn, uint64_t now)
{
	struct contact *c = admit(h, conn, false) ? NULL : contact_new(h, conn);

	if (!c)
		return;
	c->state = CONTACT_CAME;
	c->came_by = slot;
	c->deadline = now + HOST_CONTACT_NS;
	if (who(c) || host_watch(h, &c->conn, conn_ready))
		contact_left(c);
}
