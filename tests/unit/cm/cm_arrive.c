// SPDX-License-Identifier: MIT
/* MADs of strangers: what they may end, and how often they are answered. A network takes what is
 * sent, and the messages come as the engine's thread hands them over. */
#include "unit/cm/arrivals.h"

TEST(a_request_ends_a_connection_with_its_own_sender_alone)
{
	struct cm_id *id, *other = NULL;
	struct cm_msg m;

	open_cm();
	id = accepted(&peer, 9);
	m = request(CM_REQ, &stranger, PORT);
	comes(&m, &stranger);
	check_eq(id->fsm.state, CM_ESTABLISHED);
	check_eq(fetch(&other), RDMA_CM_EVENT_CONNECT_REQUEST);
	check_eq(net.sent[CM_REJ], 0);
	m = request(CM_REQ, &peer, PORT);
	comes(&m, &peer); /* a host that was started anew has the numbers that it had before */
	check_eq(net.sent[CM_REJ], 1);
	check_eq(net.sent[CM_DREQ], 1);
	check_mem(&net.to, &peer, sizeof(peer));
	is_unknown(id);
	m.local_id++; /* it asks again */
	comes(&m, &peer);
	check_eq(fetch(&other), RDMA_CM_EVENT_CONNECT_REQUEST);
	check_eq(net.sent[CM_REJ], 1);
	close_cm();
}

/* The server's host was started anew, and has the numbers that it had before. */
TEST(an_answer_with_the_queue_pair_of_a_connection_ends_it)
{
	struct cm_id *id, *old, *told = NULL;

	open_cm();
	old = asked();
	answered(old, 8, PEER_QPN);
	check_eq(fetch(&told), RDMA_CM_EVENT_CONNECT_RESPONSE);
	check_eq(cm_call_establish(old), 0);
	id = asked();
	answered(id, 9, PEER_QPN);
	check_eq(net.sent[CM_REJ], 1);
	check_eq(net.sent[CM_DREQ], 1);
	check_eq(id->fsm.state, CM_REQ_SENT);
	answered(id, 9, PEER_QPN); /* has met the REJ */
	check_eq(net.sent[CM_REJ], 2);
	check_eq(net.last.reason, CM_REJ_STALE);
	check_eq(net.last.about, 1);
	check_eq(net.last.remote_id, 9);
	check_eq(net.last.local_id, id->fsm.local_id);
	check_eq(id->fsm.state, CM_REQ_SENT);
	is_unknown(old);
	answered(id, 10, PEER_QPN); /* of the request that was repeated */
	check_eq(fetch(&told), RDMA_CM_EVENT_CONNECT_RESPONSE);
	check(told == id);
	close_cm();
}

/* All that may be known of a connection but where its peer is. */
TEST(messages_of_another_host_change_no_connection)
{
	static const uint16_t kinds[] = { CM_DREQ, CM_DREP, CM_REJ, CM_RTU, CM_REP, CM_MRA };
	struct cm_id *id;

	open_cm();
	id = accepted(&peer, 9);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct cm_msg m = { .kind = kinds[i],
				    .local_id = id->fsm.remote_id,
				    .remote_id = id->fsm.local_id,
				    .qpn = id->fsm.local_qpn };

		comes(&m, &stranger);
		check_eq(id->fsm.state, CM_ESTABLISHED);
	}
	check_eq(net.sent[CM_DREP], 1); /* of a connection that it does not have */
	close_cm();
}

