// SPDX-License-Identifier: MIT
#include "engine/idle/vain.h"
#include "util/barrier.h"

__thread struct vain vain_mine __attribute__((tls_model("initial-exec")));

static bool others_poll(const struct vain *v, struct vain_threads *t, uint64_t now)
{
	const struct vain *last = load_relaxed(&t->last);
	uint64_t changed = load_relaxed(&t->changed);

	if (last != v) {
		store_relaxed(&t->last, v);
		if (last)
			store_relaxed(&t->changed, now);
		return last != NULL;
	}
	return changed && now - changed < VAIN_APART;
}

enum vain_step vain_next(struct vain *v, struct vain_threads *t, bool may_rest, uint64_t now)
{
	bool others = others_poll(v, t, now), crowded = now < v->crowd_end && !others;
	uint64_t most = !crowded ? VAIN_NS : may_rest ? 0 : VAIN_NS_CROWDED;

	if (v->polls == v->mask + 1)
		v->since = now;
	v->mask = (crowded ? VAIN_LOOKS_CROWDED : VAIN_LOOKS) - 1;
	if (now - v->since < most)
		return VAIN_POLL;
	v->polls = 0;
	if (others)
		return VAIN_POLL;
	return crowded ? VAIN_REST : VAIN_YIELD;
}

void vain_yielded(struct vain *v, uint64_t before, uint64_t after)
{
	uint64_t took = after - before, crowd = 2 * v->crowd;

	if (crowd < VAIN_CROWD_TIMES * took)
		crowd = VAIN_CROWD_TIMES * took;
	if (crowd < VAIN_CROWD_LEAST)
		crowd = VAIN_CROWD_LEAST;
	if (crowd > VAIN_CROWD_MOST)
		crowd = VAIN_CROWD_MOST;
	v->crowd = took < VAIN_SHARED ? 0 : crowd;
	v->crowd_end = after + v->crowd;
}

void vain_tell(struct vain_threads *t, const struct vain *v, uint64_t took)
{
	uint32_t arms = load_relaxed(&t->arms);
	bool waits = arms != load_relaxed(&t->arms_told);

	store_relaxed(&t->arms_told, arms);
	store_relaxed(&t->turn, took < load_relaxed(&t->took) ? took : load_relaxed(&t->took));
	store_relaxed(&t->took, took);
	store_relaxed(&t->crowd_end, v->crowd && !waits ? v->crowd_end : 0);
}

bool vain_armed(struct vain_threads *t)
{
	store_relaxed(&t->arms, load_relaxed(&t->arms) + 1);
	if (likely(!load_relaxed(&t->crowd_end)))
		return false;
	store_relaxed(&t->crowd_end, 0);
	return true;
}

uint64_t vain_turn(const struct vain_threads *t, uint64_t now)
{
	return now < load_relaxed(&t->crowd_end) ? load_relaxed(&t->turn) : 0;
}

uint64_t vain_rest(struct vain *v)
{
	if (!v->rest)
		v->rest = VAIN_REST_FIRST;
	else if (v->rest < VAIN_REST_MOST)
		v->rest *= 2;
	return v->rest;
}
