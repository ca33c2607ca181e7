// SPDX-License-Identifier: MIT
/* Ethernet frames: the headers that are found lie in the frame; sums, hashes, segments and frames
 * that are cut touch nothing else. The input: a length of headers and fields to hash; then the
 * frame. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "wire/frame.h"

enum { HEAD = 10, MAX = 1024 };

const struct fuzz_target fuzz_target = { "frame", HEAD + MAX, 300000 };

static void inside(const struct frame *f, const uint8_t *p, uint32_t least)
{
	must(!p || (p >= f->buf && p + least <= f->buf + f->len));
}

static void layer(const struct frame *f, const struct frame_layer *l)
{
	static const uint8_t ip[] = { 0, 20, 40 }, l4[] = { 0, 20, 8, 8 };

	inside(f, l->eth, FRAME_ETH_LEN);
	inside(f, l->vlan, 2);
	must(!l->l3 || l->ip);
	must(!l->l4 || l->l4_head);
	if (l->l3)
		inside(f, l->ip, ip[l->l3]);
	if (l->l4) {
		inside(f, l->l4_head, l->l4_len);
		inside(f, l->l4_head, l4[l->l4]);
	}
}

static void tunnels(const struct frame *f)
{
	inside(f, f->vxlan, 8);
	inside(f, f->gre, 4);
	inside(f, f->mpls, 4);
}

/* What was filled in is right. */
static void sums(uint8_t *frame, uint32_t len)
{
	unsigned int which = FRAME_L3_OK | FRAME_L4_OK;
	struct frame f;

	frame_checksums_fill(frame, len, which);
	frame_parse(frame, len, &f);
	if (f.outer.l3 && !f.outer.cut)
		must(frame_checksums(&f.outer) & FRAME_L3_OK);
}

/* What the kernel may merge; the frames have together its payload. */
static void merged(const struct frame *f, uint32_t step)
{
	uint8_t out[MAX];
	struct frame_merged m;
	uint32_t n, all = 0, k = 0;

	if (!frame_merged(f, f->outer.proto, 0, step, &m))
		return;
	while ((n = frame_of_merged(&m, k, out))) {
		must(n <= sizeof(out) && n >= m.head);
		all += n - m.head;
		k++;
	}
	must(all == m.total);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	uint32_t n, head = (uint32_t)fuzz_take(&b, 2);
	uint64_t fields = fuzz_take(&b, 8);
	uint8_t key[FRAME_HASH_KEY], *frame;
	const uint8_t *from;
	struct frame f;

	n = (uint32_t)fuzz_take_run(&b, MAX, &from);
	frame = malloc(n ? n : 1);
	if (!frame)
		abort();
	memcpy(frame, from, n);
	memset(key, 0x6d, sizeof(key));
	frame_parse(frame, n, &f);
	layer(&f, &f.outer);
	layer(&f, &f.inner);
	tunnels(&f);
	frame_is_multicast(&f);
	frame_checksums(&f.outer);
	frame_hash(&f, fields, key);
	frame_hash(&f, UINT64_MAX, key);
	frame_fcs(frame, n);
	merged(&f, head);
	if (head <= n)
		frame_segment(frame, &(struct frame_cut){ head, 3, n - head, n, 2 });
	frame_checksum_complete(frame, n, head, (uint32_t)fields);
	sums(frame, n);
	free(frame);
	return 0;
}