/* A request is one of its sender: the same numbers of another host are another request. */
TEST(a_request_that_another_host_repeats_is_its_own)
{
	struct cm_id *id, *other = NULL;
	struct cm_msg m;

	open_cm();
	m = request(CM_REQ, &peer, PORT);
	comes(&m, &peer);
	check_eq(fetch(&id), RDMA_CM_EVENT_CONNECT_REQUEST);
	m = request(CM_REQ, &stranger, PORT);
	comes(&m, &stranger);
	check_eq(net.sent[CM_MRA], 0);
	check_eq(fetch(&other), RDMA_CM_EVENT_CONNECT_REQUEST);
	check(other != id);
	comes(&m, &stranger);
	check_eq(net.sent[CM_MRA], 1);
	check_mem(&net.to, &stranger, sizeof(stranger));
	m.kind = CM_REJ; /* the stranger gives its own up */
	m.reason = CM_REJ_TIMEOUT;
	m.info_len = sizeof(guid);
	memcpy(m.info, &guid, sizeof(guid));
	comes(&m, &stranger);
	check_eq(other->fsm.state, CM_CLOSED);
	check_eq(id->fsm.state, CM_REQ_RCVD);
	close_cm();
}

/* What rdma_get_peer_addr() shows is what the network says. */
TEST(addresses_in_a_request_are_those_of_its_packet)
{
	static const uint16_t kinds[] = { CM_REQ, CM_SIDR_REQ };
	struct cm_id *id = NULL;
	struct cm_msg m;

	open_cm();
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		listener->qp_type = kinds[k] == CM_REQ ? IBV_QPT_RC : IBV_QPT_UD;
		for (unsigned int byte = FROM_END; byte <= TO_END; byte += TO_END - FROM_END) {
			m = request(kinds[k], &peer, PORT);
			m.private_data[byte]++; /* another sender, another receiver */
			comes(&m, &peer);
			check_eq(listener->pending, 0);
			check_eq(net.last.kind, kinds[k] == CM_REQ ? CM_REJ : CM_SIDR_REP);
			check_eq(net.last.reason, kinds[k] == CM_REQ ? CM_REJ_CONSUMER : 2);
		}
		m = request(kinds[k], &peer, PORT);
		comes(&m, &peer);
		check_eq(fetch(&id), RDMA_CM_EVENT_CONNECT_REQUEST);
	}
	check_eq(net.sent[CM_REJ], 2);
	check_eq(net.sent[CM_SIDR_REP], 2);
	close_cm();
}

/* An IPv4 address that is written as one of IPv6 is the same. */
TEST(a_mapped_address_in_a_request_is_that_of_its_packet)
{
	struct cm_msg m;
	struct cm_ip ip = { .port = 5, .version = 6 };

	open_cm();
	m = request(CM_REQ, &peer, PORT);
	memcpy(ip.from, peer.raw, sizeof(ip.from));
	memcpy(ip.to, here.raw, sizeof(ip.to));
	cm_ip_build(&ip, m.private_data);
	comes(&m, &peer);
	check_eq(listener->pending, 1);
	close_cm();
}

/* QP 0 and QP 1 are no program's: the peer is told, and the request goes on. */
TEST(an_answer_names_a_queue_pair_of_a_program)
{
	struct cm_msg m = { .kind = CM_SIDR_REP };
	struct cm_id *id, *told = NULL;

	open_cm();
	id = asked();
	for (uint32_t qpn = 0; qpn < 2; qpn++) {
		answered(id, 9, qpn);
		check_eq(net.sent[CM_REJ], qpn + 1);
		check_eq(net.last.reason, CM_REJ_CONSUMER);
		check_eq(net.last.remote_id, 9);
		check_eq(id->fsm.state, CM_REQ_SENT);
	}
	answered(id, 9, 2);
	check_eq(fetch(&told), RDMA_CM_EVENT_CONNECT_RESPONSE);
	check_eq(cm.qpns.count, 1); /* what was refused is not there */
	id = asked();
	id->fsm.state = CM_SIDR_SENT; /* as one of UD */
	for (m.qpn = 0; m.qpn <= 2; m.qpn++) {
		check_eq(id->fsm.state, CM_SIDR_SENT);
		m.local_id = id->fsm.local_id;
		comes(&m, &peer);
	}
	check_eq(id->fsm.state, CM_CLOSED);
	close_cm();
}

