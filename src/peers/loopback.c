// SPDX-License-Identifier: MIT
#include "peers/loopback.h"
#include <errno.h>
#include "link/copy.h"
#include "peers/host_state.h"

static bool by_reference(const struct loopback *l, const struct seg *s)
{
	if (s->len <= HOST_INLINE_MAX || (s->flags & SEG_NO_REF) || !l->d.max_ref || !s->npieces)
		return false;
	for (unsigned int i = 0; i < s->npieces; i++)
		if (!s->pieces[i].key)
			return false;
	return true;
}

/* The segment for the receiver: its sender is this link, and it has the GRH of a network. */
static int make(struct loopback *l, const struct seg *s, struct parcel **out)
{
	bool ref = by_reference(l, s);
	struct seg mine = *s;
	uint8_t grh[40] = { 0 };
	int err;

	mine.from = &l->d;
	mine.flags = (uint16_t)((s->flags & ~SEG_BYREF) | (ref ? SEG_BYREF : 0));
	if (s->av && !s->grh) {
		if (l->host->cfg.make_grh)
			l->host->cfg.make_grh(l->host->cfg.arg, s, grh, &mine.l3);
		mine.grh = grh;
	}
	err = parcel_make(&mine, !ref, out);
	if (err == ENOMEM)
		return EAGAIN;
	return err;
}

static bool push(struct loopback *l, struct parcel *p)
{
	bool taken;

	spin_lock(&l->lock);
	taken = l->len < LOOPBACK_MAX;
	if (taken) {
		p->next = NULL;
		*l->end = p;
		l->end = &p->next;
		store_relaxed(&l->len, l->len + 1);
		store_relaxed(&l->sent, l->sent + 1);
	}
	spin_unlock(&l->lock);
	return taken;
}

static struct parcel *pop(struct loopback *l)
{
	struct parcel *p;

	spin_lock(&l->lock);
	p = l->first;
	if (p) {
		l->first = p->next;
		if (!l->first)
			l->end = &l->first;
		store_relaxed(&l->len, l->len - 1);
	}
	spin_unlock(&l->lock);
	return p;
}

static bool has_space(const struct loopback *l)
{
	return load_relaxed(&l->len) <= LOOPBACK_MAX / 2;
}

/* The queue may be empty: no drain is to come. */
static void wait_for_memory(struct loopback *l, struct waiter *w)
{
	host_wait_add(&l->waiters, w);
	if (l->host->cfg.starved)
		l->host->cfg.starved(l->host->cfg.arg);
}

static int loopback_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	struct loopback *l = container_of(d, struct loopback, d);
	struct parcel *p;
	uint32_t mode;
	int err = make(l, s, &p);

	if (err == EAGAIN && w)
		wait_for_memory(l, w);
	if (err)
		return err;
	while (!push(l, p)) {
		if (w)
			host_wait_add(&l->waiters, w);
		/* The queue may have been emptied before @w was on the list. */
		if (!w || !has_space(l) || !host_wait_remove(&l->waiters, w)) {
			parcel_free(p);
			return EAGAIN;
		}
	}
	full_fence(); /* pairs with the last look before sleeping */
	mode = load_relaxed(&l->host->page->mode) & HOST_MODE_MASK;
	if (mode == HOST_ARMED || mode == HOST_LED)
		host_ring_self(l->host);
	return 0;
}

static int key_check(struct host *h, const struct piece *p)
{
	struct host_key k;

	if (!h->cfg.key_read(host_key_memory(h), h->cfg.n_keys, p->key, &k))
		return EREMOTEIO;
	return p->addr >= k.addr && p->addr - k.addr <= k.len &&
			       p->len <= k.len - (p->addr - k.addr)
		       ? 0
		       : EREMOTEIO;
}

static int loopback_fetch(struct dest *d, const struct seg *s, uint32_t skip,
			  const struct piece *dst, unsigned int ndst)
{
	struct loopback *l = container_of(d, struct loopback, d);
	int err = 0;

	for (unsigned int i = 0; i < s->npieces && !err; i++)
		err = key_check(l->host, &s->pieces[i]);
	return err ? err : copy_pieces(dst, ndst, s->pieces, s->npieces, skip);
}

/* Both ends are this process: nothing is faster than the queue. */
static int loopback_direct(struct dest *d, struct direct_ask *ask)
{
	(void)d;
	(void)ask;
	return EAGAIN;
}

/* One that is being delivered is not taken: to copy a large one takes seconds. */
static bool loopback_taken(struct dest *d, struct link_mark *mark)
{
	struct loopback *l = container_of(d, struct loopback, d);
	struct link_mark was = *mark;

	*mark = (struct link_mark){ .process = LOOPBACK_PROCESS, .at = load_relaxed(&l->sent) };
	return was.process == LOOPBACK_PROCESS && load_relaxed(&l->delivered) >= was.at;
}

static void loopback_cancel(struct dest *d, struct waiter *w)
{
	host_wait_cancel(&container_of(d, struct loopback, d)->waiters, w);
}

static void loopback_put(struct dest *d)
{
	fetch_sub_acq_rel(&d->refs, 1); /* the host keeps one, and the destination */
}

static const struct link_ops loopback_ops = {
	.name = "loopback",
	.send = loopback_send,
	.fetch = loopback_fetch,
	.direct = loopback_direct,
	.taken = loopback_taken,
	.cancel = loopback_cancel,
	.put = loopback_put,
};

void loopback_init(struct loopback *l, struct host *h)
{
	*l = (struct loopback){
		.d = { .ops = &loopback_ops,
		       .refs = 1,
		       .max_seg = HOST_MAX_SEG,
		       .max_ref = h->cfg.key_read ? HOST_MAX_REF : 0,
		       .inline_max = HOST_INLINE_MAX,
		       .process = LOOPBACK_PROCESS,
		       .same_host = true },
		.host = h,
		.end = &l->first,
	};
	host_wait_init(&l->waiters);
}

void loopback_fini(struct loopback *l)
{
	struct parcel *p;

	while ((p = pop(l)))
		parcel_free(p);
}

/* Each waiter that is listed now is called once, while there is room. */
static void resume(struct loopback *l)
{
	uint32_t n = host_wait_count(&l->waiters);

	while (n && has_space(l) && host_wait_call(&l->waiters))
		n--;
}

unsigned int loopback_drain(struct loopback *l, unsigned int budget)
{
	unsigned int n = 0;
	struct parcel *p;

	if (loopback_pending(l) && spin_trylock(&l->drain_lock)) {
		for (; n < budget && (p = pop(l)); n++) {
			l->host->cfg.deliver(l->host->cfg.arg, &p->seg);
			store_relaxed(&l->delivered, l->delivered + 1);
			parcel_free(p);
		}
		spin_unlock(&l->drain_lock);
	}
	if (host_wait_any(&l->waiters))
		resume(l);
	return n;
}
