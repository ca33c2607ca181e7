// SPDX-License-Identifier: MIT
#include "link/copy.h"
#include <errno.h>
#include <stdbool.h>
#include "util/barrier.h"
#include "util/guard.h"

enum { LINE = 64 };

/* A place in a list of pieces */
struct cursor {
	const struct piece *piece;
	unsigned int left; /* pieces from @piece on */
	uint32_t used; /* bytes of @piece that have been passed */
};

static void cursor_skip(struct cursor *c, uint64_t bytes)
{
	while (c->left && bytes >= c->piece->len - c->used) {
		bytes -= c->piece->len - c->used;
		c->piece++;
		c->left--;
		c->used = 0;
	}
	c->used += c->left ? (uint32_t)bytes : 0;
}

static struct cursor cursor_at(const struct piece *pieces, unsigned int n, uint64_t skip)
{
	struct cursor c = { pieces, n, 0 };

	cursor_skip(&c, skip);
	return c;
}

/* Contiguous bytes at the cursor, never 0 unless it is at the end, at most @max */
static size_t cursor_run(const struct cursor *c, size_t max)
{
	size_t run = c->left ? c->piece->len - c->used : 0;

	return run < max ? run : max;
}

static char *cursor_address(const struct cursor *c)
{
	return (char *)(uintptr_t)(c->piece->addr + c->used);
}

/* Most messages lie in one piece. */
static bool in_first(const struct piece *pieces, unsigned int n, uint64_t skip, size_t len)
{
	return likely(n && len && skip < pieces->len && len <= pieces->len - skip);
}

static char *at(const struct piece *p, uint64_t skip)
{
	return (char *)(uintptr_t)(p->addr + skip);
}

int copy_gather(void *dst, const struct piece *pieces, unsigned int n, uint64_t skip, size_t len)
{
	struct cursor c;

	if (in_first(pieces, n, skip, len))
		return guard_copy(dst, at(pieces, skip), len);
	c = cursor_at(pieces, n, skip);
	for (size_t done = 0, run; done < len; done += run, cursor_skip(&c, run)) {
		char *to = (char *)dst + done;
		int err = EFAULT;

		run = cursor_run(&c, len - done);
		if (run)
			err = run == len - done ? guard_copy(to, cursor_address(&c), run)
						: guard_copy_unordered(to, cursor_address(&c), run);
		if (err)
			return err;
	}
	return 0;
}

int copy_scatter(const struct piece *pieces, unsigned int n, uint64_t skip, const void *src,
		 size_t len)
{
	struct cursor c;

	if (in_first(pieces, n, skip, len))
		return guard_copy(at(pieces, skip), src, len);
	c = cursor_at(pieces, n, skip);
	for (size_t done = 0, run; done < len; done += run, cursor_skip(&c, run)) {
		const char *from = (const char *)src + done;
		int err = EFAULT;

		run = cursor_run(&c, len - done);
		if (run)
			err = run == len - done
				      ? guard_copy(cursor_address(&c), from, run)
				      : guard_copy_unordered(cursor_address(&c), from, run);
		if (err)
			return err;
	}
	return 0;
}

static int copy_runs(struct cursor *to, struct cursor *from, uint64_t len)
{
	while (len) {
		size_t run = cursor_run(to, cursor_run(from, len));

		if (!run || guard_copy_unordered(cursor_address(to), cursor_address(from), run))
			return EFAULT;
		cursor_skip(to, run);
		cursor_skip(from, run);
		len -= run;
	}
	return 0;
}

/* How many of the last bytes lie in one line of the last piece that is not empty */
static size_t last_line(const struct piece *dst, unsigned int n)
{
	size_t in_line;

	while (n && !dst[n - 1].len)
		n--;
	if (!n)
		return 0;
	dst += n - 1;
	in_line = ((dst->addr + dst->len - 1) & (LINE - 1)) + 1;
	return dst->len < in_line ? dst->len : in_line;
}

static uint64_t total(const struct piece *pieces, unsigned int n)
{
	uint64_t sum = 0;

	while (n--)
		sum += pieces[n].len;
	return sum;
}

/* The last line is gathered first: it is stored in one go, wherever the source's pieces meet. */
int copy_pieces(const struct piece *dst, unsigned int ndst, const struct piece *src,
		unsigned int nsrc, uint64_t src_skip)
{
	struct cursor to = cursor_at(dst, ndst, 0), from = cursor_at(src, nsrc, src_skip);
	size_t last = last_line(dst, ndst);
	uint64_t bulk = total(dst, ndst) - last;
	char line[LINE];

	if (!last)
		return 0;
	if (cursor_run(&to, bulk + last) == bulk + last &&
	    cursor_run(&from, bulk + last) == bulk + last)
		return guard_copy(cursor_address(&to), cursor_address(&from), bulk + last);
	if (copy_runs(&to, &from, bulk) ||
	    copy_gather(line, from.piece, from.left, from.used, last))
		return EFAULT;
	return guard_copy(cursor_address(&to), line, last);
}