TEST(a_MAD_of_another_partition_is_dropped)
{
	struct cm_msg m;

	open_cm();
	m = request(CM_REQ, &stranger, NOT_OURS);
	partition = 0x8001;
	comes_to_the_host(&m, &stranger);
	check_eq(net.sent[CM_REJ], 0);
	partition = 0x7fff; /* a limited member of ours */
	comes_to_the_host(&m, &stranger);
	check_eq(net.sent[CM_REJ], 1);
	partition = 0xffff;
	close_cm();
}

/* It waits until others to that host are answered, and has all its time when it leaves. */
TEST(a_request_that_is_delayed_does_not_grow_old)
{
	struct cm_msg m = { .kind = CM_REJ, .reason = CM_REJ_CONSUMER };
	struct cm_id *first, *last;

	open_cm();
	first = asked();
	m.remote_id = first->fsm.local_id;
	while (net.sent[CM_REQ] < AT_ONCE)
		asked();
	last = asked();
	check_eq(net.sent[CM_REQ], AT_ONCE);
	check(timer_running(&first->timer) && !timer_running(&last->timer));
	last->fsm.give_up = 1; /* as if it had waited for long */
	comes(&m, &peer);
	check_eq(net.sent[CM_REQ], AT_ONCE + 1);
	check_eq(net.last.local_id, last->fsm.local_id);
	check(timer_running(&last->timer));
	check(last->fsm.give_up > clock_now());
	close_cm();
}

/* Nothing says so to the peer, and another one leaves in its place. */
TEST(a_question_that_is_given_up_leaves_its_place)
{
	struct cm_id *first, *last;
	uint32_t fetched;

	open_cm();
	first = questioned();
	while (net.sent[CM_SIDR_REQ] < AT_ONCE)
		questioned();
	last = questioned();
	check_eq(net.sent[CM_SIDR_REQ], AT_ONCE);
	check(!timer_running(&last->timer));
	check_eq(cm_call_id_destroy(first, &fetched), 0);
	check_eq(net.sent[CM_SIDR_REQ], AT_ONCE + 1);
	check_eq(net.last.local_id, last->fsm.local_id);
	check(timer_running(&last->timer));
	cm_call_id_release(first);
	close_cm();
}

/* A program that does not answer keeps nobody from the others of its host for long. */
TEST(a_request_that_is_repeated_late_leaves_its_place)
{
	struct cm_id *first, *last;

	open_cm();
	first = asked();
	while (net.sent[CM_REQ] < AT_ONCE)
		asked();
	last = asked();
	first->quick = true;
	first->timer.fire(&first->timer, first->fsm.deadline);
	check_eq(net.last.local_id, first->fsm.local_id);
	check(!timer_running(&last->timer));
	first->timer.fire(&first->timer, first->fsm.deadline = first->fsm.next_full);
	check_eq(net.sent[CM_REQ], AT_ONCE + 3);
	check_eq(net.last.local_id, last->fsm.local_id);
	check(timer_running(&last->timer) && timer_running(&first->timer));
	check(asked()->delayed);
	close_cm();
}

/* As the kernel would, for those that others have kept from leaving, too. */
TEST(a_process_that_ends_tells_each_peer)
{
	struct cm_id *id[AT_ONCE + 3];
	uint32_t fetched;
	bool follows;

	open_cm();
	for (unsigned int i = 0; i < AT_ONCE + 3; i++)
		id[i] = accepted_of(&peer, 9 + i, PEER_QPN + i);
	check_eq(cm_call_disconnect(id[0], &follows), 0);
	for (unsigned int i = 1; i < AT_ONCE + 2; i++)
		check_eq(cm_call_id_destroy(id[i], &fetched), 0);
	check_eq(cm_call_disconnect(id[AT_ONCE + 2], &follows), 0);
	check_eq(net.sent[CM_DREQ], AT_ONCE);
	cm_call_farewell();
	check_eq(net.sent[CM_DREQ], AT_ONCE + 3);
	close_cm();
}

