// SPDX-License-Identifier: MIT
/* Who may send to a connected QP: on one host the process at the end of its destination, through a
 * network the UDP port that its first accepted packet came from. */
#include "pair.h"
#include "transport/apm.h"
#include "transport/hold.h"
#include "wire/grh.h"

enum { MTU = 256, PEER = 50000, STRANGER = 50001 };

static struct dest_net ab, ba, other;

static struct pair *open_as(const struct rig_attr *attr, uint32_t abilities)
{
	struct pair *p = pair_open(&pair_lossy, attr);

	memset(&ab, 0, sizeof(ab));
	ab.local = (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 } };
	ab.remote = (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 10, 0, 0, 2 } };
	ba = (struct dest_net){ ab.remote, ab.local };
	p->a->end.d.net = &ab;
	p->b->end.d.net = &ba;
	p->a->end.d.window = p->b->end.d.window = 8;
	p->a->end.d.abilities = p->b->end.d.abilities = abilities;
	return p;
}

static struct pair *open_pair(uint32_t abilities)
{
	return open_as(&rig_rc, abilities);
}

/* To @to, from the host at the other end of @path and UDP port @port. */
static void arrive_by(struct rig_qp *to, const struct dest_net *path, struct seg s, uint16_t port)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	uint8_t area[GRH_LEN];

	memcpy(g.sgid, path->remote.raw, sizeof(g.sgid));
	memcpy(g.dgid, path->local.raw, sizeof(g.dgid));
	grh_build(&g, area);
	s.flags |= SEG_NET;
	s.pkey = 0xffff;
	s.dqpn = to->q.qp.qpn;
	s.npsn = 1;
	s.l3 = GRH_L3_IPV4;
	s.grh = area;
	s.sport = port;
	tqp_input(&to->q, &s, to->rig->net.now);
}

static void arrive(struct rig_qp *to, struct seg s, uint16_t port)
{
	arrive_by(to, to->end.d.net, s, port);
}

static struct seg add(const struct pair *p, uint32_t psn)
{
	return (struct seg){ .op = OP_FETCH_ADD,
			     .flags = SEG_ACKREQ,
			     .psn = psn,
			     .rkey = p->b->mr->ib.rkey,
			     .va = RIG_IOVA,
			     .swap_add = 1 };
}

static uint64_t word(const struct pair *p)
{
	uint64_t x;

	memcpy(&x, p->b->mem, sizeof(x));
	return x;
}

static const uint32_t softhca = DEST_ONE_PORT | DEST_REPORTS;

/* --- requests --- */

TEST(after_the_first_request_another_port_is_not_heard)
{
	struct pair *p = open_pair(softhca);
	uint64_t before = word(p);

	arrive(p->b, add(p, 0), PEER);
	check_eq(word(p), before + 1);
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(word(p), before + 1);
	check_eq(pair_count(p, p->a, OP_ATOMIC_ACK), 1);
	arrive(p->b, add(p, 1), PEER);
	check_eq(word(p), before + 2);
	pair_close(p);
}

/* Before the first accepted one a wrong PSN fixes nothing: the peer could not begin any more. */
TEST(a_guess_that_fails_does_not_keep_the_peer_out)
{
	struct pair *p = open_pair(softhca);
	uint64_t before = word(p);

	arrive(p->b, add(p, 7), STRANGER);
	arrive(p->b, add(p, PSN_MASK), STRANGER);
	arrive(p->b, add(p, 0), PEER);
	check_eq(word(p), before + 1);
	arrive(p->b, add(p, 1), PEER);
	check_eq(word(p), before + 2);
	pair_close(p);
}

/* What a stranger put into the gap before the peer was known is not executed behind it. */
TEST(a_kept_request_of_another_port_is_not_executed)
{
	struct pair *p = open_pair(softhca);
	uint64_t before = word(p);

	arrive(p->b, add(p, 1), STRANGER);
	check(hold_any(&p->b->q));
	arrive(p->b, add(p, 0), PEER);
	check_eq(word(p), before + 1);
	arrive(p->b, add(p, 1), PEER);
	check_eq(word(p), before + 2);
	pair_close(p);
}

