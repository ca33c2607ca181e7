// SPDX-License-Identifier: MIT
#include "link/parcel.h"
#include <stdlib.h>
#include <string.h>
#include "link/copy.h"
#include "util/barrier.h"
#include "wire/grh.h"
#include <errno.h>

/* Bytes behind the struct, in this order. */
struct sizes {
	size_t pieces, av, grh, data;
};

static struct sizes sizes_of(const struct seg *s, bool gather)
{
	bool refs = s->npieces && !gather;

	return (struct sizes){
		.pieces = refs ? s->npieces * sizeof(struct piece) : 0,
		.av = s->av ? sizeof(struct av) : 0,
		.grh = s->grh ? GRH_LEN : 0,
		.data = refs ? 0 : s->len,
	};
}

static uint8_t *put(uint8_t *to, const void *from, size_t n)
{
	if (n)
		memcpy(to, from, n);
	return to + n;
}

/* Copies what @s points to behind @p; offsets of pieces and av keep their alignment of 8. */
static int fill(struct parcel *p, const struct seg *s, const struct sizes *n)
{
	uint8_t *at = (uint8_t *)(p + 1), *pieces = at, *av, *grh;

	av = put(at, s->pieces, n->pieces);
	grh = put(av, s->av, n->av);
	at = put(grh, s->grh, n->grh);
	p->seg.pieces = n->pieces ? (const struct piece *)pieces : NULL;
	p->seg.npieces = n->pieces ? s->npieces : 0;
	p->seg.av = n->av ? (const struct av *)av : NULL;
	p->seg.grh = n->grh ? grh : NULL;
	p->seg.data = n->data ? at : NULL;
	if (n->data && s->npieces)
		return copy_gather(at, s->pieces, s->npieces, 0, n->data);
	put(at, s->data, n->data);
	return 0;
}

int parcel_make(const struct seg *s, bool by_value, struct parcel **out)
{
	struct sizes n = sizes_of(s, by_value);
	struct parcel *p = malloc(sizeof(*p) + n.pieces + n.av + n.grh + n.data);
	int err;

	if (!p)
		return ENOMEM;
	*p = (struct parcel){ .seg = *s };
	err = fill(p, s, &n);
	if (err) {
		free(p);
		return err;
	}
	if (s->from)
		fetch_add_relaxed(&p->seg.from->refs, 1);
	*out = p;
	return 0;
}

void parcel_free(struct parcel *p)
{
	if (!p)
		return;
	if (p->seg.from)
		p->seg.from->ops->put(p->seg.from);
	free(p);
}
