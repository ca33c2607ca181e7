// SPDX-License-Identifier: MIT
/* Which of the processes that share UDP 4791 of an address gets a packet. The kernel chooses a
 * socket by a hash; a filter of the group says better, by the slot in the number that the packet is
 * for. It has to return an index in the kernel's order of the sockets, which nobody is told, and
 * which changes when one of them is closed. So we ask: the filter gives a question that names an
 * index to the socket there, and whoever reads it answers with its slot (udp_hello.h).
 *
 * Only a hint, which no process relies on: who reads a packet of another passes it on, and asks
 * anew. What the filter does not know goes by the hash. Any process of the group sets it for all;
 * they find the same. Under udp->drain_lock. */
#pragma once
#include <stdint.h>

struct udp_port;

enum { UDP_STEER_MAX = 32 /* sockets that are asked: the others stay with the hash */ };

struct udp_steer {
	uint64_t number; /* of the questions, not to be guessed; 0: nothing was asked yet */
	uint64_t at, wait; /* ns: when it was asked, how long it is not asked again */
	uint32_t heard; /* bits: indices that were answered since */
	uint16_t slot[UDP_STEER_MAX]; /* + 1; 0: not known */
};

/* A packet of another process was read from @port. Asks, unless that was done just now. */
void udp_steer_ask(struct udp_port *port, uint64_t now);
/* An answer to question @number: the socket at @index - 1 is that of @slot - 1. A question of
 * before says nothing. */
void udp_steer_answered(struct udp_port *port, uint64_t number, uint32_t index, uint32_t slot);