/* Adapters choose it by flow label, rxe by a hash: nobody promises that it stays. */
TEST(other_stacks_may_change_their_port)
{
	struct pair *p = open_pair(0);
	uint64_t before = word(p);

	for (uint32_t i = 0; i < 4; i++)
		arrive(p->b, add(p, i), (uint16_t)(PEER + i));
	check_eq(word(p), before + 4);
	pair_close(p);
}

/* An address translator on the way has forgotten the flow, and gives it another port. */
TEST(after_a_long_silence_the_exact_psn_may_come_from_another_port)
{
	struct pair *p = open_pair(softhca);
	uint64_t before = word(p);

	arrive(p->b, add(p, 0), PEER);
	p->rig.net.now += SENDER_LAPSE;
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(word(p), before + 1);
	p->rig.net.now += 1;
	arrive(p->b, add(p, 2), STRANGER); /* early: kept, if it were the peer's */
	check(!hold_any(&p->b->q));
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(word(p), before + 2);
	arrive(p->b, add(p, 2), PEER); /* which is the stranger now */
	check_eq(word(p), before + 2);
	pair_close(p);
}

/* Another thread, whose clock is a little ahead, has accepted the last packet. */
TEST(a_packet_accepted_a_moment_later_is_no_silence)
{
	struct pair *p = open_pair(softhca);
	uint64_t before = word(p);

	p->rig.net.now++;
	arrive(p->b, add(p, 0), PEER);
	p->rig.net.now--;
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(word(p), before + 1);
	arrive(p->b, add(p, 1), PEER);
	check_eq(word(p), before + 2);
	pair_close(p);
}

TEST(after_reset_the_port_is_learned_anew)
{
	struct pair *p = open_pair(softhca);
	uint64_t before = word(p);

	arrive(p->b, add(p, 0), PEER);
	rig_move(p->b, IBV_QPS_RESET);
	rig_connect(p->b, &rig_rc, p->a->q.qp.qpn);
	arrive(p->b, add(p, 0), STRANGER);
	check_eq(word(p), before + 2);
	pair_close(p);
}

/* --- a side that only receives --- */

static struct {
	struct link_ops ops;
	unsigned int asked;
	bool answers;
} host; /* of the peer */

static void get_to_know(struct dest *d)
{
	host.asked++;
	if (host.answers)
		d->abilities = softhca;
}

/* Of a service, towards a host that is not known yet. */
static struct pair *open_receiver(enum ibv_qp_type type)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;

	attr.type = type;
	p = open_as(&attr, 0);
	host.ops = *p->b->end.d.ops;
	host.ops.get_to_know = get_to_know;
	host.asked = 0;
	host.answers = false;
	p->b->end.d.ops = &host.ops;
	return p;
}

/* A WRITE of UC with that @psn changes the memory. */
static bool written(struct pair *p, uint32_t psn, uint16_t port)
{
	const uint8_t byte = (uint8_t)(p->b->mem[0] + 1);
	const struct seg s = { .op = SVC_UC | OP_WRITE_ONLY,
			       .psn = psn,
			       .rkey = p->b->mr->ib.rkey,
			       .va = RIG_IOVA,
			       .dma_len = 1,
			       .data = &byte,
			       .len = 1 };

	arrive(p->b, s, port);
	return p->b->mem[0] == byte;
}

/* It sends nothing that would ask what host its peer is: the first accepted packet does. */
TEST(a_receiver_of_uc_learns_the_port_of_its_peer)
{
	struct pair *p = open_receiver(IBV_QPT_UC);

	check(written(p, 0, PEER));
	check_eq(host.asked, 1);
	host.answers = true;
	check(!written(p, 1, STRANGER));
	check(!written(p, 5000, STRANGER));
	check(written(p, 1, PEER));
	check(written(p, 3, PEER)); /* one was lost */
	check(!written(p, 4, STRANGER));
	check_eq(host.asked, 2);
	pair_close(p);
}

/* Who comes between the first packet and the host's answer is heard, but does not keep the peer
 * out. */
TEST(the_first_port_is_the_peers_until_its_host_has_answered)
{
	struct pair *p = open_receiver(IBV_QPT_UC);

	check(written(p, 0, PEER));
	check(written(p, 1, STRANGER));
	check(written(p, 2, STRANGER));
	host.answers = true;
	check(!written(p, 3, STRANGER));
	check(written(p, 3, PEER));
	pair_close(p);
}

