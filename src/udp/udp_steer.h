// SPDX-License-Identifier: MIT
/* Which of the processes that share UDP 4791 of an address gets a packet. The kernel chooses a
 * socket by a hash; a filter of the group of sockets chooses better, by the slot in the number that
 * the packet is for. The filter has to return an index in the kernel's order of the sockets, which
 * the kernel does not tell, and which changes when one of them is closed. So we ask: the filter
 * gives a question that names an index to the socket at that index, and the process that reads it
 * answers with its slot (udp_hello.h).
 *
 * A process asks when it opens the port, and when it has read a packet of another one. It asks for
 * twice as many indices as it knows sockets, and for more as long as each answer comes from another
 * process; then it sets the filter for all. A question to an index that no socket has goes by the
 * hash.
 *
 * Only a hint, which no process relies on: a process that reads a packet of another one passes it
 * on. Packets for slots that the filter does not know go by the hash. Under udp->drain_lock. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct udp_port;

enum {
	UDP_STEER_MAX = 256, /* sockets that are asked: the others stay with the hash */
	UDP_STEER_LEAST = 2, /* are asked: if one process answers twice, there is no other */
	UDP_STEER_LATE = 16, /* rounds whose answers take too long; then others have to ask */
};

struct udp_steer {
	uint64_t number; /* of the questions, not to be guessed; 0: nothing was asked yet */
	uint64_t at, wait; /* ns: when the first questions left; how long no others follow */
	uint64_t round; /* ns: when those left that are answered now */
	uint32_t asked; /* the questions name the indices 1 to this one */
	uint32_t answers; /* to these questions */
	uint32_t known; /* processes that have answered */
	uint32_t late; /* rounds whose answers took too long */
	bool bare; /* a filter that knows no socket was set since the questions left */
	bool heard[UDP_STEER_MAX]; /* by index: it was answered */
	uint16_t slot[UDP_STEER_MAX]; /* slot + 1 of each index; 0: not known */
};

/* The port was opened, or a packet of another process was read from it: asks, unless that was done
 * just now. */
void udp_steer_ask(struct udp_port *port, uint64_t now);
/* An answer to question @number: the socket at @index - 1 is that of @slot - 1. An answer to an
 * earlier question is passed over. */
void udp_steer_answered(struct udp_port *port, uint64_t number, uint32_t index, uint32_t slot);