/* What the peer said when it asked is no part of its silence. */
TEST(an_end_without_a_message_shows_none)
{
	struct cm_param p = { .qpn = 5 };
	struct cm_msg m;
	struct cm_id *id = NULL;
	struct cm_news n;

	open_cm();
	m = request(CM_REQ, &peer, PORT);
	m.responder_resources = 4;
	comes(&m, &peer);
	check_eq(fetch(&id), RDMA_CM_EVENT_CONNECT_REQUEST);
	check_eq(cm_call_accept(id, &p), 0);
	id->timer.fire(&id->timer, id->fsm.deadline = id->fsm.give_up);
	check_eq(cm_channel_next(&channel, &n), 0);
	check_eq(n.event, RDMA_CM_EVENT_UNREACHABLE);
	check_eq(n.param.data_len, 0);
	check_eq(n.param.initiator_depth, 0);
	close_cm();
}

/* rdma_migrate_id(): "moves any pending events". */
TEST(requests_follow_their_listener_to_its_channel)
{
	struct cm_param p = { .qpn = 5 };
	struct cm_channel *ch;
	struct cm_id *id = NULL;
	struct cm_msg m;
	int fd;

	open_cm();
	check_eq(cm_channel_create(&ch, &fd), 0);
	cm_event_move(listener, ch);
	m = request(CM_REQ, &peer, PORT);
	comes(&m, &peer);
	cm_event_move(listener, &channel);
	cm_call_channel_destroy(ch);
	check_eq(net.sent[CM_REJ], 0);
	check_eq(fetch(&id), RDMA_CM_EVENT_CONNECT_REQUEST);
	check_eq(cm_call_accept(id, &p), 0);
	close_cm();
}

/* Another thread may be at work on an event of it that it has fetched. */
TEST(an_id_that_is_destroyed_remains_until_it_is_released)
{
	struct cm_id *idle, *open;
	struct cm_view view;
	uint32_t fetched;

	open_cm();
	check_eq(cm_id_new(&channel, RDMA_PS_TCP, IBV_QPT_RC, &idle), 0);
	check_eq(cm_call_id_destroy(idle, &fetched), 0);
	check_eq(cm_call_view(idle, &view), EINVAL);
	cm_call_id_release(idle);
	for (uint32_t i = 0; i < 2; i++) {
		open = accepted_of(&peer, 9 + i, PEER_QPN + i);
		check_eq(cm_call_id_destroy(open, &fetched), 0);
		if (i) /* its conversation ends first, or last */
			cm_call_id_release(open);
		open->timer.fire(&open->timer, open->fsm.deadline = open->fsm.give_up);
		open->timer.fire(&open->timer, open->fsm.deadline);
		if (i)
			continue;
		check_eq(cm_call_view(open, &view), EINVAL);
		cm_call_id_release(open);
	}
	check(cm.ids.next == &listener->node && cm.ids.prev == &listener->node);
	close_cm();
}

/* As in Linux: what the channel's ids have begun ends with it. */
TEST(a_channel_that_is_destroyed_takes_its_conversations_with_it)
{
	struct cm_channel *ch;
	struct cm_id *open, *told = NULL;
	struct cm_msg m;
	int fd;

	open_cm();
	check_eq(cm_channel_create(&ch, &fd), 0);
	open = accepted(&peer, 9);
	cm_event_move(open, ch);
	cm_event_move(listener, ch);
	m = request(CM_REQ, &stranger, PORT);
	comes(&m, &stranger);
	check_eq(listener->pending, 1);
	cm_call_channel_destroy(ch);
	check_eq(net.sent[CM_DREQ], 1);
	check_eq(net.sent[CM_REJ], 1);
	check_eq(listener->pending, 0);
	m = (struct cm_msg){ .kind = CM_DREQ,
			     .local_id = open->fsm.remote_id,
			     .remote_id = open->fsm.local_id,
			     .qpn = open->fsm.local_qpn };
	comes(&m, &peer);
	check_eq(net.sent[CM_DREP], 1);
	cm_event_move(listener, &channel); /* the id itself is still the program's */
	check_eq(listener->phase, PHASE_BOUND);
	check_eq(fetch(&told), 0);
	close_cm();
}

