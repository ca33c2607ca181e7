// SPDX-License-Identifier: MIT
/* Several links on 127.0.0.1, as processes that share it; one on 127.0.0.2 sends to all of them,
 * from many ports. */
#include "link/number.h"
#include "test.h"
#include "udp/udp.h"
#include "udp_gid.h"
#include "util/fork.h"
#include "util/guard.h"
#include "wire/opcode.h"

enum { ONE = 0x7f000001, OTHER = 0x7f000002, MEMBERS = 40, FLOWS = 8, INDEX = 9 };

struct member {
	struct udp *u; /* NULL: it has ended */
	uint32_t slot;
};

static struct member members[MEMBERS];
static struct udp *sender;
static struct dest *flow[FLOWS];
static unsigned int got, astray;

static void deliver(void *arg, const struct seg *s)
{
	const struct member *m = arg;
	bool srq = opcode_service(s->op) == SVC_XRC && opcode_has(s->op, WIRE_REQUEST);

	got++;
	if (number_slot(srq ? s->srqn : s->dqpn) == m->slot)
		return;
	astray++;
	udp_astray(m->u);
}

static struct udp *start(struct member *m)
{
	const struct udp_config cfg = { .deliver = deliver, .arg = m, .slot = m ? m->slot : 0 };
	struct udp *u;

	check_eq(udp_create(&cfg, &u), 0);
	return u;
}

static void begin(void)
{
	const union ibv_gid one = gid_at(ONE);

	check_eq(fork_init(), 0);
	check_eq(guard_init(), 0);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		members[i].slot = 1000 - 7 * i;
		members[i].u = start(&members[i]);
		check_eq(udp_listen(members[i].u, &one, 0), 0);
	}
	sender = start(NULL);
	for (uint32_t i = 0; i < FLOWS; i++) {
		struct udp_path p = { .net = { gid_at(OTHER), one },
				      .mtu = 256,
				      .flow_label = 1 + i };

		check_eq(udp_dest(sender, &p, &flow[i]), 0);
	}
}

static void end(void)
{
	for (uint32_t i = 0; i < FLOWS; i++)
		flow[i]->ops->put(flow[i]);
	udp_destroy(sender);
	for (uint32_t i = 0; i < MEMBERS; i++)
		udp_destroy(members[i].u);
}

static void send_to(const struct member *m, const struct member *wrong)
{
	uint32_t right = number_make(m->slot, INDEX), other = number_make(wrong->slot, INDEX);
	const struct seg s[] = {
		{ .op = SVC_UD | OP_SEND_ONLY, .pkey = 0xffff, .dqpn = right },
		{ .op = SVC_XRC | OP_SEND_ONLY, .pkey = 0xffff, .dqpn = other, .srqn = right },
		{ .op = SVC_XRC | OP_ACKNOWLEDGE, .pkey = 0xffff, .dqpn = right },
	};

	for (unsigned int i = 0; i < FLOWS; i++)
		for (unsigned int k = 0; k < sizeof(s) / sizeof(s[0]); k++)
			check_eq(dest_send(flow[i], &s[k], NULL), 0);
}

static void drain_all(void)
{
	for (unsigned int i = 0; i < MEMBERS; i++)
		if (members[i].u)
			udp_drain(members[i].u, 64, true);
}

/* By every flow to every member: how many were read by another. */
static unsigned int strays(void)
{
	unsigned int sent = 0;

	got = astray = 0;
	for (unsigned int i = 0; i < MEMBERS; i++) {
		if (!members[i].u)
			continue;
		send_to(&members[i], &members[(i + 1) % MEMBERS]);
		sent += FLOWS * 3;
		drain_all(); /* those of all members may meet in one socket, and not fit */
	}
	while (still(got < sent))
		drain_all();
	check_eq(got, sent);
	return astray;
}

static void learn(void)
{
	unsigned int in_a_row = 0, rounds = 0;

	for (; in_a_row < 20 && rounds < 1000; rounds++)
		in_a_row = strays() ? 0 : in_a_row + 1;
	check_eq(in_a_row, 20);
	print_message("%u rounds\n", rounds);
}

TEST(packets_come_to_reach_their_process_at_once)
{
	const union ibv_gid one = gid_at(ONE);

	begin();
	check(strays() > 0);
	learn();
	udp_destroy(members[0].u); /* the kernel puts the last one into its place */
	members[0].u = NULL;
	learn();
	members[0].u = start(&members[0]);
	check_eq(udp_listen(members[0].u, &one, 0), 0);
	learn();
	end();
}

RUN_TESTS(unit_test(packets_come_to_reach_their_process_at_once))
