// SPDX-License-Identifier: MIT
/* Access to another process' memory (docs/design/direct-access.md): each under a hazard in our
 * page, set before a second look at the owner's page, on at most 256 KiB at a time. */
#include <errno.h>
#include <infiniband/verbs.h>
#include "link/copy.h"
#include "peers/host_state.h"
#include "peers/shm.h"

enum { ACCESS_MAX = 256 << 10, IOV_MAX_PIECES = 64, SEQ_TRIES = 100 };

static bool key_read(const struct contact *c, uint32_t key, struct host_key *out)
{
	const struct host_config *cfg = &c->host->cfg;

	return c->tables && cfg->key_read && cfg->key_read(c->tables, c->layout.n_keys, key, out);
}

static uint64_t hazard(const struct contact *c, enum hazard_kind kind, uint32_t number)
{
	return hazard_word(kind, c->slot, c->gen, number);
}

static bool within(uint64_t addr, uint64_t len, uint64_t base, uint64_t size)
{
	return addr >= base && addr - base <= size && len <= size - (addr - base);
}

/* The part of @pieces from @skip on, at most @max bytes, as an iovec; returns its bytes. */
static uint32_t cut(const struct piece *pieces, unsigned int n, uint64_t skip, uint32_t max,
		    struct iovec *iov, unsigned int *niov)
{
	uint32_t sum = 0;

	*niov = 0;
	for (unsigned int i = 0; i < n && sum < max && *niov < IOV_MAX_PIECES; i++) {
		uint32_t left;

		if (skip >= pieces[i].len) {
			skip -= pieces[i].len;
			continue;
		}
		left = pieces[i].len - (uint32_t)skip;
		if (left > max - sum)
			left = max - sum;
		iov[(*niov)++] = (struct iovec){ (void *)(uintptr_t)(pieces[i].addr + skip), left };
		sum += left;
		skip = 0;
	}
	return sum;
}

static int fetch_error(int err)
{
	switch (err) {
	case 0:
	case EPERM:
		return err;
	case EINVAL:
		return EFAULT;
	default:
		return EREMOTEIO;
	}
}

/* Memory that is mapped here too: by loads and stores. EFAULT: its file has been cut short, or our
 * side is not mapped; the copy by system call that follows tells which. */
static int copy_mapped(uint8_t *theirs, const struct iovec *iov, unsigned int niov, uint32_t len,
		       bool write)
{
	struct piece ours[IOV_MAX_PIECES], there = { (uintptr_t)theirs, len, 0 };

	for (unsigned int i = 0; i < niov; i++)
		ours[i] = (struct piece){ (uintptr_t)iov[i].iov_base, (uint32_t)iov[i].iov_len, 0 };
	return write ? copy_pieces(&there, 1, ours, niov, 0)
		     : copy_pieces(ours, niov, &there, 1, 0);
}

/* @iov from or to the memory that @ask names; its hazard is set, and @k is its key. @mapped: only
 * by loads and stores. */
static int move(struct contact *c, const struct share_ask *ask, const struct host_key *k,
		const struct iovec *iov, unsigned int niov, bool mapped)
{
	uint8_t *theirs = contact_share_at(c, ask, k);

	if (theirs && !copy_mapped(theirs, iov, niov, (uint32_t)ask->len, ask->write))
		return 0;
	if (mapped)
		return EAGAIN;
	return ask->write ? remote_write(c->remote, iov, niov, ask->addr)
			  : remote_read(c->remote, iov, niov, ask->addr);
}

/* One access: @iov from where @ask says, which the sender checked under its key. */
static int fetch_part(struct contact *c, const struct share_ask *ask, const struct iovec *iov,
		      unsigned int niov)
{
	uint64_t *place = hazard_set(c->host->page->hazard, hazard(c, HAZARD_KEY, ask->key));
	struct host_key k;
	int err = EREMOTEIO;

	if (ask->key && key_read(c, ask->key, &k) && within(ask->addr, ask->len, k.addr, k.len))
		err = fetch_error(move(c, ask, &k, iov, niov, false));
	hazard_clear(place);
	return err;
}

/* Where fetched bytes go: @at bytes of @piece have come before. */
struct landing {
	const struct piece *piece;
	unsigned int n;
	uint64_t at;
};

static int fetch_piece(struct contact *c, const struct piece *src, uint32_t from, uint32_t len,
		       struct landing *to)
{
	struct share_ask ask = { .key = src->key };
	struct iovec iov[IOV_MAX_PIECES];
	unsigned int niov;
	uint32_t part;
	int err = 0;

	for (; len && !err; from += part, to->at += part, len -= part) {
		part = cut(to->piece, to->n, to->at, len < ACCESS_MAX ? len : ACCESS_MAX, iov,
			   &niov);
		ask.addr = src->addr + from;
		ask.len = part;
		err = part ? fetch_part(c, &ask, iov, niov) : EINVAL;
	}
	return err;
}

static uint64_t total(const struct piece *p, unsigned int n)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += p[i].len;
	return sum;
}

int shm_fetch_from(struct contact *c, const struct seg *s, uint32_t skip, const struct piece *dst,
		   unsigned int ndst)
{
	struct landing to = { dst, ndst, 0 };
	uint64_t left = total(dst, ndst);
	int err = 0;

	if (!contact_reaches(c))
		return EPERM;
	for (unsigned int i = 0; i < s->npieces && left && !err; i++) {
		const struct piece *src = &s->pieces[i];
		uint32_t n;

		if (skip >= src->len) {
			skip -= src->len;
			continue;
		}
		n = src->len - skip < left ? src->len - skip : (uint32_t)left;
		err = fetch_piece(c, src, skip, n, &to);
		left -= n;
		skip = 0;
	}
	return err || !left ? err : EREMOTEIO;
}

