// SPDX-License-Identifier: MIT
/* Questions and answers between hosts and between the processes of one (OP_HELLO), with any
 * content, from any address of 127.0.0.0/8: what an answer says of a host counts if it repeats the
 * number of the question, and the table of sockets has each slot at most once. The input: who says
 * what, and when we ask. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fuzz.h"
#include "link/number.h"
#include "udp/udp_hello.h"
#include "udp/udp_state.h"
#include "udp/udp_talk.h"
#include "util/be.h"

enum { STEPS = 48, PEERS = 4, OURS = 0x7f000001 };

const struct fuzz_target fuzz_target = { "steer", 512, 60000 };

static struct udp u;
static struct udp_port port;
static struct udp_peer *peer[PEERS];
static uint64_t now;

static union ibv_gid gid_of(uint32_t addr)
{
	union ibv_gid g = { .raw = { [10] = 0xff, [11] = 0xff } };

	put_be32(g.raw + 12, addr);
	return g;
}

static void begin(void)
{
	port.gid = gid_of(OURS);
	port.ipv4 = true;
	port.hello = -1; /* questions are lost */
	if (udp_socket_open(&port, &port.fd) || udp_socket_bind(&port, port.fd, 0))
		abort();
	u.cfg.slot = 7;
	u.counts = &u.unshown;
	for (uint32_t i = 0; i < PEERS; i++) {
		const union ibv_gid g = gid_of(OURS + 1 + i);

		peer[i] = udp_peer_use(&u, &port, &g);
		if (!peer[i])
			abort();
	}
}

static void anew(void)
{
	memset(&port.steer, 0, sizeof(port.steer));
	for (int i = 0; i < PEERS; i++) {
		peer[i]->abilities = peer[i]->budget = 0;
		peer[i]->takes_grounds = false;
		udp_peer_question(peer[i]);
	}
	now = UINT64_C(1) << 40;
}

/* From one of the peers, ourselves, or somebody else. */
static void hear(struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1), payload[64] = { 0 };
	uint32_t who = how & 7, before = port.steer.answers;
	const union ibv_gid from = gid_of(who == 7 ? OURS : OURS + 1 + who);
	uint32_t knew = who < PEERS ? peer[who]->abilities : 0;
	bool told = true, answer = how & 8;
	union udp_addr addr;
	const uint8_t *raw;
	size_t n = fuzz_take_run(b, how & 16 ? fuzz_take(b, 1) % sizeof(payload) : UDP_HELLO_LEN,
				 &raw);

	memcpy(payload, raw, n);
	if (how & 32)
		payload[0] = 1, payload[1] = answer;
	if (!(how & 64) && n == UDP_HELLO_LEN)
		put_be64(payload + 16, who < PEERS ? peer[who]->number : port.steer.number);
	else
		told = n >= UDP_HELLO_LEN && who < PEERS &&
		       get_be64(payload + 16) == peer[who]->number;
	udp_addr_set(&addr, &from, 0, 4791);
	udp_talk_take(&u, &port, &addr, payload, n, answer);
	must(told || who >= PEERS || peer[who]->abilities == knew);
	must(who == 7 || port.steer.answers == before);
}

static void ask(struct fuzz_bytes *b)
{
	now += fuzz_take(b, 1) << 24;
	udp_steer_ask(&port, now);
}

static void doubt(struct fuzz_bytes *b)
{
	udp_talk_doubt(&u, &port, peer[fuzz_take(b, 1) % PEERS]);
}

static void holds(void)
{
	uint64_t seen[NUMBER_SLOTS / 64 + 1] = { 0 };
	uint32_t heard = 0;

	for (int i = 0; i < UDP_STEER_MAX; i++) {
		uint32_t slot = port.steer.slot[i];

		must(slot <= NUMBER_SLOTS);
		must(!slot || !(seen[slot / 64] >> slot % 64 & 1));
		seen[slot / 64] |= UINT64_C(1) << slot % 64;
		heard += port.steer.heard[i];
	}
	must(heard == port.steer.answers && heard <= port.steer.asked);
	must(port.steer.known <= heard && port.steer.asked <= UDP_STEER_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const doings[])(struct fuzz_bytes *) = { hear, hear, ask, doubt };
	struct fuzz_bytes b = { data, len };

	if (!u.counts)
		begin();
	anew();
	for (unsigned int i = 0; i < STEPS && b.left; i++) {
		doings[fuzz_take(&b, 1) % 4](&b);
		holds();
	}
	return 0;
}
