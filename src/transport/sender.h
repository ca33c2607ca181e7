// SPDX-License-Identifier: MIT
/* Who may send to a connected QP (docs/design/security.md). On this host: the process to which the
 * QP's destination leads, whatever a segment says of itself. Through a network: the peer's address,
 * and, if the host there speaks our hello, the UDP port from which its first accepted packet came:
 * no other user of that host has it. The port is learned anew after RESET, after path migration,
 * and when no packet was accepted for SENDER_LAPSE. Other stacks may change their port.
 *
 * Pure; under the QP's turn. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct tqp;
struct seg;

/* ns: longer than a QP repeats, shorter than address translators remember an idle flow. */
#define SENDER_LAPSE UINT64_C(30000000000)

struct sender {
	uint64_t at; /* ns: when a packet was accepted last */
	uint16_t port; /* UDP port that it came from; 0: none yet */
};

/* False: the segment is a stranger's, or claims another sender than it has. */
bool sender_admits(struct tqp *q, const struct seg *s, uint64_t now);
/* A request that was kept: does it come from the port that is known by now? */
bool sender_is_known(const struct tqp *q, const struct seg *s);
void sender_forget(struct tqp *q); /* the next accepted packet tells the port */
