// SPDX-License-Identifier: MIT
#include "peers/contact_claim.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "peers/contact_peer.h"
#include "peers/host_slots.h"
#include "peers/host_state.h"

/* The slot by which the peer knows us. */
static unsigned int known_as(const struct contact *c)
{
	return c->state == CONTACT_CAME ? c->came_by : host_first_slot(c->host);
}

static int question(const struct contact *c, const struct contact_message *m, int owner)
{
	const struct contact_message q = { .kind = CONTACT_CLAIM,
					   .slot = known_as(c),
					   .echo = m->nonce,
					   .cookie = m->cookie,
					   .gen = m->gen };

	return contact_talk_send(owner, &q, NULL, 0);
}

static int keep(struct contact *c, const struct contact_message *m, int *fds, unsigned int n,
		int owner)
{
	struct claim *claim = calloc(1, sizeof(*claim));
	int err = claim ? question(c, m, owner) : ENOMEM;

	if (err) {
		free(claim);
		close(owner);
		return err == EPIPE || err == ECONNRESET ? EAGAIN : err;
	}
	claim->owner.fd = owner;
	claim->c = c;
	claim->m = *m;
	claim->n = n;
	for (unsigned int i = 0; i < n; i++) {
		claim->fds[i] = fds[i];
		fds[i] = -1;
	}
	c->claim = claim;
	return 0;
}

int contact_claim(struct contact *c, const struct contact_message *m, int *fds, unsigned int n,
		  void (*ready)(struct watch *w, uint64_t now))
{
	int owner, err;

	if (c->state == CONTACT_ASKED && c->asked && c->asked->slot == m->slot)
		return 0; /* its name is what we have connected to */
	mutex_lock(&c->host->names_lock); /* a forked child closes c->claim's connection */
	err = contact_owns(&c->name, m->slot, &owner);
	if (err == EINPROGRESS) {
		err = keep(c, m, fds, n, owner);
		if (!err)
			err = host_watch(c->host, &c->claim->owner, ready);
		if (!err)
			err = EINPROGRESS;
	}
	mutex_unlock(&c->host->names_lock);
	return err;
}

int contact_claim_answer(const struct claim *claim)
{
	struct contact_message m;
	unsigned int n = 0; /* no descriptor is wanted */
	int fds[CONTACT_FDS], err = contact_talk_receive(claim->owner.fd, &m, fds, &n, NULL);

	if (err)
		return err == EAGAIN ? EAGAIN : EPROTO;
	return m.kind == CONTACT_CLAIMED ? 0 : EPROTO;
}

void contact_claim_free(struct contact *c)
{
	struct claim *claim = c->claim;

	if (!claim)
		return;
	mutex_lock(&c->host->names_lock);
	c->claim = NULL;
	host_unwatch(c->host, &claim->owner);
	mutex_unlock(&c->host->names_lock);
	contact_talk_close(claim->fds, claim->n);
	free(claim);
}

/* The peer of @c should have got a message with @c's nonce, and has the slot @slot. */
static bool presented_to(const struct contact *c, unsigned int slot)
{
	if (c->state == CONTACT_ASKED)
		return c->asked && c->asked->slot == slot;
	return c->state == CONTACT_WELCOMED && c->slot == slot;
}

bool contact_claim_ours(const struct host *h, const struct contact_message *m)
{
	if (m->cookie != h->page->cookie || m->gen != h->page->gen)
		return false;
	for (const struct contact *c = h->pending; c; c = c->next)
		if (c->nonce == m->echo && presented_to(c, m->slot))
			return true;
	return false;
}
