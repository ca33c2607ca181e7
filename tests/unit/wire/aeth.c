// SPDX-License-Identifier: MIT
#include "test.h"
#include "wire/aeth.h"

TEST(kinds_and_codes_come_apart)
{
	check_eq(aeth_kind(0x1f), AETH_ACK);
	check_eq(aeth_kind(0x2c), AETH_RNR);
	check_eq(aeth_code(0x2c), 12);
	check_eq(aeth_kind(0x62), AETH_NAK);
	check_eq(aeth_code(0x62), NAK_REMOTE_ACCESS);
	check_eq(aeth_kind(0x41), AETH_RESERVED);
	check_eq(aeth_kind(0x9f), AETH_ACK); /* the top bit is reserved */
	check_eq(aeth_nak(NAK_PSN_SEQUENCE), 0x60);
	check_eq(aeth_nak(NAK_REMOTE_OPERATIONAL), 0x63);
	check_eq(aeth_rnr(12), 0x2c);
}

TEST(credits_round_down_to_a_code)
{
	check_eq(aeth_credits(AETH_UNLIMITED), UINT32_MAX);
	check_eq(aeth_credits(5), 6);
	check_eq(aeth_credits(30), 32768);
	for (uint32_t n = 0; n < 40000; n++) {
		uint8_t s = aeth_ack(n);

		check_eq(aeth_kind(s), AETH_ACK);
		check(aeth_credits(s) <= n);
		check(aeth_code(s) == 30 || aeth_credits((uint8_t)(s + 1)) > n);
	}
	check_eq(aeth_ack(UINT32_MAX), 30);
}

TEST(rnr_timers_are_the_specified_ones)
{
	check_eq(aeth_rnr_ns(0), 655360000);
	check_eq(aeth_rnr_ns(1), 10000);
	check_eq(aeth_rnr_ns(5), 60000);
	check_eq(aeth_rnr_ns(12), 640000);
	check_eq(aeth_rnr_ns(25), 61440000);
	check_eq(aeth_rnr_ns(31), 491520000);
	for (unsigned int t = 2; t < 32; t++)
		check(aeth_rnr_ns(t) > aeth_rnr_ns(t - 1));
	for (unsigned int t = 4; t < 32; t++)
		check_eq(aeth_rnr_ns(t), 2 * aeth_rnr_ns(t - 2));
}

TEST(ack_timeouts_double_and_zero_is_never)
{
	check_eq(aeth_timeout_ns(0), UINT64_MAX);
	check_eq(aeth_timeout_ns(1), 8192);
	check_eq(aeth_timeout_ns(14), 67108864);
	check_eq(aeth_timeout_ns(31), UINT64_C(8796093022208));
}

TEST(psn_arithmetic_wraps_at_24_bits)
{
	static const uint32_t base[] = { 0, 1, 0x7fffff, 0x800000, 0xfffffe, 0xffffff };

	for (size_t i = 0; i < sizeof(base) / sizeof(base[0]); i++) {
		for (uint32_t n = 1; n < 0x800000; n = n * 3 + 1) {
			uint32_t ahead = psn_add(base[i], n);

			check(ahead <= PSN_MASK);
			check_eq(psn_diff(ahead, base[i]), n);
			check_eq(psn_diff(base[i], ahead), -(int64_t)n);
			check(psn_before(base[i], ahead) && !psn_before(ahead, base[i]));
			check(psn_after(ahead, base[i]) && !psn_after(base[i], ahead));
		}
		check(!psn_before(base[i], base[i]) && !psn_after(base[i], base[i]));
	}
	check_eq(psn_add(0xffffff, 1), 0);
	check_eq(psn_diff(0x800000, 0), -0x800000);
}

TEST(within_is_half_open_and_wraps)
{
	check(psn_within(0xffffff, 0xfffffe, 3));
	check(psn_within(0, 0xfffffe, 3));
	check(!psn_within(1, 0xfffffe, 3));
	check(!psn_within(0xfffffd, 0xfffffe, 3));
	check(!psn_within(5, 5, 0));
}

RUN_TESTS(unit_test(kinds_and_codes_come_apart), unit_test(credits_round_down_to_a_code),
	  unit_test(rnr_timers_are_the_specified_ones),
	  unit_test(ack_timeouts_double_and_zero_is_never),
	  unit_test(psn_arithmetic_wraps_at_24_bits), unit_test(within_is_half_open_and_wraps))
