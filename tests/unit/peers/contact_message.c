// SPDX-License-Identifier: MIT
#include "peers/contact_message.h"
#include <errno.h>
#include "peers/host_page.h"
#include "test.h"

enum { KEYS = 64, ENTRY = 48, LEN = CONTACT_MESSAGE_LEN };

static const struct contact_message full = {
	.kind = CONTACT_SHARED,
	.slot = 0x201,
	.cookie = UINT64_C(0x1122334455667788),
	.cookie_addr = UINT64_C(0x7f0123456780),
	.gen = 0xabcde,
	.n_keys = KEYS,
	.key_bytes = KEYS * ENTRY,
	.ring_size = 0x10000,
	.mail_bit = 77,
	.offers = 1,
	.trusts = 2,
	.share = { 0x1203, 1, 9, { 0x15, 0x16, 0x1000, 0x2000 } },
	.secret_addr = UINT64_C(0x7f0fedcba980),
	.nonce = UINT64_C(0x99aabbccddeeff00),
	.echo = UINT64_C(0x0102030405060708),
	.proof = UINT64_C(0x1112131415161718),
};

static uint64_t at(const uint8_t *bytes, size_t offset, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, bytes + offset, n);
	return v;
}

/* Processes of one host may run different builds: the places are part of the layout's version. */
TEST(every_field_has_its_place)
{
	uint8_t b[LEN];

	contact_message_encode(&full, b);
	check_eq(at(b, 0, 4), 0x73687063);
	check_eq(at(b, 4, 4), HOST_LAYOUT);
	check_eq(at(b, 8, 4), 9);
	check_eq(at(b, 12, 4), full.slot);
	check_eq(at(b, 16, 8), full.cookie);
	check_eq(at(b, 24, 8), full.cookie_addr);
	check_eq(at(b, 32, 4), full.gen);
	check_eq(at(b, 36, 4), full.n_keys);
	check_eq(at(b, 40, 8), full.key_bytes);
	check_eq(at(b, 48, 4), full.ring_size);
	check_eq(at(b, 52, 4), full.mail_bit);
	check_eq(at(b, 56, 4), full.offers);
	check_eq(at(b, 60, 4), full.trusts);
	check_eq(at(b, 64, 4), full.share.key);
	check_eq(at(b, 68, 4), full.share.found);
	check_eq(at(b, 72, 8), full.share.gen);
	check_eq(at(b, 80, 8), full.share.file.dev);
	check_eq(at(b, 88, 8), full.share.file.ino);
	check_eq(at(b, 96, 8), full.share.file.offset);
	check_eq(at(b, 104, 8), full.share.file.len);
	check_eq(at(b, 112, 8), full.secret_addr);
	check_eq(at(b, 120, 8), full.nonce);
	check_eq(at(b, 128, 8), full.echo);
	check_eq(at(b, 136, 8), full.proof);
}

TEST(what_is_decoded_encodes_to_the_same_bytes)
{
	struct contact_message m;
	uint8_t b[LEN], again[LEN];

	contact_message_encode(&full, b);
	check_eq(contact_message_decode(b, LEN, &m), 0);
	contact_message_encode(&m, again);
	check_mem(again, b, LEN);
	check_eq(m.kind, full.kind);
	check_eq(m.share.file.len, full.share.file.len);
}

TEST(other_lengths_magics_and_layouts_are_refused)
{
	uint8_t b[LEN + 1] = { 0 };
	struct contact_message m;

	contact_message_encode(&full, b);
	for (size_t n = 0; n <= LEN + 1; n++)
		check_eq(contact_message_decode(b, n, &m), n == LEN ? 0 : EPROTO);
	for (size_t i = 0; i < 8; i++) {
		b[i] ^= 1;
		check_eq(contact_message_decode(b, LEN, &m), EPROTO);
		b[i] ^= 1;
	}
}

TEST(a_peer_whose_numbers_do_not_fit_does_not_present_itself)
{
	static const struct {
		uint32_t slot, mail_bit, n_keys;
		uint64_t key_bytes;
		bool fits;
	} cases[] = {
		{ NUMBER_SLOTS - 1, HOST_MAIL_WORDS * 64 - 1, KEYS, KEYS * ENTRY, true },
		{ NUMBER_SLOTS, 0, KEYS, KEYS * ENTRY, false },
		{ 0, HOST_MAIL_WORDS * 64, KEYS, KEYS * ENTRY, false },
		{ 0, 0, KEYS + 1, KEYS * ENTRY, false },
		{ 0, 0, KEYS, KEYS * ENTRY - 1, false },
		{ 0, 0, UINT32_MAX, KEYS * ENTRY, false },
		{ 0, 0, KEYS, UINT64_C(1) << 32, true },
		{ 0, 0, KEYS, (UINT64_C(1) << 32) + 1, false },
		{ 0, 0, 0, 0, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct contact_message m = full;

		m.slot = cases[i].slot;
		m.mail_bit = cases[i].mail_bit;
		m.n_keys = cases[i].n_keys;
		m.key_bytes = cases[i].key_bytes;
		check_eq(contact_message_presents(&m, KEYS, KEYS * ENTRY), cases[i].fits);
	}
}

RUN_TESTS(unit_test(every_field_has_its_place),
	  unit_test(what_is_decoded_encodes_to_the_same_bytes),
	  unit_test(other_lengths_magics_and_layouts_are_refused),
	  unit_test(a_peer_whose_numbers_do_not_fit_does_not_present_itself))
