// SPDX-License-Identifier: MIT
/* Who sends which IPv4 identifications. A UDP socket does not show them, and they are covered by
 * the ICRC: an identification that would explain a wrong ICRC is believed only if it is one that
 * the sender would use next. Senders like us always have 0, so that every bit of their ICRCs
 * counts; Linux rxe counts, with jumps of at most one per tick of its clock while it was silent.
 * Locking: the owner's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { UDP_IDENT_SENDERS = 256 };

struct udp_ident {
	struct udp_sender {
		uint32_t addr; /* IPv4 as in memory; 0: free */
		uint16_t last, guess; /* the newest believed; the newest not believed */
		bool guessed;
		bool zeros; /* it leaves the identification 0, as we do */
		uint64_t at; /* ns: when @last came */
	} sender[UDP_IDENT_SENDERS];
};

/* Whether @id is one that @addr would use at time @now. The first one of a sender is believed; one
 * far from the last only when another fits behind it. */
bool udp_ident_fits(struct udp_ident *t, uint32_t addr, uint16_t id, uint64_t now);