TEST(a_guess_that_fails_asks_nobody)
{
	struct pair *p = open_receiver(IBV_QPT_RC);

	arrive(p->b, add(p, 7), STRANGER);
	check_eq(host.asked, 0);
	arrive(p->b, add(p, 0), PEER);
	check_eq(host.asked, 1);
	pair_close(p);
}

/* --- answers --- */

/* a has sent @n SENDs and has had the ACK of the first from its peer. */
static struct pair *open_sender(unsigned int n)
{
	struct pair *p = open_pair(softhca);
	struct rig_wr w = pair_send(p->a, 0, 8);

	p->rig.net.cut = true;
	for (unsigned int i = 0; i < n; i++)
		rig_post(p->a, &w);
	arrive(p->a, (struct seg){ .op = OP_ACKNOWLEDGE, .syndrome = AETH_UNLIMITED }, PEER);
	pair_good(p->a, false);
	return p;
}

TEST(no_answer_of_another_port_is_heard)
{
	static const uint8_t report[] = { AETH_UNLIMITED, 0, 0, 0, 0xff };
	const struct seg forged[] = {
		{ .op = OP_ACKNOWLEDGE, .psn = 1, .syndrome = AETH_UNLIMITED },
		{ .op = OP_ACKNOWLEDGE, .psn = 1, .syndrome = aeth_nak(NAK_REMOTE_ACCESS) },
		{ .op = OP_ACKNOWLEDGE, .psn = 1, .syndrome = aeth_nak(NAK_PSN_SEQUENCE) },
		{ .op = OP_ACKNOWLEDGE, .psn = 1, .syndrome = aeth_rnr(1) },
		{ .op = OP_READ_RESP_ONLY, .psn = 1, .syndrome = AETH_UNLIMITED },
		{ .op = OP_ATOMIC_ACK, .psn = 1, .syndrome = AETH_UNLIMITED },
		{ .op = OP_REPORT, .psn = 2, .data = report, .len = sizeof(report) },
		{ .op = OP_CNP },
	};
	struct pair *p = open_sender(4);
	uint32_t window = p->a->q.req.cc.window;
	unsigned int sent = p->n;

	for (unsigned int i = 0; i < sizeof(forged) / sizeof(forged[0]); i++)
		arrive(p->a, forged[i], STRANGER);
	pair_none(p->a, false);
	check_eq(p->a->q.qp.state, IBV_QPS_RTS);
	check_eq(p->a->q.req.una, 1);
	check_eq(p->a->q.req.cc.window, window);
	check_eq(p->n, sent + 1); /* a question who that is */
	check_eq(p->rig.counters.v[COUNTER_RP_CNP_HANDLED], 0);
	arrive(p->a, forged[0], PEER);
	pair_good(p->a, false);
	pair_close(p);
}

TEST(a_forged_response_does_not_reach_the_memory_of_a_read)
{
	static const uint8_t lie[8] = "forged!";
	struct pair *p = open_sender(1);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0x100, sizeof(lie));
	struct seg s = { .op = OP_READ_RESP_ONLY, .psn = 1, .data = lie, .len = sizeof(lie) };
	uint8_t before[sizeof(lie)];

	s.syndrome = AETH_UNLIMITED;
	rig_post(p->a, &w);
	memcpy(before, p->a->mem + 0x100, sizeof(before));
	arrive(p->a, s, STRANGER);
	pair_none(p->a, false);
	check_mem(p->a->mem + 0x100, before, sizeof(before));
	arrive(p->a, s, PEER);
	pair_good(p->a, false);
	check_mem(p->a->mem + 0x100, lie, sizeof(lie));
	pair_close(p);
}

/* --- a peer that goes on from another port --- */

enum { SAID_LEN = 12 };

static struct {
	uint8_t bytes[SAID_LEN];
	unsigned int n;
	bool asks;
} said; /* the last OP_PORT */

static void listen_to(void *arg, const struct seg *s)
{
	(void)arg;
	if (s->op != OP_PORT)
		return;
	check_eq(s->len, SAID_LEN);
	memcpy(said.bytes, (const void *)(uintptr_t)s->pieces->addr, SAID_LEN);
	said.asks = s->flags & SEG_ACKREQ;
	said.n++;
}

