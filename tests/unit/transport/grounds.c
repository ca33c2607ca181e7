// SPDX-License-Identifier: MIT
/* The grounds of a refusal: what a peer says is a code and numbers, and whatever they are, they
 * become a sentence of ours, or none, and decide nothing. */
#include <string.h>
#include "pair.h"
#include "obs/explain.h"
#include "transport/grounds.h"
#include "util/be.h"

static struct grounds carried(struct grounds g)
{
	uint8_t bytes[GROUNDS_BYTES + 4] = { 0 };
	struct grounds out;

	grounds_encode(&g, bytes);
	check(!grounds_decode(bytes, GROUNDS_BYTES - 1, &out));
	check(grounds_decode(bytes, sizeof(bytes), &out)); /* a later release adds to it */
	return out;
}

TEST(each_code_has_a_text_that_fits_whatever_the_numbers)
{
	char text[GROUNDS_TEXT];

	for (uint32_t code = 1; code < GROUNDS_CODES; code++) {
		struct grounds g =
			carried((struct grounds){ code, { UINT64_MAX, UINT64_MAX, UINT64_MAX } });

		check_eq(g.code, code);
		check(grounds_text(&g, text));
		check(strlen(text) >= 16 && strlen(text) < GROUNDS_TEXT - 1);
		check(!strpbrk(text, "{}%\n"));
	}
}

TEST(an_unknown_code_is_no_grounds)
{
	static const uint32_t codes[] = { GROUNDS_NONE, GROUNDS_CODES, 1000, UINT32_MAX };
	char text[GROUNDS_TEXT];

	for (unsigned int i = 0; i < 4; i++) {
		struct grounds g = carried((struct grounds){ codes[i] });

		check(!grounds_text(&g, text));
	}
}

/* Codes are a protocol between releases. */
TEST(codes_keep_their_values)
{
	check_eq(GROUNDS_DISABLED, 1);
	check_eq(GROUNDS_PSNS, 7);
	check_eq(GROUNDS_SHORT, 18);
	check_eq(GROUNDS_KEY_UNKNOWN, 23);
	check_eq(GROUNDS_NO_QP, 32);
	check_eq(GROUNDS_EMPTY_SRQ, 35);
}

/* --- keys --- */

static struct grounds missed(struct pair *p, uint64_t va, uint64_t len)
{
	struct key_ask ask = { p->b->mr->ib.rkey, 0, va, len, IBV_ACCESS_REMOTE_WRITE, 0 };

	return grounds_of_key(p->rig.hca.keys, KEY_RANGE, &ask);
}

TEST(how_far_a_range_misses_is_told_up_to_a_page)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct key_entry e;

	check(key_copy(p->rig.hca.keys, p->b->mr->ib.rkey, &e));
	uint64_t end = e.iova + e.len;

	check_eq(missed(p, end - 8, 12).code, GROUNDS_KEY_BEHIND);
	check_eq(missed(p, end - 8, 12).n[0], 4);
	check_eq(missed(p, end - 8, 8 + 4096).n[0], 4096);
	check_eq(missed(p, end - 8, 8 + 4097).code, GROUNDS_KEY_RANGE);
	check_eq(missed(p, end, 1).code, GROUNDS_KEY_RANGE);
	check_eq(missed(p, end + 1, 1).code, GROUNDS_KEY_RANGE);
	check_eq(missed(p, e.iova - 1, 2).code, GROUNDS_KEY_BEFORE);
	check_eq(missed(p, e.iova - 1, 2).n[0], 1);
	check_eq(missed(p, e.iova - 8, 8).code, GROUNDS_KEY_RANGE);
	check_eq(missed(p, e.iova - 4097, 8192).code, GROUNDS_KEY_RANGE);
	check_eq(missed(p, end - 8, 12).n[1], 0);
	pair_close(p);
}

TEST(each_verdict_about_a_key_is_grounds)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct key_ask ask = { p->b->mr->ib.rkey, 0, 0, 8, IBV_ACCESS_REMOTE_ATOMIC, 0 };
	char text[GROUNDS_TEXT];

	for (int v = KEY_OK; v <= KEY_SIGNED; v++) {
		struct grounds g = grounds_of_key(p->rig.hca.keys, (enum key_verdict)v, &ask);

		check(grounds_text(&g, text));
	}
	pair_close(p);
}

/* --- the requester --- */

