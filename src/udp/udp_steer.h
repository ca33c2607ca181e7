// SPDX-License-Identifier: MIT
/* Which of the processes that share UDP 4791 of an address gets a packet. The kernel chooses a
 * socket by a hash; a filter of the group of sockets chooses better, by the slot in the number that
 * the packet is for. The filter has to return an index in the kernel's order of the sockets, which
 * the kernel does not tell, and which changes when one of them is closed. So we ask: the filter
 * gives a question that names an index to the socket at that index, and the process that reads it
 * answers with its slot (udp_hello.h).
 *
 * Only a hint, which no process relies on: a process that reads a packet of another one passes it
 * on, and asks anew. Packets for slots that the filter does not know go by the hash. Any process of
 * the group sets the filter for all; all of them compute the same filter. Under udp->drain_lock. */
#pragma once
#include <stdint.h>

struct udp_port;

enum { UDP_STEER_MAX = 32 /* sockets that are asked: the others stay with the hash */ };

struct udp_steer {
	uint64_t number; /* in the questions, cannot be guessed; 0: nothing was asked yet */
	uint64_t at, wait; /* ns: when the questions left; how long until the next may leave */
	uint32_t heard; /* bits: indices for which an answer has come since */
	uint16_t slot[UDP_STEER_MAX]; /* slot + 1 of each index; 0: not known */
};

/* A packet of another process was read from @port: asks, unless that was done just now. */
void udp_steer_ask(struct udp_port *port, uint64_t now);
/* An answer to question @number: the socket at @index - 1 is that of @slot - 1. An answer to an
 * earlier question is passed over. */
void udp_steer_answered(struct udp_port *port, uint64_t number, uint32_t index, uint32_t slot);
