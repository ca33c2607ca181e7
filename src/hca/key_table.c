// SPDX-License-Identifier: MIT
#include "hca/key_table.h"
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hca/mkey/mkey_layout.h"
#include "obs/explain.h"
#include "util/bitmap.h"
#include "util/quiesce.h"
#include "util/secret.h"
#include "util/spin.h"

#define VARIANT_BITS  8
#define VARIANTS      255 /* 1..255 */
#define MAX_ENTRIES   (1U << 24)
#define STORES	      (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define REMOTE_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct key_table {
	struct key_entry *e; /* n entries, shared with peers */
	uint32_t n;
	bool own_memory;
	struct spin lock; /* guards free */
	struct bitmap indices;
	uint8_t *last_variant; /* by index */
	void **obj; /* by index */
	struct key_table_hook hook;
};

size_t key_table_size(uint32_t n)
{
	return (size_t)n * sizeof(struct key_entry);
}

void key_table_destroy(struct key_table *t)
{
	if (!t)
		return;
	if (t->own_memory)
		free(t->e);
	bitmap_fini(&t->indices);
	free(t->last_variant);
	free(t->obj);
	free(t);
}

int key_table_create(void *mem, uint32_t n, struct key_table **out)
{
	struct key_table *t;

	if (!n || n > MAX_ENTRIES)
		return refuse(EINVAL, "key table of %u entries; 1..%u are possible", n,
			      MAX_ENTRIES);
	t = calloc(1, sizeof(*t));
	if (!t)
		return ENOMEM;
	t->n = n;
	t->own_memory = !mem;
	t->e = mem ? mem : calloc(n, sizeof(*t->e));
	t->last_variant = calloc(n, sizeof(*t->last_variant));
	t->obj = calloc(n, sizeof(*t->obj));
	if (!t->e || !t->last_variant || !t->obj || bitmap_init(&t->indices, 0, n)) {
		key_table_destroy(t);
		return ENOMEM;
	}
	*out = t;
	return 0;
}

void key_table_set_hook(struct key_table *t, const struct key_table_hook *hook)
{
	t->hook = *hook;
}

static uint32_t index_of(uint32_t key)
{
	return key >> VARIANT_BITS;
}

/* Any of 1..255 but @last (0: none yet), each as likely. */
static uint8_t other_variant(uint8_t last, uint32_t random)
{
	uint32_t choices = last ? VARIANTS - 1 : VARIANTS, v = 1 + random % choices;

	return (uint8_t)(last && v >= last ? v + 1 : v);
}

/* All but key and gen. gen is odd from here to publish(). */
static void fill(struct key_entry *dst, const struct key_entry *src)
{
	store_relaxed(&dst->gen, dst->gen | 1);
	write_barrier(); /* pairs with read_barrier() in copy_foreign() */
	store_relaxed(&dst->pdn, src->pdn);
	store_relaxed(&dst->access, src->access);
	store_relaxed(&dst->flags, src->flags);
	store_relaxed(&dst->iova, src->iova);
	store_relaxed(&dst->len, src->len);
	store_relaxed(&dst->addr, src->addr);
	store_relaxed(&dst->map_id, src->map_id);
	store_relaxed(&dst->map_off, src->map_off);
}

static void publish(struct key_entry *e, uint32_t key)
{
	store_release(&e->gen, e->gen + 1); /* pairs with copy_foreign() */
	store_release(&e->key, key); /* (A) */
}

/* Nobody is inside an access under @key when this returns. */
static void unpublish(struct key_table *t, struct key_entry *e, uint32_t key)
{
	store_relaxed(&e->key, 0);
	store_release(&e->gen, e->gen + 1); /* odd; pairs with copy_foreign() */
	quiesce_wait();
	if (t->hook.revoke)
		t->hook.revoke(t->hook.arg, key);
}

/* A window's tag may be 0: with index 0 that would be no key. */
static int take_index(struct key_table *t, bool window, uint32_t *i)
{
	int err;

	spin_lock(&t->lock);
	err = bitmap_alloc(&t->indices, i);
	if (!err && !*i && window) {
		err = bitmap_alloc(&t->indices, i);
		bitmap_free(&t->indices, 0);
	}
	spin_unlock(&t->lock);
	return err;
}

