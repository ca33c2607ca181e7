// SPDX-License-Identifier: MIT
#include "peers/host.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "util/death.h"
#include "util/log.h"
#include "util/quiesce.h"
#include "util/sealed.h"

static void random_fill(void *p, size_t n)
{
	while (getrandom(p, n, 0) != (ssize_t)n)
		;
}

static int make_pages(struct host *h)
{
	void *p;
	int err;

	host_layout(h->cfg.n_keys, h->cfg.key_bytes, &h->layout);
	err = sealed_make("softhca-host", h->layout.bytes, SEALED_READONLY, &h->page_fd, &p);
	if (err)
		return err;
	h->page = p;
	random_fill(&h->page->cookie, sizeof(h->page->cookie));
	random_fill(&h->page->gen, sizeof(h->page->gen));
	h->page->gen = h->page->gen % 0xfffff + 1;
	err = sealed_make("softhca-mail", HOST_MAIL_BYTES, SEALED_ALLOCATED, &h->mail_fd, &p);
	if (!err)
		h->mail = p;
	return err;
}

static int make_fds(struct host *h)
{
	h->bell = eventfd(0, EFD_CLOEXEC);
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	return h->bell < 0 || h->epoll < 0 ? errno : 0;
}

int host_watch(struct host *h, struct watch *w, void (*ready)(struct watch *w, uint64_t now))
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = w };

	w->ready = ready;
	return epoll_ctl(h->epoll, EPOLL_CTL_ADD, w->fd, &ev) ? errno : 0;
}

