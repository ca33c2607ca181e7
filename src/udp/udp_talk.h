// SPDX-License-Identifier: MIT
/* Questions to the hosts behind network addresses, and their answers (udp_hello.h). With the first
 * packets to an address, or at the first from it that a connected QP accepts, goes a question. It
 * is repeated a few times while packets go or come, at short intervals, since until the answer
 * comes a loss is expensive, and another user of that host may send; no packet waits for the
 * answer. The question leaves by a socket of its own, so the answer reaches the process that asked,
 * whichever process of the peer's host has read the question. An answer speaks for all processes of
 * a host.
 *
 * A host that has answered sends IPv4 identifications as udp_icrc.h says. When packets with others
 * come, another stack may have taken over its address: the address is asked again, and what was
 * known of the host is forgotten unless it answers. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct udp;
struct udp_peer;
struct udp_port;
union udp_addr;

/* Sends the question if it is due; @dqpn: the QP to which packets go. */
void udp_talk_ask(struct udp *u, struct udp_port *port, struct udp_peer *p, uint32_t dqpn);
/* A packet from the address of @p, which has answered before, looks like another stack's. */
void udp_talk_doubt(struct udp *u, struct udp_port *port, struct udp_peer *p);
/* Takes a hello with the right ICRC, which came to the port's socket for questions (an @answer) or
 * to UDP 4791. EBADMSG: it does not belong there. */
int udp_talk_take(struct udp *u, struct udp_port *port, const union udp_addr *from,
		  const uint8_t *payload, size_t len, bool answer);
