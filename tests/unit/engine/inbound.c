// SPDX-License-Identifier: MIT
/* Where the links' segments come in. Each QP is busy, so that what it gets waits in its inbox. */
#include "engine/inbound.h"
#include "engine/delivery.h"
#include "engine/qp_table.h"
#include "engine/turn.h"
#include "hca/mcast.h"
#include "obs/verdict.h"
#include "stand.h"
#include "util/fork.h"
#include "wire/grh.h"

enum { QPS = 3, FELLOW = STAND_SLOT + 1 };

static struct eqp *e[QPS];
static uint32_t qpn[QPS];
static struct link net;
static unsigned int strays;

static void astray(struct link *l)
{
	check(l == &net);
	strays++;
}

static void open_qps(void)
{
	static const struct link_net_ops ops = { .astray = astray };

	stand_open();
	check_eq(fork_init(), 0);
	for (unsigned int i = 0; i < QPS; i++) {
		e[i] = stand_qp();
		e[i]->q.qp.epoch = fork_epoch();
		e[i]->q.qp.service = &services[SERVICE_UD];
		check_eq(qp_table_take(&stand->n, &qpn[i]), 0);
		qp_table_set(&stand->n, qpn[i], e[i]);
		e[i]->q.qp.qpn = qpn[i];
		turn_take(e[i]);
	}
	net = (struct link){ .name = "test", .net = &ops };
	stand->n.link[1] = (struct node_link){ .link = &net, .node = &stand->n };
	strays = 0;
	verdict_say(NULL);
}

static void close_qps(void)
{
	for (unsigned int i = 0; i < QPS; i++) {
		turn_close(e[i]);
		free(e[i]);
	}
	stand_close();
}

/* And gives back the turns, whose notes and parcels turn_close() drops. */
static void check_inboxes(uint32_t a, uint32_t b, uint32_t c)
{
	check_eq(e[0]->inbox_len, a);
	check_eq(e[1]->inbox_len, b);
	check_eq(e[2]->inbox_len, c);
	for (unsigned int i = 0; i < QPS; i++)
		fetch_and_acq_rel(&e[i]->turn, ~(uint32_t)TURN_HELD);
}

static struct seg datagram(uint32_t dqpn)
{
	return (struct seg){ .op = SVC_UD | OP_SEND_ONLY, .dqpn = dqpn, .npsn = 1 };
}

TEST(a_segment_of_this_host_goes_to_its_QP)
{
	struct seg s;

	open_qps();
	s = datagram(qpn[1]);
	inbound_deliver(&stand->n, &s);
	inbound_deliver(&stand->n, &s);
	check_inboxes(0, 2, 0);
	close_qps();
}

TEST(a_packet_goes_to_its_QP_and_management_is_dropped)
{
	struct seg s;

	open_qps();
	s = datagram(qpn[2]);
	inbound_packet(&stand->n.link[1], &s);
	check(!verdict_said);
	s = datagram(1);
	inbound_packet(&stand->n.link[1], &s);
	check(verdict_said);
	check_eq(strays, 0);
	check_inboxes(0, 0, 1);
	close_qps();
}

TEST(a_packet_for_another_process_is_passed_on)
{
	struct seg s;

	open_qps();
	stand->host.n_slots = 1; /* the fellow is this process itself, by its loopback */
	stand->host.listener[0].slot = FELLOW;
	s = datagram(number_make(FELLOW, 9));
	inbound_packet(&stand->n.link[1], &s);
	check_eq(strays, 1);
	check_eq(stand->host.own.len, 1);
	check_eq(stand->host.own.first->seg.dqpn, number_make(FELLOW, 9));
	check_inboxes(0, 0, 0);
	close_qps();
}