int key_add(struct key_table *t, const struct key_entry *e, void *obj, uint32_t *key)
{
	uint32_t random, i;
	uint8_t variant;
	int err;

	if (secret_fill(&random, sizeof(random)))
		return refuse(EIO, "ibv_reg_mr: the kernel gives no random number for a key; allow "
				   "getrandom in the container's seccomp profile");
	err = take_index(t, e->flags & KEY_WINDOW, &i);
	if (err)
		return refuse(ENOMEM,
			      "ibv_reg_mr: all %u keys of this process are in use; deregister "
			      "some first",
			      t->n);
	variant = other_variant(t->last_variant[i], random);
	t->last_variant[i] = variant;
	fill(&t->e[i], e);
	store_release(&t->obj[i], obj); /* (B) */
	*key = i << VARIANT_BITS | variant;
	publish(&t->e[i], *key);
	return 0;
}

int key_withdraw(struct key_table *t, uint32_t key)
{
	uint32_t i = index_of(key);

	if (i >= t->n || load_relaxed(&t->e[i].key) != key)
		return EINVAL;
	unpublish(t, &t->e[i], key);
	return 0;
}

void key_rebind(struct key_table *t, uint32_t key, const struct key_entry *e)
{
	struct key_entry *old = &t->e[index_of(key)];

	store_relaxed(&old->key, 0);
	fill(old, e);
	publish(old, key);
}

void key_remove(struct key_table *t, uint32_t key)
{
	uint32_t i = index_of(key);

	if (i >= t->n || load_relaxed(&t->e[i].key) != key)
		return;
	store_relaxed(&t->obj[i], NULL); /* whoever still finds it is waited for */
	unpublish(t, &t->e[i], key);
	t->last_variant[i] = (uint8_t)key; /* a window's may have changed */
	spin_lock(&t->lock);
	bitmap_free(&t->indices, i);
	spin_unlock(&t->lock);
}

/* The published entry of @key, or NULL. */
static const struct key_entry *find(const struct key_table *t, uint32_t key)
{
	uint32_t i = index_of(key);

	if (!key || i >= t->n || load_acquire(&t->e[i].key) != key) /* (A) */
		return NULL;
	return &t->e[i];
}

static bool is_indirect(uint32_t flags)
{
	return (flags & LAYOUT_MASK) == KEY_INDIRECT;
}

void *key_lookup_region(const struct key_table *t, uint32_t key)
{
	const struct key_entry *e = find(t, key);
	uint32_t flags = e ? load_relaxed(&e->flags) : KEY_WINDOW;

	return (flags & KEY_WINDOW) || is_indirect(flags) ? NULL
							  : load_relaxed(&t->obj[index_of(key)]);
}

void *key_lookup_index(const struct key_table *t, uint32_t index)
{
	return index < t->n ? key_lookup_region(t, load_acquire(&t->e[index].key)) : NULL; /* (A) */
}

/* The object first: the flags of an index that is free are those of the key that it had, and say
 * nothing of the object that comes next. */
static void *object_at(const struct key_table *t, uint32_t key, uint32_t *flags)
{
	uint32_t i = index_of(key);
	void *obj = i < t->n ? load_acquire(&t->obj[i]) : NULL; /* (B) */

	*flags = obj ? load_relaxed(&t->e[i].flags) : 0;
	return obj;
}

void *key_lookup_window(const struct key_table *t, uint32_t key)
{
	uint32_t flags;
	void *obj = object_at(t, key, &flags);

	return flags & KEY_WINDOW ? obj : NULL;
}

void *key_lookup_mkey(const struct key_table *t, uint32_t key)
{
	uint32_t flags;
	void *obj = object_at(t, key, &flags);

	return is_indirect(flags) ? obj : NULL;
}

/* By the index: while the key is given other contents, it is no key for a moment. */
bool key_is_fleeting(const struct key_table *t, uint32_t key)
{
	uint32_t i = index_of(key), flags;

	if (i >= t->n)
		return false;
	flags = load_relaxed(&t->e[i].flags);
	return (flags & KEY_WINDOW) || is_indirect(flags);
}

