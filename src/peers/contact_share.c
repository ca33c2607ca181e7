// SPDX-License-Identifier: MIT
#include "peers/contact_share.h"
#include <stdlib.h>
#include "peers/contact_talk.h"
#include "peers/contact_trust.h"
#include "peers/host_bell.h"
#include "peers/host_state.h"
#include "util/death.h"

enum { KEY_VARIANT_BITS = 8 };

static unsigned int place_of(uint32_t key)
{
	return (key >> KEY_VARIANT_BITS) % SHARES;
}

static bool their_key(const struct contact *c, uint32_t key, struct host_key *out)
{
	const struct host_config *cfg = &c->host->cfg;

	return cfg->key_read && c->tables && cfg->key_read(c->tables, c->layout.n_keys, key, out);
}

static bool our_key(struct host *h, uint32_t key, struct host_key *out)
{
	return h->cfg.key_read && h->cfg.key_read(host_key_memory(h), h->cfg.n_keys, key, out);
}

/* The place belongs to another key, which is still valid. */
static bool taken(const struct contact *c, const struct share *s, uint32_t key)
{
	struct host_key k;

	return s && s->key != key && their_key(c, s->key, &k) && k.gen == s->gen;
}

/* Counts the uses of a key, about: two threads may lose one. */
static void want(struct contact *c, struct share_slot *slot, const struct share_ask *ask)
{
	uint32_t uses = load_relaxed(&slot->key) == ask->key ? load_relaxed(&slot->uses) + 1 : 1;

	store_relaxed(&slot->key, ask->key);
	store_relaxed(&slot->uses, uses);
	if ((uses < SHARE_USES && !ask->often) || load_relaxed(&c->shares.wanted) ||
	    taken(c, load_acquire(&slot->share), ask->key))
		return;
	store_relaxed(&slot->uses, 0);
	store_release(&c->shares.wanted, ask->key); /* pairs with contact_share_ask() */
	host_chore(c->host);
}

static bool covers(const struct share *s, const struct share_ask *ask)
{
	uint64_t at = ask->addr - s->addr;

	return ask->addr >= s->addr && at <= s->len && ask->len <= s->len - at;
}

uint8_t *contact_share_at(struct contact *c, const struct share_ask *ask, const struct host_key *k)
{
	struct share_slot *slot = &c->shares.theirs[place_of(ask->key)];
	const struct share *s = load_acquire(&slot->share); /* (S) */

	if (unlikely(!s || s->key != ask->key || s->gen != k->gen)) {
		want(c, slot, ask);
		return NULL;
	}
	if (!s->m.map || (ask->write && !s->m.writable) || !covers(s, ask) ||
	    unlikely(!death_alive(&c->page->alive)))
		return NULL;
	return s->m.at + (ask->addr - s->addr);
}

void contact_share_ask(struct contact *c)
{
	struct share_message m = { .key = load_acquire(&c->shares.wanted) };

	if (!m.key || c->shares.asked)
		return;
	if (contact_talk_share(c, CONTACT_SHARE, &m, -1))
		store_relaxed(&c->shares.wanted, 0); /* the socket is full: at a later use */
	else
		c->shares.asked = true;
}

void contact_share_asked(struct contact *c, const struct share_message *ask)
{
	struct share_message m = { .key = ask->key };
	struct host_key k;
	int fd = -1;

	if (our_key(c->host, m.key, &k)) {
		m.gen = k.gen;
		m.found = trust_file(contact_reaches(c), k.direct,
				     death_alive(&c->host->page->alive)) &&
			  !mapping_find(k.addr, k.len, &m.file, &fd);
	}
	if (m.found)
		store_relaxed(&c->shares.ours[place_of(m.key)], m.key);
	/* A thread that revokes the key from here on tells the peer; one that did before has
	 * changed the generation, which is looked at below. Pairs with contact_unshare(). */
	full_fence();
	m.found &= our_key(c->host, m.key, &k) && k.gen == m.gen;
	if (!m.found)
		fd = -1;
	if (contact_talk_share(c, CONTACT_SHARED, &m, fd) && fd >= 0) { /* ETOOMANYREFS */
		m.found = false;
		contact_talk_share(c, CONTACT_SHARED, &m, -1); /* or it would wait for ever */
	}
}

static void share_free(struct share *s)
{
	mapping_end(&s->m);
	free(s);
}

void contact_share_tend(struct contact *c, uint64_t now)
{
	struct share **p = &c->shares.replaced, *s;

	while ((s = *p)) {
		if (host_quiet(c->host, &s->grace, now)) {
			*p = s->next;
			share_free(s);
		} else {
			p = &s->next;
		}
	}
}

/* The old one is ended by contact_share_tend(), which is called behind this. */
static void replace(struct contact *c, uint32_t key, struct share *s)
{
	struct share_slot *slot = &c->shares.theirs[place_of(key)];
	struct share *old = slot->share;

	store_release(&slot->share, s); /* (S) */
	if (!old)
		return;
	old->next = c->shares.replaced;
	c->shares.replaced = old;
}

void contact_share_told(struct contact *c, const struct share_message *m, int fd)
{
	struct host_key k;
	struct share *s;

	if (!c->shares.asked || m->key != load_relaxed(&c->shares.wanted))
		return;
	c->shares.asked = false;
	store_relaxed(&c->shares.wanted, 0);
	if (!their_key(c, m->key, &k) || k.gen != m->gen)
		return;
	s = calloc(1, sizeof(*s));
	if (!s)
		return;
	*s = (struct share){ .key = m->key, .gen = m->gen, .addr = k.addr, .len = k.len };
	if (m->found && fd >= 0 && m->file.len == k.len)
		mapping_make(&m->file, fd, &s->m);
	replace(c, m->key, s);
}

void contact_share_forget(struct contact *c, const struct share_message *m)
{
	const struct share *s = c->shares.theirs[place_of(m->key)].share;

	if (s && s->key == m->key)
		replace(c, m->key, NULL);
}

void contact_unshare(struct host *h, uint32_t key)
{
	struct share_message m = { .key = key };
	uint32_t top, *ours;

	quiesce_enter();
	full_fence(); /* unpublished, then its peers: pairs with contact_share_asked() */
	top = load_acquire(&h->top);
	for (uint32_t i = 0; i < top; i++) {
		struct contact *c = load_acquire(&h->contact[i]);

		ours = c ? &c->shares.ours[place_of(key)] : NULL;
		if (!c || load_relaxed(ours) != key)
			continue;
		store_relaxed(ours, 0);
		contact_talk_share(c, CONTACT_UNSHARE, &m,
				   -1); /* lost: the peer sees another generation */
	}
	quiesce_exit();
}

void contact_share_end(struct contact *c)
{
	struct share *s;

	for (unsigned int i = 0; i < SHARES; i++)
		if (c->shares.theirs[i].share)
			share_free(c->shares.theirs[i].share);
	for (; (s = c->shares.replaced); share_free(s))
		c->shares.replaced = s->next;
}