/* What a program may wait for without a poll. */
TEST(requests_that_need_no_program_are_counted)
{
	static const struct {
		uint8_t op;
		bool counts;
	} ops[] = {
		{ OP_WRITE_ONLY, true },	  { OP_WRITE_FIRST, true },
		{ OP_READ_REQUEST, true },	  { OP_FETCH_ADD, true },
		{ OP_COMPARE_SWAP, true },	  { SVC_UC | OP_WRITE_ONLY, true },
		{ OP_WRITE_ONLY_IMM, false },	  { OP_SEND_ONLY, false },
		{ OP_SEND_LAST, false },	  { OP_ACKNOWLEDGE, false },
		{ OP_ATOMIC_ACK, false },	  { OP_READ_RESP_ONLY, false },
		{ SVC_UD | OP_SEND_ONLY, false }, { OP_REPORT, false },
	};
	struct seg s;

	open_qps();
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		uint32_t before = stand->n.unasked;

		s = datagram(qpn[0]);
		s.op = ops[i].op;
		inbound_packet(&stand->n.link[1], &s);
		check_eq(stand->n.unasked - before, ops[i].counts);
	}
	check_inboxes(sizeof(ops) / sizeof(ops[0]), 0, 0);
	close_qps();
}

/* Its SRQ tells the process of a request to a target QP. */
TEST(a_request_of_XRC_goes_where_its_SRQ_is)
{
	struct seg s;

	open_qps();
	stand->host.n_slots = 1;
	stand->host.listener[0].slot = FELLOW;
	s = (struct seg){ .op = SVC_XRC | OP_SEND_ONLY,
			  .dqpn = qpn[0],
			  .srqn = number_make(FELLOW, 4),
			  .npsn = 1 };
	inbound_packet(&stand->n.link[1], &s);
	check_eq(strays, 1);
	check_eq(stand->host.own.len, 1);
	check_inboxes(0, 0, 0);
	close_qps();
}

TEST(each_member_of_a_group_gets_a_datagram_once)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } };
	struct av av = { 0 };
	uint8_t grh[40];
	bool joined = false;
	struct seg s;

	open_qps();
	check_eq(mcast_table_create(&stand->n.mcast), 0);
	check_eq(mcast_attach(stand->n.mcast, &e[0]->q.qp, &group, &joined), 0);
	check_eq(mcast_attach(stand->n.mcast, &e[2]->q.qp, &group, &joined), 0);
	memcpy(&av.dgid, &group, sizeof(av.dgid));
	s = datagram(MULTICAST_QPN);
	s.flags = SEG_MCAST;
	s.av = &av;
	inbound_deliver(&stand->n, &s);
	check_eq(e[0]->inbox_len, 1);
	check_eq(e[1]->inbox_len, 0);
	check_eq(e[2]->inbox_len, 1);
	/* from a network the GRH tells the group */
	grh_build(&(struct grh){ .dgid = { 0xff, 0x0e, [15] = 7 } }, grh);
	s.flags = SEG_NET | SEG_MCAST;
	s.av = NULL;
	s.grh = grh;
	inbound_packet(&stand->n.link[1], &s);
	grh[39] = 8; /* another group */
	inbound_packet(&stand->n.link[1], &s);
	check_inboxes(2, 0, 2);
	mcast_table_destroy(stand->n.mcast);
	close_qps();
}

TEST(every_QP_hears_that_a_process_has_ended)
{
	open_qps();
	inbound_peer_dead(&stand->n, FELLOW);
	for (unsigned int i = 0; i < QPS; i++)
		check(e[i]->turn & TURN_DEATH);
	check_inboxes(0, 0, 0);
	close_qps();
}

RUN_TESTS(unit_test(a_segment_of_this_host_goes_to_its_QP),
	  unit_test(a_packet_goes_to_its_QP_and_management_is_dropped),
	  unit_test(a_packet_for_another_process_is_passed_on),
	  unit_test(requests_that_need_no_program_are_counted),
	  unit_test(a_request_of_XRC_goes_where_its_SRQ_is),
	  unit_test(each_member_of_a_group_gets_a_datagram_once),
	  unit_test(every_QP_hears_that_a_process_has_ended))