static void tell(struct pair *p, uint32_t psn, struct grounds g, uint32_t len)
{
	uint8_t bytes[GROUNDS_BYTES];
	struct seg s = { .op = OP_GROUNDS,
			 .flags = SEG_SQPN,
			 .pkey = 0xffff,
			 .dqpn = p->a->q.qp.qpn,
			 .sqpn = p->b->q.qp.qpn,
			 .psn = psn,
			 .npsn = 1,
			 .data = bytes,
			 .len = len,
			 .from = p->a->q.dest };

	grounds_encode(&g, bytes);
	tqp_input(&p->a->q, &s, p->rig.net.now);
}

static void nak(struct pair *p, uint32_t psn)
{
	struct seg s = { .op = OP_ACKNOWLEDGE,
			 .flags = SEG_SQPN,
			 .pkey = 0xffff,
			 .dqpn = p->a->q.qp.qpn,
			 .sqpn = p->b->q.qp.qpn,
			 .psn = psn,
			 .npsn = 1,
			 .syndrome = aeth_nak(NAK_REMOTE_ACCESS),
			 .from = p->a->q.dest };

	tqp_input(&p->a->q, &s, p->rig.net.now);
}

static struct pair *open_waiting(void)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	p->rig.net.cut = true;
	for (int i = 0; i < 3; i++)
		rig_post(p->a, &w);
	return p;
}

static bool said(const char *what)
{
	char text[EXPLAIN_TEXT];

	check_eq(explain_last(text, sizeof(text)), 0);
	return strstr(text, what);
}

TEST(the_peers_words_are_those_about_the_request_that_fails)
{
	struct pair *p = open_waiting();

	tell(p, 0, (struct grounds){ GROUNDS_KEY_PD }, GROUNDS_BYTES);
	tell(p, 1, (struct grounds){ GROUNDS_KEY_UNKNOWN }, GROUNDS_BYTES); /* it fails later */
	check_eq(p->a->q.qp.state, IBV_QPS_RTS);
	nak(p, 0);
	check_eq(p->a->q.qp.state, IBV_QPS_ERR);
	check(said("peer: the rkey belongs to another PD"));
	pair_close(p);
}

/* A refusal puts the peer's QP into ERR, and the next try hears only that. */
TEST(why_it_left_counts_more_than_that_it_is_gone)
{
	struct pair *p = open_waiting();

	tell(p, 0, (struct grounds){ GROUNDS_STATE, { IBV_QPS_INIT } }, GROUNDS_BYTES);
	tell(p, 0, (struct grounds){ GROUNDS_INVALIDATE }, GROUNDS_BYTES);
	tell(p, 0, (struct grounds){ GROUNDS_STATE, { IBV_QPS_ERR } }, GROUNDS_BYTES);
	nak(p, 0);
	check(said("peer: the key that it invalidates"));
	pair_close(p);
}

TEST(words_about_another_request_are_not_believed)
{
	static const uint32_t psns[] = { 1, 2, 3, 0xffffff };

	for (unsigned int i = 0; i < 4; i++) {
		struct pair *p = open_waiting();

		tell(p, psns[i], (struct grounds){ GROUNDS_KEY_PD }, GROUNDS_BYTES);
		nak(p, 0);
		check_eq(p->a->q.qp.state, IBV_QPS_ERR);
		check(!said("peer:"));
		check(said("cover the range and allow it"));
		pair_close(p);
	}
}

TEST(words_that_nobody_knows_change_nothing)
{
	struct pair *p = open_waiting();

	tell(p, 0, (struct grounds){ GROUNDS_CODES }, GROUNDS_BYTES);
	tell(p, 0, (struct grounds){ GROUNDS_KEY_PD }, 3);
	check_eq(p->a->q.qp.state, IBV_QPS_RTS);
	pair_none(p->a, false);
	nak(p, 0);
	check(!said("peer:"));
	pair_close(p);
}

RUN_TESTS(unit_test(each_code_has_a_text_that_fits_whatever_the_numbers),
	  unit_test(an_unknown_code_is_no_grounds), unit_test(codes_keep_their_values),
	  unit_test(how_far_a_range_misses_is_told_up_to_a_page),
	  unit_test(each_verdict_about_a_key_is_grounds),
	  unit_test(the_peers_words_are_those_about_the_request_that_fails),
	  unit_test(why_it_left_counts_more_than_that_it_is_gone),
	  unit_test(words_about_another_request_are_not_believed),
	  unit_test(words_that_nobody_knows_change_nothing))