static enum key_verdict judge(const struct key_entry *e, const struct key_ask *ask)
{
	if (e->pdn != ask->pdn)
		return KEY_WRONG_PD;
	if ((e->access & ask->need) != ask->need)
		return KEY_NO_RIGHT;
	if (ask->va < e->iova || ask->len > e->len || ask->va - e->iova > e->len - ask->len)
		return KEY_RANGE;
	return KEY_OK;
}

static bool copy_foreign(const struct key_entry *e, struct key_entry *out);

/* A window may be bound anew by another turn meanwhile: one whole state of it is judged. */
static enum key_verdict check_window(const struct key_entry *e, const struct key_ask *ask,
				     uint64_t *addr)
{
	struct key_entry c;
	enum key_verdict v;

	if (!(ask->need & REMOTE_RIGHTS) || !copy_foreign(e, &c) || c.key != ask->key)
		return KEY_UNKNOWN;
	if (!(c.flags & KEY_BOUND))
		return KEY_UNBOUND;
	v = judge(&c, ask);
	if (v == KEY_OK && c.flags >> KEY_QPN_SHIFT && c.flags >> KEY_QPN_SHIFT != ask->qpn)
		v = KEY_WRONG_QP;
	if (v == KEY_OK)
		*addr = c.addr + (ask->va - c.iova);
	return v;
}

/* The null region has every address. */
static enum key_verdict judge_null(const struct key_entry *e, const struct key_ask *ask)
{
	if (e->pdn != ask->pdn)
		return KEY_WRONG_PD;
	if ((e->access & ask->need) != ask->need)
		return KEY_NO_RIGHT;
	return ask->len > e->len ? KEY_RANGE : KEY_OK;
}

static enum key_verdict judge_layout(const struct key_entry *e, const struct key_ask *ask)
{
	return layout_of(e->flags) == LAYOUT_NULL ? judge_null(e, ask) : judge(e, ask);
}

static struct span span_of(const struct key_entry *e, const struct key_ask *ask)
{
	return layout_span(e, ask->va - e->iova, ask->len, ask->need & STORES);
}

/* The way down from an indirect key to the one that covers the first byte */
struct descent {
	struct key_ask ask; /* to the key that was asked last, for what it may cover */
	struct key_entry e; /* that key's */
	unsigned int depth; /* indirect keys above it */
};

/* Goes down as far as the keys allow it. The one on top has every right that is needed; those
 * beneath are local keys of the same protection domain, and only storing needs a right there. */
static enum key_verdict descend(const struct key_table *t, const struct key_ask *ask,
				struct descent *d)
{
	const struct key_entry *shared;
	struct mkey_step s;
	enum key_verdict v;

	for (d->ask = *ask, d->depth = 0; d->depth <= KEY_DEPTH; d->depth++) {
		shared = find(t, d->ask.key);
		/* one whole state of an indirect key is judged: another turn may change it */
		if (!shared || !copy_foreign(shared, &d->e) || d->e.key != d->ask.key ||
		    (d->e.flags & KEY_WINDOW))
			return KEY_UNKNOWN;
		if (d->e.flags & KEY_FREE)
			return KEY_UNBOUND;
		v = judge_layout(&d->e, &d->ask);
		if (v != KEY_OK || layout_of(d->e.flags) != LAYOUT_INDIRECT)
			return v;
		if (d->e.flags & KEY_SIGNATURE)
			return KEY_SIGNED;
		s = mkey_layout_find((const struct mkey_layout *)(uintptr_t)d->e.addr,
				     d->ask.va - d->e.iova, d->ask.len);
		d->ask.key = s.key;
		d->ask.va = s.va;
		d->ask.len = s.len;
		d->ask.need = d->ask.need & STORES ? IBV_ACCESS_LOCAL_WRITE : 0;
	}
	return KEY_DEPTHS;
}

/* Of every layout but the flat one */
static enum key_verdict first_span(const struct key_table *t, const struct key_ask *ask,
				   struct span *out, uint32_t *key)
{
	struct descent d;
	enum key_verdict v = descend(t, ask, &d);