static struct pair *open_talk(enum ibv_qp_type type)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;

	attr.type = type;
	p = open_as(&attr, softhca);
	p->rig.net.watch = listen_to;
	said.n = 0;
	return p;
}

static void say(struct rig_qp *to, const uint8_t *bytes, bool asks, uint16_t from)
{
	arrive(to,
	       (struct seg){ .op = OP_PORT,
			     .flags = asks ? SEG_ACKREQ : 0,
			     .data = bytes,
			     .len = SAID_LEN },
	       from);
}

/* "I send from @port now", from port @from. */
static void notice(struct rig_qp *to, uint16_t port, uint16_t from)
{
	uint8_t bytes[SAID_LEN] = { 0 };

	put_be16(bytes, port);
	say(to, bytes, false, from);
}

TEST(the_known_port_may_name_another)
{
	struct pair *p = open_talk(IBV_QPT_RC);
	uint64_t before = word(p);

	arrive(p->b, add(p, 0), PEER);
	notice(p->b, STRANGER, STRANGER);
	notice(p->b, 0, PEER);
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(word(p), before + 1);
	notice(p->b, STRANGER, PEER); /* the peer itself */
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(word(p), before + 2);
	arrive(p->b, add(p, 2), PEER);
	check_eq(word(p), before + 2);
	check_eq(p->b->q.qp.state, IBV_QPS_RTS);
	pair_close(p);
}

TEST(a_peer_of_uc_may_name_another_port)
{
	struct pair *p = open_talk(IBV_QPT_UC);

	check(written(p, 0, PEER));
	notice(p->b, STRANGER, STRANGER);
	check(!written(p, 1, STRANGER));
	notice(p->b, STRANGER, PEER);
	check(written(p, 1, STRANGER));
	check(!written(p, 2, PEER));
	pair_close(p);
}

/* The notice was lost: a packet from an unknown port makes this side ask the peer's QP, and a
 * stranger, who does not get the question, cannot answer it. */
TEST(a_packet_from_an_unknown_port_raises_a_question)
{
	struct pair *p = open_talk(IBV_QPT_RC);
	uint64_t before = word(p);
	uint8_t answer[SAID_LEN], wrong[SAID_LEN];

	arrive(p->b, add(p, 0), PEER);
	check_eq(said.n, 0);
	say(p->b, said.bytes, false, STRANGER); /* an answer to nothing */
	arrive(p->b, add(p, 1), STRANGER);
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(said.n, 1);
	check(said.asks);
	p->rig.net.now += 1000000;
	arrive(p->b, add(p, 1), STRANGER); /* it was lost, too */
	check_eq(said.n, 2);
	memcpy(answer, said.bytes, SAID_LEN);
	memcpy(wrong, answer, SAID_LEN);
	wrong[SAID_LEN - 1] ^= 1;
	say(p->b, wrong, false, STRANGER);
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(word(p), before + 1);
	say(p->b, answer, false, STRANGER);
	arrive(p->b, add(p, 1), STRANGER);
	check_eq(word(p), before + 2);
	say(p->b, answer, false, PEER); /* the number counts once */
	arrive(p->b, add(p, 2), STRANGER);
	check_eq(word(p), before + 3);
	pair_close(p);
}

/* Even if he has guessed the first PSN. */
TEST(a_stranger_who_was_first_does_not_stay)
{
	struct pair *p = open_talk(IBV_QPT_RC);
	uint64_t before = word(p);

	arrive(p->b, add(p, 0), STRANGER);
	arrive(p->b, add(p, 1), PEER);
	check_eq(word(p), before + 1);
	check_eq(said.n, 1);
	say(p->b, said.bytes, false, PEER);
	arrive(p->b, add(p, 1), PEER);
	check_eq(word(p), before + 2);
	arrive(p->b, add(p, 2), STRANGER);
	check_eq(word(p), before + 2);
	pair_close(p);
}

/* The answer goes to the peer's QP, whoever has asked. */
TEST(a_question_for_the_port_is_answered_with_its_number)
{
	struct pair *p = open_talk(IBV_QPT_RC);
	uint8_t question[SAID_LEN] = { [4] = 1, 2, 3, 4, 5, 6, 7, 8 };

	say(p->b, question, true, STRANGER);
	check_eq(said.n, 1);
	check(!said.asks);
	check_mem(said.bytes, question, SAID_LEN);
	arrive(p->b, (struct seg){ .op = OP_PORT, .data = question, .len = SAID_LEN - 1 }, PEER);
	check_eq(said.n, 1);
	pair_close(p);
}

