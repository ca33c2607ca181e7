// SPDX-License-Identifier: MIT
#include "hca/mkey/signature.h"
#include <string.h>
#include "util/be.h"

/* --- places --- */

static uint64_t pitch(const struct sig_domain *d)
{
	return d->block + d->field;
}

/* Bytes of data before @at of the stream */
static uint64_t data_before(const struct sig_domain *d, uint64_t at)
{
	uint64_t in;

	if (!d->field)
		return at;
	in = at % pitch(d);
	return at / pitch(d) * d->block + (in < d->block ? in : d->block);
}

/* Where the byte @data of the data stands in the stream; the field before it is passed. */
static uint64_t place(const struct sig_domain *d, uint64_t data)
{
	return d->field ? data + data / d->block * d->field : data;
}

uint64_t sig_wire_len(const struct signature *s, uint64_t mem)
{
	return place(&s->wire, data_before(&s->mem, mem));
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The first byte of data that the part needs: where the first block begins whose field is to be
 * made or checked, if its data began before the part. */
static uint64_t first_needed(const struct signature *s, const struct sig_part *p, bool store)
{
	const struct sig_domain *w = &s->wire, *m = &s->mem;
	uint64_t first = p->data, block = w->field ? p->wire / pitch(w) : 0;
	/* received, a field is checked when it is whole; sent, it is made from its first byte on */
	uint64_t ready = block * pitch(w) + w->block + (store ? w->field : 1);

	if (w->field && p->wire + p->len >= ready)
		first = least(first, block * w->block);
	if (m->field && p->end > p->data && p->data / m->block != p->end / m->block)
		first = least(first, p->data / m->block * m->block);
	if (sig_same_places(s) && p->wire + p->len > block * pitch(w) + w->block)
		first = least(first, block * w->block);
	return first;
}

struct sig_part sig_part(const struct signature *s, uint64_t mem, uint64_t wire, uint64_t len,
			 bool store)
{
	struct sig_part p = { .wire = wire, .len = len };
	uint64_t begin, end;

	p.data = data_before(&s->wire, wire);
	p.end = data_before(&s->wire, wire + len);
	p.image = place(&s->mem, first_needed(s, &p, store));
	begin = sig_same_places(s) ? wire : place(&s->mem, p.data);
	end = sig_same_places(s) && store ? wire + len : place(&s->mem, p.end);
	if (end > mem) /* memory ends within a field, which is none then */
		end = sig_same_places(s) && store ? mem : end - s->mem.field;
	begin = least(begin, end);
	p.image = least(p.image, begin);
	p.skip = begin - p.image;
	p.size = end - p.image;
	p.load = store ? p.skip : p.size;
	return p;
}

/* --- fields --- */

/* One call: what it works on */
struct work {
	const struct signature *s;
	const struct sig_part *p;
	uint8_t *image; /* sending reads it */
	struct sig_error *e;
};

/* Where the byte @data of the data stands in the image; *@n is cut to what stands beside it. */
static uint8_t *spot(const struct work *k, uint64_t data, uint64_t *n)
{
	const struct sig_domain *m = &k->s->mem;

	if (m->field)
		*n = least(*n, m->block - data % m->block);
	return k->image + (place(m, data) - k->p->image);
}

static uint64_t guard_of(const struct work *k, const struct sig_domain *d, uint64_t block)
{
	uint64_t state = checksum_start(d->ones), n;
	uint64_t from = block * d->block, to = from + d->block;

	for (; from < to; from += n) {
		n = to - from;
		const uint8_t *data = spot(k, from, &n);

		state = checksum_more(d->guard, state, data, n);
	}
	return checksum_end(d->guard, state);
}

/* T10-DIF is big-endian. The others, whose registers are reflected, begin with the byte of the
 * highest powers, as iSCSI's digests do: that is the lowest one of the number. */
static void compute(const struct work *k, const struct sig_domain *d, uint64_t block,
		    uint8_t *field)
{
	uint64_t guard = guard_of(k, d, block);

	if (sig_has_tags(d)) {
		put_be16(field, (uint16_t)guard);
		put_be16(field + 2, d->app_tag);
		put_be32(field + 4, d->ref_tag + (d->increment ? (uint32_t)block : 0));
		return;
	}
	for (unsigned int i = 0; i < d->field; i++)
		field[i] = (uint8_t)(guard >> (8 * i));
}

static uint64_t guard_in(const struct sig_domain *d, const uint8_t *field)
{
	uint64_t guard = 0;

	if (sig_has_tags(d))
		return get_be16(field);
	for (unsigned int i = d->field; i; i--)
		guard = guard << 8 | field[i - 1];
	return guard;
}

static bool escaped(const struct sig_domain *d, const uint8_t *field)
{
	if (!sig_has_tags(d) || get_be16(field + 2) != SIG_TAG_ESCAPE)
		return false;
	return d->app_escape || (d->ref_escape && get_be32(field + 4) == UINT32_MAX);
}

/* The bit of byte @i of a field in a mask */
static uint8_t bit_of(unsigned int i)
{
	return (uint8_t)(0x80U >> i);
}

/* The first part of @got that is not as in @want, where @mask looks */
static enum sig_wrong compare(const struct sig_domain *d, uint8_t mask, const uint8_t *got,
			      const uint8_t *want)
{
	for (unsigned int i = 0; i < d->field; i++) {
		if (!(mask & bit_of(i)) || got[i] == want[i])
			continue;
		if (!sig_has_tags(d) || i < 2)
			return SIG_GUARD;
		return i < 4 ? SIG_APP_TAG : SIG_REF_TAG;
	}
	return SIG_GOOD;
}

static uint64_t value(const struct sig_domain *d, enum sig_wrong wrong, const uint8_t *field)
{
	if (wrong == SIG_GUARD)
		return guard_in(d, field);
	return wrong == SIG_APP_TAG ? get_be16(field + 2) : get_be32(field + 4);
}

/* @got came in behind @block of stream @d. */
static void check(const struct work *k, const struct sig_domain *d, uint64_t block,
		  const uint8_t *got)
{
	uint8_t want[SIG_FIELD] = { 0 };

	if (!k->s->check || k->e->wrong != SIG_GOOD || escaped(d, got))
		return;
	compute(k, d, block, want);
	k->e->wrong = compare(d, k->s->check, got, want);
	if (k->e->wrong == SIG_GOOD)
		return;
	k->e->on_wire = d == &k->s->wire;
	k->e->expected = value(d, k->e->wrong, got);
	k->e->actual = value(d, k->e->wrong, want);
	k->e->offset = block * pitch(d);
}

/* The field behind @block of stream @d; @in: the one that came in, or NULL. */
static void make(const struct work *k, const struct sig_domain *d, uint64_t block,
		 const uint8_t *in, uint8_t *out)
{
	uint8_t every = (uint8_t)(0xff00U >> d->field), copy = in ? k->s->copy & every : 0;

	if (copy != every)
		compute(k, d, block, out);
	for (unsigned int i = 0; i < d->field; i++)
		if (copy & bit_of(i))
			out[i] = in[i];
}

/* The field behind @block of memory in the image, or NULL: memory ends before its end. */
static uint8_t *mem_field(const struct work *k, uint64_t block)
{
	const struct sig_domain *m = &k->s->mem;
	uint64_t at = block * pitch(m) + m->block - k->p->image;

	return at + m->field <= k->p->size ? k->image + at : NULL;
}

/* --- streams --- */

/* A run of the wire's stream that lies in the data of one block, or in the field behind it */
struct run {
	uint64_t block, in, n; /* in: bytes from the block's start */
	bool is_data;
};

/* The run at @at, no longer than to the part's end */
static struct run run_at(const struct work *k, uint64_t at)
{
	const struct sig_domain *w = &k->s->wire;
	struct run r = { 0, at, k->p->wire + k->p->len - at, true };

	if (!w->field)
		return r;
	r.block = at / pitch(w);
	r.in = at % pitch(w);
	r.is_data = r.in < w->block;
	r.n = least(r.n, (r.is_data ? w->block : pitch(w)) - r.in);
	return r;
}

static void send_data(const struct work *k, uint64_t data, uint64_t len, uint8_t *to)
{
	for (uint64_t n; len; data += n, to += n, len -= n) {
		n = len;
		const uint8_t *from = spot(k, data, &n);

		memcpy(to, from, n);
	}
}

static void send_field(const struct work *k, const struct run *r, uint8_t *to)
{
	const struct sig_domain *w = &k->s->wire;
	const uint8_t *in = sig_same_places(k->s) ? mem_field(k, r->block) : NULL;
	uint8_t field[SIG_FIELD];

	make(k, w, r->block, in, field);
	memcpy(to, field + (r->in - w->block), r->n);
}

/* Blocks of memory whose last byte is in the part */
static void blocks_of(const struct work *k, uint64_t *first, uint64_t *end)
{
	uint32_t block = k->s->mem.block;

	*first = k->s->mem.field ? k->p->data / block : 0;
	*end = k->s->mem.field ? k->p->end / block : 0;
}

void sig_send(const struct signature *s, const struct sig_part *p, const uint8_t *image,
	      uint8_t *part, struct sig_error *e)
{
	struct work k = { s, p, (uint8_t *)(uintptr_t)image, e };
	uint64_t data = p->data, b, end;

	for (uint64_t done = 0; done < p->len;) {
		struct run r = run_at(&k, p->wire + done);

		if (r.is_data) {
			send_data(&k, data, r.n, part + done);
			data += r.n;
		} else {
			send_field(&k, &r, part + done);
		}
		done += r.n;
	}
	for (blocks_of(&k, &b, &end); b < end; b++) {
		const uint8_t *field = mem_field(&k, b);

		if (field)
			check(&k, &s->mem, b, field);
	}
}

static void receive_data(const struct work *k, uint64_t data, uint64_t len, const uint8_t *from)
{
	for (uint64_t n; len; data += n, from += n, len -= n) {
		n = len;
		uint8_t *to = spot(k, data, &n);

		memcpy(to, from, n);
	}
}

/* The bytes of memory's field that stand where the run stands on the wire */
static void store_field(const struct work *k, const struct run *r, const uint8_t *in)
{
	uint64_t at = r->block * pitch(&k->s->mem) + r->in - k->p->image, n = r->n;
	uint8_t field[SIG_FIELD];

	if (at >= k->p->size)
		return;
	n = least(n, k->p->size - at);
	make(k, &k->s->mem, r->block, in, field);
	memcpy(k->image + at, field + (r->in - k->s->mem.block), n);
}

/* Checks the field of which a run has come in, if that is its end and all before is here too. */
static void receive_field(const struct work *k, const struct run *r, const uint8_t *from,
			  struct sig_rest *rest)
{
	const struct sig_domain *w = &k->s->wire;
	uint64_t at = r->in - w->block;

	if (!at || rest->block != r->block || rest->n != at)
		rest->n = 0;
	rest->block = r->block;
	memcpy(rest->field + at, from, r->n);
	if (sig_same_places(k->s))
		store_field(k, r, rest->field);
	if (at == rest->n)
		rest->n += (unsigned int)r->n;
	if (rest->n == w->field)
		check(k, w, r->block, rest->field);
}

void sig_receive(const struct signature *s, const struct sig_part *p, const uint8_t *part,
		 uint8_t *image, struct sig_rest *rest, struct sig_error *e)
{
	struct work k = { s, p, image, e };
	uint64_t data = p->data, b, end;

	for (uint64_t done = 0; done < p->len;) {
		struct run r = run_at(&k, p->wire + done);

		if (r.is_data) {
			receive_data(&k, data, r.n, part + done);
			data += r.n;
		} else {
			receive_field(&k, &r, part + done, rest);
		}
		done += r.n;
	}
	if (sig_same_places(s))
		return;
	for (blocks_of(&k, &b, &end); b < end; b++) {
		uint8_t *field = mem_field(&k, b);

		if (field)
			make(&k, &s->mem, b, NULL, field);
	}
}