/* A call has the lock, so that they wait in the pair: what comes then does not pass them. */
TEST(no_message_passes_those_that_wait)
{
	struct cm_msg m = { .kind = CM_DREQ };

	open_cm();
	mutex_lock(&cm.lock);
	for (m.local_id = 1; m.local_id <= WAITING; m.local_id++)
		comes(&m, &stranger);
	mutex_unlock(&cm.lock);
	check_eq(net.sent[CM_DREP], 0);
	while (net.last.remote_id < 2 * WAITING) {
		comes(&m, &stranger);
		check_eq(net.last.remote_id, net.sent[CM_DREP]);
		m.local_id++;
	}
	close_cm();
}

/* Each message may name another sender, whom the answers would reach. */
TEST(strangers_are_answered_a_thousand_times_a_second)
{
	static const uint16_t kinds[] = { CM_REQ, CM_SIDR_REQ, CM_DREQ };
	uint64_t before = clock_now() / 1000000000, seconds;
	struct cm_msg m, known;
	unsigned int all;

	open_cm();
	known = request(CM_REQ, &peer, PORT);
	comes(&known, &peer);
	for (unsigned int i = 0; i < FLOOD; i++) {
		comes(&known, &peer); /* the answer reaches the peer, whoever repeats it */
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			m = request(kinds[k], &stranger, NOT_OURS);
			m.local_id = i;
			comes(&m, &stranger);
			if (i % 8 == 0)
				comes_to_the_host(&m, &stranger);
		}
	}
	seconds = clock_now() / 1000000000 - before + 1;
	all = net.sent[CM_REJ] + net.sent[CM_SIDR_REP] + net.sent[CM_DREP] + net.sent[CM_MRA];
	check(all > A_SECOND / 2 && all <= A_SECOND * seconds);
	check(net.sent[CM_REJ] && net.sent[CM_SIDR_REP] && net.sent[CM_DREP] && net.sent[CM_MRA]);
	check(cm.ids.next == &listener->node && cm.ids.prev->prev == &listener->node);
	close_cm();
}

RUN_TESTS(unit_test(a_request_ends_a_connection_with_its_own_sender_alone),
	  unit_test(an_answer_with_the_queue_pair_of_a_connection_ends_it),
	  unit_test(messages_of_another_host_change_no_connection),
	  unit_test(a_request_that_another_host_repeats_is_its_own),
	  unit_test(addresses_in_a_request_are_those_of_its_packet),
	  unit_test(a_mapped_address_in_a_request_is_that_of_its_packet),
	  unit_test(an_answer_names_a_queue_pair_of_a_program),
	  unit_test(a_MAD_of_another_partition_is_dropped),
	  unit_test(a_request_that_is_delayed_does_not_grow_old),
	  unit_test(a_question_that_is_given_up_leaves_its_place),
	  unit_test(a_request_that_is_repeated_late_leaves_its_place),
	  unit_test(a_process_that_ends_tells_each_peer),
	  unit_test(an_end_without_a_message_shows_none),
	  unit_test(requests_follow_their_listener_to_its_channel),
	  unit_test(an_id_that_is_destroyed_remains_until_it_is_released),
	  unit_test(a_channel_that_is_destroyed_takes_its_conversations_with_it),
	  unit_test(no_message_passes_those_that_wait),
	  unit_test(strangers_are_answered_a_thousand_times_a_second))
