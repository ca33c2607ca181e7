// SPDX-License-Identifier: MIT
#include "udp/udp_hello.h"
#include <errno.h>
#include <string.h>
#include "udp/udp_icrc.h"
#include "udp/udp_state.h"
#include "util/be.h"
#include "util/uncancelled.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

enum { VERSION = 1, ANSWER = 1, PACKET = BTH_LEN + UDP_HELLO_LEN + ICRC_LEN, PKEY = 0xffff };

void udp_hello_encode(const struct udp_hello *h, uint8_t out[UDP_HELLO_LEN])
{
	memset(out, 0, UDP_HELLO_LEN);
	out[0] = VERSION;
	out[1] = h->answer ? ANSWER : 0;
	put_be16(out + 2, h->abilities);
	put_be16(out + 4, h->train);
	put_be16(out + UDP_HELLO_INDEX, h->index);
	put_be32(out + 8, h->budget);
	put_be32(out + 12, h->slot);
	put_be64(out + 16, h->number);
}

/* Later versions only add fields. */
int udp_hello_decode(const uint8_t *in, size_t len, struct udp_hello *out)
{
	if (len < UDP_HELLO_LEN || in[0] < VERSION)
		return EBADMSG;
	*out = (struct udp_hello){ .answer = in[1] & ANSWER,
				   .abilities = get_be16(in + 2),
				   .train = get_be16(in + 4),
				   .index = get_be16(in + UDP_HELLO_INDEX),
				   .budget = get_be32(in + 8),
				   .slot = get_be32(in + 12),
				   .number = get_be64(in + 16) };
	return 0;
}

void udp_hello_send(const struct udp_port *port, bool answer, const union udp_addr *to,
		    uint32_t dqpn, const struct udp_hello *h)
{
	uint8_t payload[UDP_HELLO_LEN], packet[PACKET], area[GRH_LEN];
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	bool v4 = port->ipv4;
	struct pkt p = { .opcode = OP_HELLO,
			 .migreq = true,
			 .pkey = PKEY,
			 .dqpn = dqpn,
			 .payload = payload,
			 .payload_len = sizeof(payload) };
	uint16_t sport = answer ? UDP_ROCE_PORT : port->hello_sport;
	ssize_t sent;
	size_t len;

	udp_hello_encode(h, payload);
	if (wire_build(&p, packet, sizeof(packet), &len))
		return;
	memcpy(g.sgid, port->gid.raw, sizeof(g.sgid));
	udp_addr_gid(to, g.dgid);
	grh_build(&g, area);
	icrc_put(packet + len - ICRC_LEN,
		 udp_icrc(area, sport, ntohs(v4 ? to->in.sin_port : to->in6.sin6_port), packet,
			  len));
	UNCANCELLED(sent, sendto(answer ? port->fd : port->hello, packet, len, MSG_DONTWAIT,
				 &to->sa, v4 ? sizeof(to->in) : sizeof(to->in6)));
	(void)sent; /* lost: a question is repeated, an answer is asked for again */
}