/* Before the destination is another one. */
TEST(who_goes_on_from_another_port_says_so)
{
	struct pair *p = open_talk(IBV_QPT_RC);
	struct net_end next = p->a->end;

	p->a->end.d.sport = next.d.sport = PEER;
	sender_follow(&p->a->q, &next.d);
	check_eq(said.n, 0);
	next.d.sport = STRANGER;
	sender_follow(&p->a->q, &next.d);
	check_eq(said.n, 1);
	check(!said.asks);
	arrive(p->b, add(p, 0), PEER);
	say(p->b, said.bytes, false, PEER);
	check_eq(p->b->q.sender.port, STRANGER);
	p->a->end.d.abilities = 0; /* of another stack */
	sender_follow(&p->a->q, &next.d);
	check_eq(said.n, 1);
	pair_close(p);
}

/* Both programs have gone on to other addresses: that one's port is not known. */
TEST(the_port_of_another_address_is_learned_anew)
{
	struct pair *p = open_talk(IBV_QPT_RC);
	struct net_end next = p->b->end;
	uint64_t before = word(p);

	arrive(p->b, add(p, 0), PEER);
	other = ba;
	other.remote.raw[15] = 77;
	next.d.net = &other;
	sender_follow(&p->b->q, &next.d);
	p->b->q.dest = &next.d;
	arrive_by(p->b, &other, add(p, 1), STRANGER);
	check_eq(word(p), before + 2);
	p->b->q.dest = &p->b->end.d;
	pair_close(p);
}

/* --- path migration --- */

static void arm(struct pair *p, struct dest *alternate)
{
	enum ibv_mig_state was = p->b->q.qp.attr.path_mig_state;

	p->b->q.alternate = alternate;
	p->b->q.qp.attr.path_mig_state = IBV_MIG_ARMED;
	apm_modified(&p->b->q, was, p->rig.net.now);
}

/* The peer's other path leaves by another port, and repeats what had no answer on the first. */
TEST(a_peer_that_migrates_is_heard_from_its_new_port)
{
	struct pair *p = open_pair(softhca);
	struct net_end alternate = p->b->end;
	uint64_t before = word(p);
	struct seg s = add(p, 0);

	other = ba;
	other.remote.raw[15] = 77;
	alternate.d.net = &other;
	s.flags |= SEG_ARMING;
	arrive(p->b, s, PEER);
	arm(p, &alternate.d);
	arrive_by(p->b, &other, s, STRANGER); /* it does not say that it has migrated */
	check_eq(p->b->q.qp.attr.path_mig_state, IBV_MIG_ARMED);
	arrive_by(p->b, &other, add(p, HOLD_PSNS + 1), STRANGER); /* it guesses */
	check_eq(p->b->q.qp.attr.path_mig_state, IBV_MIG_ARMED);
	arrive_by(p->b, &other, add(p, 0), STRANGER);
	check_eq(p->b->q.qp.attr.path_mig_state, IBV_MIG_MIGRATED);
	arrive_by(p->b, &other, add(p, 1), STRANGER);
	check_eq(word(p), before + 2);
	arrive_by(p->b, &other, add(p, 2), PEER);
	check_eq(word(p), before + 2);
	pair_event(p->b, IBV_EVENT_PATH_MIG);
	p->b->q.dest = &p->b->end.d;
	p->b->q.alternate = NULL;
	pair_close(p);
}

/* UC repeats nothing, and begins anywhere on the other path. While its own port is alive a guess
 * has to be near, as for RC. */
