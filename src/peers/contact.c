// SPDX-License-Identifier: MIT
#include "peers/contact.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "peers/contact_claim.h"
#include "peers/contact_peer.h"
#include "peers/host_bell.h"
#include "peers/host_state.h"
#include "peers/host_strangers.h"
#include "peers/host_target.h"
#include "util/log.h"
#include "util/sealed.h"
#include "util/secret.h"

struct contact *contact_new(struct host *h, int conn)
{
	struct contact *c = calloc(1, sizeof(*c));

	if (!c || secret_number(&c->secret) || secret_number(&c->nonce)) {
		free(c);
		close(conn);
		return NULL;
	}
	c->host = h;
	c->number = ++h->last_number;
	c->index = NUMBER_SLOTS;
	c->conn.fd = conn;
	c->pidfd.fd = -1;
	c->bell = -1; /* until FETCHES brings it */
	c->memory = -1;
	c->word = contact_word();
	c->deliver = h->cfg.deliver;
	c->deliver_arg = h->cfg.arg;
	c->next = h->pending;
	h->pending = c;
	return c;
}

void contact_hang_up(struct contact *c)
{
	shutdown(c->conn.fd, SHUT_RDWR);
	if (c->remote)
		remote_leave(c->remote);
	if (c->memory >= 0)
		close(c->memory);
	c->memory = -1;
}

void contact_free(struct contact *c)
{
	host_strangers_keep(c);
	host_unwatch(c->host, &c->conn);
	host_unwatch(c->host, &c->pidfd);
	contact_claim_free(c);
	if (c->bell >= 0)
		close(c->bell);
	remote_close(c->remote);
	contact_share_end(c);
	sealed_unmap((void *)(uintptr_t)c->page, HOST_PAGE_BYTES);
	sealed_unmap((void *)(uintptr_t)c->tables, c->layout.bytes);
	sealed_unmap(c->mail, HOST_MAIL_BYTES);
	ring_end_give_back(&c->in);
	ring_end_give_back(&c->in_next);
	ring_end_give_back(&c->in_old);
	ring_end_unmap(&c->out);
	ring_end_unmap(&c->out_next);
	host_target_put(c->asked);
	host_target_put(c->home);
	free(c);
}

void contact_break(struct contact *c, const char *why)
{
	if (xchg_acq_rel(&c->broken, CONTACT_BROKEN) == CONTACT_BROKEN)
		return;
	log_warn("process in slot %u (pid %d): %s; the contact is ended", c->slot, (int)c->name.pid,
		 why);
	host_chore(c->host);
}