	*out = (struct span){ 0, 0 };
	if (v != KEY_OK)
		return d.depth && v != KEY_DEPTHS ? KEY_BENEATH : v;
	*out = span_of(&d.e, &d.ask);
	*key = d.ask.key;
	return KEY_OK;
}

/* Every key but that of a flat region. Out of line: its copy of an entry would give key_check() a
 * frame. */
__attribute__((noinline)) static enum key_verdict check_special(const struct key_table *t,
								const struct key_entry *e,
								const struct key_ask *ask,
								uint64_t *addr)
{
	uint32_t flags = load_relaxed(&e->flags), key;
	enum key_verdict v;
	struct span s;

	if (flags & KEY_WINDOW)
		return check_window(e, ask, addr);
	v = first_span(t, ask, &s, &key);
	if (v != KEY_OK)
		return v;
	*addr = s.addr;
	if (layout_of(flags) == LAYOUT_INDIRECT && !(ask->need & IBV_ACCESS_REMOTE_ATOMIC))
		return KEY_APART;
	return s.len < ask->len ? KEY_APART : KEY_OK;
}

enum key_verdict key_check(const struct key_table *t, const struct key_ask *ask, uint64_t *addr)
{
	const struct key_entry *e;
	enum key_verdict v;

	*addr = 0;
	if (!ask->len)
		return KEY_OK;
	e = find(t, ask->key);
	if (!e)
		return KEY_UNKNOWN;
	if (unlikely(load_relaxed(&e->flags) & (KEY_WINDOW | LAYOUT_MASK)))
		return check_special(t, e, ask, addr);
	v = judge(e, ask);
	if (v == KEY_OK)
		*addr = e->addr + (ask->va - e->iova);
	return v;
}

enum key_verdict key_span(const struct key_table *t, const struct key_ask *ask, struct span *out,
			  uint32_t *key)
{
	return first_span(t, ask, out, key);
}

const struct mkey_layout *key_signature(const struct key_table *t, const struct key_ask *ask,
					uint64_t *off)
{
	struct descent d;

	if (descend(t, ask, &d) != KEY_SIGNED || d.depth)
		return NULL;
	*off = ask->va - d.e.iova;
	return (const struct mkey_layout *)(uintptr_t)d.e.addr;
}

/* The owner may change or remove the entry meanwhile: false then. */
static bool copy_foreign(const struct key_entry *e, struct key_entry *out)
{
	uint64_t gen = load_acquire(&e->gen); /* pairs with publish(), unpublish() */

	out->key = load_relaxed(&e->key);
	out->pdn = load_relaxed(&e->pdn);
	out->access = load_relaxed(&e->access);
	out->flags = load_relaxed(&e->flags);
	out->iova = load_relaxed(&e->iova);
	out->len = load_relaxed(&e->len);
	out->addr = load_relaxed(&e->addr);
	out->map_id = load_relaxed(&e->map_id);
	out->map_off = load_relaxed(&e->map_off);
	out->gen = gen;
	read_barrier(); /* pairs with write_barrier() in fill() */
	return !(gen & 1) && load_relaxed(&e->gen) == gen;
}

bool key_copy_foreign(const void *mem, uint32_t n, uint32_t key, struct key_entry *out)
{
	const struct key_entry *e = mem;
	uint32_t i = index_of(key);

	return key && i < n && copy_foreign(&e[i], out) && out->key == key;
}

bool key_copy(const struct key_table *t, uint32_t key, struct key_entry *out)
{
	const struct key_entry *e = find(t, key);

	if (e)
		*out = *e;
	return e;
}

const char *key_rights(unsigned int access, char *buf, size_t n)
{
	static const char *const names[] = { "LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ",
					     "REMOTE_ATOMIC", "MW_BIND" };
	size_t at = 0;

	snprintf(buf, n, "none");
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]) && at < n; i++)
		if (access & (1U << i))
			at += (size_t)snprintf(buf + at, n - at, "%s%s", at ? "|" : "", names[i]);
	return buf;
}