void host_unwatch(struct host *h, struct watch *w)
{
	if (w->fd < 0)
		return;
	/* By hand: a forked child may hold the same description; then closing ours would not do. */
	epoll_ctl(h->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	close(w->fd);
	w->fd = -1;
}

/* Binds the first free slot, from one that differs between processes: a number that has just been
 * given up is not taken again at once. */
static int bind_slot(struct host *h, int *fd, unsigned int *slot)
{
	unsigned int first = (unsigned int)getpid() % NUMBER_SLOTS;
	int err = EADDRINUSE;

	for (unsigned int i = 0; i < NUMBER_SLOTS && err == EADDRINUSE; i++) {
		*slot = (first + i) % NUMBER_SLOTS;
		err = host_name_bind(h->uid, *slot, fd);
	}
	return err;
}

int host_take_slot(struct host *h, unsigned int *slot)
{
	struct listener *l;
	int err = 0;

	pthread_mutex_lock(&h->control);
	l = &h->listener[h->n_slots % HOST_PAGE_SLOTS];
	if (h->n_slots == HOST_PAGE_SLOTS)
		err = EADDRINUSE;
	else if (h->alone)
		l->slot = h->n_slots;
	else
		err = bind_slot(h, &l->watch.fd, &l->slot);
	if (!err && !h->alone)
		err = host_listen(h, l);
	if (!err) {
		*slot = l->slot;
		store_release(&h->page->slots[h->n_slots], l->slot + 1);
		store_release(&h->n_slots, h->n_slots + 1); /* pairs with block_of() */
	}
	pthread_mutex_unlock(&h->control);
	return err;
}

unsigned int host_first_slot(const struct host *h)
{
	return h->listener[0].slot;
}

/* A host of its own: why is said once. */
static int be_alone(struct host *h, const char *why)
{
	unsigned int slot;

	h->alone = true;
	log_warn("no other process of this host can be reached (%s): this process talks to itself "
		 "only",
		 why);
	return host_take_slot(h, &slot);
}

static int meet(struct host *h)
{
	unsigned int slot;
	int err;

	if (host_names_uid(&h->uid))
		return be_alone(h, "the user id is not mapped in this user namespace");
	err = host_take_slot(h, &slot);
	if (err && err != EADDRINUSE)
		return be_alone(h, strerror(err));
	return err;
}

int host_create(const struct host_config *cfg, struct host **out)
{
	struct host *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return ENOMEM;
	h->cfg = *cfg;
	h->page_fd = h->mail_fd = h->bell = h->epoll = -1;
	h->deadline = UINT64_MAX;
	for (unsigned int i = 0; i < HOST_PAGE_SLOTS; i++)
		h->listener[i] = (struct listener){ .watch.fd = -1, .host = h };
	pthread_mutex_init(&h->control, NULL);
	loopback_init(&h->own, h);
	host_cast_init(h);
	err = make_pages(h);
	if (!err)
		err = make_fds(h);
	if (!err)
		err = meet(h);
	if (err) {
		host_destroy(h);
		return err;
	}
	*out = h;
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void host_destroy(struct host *h)
{
	if (!h)
		return;
	host_end_contacts(h);
	for (unsigned int i = 0; i < HOST_PAGE_SLOTS; i++)
		host_unwatch(h, &h->listener[i].watch);
	loopback_fini(&h->own);
	for (unsigned int i = 0; i < NUMBER_SLOTS; i++)
		host_target_put(h->target[i]);
	sealed_unmap(h->page, h->layout.bytes);
	sealed_unmap(h->mail, HOST_MAIL_BYTES);
	close_fd(h->page_fd);
	close_fd(h->mail_fd);
	close_fd(h->bell);
	close_fd(h->epoll);
	pthread_mutex_destroy(&h->control);
	free(h);
}

void *host_key_memory(struct host *h)
{
	return (uint8_t *)h->page + h->layout.keys;
}

/* Which of our blocks a number is in; HOST_PAGE_SLOTS: not ours. */
static unsigned int block_of(struct host *h, uint32_t qpn)
{
	uint32_t n = load_acquire(&h->n_slots);

	for (uint32_t i = 0; i < n; i++)
		if (h->listener[i].slot == number_slot(qpn))
			return i;
	return HOST_PAGE_SLOTS;
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

/* Writers of one entry are serialised by the QP's turn. */
void host_publish_qp(struct host *h, uint32_t qpn, const struct host_qp *e)
{
	unsigned int block = block_of(h, qpn);
	static const struct host_qp gone;
	struct host_page_qp *q;
	uint32_t seq;

	if (block == HOST_PAGE_SLOTS)
		return;
	q = host_page_qp(h->page, &h->layout, block, qpn);
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
	store_relaxed(&q->peer_gen, e->flags & HOST_QP_DIRECT ? generation_at(h, e->peer_qpn) : 0);
	store_release(&q->seq, seq + 2);
	full_fence(); /* before a look at hazards: pairs with hazard_set() */
}

int host_dest(struct host *h, uint32_t qpn, struct dest **out)
{
	unsigned int slot = number_slot(qpn) & (NUMBER_SLOTS - 1);
	struct target *t;
	int err;

	if (block_of(h, qpn) != HOST_PAGE_SLOTS) {
		fetch_add_relaxed(&h->own.d.refs, 1);
		*out = &h->own.d;
		return 0;
	}
	err = host_target(h, slot, true, &t);
	if (!err)
		*out = &t->d;
	return err;
}

int host_doorbell_fd(struct host *h)
{
	return h->bell;
}

void host_ring_self(struct host *h)
{
	const uint64_t one = 1;

	if (write(h->bell, &one, sizeof(one)) < 0)
		log_debug("our own doorbell cannot be rung: %s", strerror(errno));
}

void host_mark_alive(struct host *h)
{
	int err = death_mark(&h->page->alive);

	if (err)
		log_debug("no mark of life: %s", strerror(err));
}

/* Each arming has a number, so that a sender rings once for it. */
static uint32_t mode_word(uint32_t old, enum host_mode mode)
{
	bool sleeps = mode == HOST_ARMED || mode == HOST_LED;

	return ((old & ~HOST_MODE_MASK) + (sleeps ? HOST_MODE_STEP : 0)) | mode;
}

void host_set_mode(struct host *h, enum host_mode mode)
{
	uint32_t old = load_relaxed(&h->page->mode);

	while (!cas_acq_rel(&h->page->mode, &old, mode_word(old, mode)))
		;
}

bool host_change_mode(struct host *h, enum host_mode from, enum host_mode to)
{
	uint32_t old = load_relaxed(&h->page->mode);

	while ((old & HOST_MODE_MASK) == from)
		if (cas_acq_rel(&h->page->mode, &old, mode_word(old, to)))
			return true;
	return false;
}

int host_control_fd(struct host *h)
{
	return h->epoll;
}