TEST(a_peer_of_uc_that_migrates_after_a_long_silence_is_heard_with_any_psn)
{
	struct pair *p = open_receiver(IBV_QPT_UC);
	struct net_end alternate;
	struct seg s = { .op = SVC_UC | OP_WRITE_ONLY, .flags = SEG_ARMING, .rkey = 1 };

	host.answers = true;
	alternate = p->b->end;
	other = ba;
	other.remote.raw[15] = 77;
	alternate.d.net = &other;
	arrive(p->b, s, PEER);
	arm(p, &alternate.d);
	s.flags = 0;
	s.psn = 5000;
	arrive_by(p->b, &other, s, STRANGER);
	check_eq(p->b->q.qp.attr.path_mig_state, IBV_MIG_ARMED);
	p->rig.net.now += SENDER_LAPSE + 1;
	arrive_by(p->b, &other, s, STRANGER);
	check_eq(p->b->q.qp.attr.path_mig_state, IBV_MIG_MIGRATED);
	pair_event(p->b, IBV_EVENT_PATH_MIG);
	p->b->q.dest = &p->b->end.d;
	p->b->q.alternate = NULL;
	pair_close(p);
}

/* --- one host --- */

static void by_ring(struct pair *p, struct seg s, struct dest *from)
{
	s.pkey = 0xffff;
	s.dqpn = p->b->q.qp.qpn;
	s.npsn = 1;
	s.from = from;
	tqp_input(&p->b->q, &s, p->rig.net.now);
}

TEST(a_ring_brings_segments_of_its_own_process_alone)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct net_end mine = p->b->end, theirs = p->b->end; /* other slots' destinations */
	uint64_t before = word(p);
	struct seg s = add(p, 0);

	p->b->end.d.process = mine.d.process = 5;
	theirs.d.process = 6;
	by_ring(p, s, &theirs.d); /* it says nothing of its source */
	s.flags |= SEG_SQPN;
	s.sqpn = p->a->q.qp.qpn;
	by_ring(p, s, &theirs.d); /* and a lie */
	s.flags |= SEG_NET;
	by_ring(p, s, &theirs.d);
	by_ring(p, s, &p->b->end.d);
	s.flags &= (uint16_t)~SEG_NET;
	by_ring(p, s, NULL);
	check_eq(word(p), before);
	by_ring(p, s, &mine.d);
	check_eq(word(p), before + 1);
	s.psn = 1;
	by_ring(p, s, &p->b->end.d);
	check_eq(word(p), before + 2);
	s.psn = 2;
	s.sqpn++; /* another QP of that process */
	by_ring(p, s, &p->b->end.d);
	by_ring(p, s, &mine.d);
	check_eq(word(p), before + 2);
	pair_close(p);
}

/* Two destinations without a process behind them are not the same process. */
TEST(the_dead_are_nobody)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct net_end dead = p->b->end;
	uint64_t before = word(p);
	struct seg s = add(p, 0);

	s.flags |= SEG_SQPN;
	s.sqpn = p->a->q.qp.qpn;
	p->b->end.d.process = dead.d.process = 0;
	by_ring(p, s, &dead.d);
	check_eq(word(p), before);
	pair_close(p);
}

RUN_TESTS(unit_test(after_the_first_request_another_port_is_not_heard),
	  unit_test(a_guess_that_fails_does_not_keep_the_peer_out),
	  unit_test(a_kept_request_of_another_port_is_not_executed),
	  unit_test(other_stacks_may_change_their_port),
	  unit_test(after_a_long_silence_the_exact_psn_may_come_from_another_port),
	  unit_test(a_packet_accepted_a_moment_later_is_no_silence),
	  unit_test(after_reset_the_port_is_learned_anew),
	  unit_test(a_receiver_of_uc_learns_the_port_of_its_peer),
	  unit_test(the_first_port_is_the_peers_until_its_host_has_answered),
	  unit_test(a_guess_that_fails_asks_nobody), unit_test(no_answer_of_another_port_is_heard),
	  unit_test(a_forged_response_does_not_reach_the_memory_of_a_read),
	  unit_test(the_known_port_may_name_another), unit_test(a_peer_of_uc_may_name_another_port),
	  unit_test(a_packet_from_an_unknown_port_raises_a_question),
	  unit_test(a_stranger_who_was_first_does_not_stay),
	  unit_test(a_question_for_the_port_is_answered_with_its_number),
	  unit_test(who_goes_on_from_another_port_says_so),
	  unit_test(the_port_of_another_address_is_learned_anew),
	  unit_test(a_peer_that_migrates_is_heard_from_its_new_port),
	  unit_test(a_peer_of_uc_that_migrates_after_a_long_silence_is_heard_with_any_psn),
	  unit_test(a_ring_brings_segments_of_its_own_process_alone),
	  unit_test(the_dead_are_nobody))
