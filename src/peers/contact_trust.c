// SPDX-License-Identifier: MIT
#include "peers/contact_trust.h"
#include <string.h>

enum trust_word trust_word(const char *text)
{
	if (!text)
		return TRUST_NO_WORD;
	if (!strcmp(text, "0"))
		return TRUST_NOBODY;
	return strcmp(text, "1") ? TRUST_NO_WORD : TRUST_EVERYBODY;
}

bool trust_stranger(uid_t peer, uid_t ours, bool alike, bool seen)
{
	return peer != ours || (alike && !seen);
}

/* A process of our own user may have another user id since it has bound the name. */
enum trust_claim trust_slot(const struct trust_name *peer, const struct trust_name *owner)
{
	if (peer->pid != owner->pid || (peer->stranger && peer->uid != owner->uid))
		return TRUST_CLAIM_FALSE;
	return peer->pid ? TRUST_CLAIM_TRUE : TRUST_CLAIM_UNSEEN;
}

static struct trust_share share(uint64_t contacts, uint64_t pending)
{
	return (struct trust_share){ contacts ? (uint32_t)contacts : 1,
				     pending ? (uint32_t)pending : 1 };
}

struct trust_limits trust_limits(uint32_t places, uint64_t descriptors)
{
	uint64_t n = places / 2 < descriptors / 8 ? places / 2 : descriptors / 8;

	return (struct trust_limits){ .all = share(n, n / 4), .each = share(n / 2, n / 16) };
}

static bool below(const struct trust_share *taken, const struct trust_share *most)
{
	return taken->contacts < most->contacts && taken->pending < most->pending;
}

bool trust_admits(const struct trust_limits *taken, const struct trust_limits *most, bool asked)
{
	return below(&taken->all, &most->all) && (asked || below(&taken->each, &most->each));
}

bool trust_segment(const struct seg *s)
{
	return !(s->flags & (SEG_NET | SEG_MCAST)) && s->op != FRAME_OP && !s->damaged;
}

bool trust_name(const struct trust_name *n)
{
	return n->pid > 0 && n->shown > 0 && n->watched && (n->exact || n->answered == n->pid);
}

bool trust_offer(enum trust_word word)
{
	return word != TRUST_NOBODY;
}

bool trust_lend(enum trust_word word)
{
	return word == TRUST_EVERYBODY;
}

bool trust_proof(uint64_t proof, uint64_t secret)
{
	return proof && proof == secret;
}

bool trust_file(bool mutual, bool direct, bool alive)
{
	return mutual && direct && alive;
}
