// SPDX-License-Identifier: MIT
#include "peers/host_publish.h"
#include <errno.h>
#include <string.h>
#include "obs/explain.h"
#include "peers/host_slots.h"
#include "peers/host_state.h"
#include "peers/host_target.h"
#include "util/death.h"
#include "util/log.h"
#include "util/quiesce.h"
#include "util/sealed.h"
#include "util/secret.h"

/* Memory that other processes map. */
static int make_page(const char *name, size_t len, enum sealed_use use, int *fd, void **out)
{
	int err = sealed_make(name, len, use, fd, out);

	if (err == EFBIG)
		return refuse(
			err,
			"ibv_open_device: what this process publishes is longer than a file may "
			"be here; raise the limit of file sizes (ulimit -f)");
	if (err)
		return refuse(
			err,
			"ibv_open_device: no memory to share with other processes (%s); raise "
			"ulimit -n and the memory's limit, or allow memfd_create, ftruncate, "
			"fallocate and fcntl in the container's seccomp profile",
			strerror(err));
	return 0;
}

static int draw(struct host_page *page)
{
	int err = secret_number(&page->cookie);

	if (!err)
		err = secret_fill(&page->gen, sizeof(page->gen));
	if (err)
		return refuse(err,
			      "ibv_open_device: no random numbers (%s): getrandom is refused, and "
			      "/dev/urandom cannot be read; allow getrandom in the container's "
			      "seccomp profile",
			      strerror(err));
	page->gen = page->gen % 0xfffff + 1;
	return 0;
}

int host_publish_start(struct host *h)
{
	void *p;
	int err;

	host_layout(h->cfg.n_keys, h->cfg.key_bytes, &h->layout);
	err = make_page("softhca-host", HOST_PAGE_BYTES, SEALED_READONLY, &h->page_fd, &p);
	if (err)
		return err;
	h->page = p;
	err = make_page("softhca-keys", h->layout.bytes, SEALED_READONLY, &h->tables_fd, &p);
	if (err)
		return err;
	h->tables = p;
	err = draw(h->page);
	if (err)
		return err;
	err = make_page("softhca-mail", HOST_MAIL_BYTES, SEALED_ALLOCATED, &h->mail_fd, &p);
	if (!err)
		h->mail = p;
	return err;
}

void *host_key_memory(struct host *h)
{
	return h->tables;
}

/* The generation of the process that has the peer's number now; 0 when there is no contact. */
static uint32_t generation_at(struct host *h, uint32_t qpn)
{
	struct target *t = host_target_now(h, number_slot(qpn) & (NUMBER_SLOTS - 1));
	uint32_t gen = 0;

	quiesce_enter();
	if (t && load_acquire(&t->state) == TARGET_UP)
		gen = t->c->gen;
	quiesce_exit();
	host_target_put(t);
	return gen;
}

static struct host_page_qp *entry_of(struct host *h, uint32_t qpn)
{
	unsigned int block = host_slot_block(h, qpn);

	return block == HOST_PAGE_SLOTS ? NULL : host_page_qp(h->tables, &h->layout, block, qpn);
}

uint32_t *host_executed(struct host *h, uint32_t qpn)
{
	struct host_page_qp *q = entry_of(h, qpn);

	return q ? &q->executed : NULL;
}

/* Writers of one entry are serialised by the QP's turn. */
void host_publish_qp(struct host *h, uint32_t qpn, const struct host_qp *e)
{
	struct host_page_qp *q = entry_of(h, qpn);
	static const struct host_qp gone;
	uint32_t seq;

	if (!q)
		return;
	if (!e)
		e = &gone;
	seq = q->seq;
	store_relaxed(&q->seq, seq + 1);
	write_barrier(); /* the odd number first; pairs with read_qp() in shm_access.c */
	store_relaxed(&q->state, e->state);
	store_relaxed(&q->access, e->access);
	store_relaxed(&q->pdn, e->pdn);
	store_relaxed(&q->peer_qpn, e->peer_qpn);
	store_relaxed(&q->flags, e->flags);
	if (e->state != IBV_QPS_RTR && e->state != IBV_QPS_RTS)
		store_relaxed(&q->executed, 0);
	store_relaxed(&q->peer_gen, e->flags & HOST_QP_DIRECT ? generation_at(h, e->peer_qpn) : 0);
	store_release(&q->seq, seq + 2);
	full_fence(); /* before a look at hazards: pairs with hazard_set() */
}

void host_mark_alive(struct host *h)
{
	int err = death_mark(&h->page->alive);

	if (err)
		log_debug("no mark of life: %s", strerror(err));
}
