// SPDX-License-Identifier: MIT
/* Which IPv4 identifications a sender uses. A UDP socket does not show them, and the ICRC covers
 * them: an identification that would explain a wrong ICRC is believed only if the sender would use
 * it next. Softhca hosts send 0, so their ICRCs are checked in all bits; Linux rxe counts, and may
 * jump by at most one per tick of its clock for the time that it was silent.
 * Locking: the owner's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { UDP_IDENT_SENDERS = 256 };

struct udp_ident {
	struct udp_sender {
		uint32_t addr; /* IPv4 in network order; 0: free */
		uint16_t last, guess; /* the newest that was believed; the newest that was not */
		bool guessed; /* guess is valid */
		bool zeros; /* it leaves the identification 0, as we do */
		uint64_t at; /* ns: when @last came */
	} sender[UDP_IDENT_SENDERS];
};

/* Whether @addr would use @id at time @now. The first identification of a sender is believed; one
 * that is far from the last is believed only when another one fits behind it. */
bool udp_ident_fits(struct udp_ident *t, uint32_t addr, uint16_t id, uint64_t now);