static void describe_range(const struct key_entry *e, const struct key_ask *ask, const char *kind,
			   char *buf, size_t n)
{
	unsigned long long base = e->iova, len = e->len, off = ask->va - e->iova;

	if (ask->va < e->iova)
		snprintf(buf, n, "%s 0x%x covers 0x%llx+%llu; 0x%llx begins %llu B before it", kind,
			 ask->key, base, len, (unsigned long long)ask->va,
			 (unsigned long long)(e->iova - ask->va));
	else if (off > len)
		snprintf(buf, n, "%s 0x%x covers 0x%llx+%llu; 0x%llx begins %llu B behind its end",
			 kind, ask->key, base, len, (unsigned long long)ask->va, off - len);
	else
		snprintf(buf, n,
			 "%s 0x%x covers 0x%llx+%llu; the range 0x%llx+%llu exceeds it by %llu",
			 kind, ask->key, base, len, (unsigned long long)ask->va,
			 (unsigned long long)ask->len,
			 (unsigned long long)(ask->len - (len - off)));
}

/* Every verdict but that of a key beneath */
static void describe(const struct key_table *t, enum key_verdict v, const struct key_ask *ask,
		     char *buf, size_t n)
{
	const char *kind = ask->need & REMOTE_RIGHTS ? "rkey" : "lkey";
	const struct key_entry *e = find(t, ask->key);
	char has[80], needs[80];

	if (v == KEY_OK)
		snprintf(buf, n, "%s 0x%x allows it", kind, ask->key);
	else if (v == KEY_UNKNOWN || !e)
		snprintf(buf, n,
			 "%s 0x%x names no memory region (never registered, or deregistered)", kind,
			 ask->key);
	else if (v == KEY_UNBOUND)
		snprintf(buf, n, "%s 0x%x is %s", kind, ask->key,
			 load_relaxed(&e->flags) & KEY_WINDOW
				 ? "a memory window that is not bound"
				 : "an mkey that no UMR has set up, or that was invalidated");
	else if (v == KEY_WRONG_QP)
		snprintf(buf, n, "%s 0x%x is a type 2 window bound to QP 0x%x, not 0x%x", kind,
			 ask->key, load_relaxed(&e->flags) >> KEY_QPN_SHIFT, ask->qpn);
	else if (v == KEY_WRONG_PD)
		snprintf(buf, n, "%s 0x%x belongs to PD 0x%x, the queue to PD 0x%x", kind, ask->key,
			 e->pdn, ask->pdn);
	else if (v == KEY_NO_RIGHT)
		snprintf(buf, n, "%s 0x%x lacks %s; its rights are %s", kind, ask->key,
			 key_rights(ask->need & ~e->access, needs, sizeof(needs)),
			 key_rights(e->access, has, sizeof(has)));
	else if (v == KEY_DEPTHS)
		snprintf(buf, n,
			 "%s 0x%x is made of keys that are made of keys, %d deep or in a circle",
			 kind, ask->key, KEY_DEPTH);
	else if (v == KEY_SIGNED)
		snprintf(buf, n,
			 "%s 0x%x is an mkey with a signature, which atomics and other mkeys "
			 "cannot go through",
			 kind, ask->key);
	else if (v == KEY_APART)
		snprintf(buf, n,
			 "%s 0x%x: the bytes of 0x%llx+%llu lie in too many places for one access",
			 kind, ask->key, (unsigned long long)ask->va, (unsigned long long)ask->len);
	else
		describe_range(e, ask, kind, buf, n);
}

const char *key_describe(const struct key_table *t, enum key_verdict v, const struct key_ask *ask,
			 char *buf, size_t n)
{
	struct descent d;
	int at = 0;

	if (v == KEY_BENEATH) {
		v = descend(t, ask, &d);
		at = snprintf(buf, n,
			      "0x%llx of mkey 0x%x is another key's: ", (unsigned long long)ask->va,
			      ask->key);
		ask = &d.ask;
	}
	if (at >= 0 && (size_t)at < n)
		describe(t, v, ask, buf + at, n - (size_t)at);
	return buf;
}
