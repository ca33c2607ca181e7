// SPDX-License-Identifier: MIT
/* Questions to the hosts behind network addresses, and their answers (udp_hello.h). The first
 * packets to an address bring a question. It is repeated a few times while packets go there, soon,
 * since losses are dear until it is answered, and never waited for. It leaves by a socket of its
 * own, so that the answer reaches the process that asked, whichever process of the peer's host has
 * read the question. An answer speaks for all processes of the host.
 *
 * A host that has answered sends IPv4 identifications as udp_icrc.h says. When packets come that
 * look otherwise, another stack may have taken over its address: it is asked again, and forgotten
 * unless it answers. */
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
/* A packet of a peer that has answered looks like another stack's. */
void udp_talk_doubt(struct udp *u, struct udp_port *port, struct udp_peer *p);
/* A hello with the right ICRC, on the port's own socket (an @answer) or on UDP 4791. EBADMSG: it
 * does not belong there. */
int udp_talk_take(struct udp *u, struct udp_port *port, const union udp_addr *from,
		  const uint8_t *payload, size_t len, bool answer);
