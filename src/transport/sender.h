// SPDX-License-Identifier: MIT
/* Who may send to a connected QP (docs/design/security.md). On this host: the process to which the
 * QP's destination leads, whatever a segment says of its sender. Through a network: the peer's
 * address, and, if that host has answered our hello, the UDP port from which its first accepted
 * packet came, which no other user of that host has. The hello leaves with the first packet that is
 * sent or accepted. The port is learned anew after RESET, after path migration, and when no packet
 * was accepted for SENDER_LAPSE. Other stacks may change their port.
 *
 * A QP of RC or UC whose program gives it another port tells the peer: OP_PORT, from the old one. A
 * packet from a port that is not known makes this side ask the peer's QP, also by OP_PORT, with a
 * number that cannot be guessed: the answer with that number comes from the peer's port.
 *
 * Under the QP's turn. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct dest;
struct tqp;
struct seg;

/* ns: longer than a QP's tries last, shorter than address translators keep an idle flow. */
#define SENDER_LAPSE UINT64_C(30000000000)

struct sender {
	uint64_t at; /* ns: when a packet was accepted last */
	uint16_t port; /* UDP port that it came from; 0: none yet */
	uint64_t number; /* of the question for the port that has no answer yet; 0: none */
	uint64_t ask_at; /* ns: it does not leave again before */
};

/* False: the segment is not the peer's, or claims another sender than it has. */
bool sender_admits(struct tqp *q, const struct seg *s, uint64_t now);
/* Of a request that was kept: did it come from the port that is known by now? */
bool sender_is_known(const struct tqp *q, const struct seg *s);
bool sender_says_port(const struct tqp *q); /* do both ends speak OP_PORT? */
void sender_told(struct tqp *q, const struct seg *s, uint64_t now); /* an OP_PORT was admitted */
/* @next is about to take the place of q->dest: tells the peer its port. To another address of the
 * peer: the port is learned anew. */
void sender_follow(struct tqp *q, const struct dest *next);
void sender_forget(struct tqp *q); /* the next accepted packet tells the port */