static const struct host_page_qp *find_qp(const struct contact *c, uint32_t qpn)
{
	for (unsigned int i = 0; i < HOST_PAGE_SLOTS; i++)
		if (load_relaxed(&c->page->slots[i]) == number_slot(qpn) + 1)
			return host_page_qp(c->tables, &c->layout, i, qpn);
	return NULL;
}

/* Reader's half of the seqlock; pairs with host_publish_qp(). */
static bool read_qp(const struct host_page_qp *q, struct host_page_qp *out)
{
	for (int i = 0; i < SEQ_TRIES; i++) {
		uint32_t seq = load_acquire(&q->seq);

		out->seq = seq;
		out->state = load_relaxed(&q->state);
		out->access = load_relaxed(&q->access);
		out->pdn = load_relaxed(&q->pdn);
		out->peer_qpn = load_relaxed(&q->peer_qpn);
		out->flags = load_relaxed(&q->flags);
		out->peer_gen = load_relaxed(&q->peer_gen);
		read_barrier();
		if (!(seq & 1) && load_relaxed(&q->seq) == seq)
			return true;
		cpu_relax();
	}
	return false;
}

/* Nothing that was sent before is overtaken. Pairs with uc_input()'s store: what the peer has
 * executed is in its memory. */
static bool caught_up(const struct host_page_qp *q, const struct direct_ask *ask)
{
	return !ask->unanswered || load_acquire(&q->executed) == ask->psn + 1;
}

static uint32_t needed(const struct direct_ask *ask)
{
	return ask->write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
}

static const uint32_t both = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

static bool look_at_qp(const struct contact *c, const struct direct_ask *ask,
		       struct host_page_qp *out)
{
	const struct host_page_qp *q = find_qp(c, ask->dqpn);

	if (!q || !read_qp(q, out) || !(out->flags & HOST_QP_DIRECT))
		return false;
	return (out->state == IBV_QPS_RTR || out->state == IBV_QPS_RTS) &&
	       out->peer_qpn == ask->sqpn && out->peer_gen == c->host->page->gen;
}

/* What the entries of the QP and the key allow, without hazards: it may be over at once. */
static bool look(const struct contact *c, const struct direct_ask *ask, struct link_grant *out)
{
	struct host_page_qp qp;
	struct host_key key;

	if (!look_at_qp(c, ask, &qp) || !key_read(c, ask->rkey, &key) || !key.direct ||
	    key.pdn != qp.pdn)
		return false;
	*out = (struct link_grant){ .process = c->number,
				    .sqpn = ask->sqpn,
				    .dqpn = ask->dqpn,
				    .rkey = ask->rkey,
				    .access = qp.access & key.access & both,
				    .seq = qp.seq,
				    .gen = key.gen };
	return out->access & needed(ask);
}

/* Has the QP looked already, at its last access? */
static bool known(const struct contact *c, const struct direct_ask *ask)
{
	const struct link_grant *g = ask->grant;

	return g->process == c->number && g->sqpn == ask->sqpn && g->dqpn == ask->dqpn &&
	       g->rkey == ask->rkey && (g->access & needed(ask));
}

/* Under the hazards: entries of the same sequence and generation say what they said then. The QP's
 * entry, *key: what the key's says; or NULL. */
static const struct host_page_qp *still(const struct contact *c, const struct direct_ask *ask,
					struct host_key *key)
{
	const struct host_page_qp *q = find_qp(c, ask->dqpn);

	if (q && load_acquire(&q->seq) == ask->grant->seq && key_read(c, ask->rkey, key) &&
	    key->gen == ask->grant->gen)
		return q;
	ask->grant->process = 0; /* the next access looks first */
	return NULL;
}

/* Under the hazards. @iov has what->len bytes, of @ask those from done on. */
static int do_part(struct contact *c, const struct direct_ask *ask, struct share_ask *what,
		   const struct iovec *iov, unsigned int niov)
{
	struct host_key key;
	const struct host_page_qp *q = still(c, ask, &key);

	if (!q || !caught_up(q, ask) || !within(ask->va, ask->len, key.iova, key.len))
		return EAGAIN;
	what->addr = key.addr + (ask->va - key.iova) + ask->done;
	/* A long WRITE into memory that is not mapped here is faster when its target fetches it:
	 * the memory descriptor copies through a bounce page. No target fetches UC's. */
	return move(c, what, &key, iov, niov,
		    ask->mapped || (ask->write && ask->len > ACCESS_MAX && !ask->unanswered));
}

int shm_direct_to(struct contact *c, struct direct_ask *ask)
{
	struct share_ask what = { ask->rkey, ask->write, ask->mapped, 0, 0 };
	const uint64_t hazards[2] = { hazard(c, HAZARD_QP, ask->dqpn),
				      hazard(c, HAZARD_KEY, ask->rkey) };
	struct iovec iov[IOV_MAX_PIECES];
	uint64_t *place[2];
	unsigned int niov;
	int err;

	if (!load_acquire(&c->mutual) || ask->done >= ask->len ||
	    (!known(c, ask) && !look(c, ask, ask->grant)))
		return EAGAIN;
	what.len = ask->len - ask->done < ACCESS_MAX ? ask->len - ask->done : ACCESS_MAX;
	what.len = cut(ask->pieces, ask->npieces, ask->done, (uint32_t)what.len, iov, &niov);
	if (!what.len || !hazard_set_both(c->host->page->hazard, hazards, place))
		return EAGAIN;
	err = do_part(c, ask, &what, iov, niov);
	hazard_clear(place[1]);
	hazard_clear(place[0]);
	if (err)
		return EAGAIN;
	ask->done += (uint32_t)what.len;
	return 0;
}
