// SPDX-License-Identifier: MIT
#include "peers/host_contacts.h"
#include <errno.h>
#include "peers/host_bell.h"
#include "peers/host_state.h"
#include "peers/host_target.h"

bool host_contacts_coming(const struct host *h, unsigned int slot)
{
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i] && h->contact[i]->slot == slot && !h->contact[i]->broken)
			return true;
	return false;
}

struct contact *host_contacts_known(struct host *h, const struct contact *like, uint64_t cookie,
				    unsigned int slot)
{
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i] && h->contact[i]->state != CONTACT_RETIRED &&
		    h->contact[i]->cookie == cookie && h->contact[i]->slot == slot &&
		    h->contact[i]->name.uid == like->name.uid &&
		    h->contact[i]->name.stranger == like->name.stranger)
			return h->contact[i];
	return NULL;
}

struct contact *host_contacts_asking(struct host *h, unsigned int slot)
{
	for (struct contact *c = h->pending; c; c = c->next)
		if (c->asked && c->asked->slot == slot && !c->broken)
			return c;
	return NULL;
}

int host_contacts_enlist(struct contact *c)
{
	struct host *h = c->host;

	for (uint32_t i = 0; i < NUMBER_SLOTS; i++) {
		if (h->contact[i])
			continue;
		c->index = i;
		if (i >= h->top)
			store_relaxed(&h->top, i + 1);
		if (c->name.stranger)
			fetch_or_acq_rel(&h->unmailed[i / 64], UINT64_C(1) << i % 64);
		/* Before the memory descriptor leaves: pairs with host_revoke()'s look. */
		__atomic_store_n(&h->contact[i], c, __ATOMIC_SEQ_CST);
		return 0;
	}
	return ENOSPC;
}

void host_contacts_unlist(struct host *h, struct contact *c)
{
	if (c->index == NUMBER_SLOTS)
		return;
	store_release(&h->contact[c->index], NULL);
	fetch_and_acq_rel(&h->unmailed[c->index / 64], ~(UINT64_C(1) << c->index % 64));
	while (h->top && !h->contact[h->top - 1])
		store_release(&h->top, h->top - 1);
}

void host_contacts_off_pending(struct host *h, struct contact *c)
{
	for (struct contact **p = &h->pending; *p; p = &(*p)->next) {
		if (*p != c)
			continue;
		*p = c->next;
		return;
	}
}

void host_contacts_answered(const struct contact *c, struct contact *up)
{
	if (c->asked && load_relaxed(&c->asked->state) == TARGET_ASKING)
		host_target_settle(c->asked, TARGET_UP, up);
}

void host_contacts_up(struct contact *c)
{
	struct host *h = c->host;

	host_contacts_off_pending(h, c);
	host_target_settle(c->home, TARGET_UP, c);
	host_contacts_answered(c, c);
	/* last: from here on its records are read, and payload is fetched by way of @home */
	store_release(&c->state, CONTACT_UP); /* pairs with drain_one() */
	host_target_put(c->asked);
	c->asked = NULL;
	store_relaxed(&h->ups, h->ups + 1);
	if (h->ups > HOST_DIRECT_PEERS)
		host_use_mail(h);
}
