// SPDX-License-Identifier: MIT
/* The hello: a question to the host behind a network address, what it is able to do, and its
 * answer; one packet each (OP_HELLO), whose opcode makes other stacks drop it. udp_talk.h asks
 * other hosts, udp_steer.h the processes of this host.
 *
 *	0 version 8 · 1 flags 8 (1: an answer) · 2 abilities 16 · 4 longest train 16 · 6 index 16 ·
 *	8 receive budget in bytes 32 · 12 slot 32 · 16 number 64
 *
 * An answer repeats the number of its question, which cannot be guessed, and is not longer than it.
 * Index and slot are 0, except in a question of a host to itself and its answer: index is that of
 * the socket on UDP 4791 that is asked, + 1; slot is that of the process that answers, + 1. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct udp_port;
union udp_addr;

enum {
	UDP_HELLO_LEN = 24, /* bytes behind the BTH */
	UDP_HELLO_INDEX = 6, /* where the index stands */
	UDP_HELLO_DQPN = 1, /* for a question to the host and not to a QP: no QP has that number */
};

struct udp_hello {
	bool answer;
	uint16_t abilities; /* enum udp_ability, the lower 16 bits */
	uint16_t train; /* packets of the longest train that is understood */
	uint16_t index;
	uint32_t budget; /* bytes */
	uint32_t slot;
	uint64_t number;
};

void udp_hello_encode(const struct udp_hello *h, uint8_t out[UDP_HELLO_LEN]);
/* EBADMSG: too short, or of version 0. */
int udp_hello_decode(const uint8_t *in, size_t len, struct udp_hello *out);
/* Sends @h from the port's own socket for questions, or, if it is an @answer, from UDP 4791; it is
 * lost if the kernel does not take it. @dqpn: of the BTH. */
void udp_hello_send(const struct udp_port *port, bool answer, const union udp_addr *to,
		    uint32_t dqpn, const struct udp_hello *h);
