// SPDX-License-Identifier: MIT
/* What a peer may send wrongly: packets to QP 1 that are no MAD of connection management, requests
 * that are rejected, lengths that lie, messages for no connection, and for a process that takes
 * none. Each is told once. */
#include <sys/socket.h>
#include "obs/explain.h"
#include "obs/verdict.h"
#include "unit/cm/arrivals.h"

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };

/* The last sentence of this thread begins so. */
static void told(const char *text)
{
	char last[EXPLAIN_TEXT];

	check_eq(explain_last(last, sizeof(last)), 0);
	last[strlen(text)] = 0;
	check_str(last, text);
}

enum wrong {
	RIGHT,
	WRONG_QPN,
	WRONG_OPCODE,
	WRONG_QKEY,
	WRONG_LENGTH,
	NO_GRH,
	FROM_A_GROUP,
	TO_A_GROUP,
	BASE_VERSION,
	CLASS,
	CLASS_VERSION,
	METHOD,
	ATTRIBUTE,
	WRONGS,
};

static void spoil(enum wrong what, struct gsi_mad *mad, struct seg *s)
{
	switch (what) {
	case WRONG_QPN:
		s->dqpn = PEER_QPN;
		break;
	case WRONG_OPCODE:
		s->op = SVC_UD | OP_SEND_ONLY_IMM;
		break;
	case WRONG_QKEY:
		s->qkey = 0x11111111;
		break;
	case WRONG_LENGTH:
		s->len = MAD_LEN - 1;
		break;
	case NO_GRH:
		s->grh = NULL;
		break;
	case BASE_VERSION:
	case CLASS:
	case CLASS_VERSION:
	case METHOD:
		mad->mad[what - BASE_VERSION]++;
		break;
	case ATTRIBUTE:
		mad->mad[16] ^= 0xff;
		break;
	default:
		break;
	}
}

static void arrives(enum wrong what)
{
	struct cm_msg m = request(CM_REQ, &stranger, NOT_OURS);
	struct gsi_mad mad = mad_of(&m, &stranger);
	uint8_t area[GRH_LEN];
	struct seg s;

	if (what == FROM_A_GROUP)
		mad.from = group;
	if (what == TO_A_GROUP)
		mad.to = group;
	s = packet_of(&mad, area);
	spoil(what, &mad, &s);
	verdict_said = NULL;
	gsi_packet(&stand->n.link[1], &s);
}

TEST(packets_that_are_no_MAD_are_dropped)
{
	open_cm();
	for (enum wrong w = RIGHT + 1; w < WRONGS; w++) {
		arrives(w);
		check_str(verdict_said, "dropped, no MAD of connection management");
		check_eq(net.sent[CM_REJ], 0);
		if (w == RIGHT + 1)
			told("connection management: a packet from 10.9.0.3 to QP 1 is "
			     "dropped, the 1th of this process: ");
	}
	told("connection management: a packet from 10.9.0.3 to QP 1 is dropped, the 10th "
	     "of this process: ");
	arrives(RIGHT);
	check_eq(net.sent[CM_REJ], 1); /* nobody listens */
	close_cm();
}

/* Of which port space and port are only the last 48 bits. */
TEST(a_service_id_that_is_no_ports_is_nobodys)
{
	const struct gsi_port ours = { RDMA_PS_TCP, PORT, GSI_ADDRESS, here };
	struct cm_msg m = request(CM_REQ, &peer, PORT);
	struct cm_id *id;

	open_cm();
	gsi_own_port(&ours, true);
	m.service_id |= UINT64_C(1) << 48;
	comes_to_the_host(&m, &peer);
	gsi_own_flush();
	check_eq(fetch(&id), 0);
	check_eq(net.last.kind, CM_REJ);
	check_eq(net.last.reason, 8);
	m.service_id = (uint64_t)RDMA_PS_TCP << 16 | PORT;
	comes_to_the_host(&m, &peer);
	gsi_own_flush();
	check_eq(fetch(&id), RDMA_CM_EVENT_CONNECT_REQUEST);
	close_cm();
}

static const struct fault {
	size_t at; /* the byte of the message */
	uint8_t value;
	uint16_t rej;
} faults[] = {
	{ offsetof(struct cm_msg, path_mtu), 0, CM_REJ_MTU },
	{ offsetof(struct cm_msg, path_mtu), IBV_MTU_4096 + 1, CM_REJ_MTU },
	{ offsetof(struct cm_msg, path_mtu), 15, CM_REJ_MTU },
	{ offsetof(struct cm_msg, path[0].remote_gid) + 15, 9, CM_REJ_GID },
	{ offsetof(struct cm_msg, path[0].local_gid) + 15, 9, CM_REJ_GID },
	{ offsetof(struct cm_msg, qpn), 0, CM_REJ_CONSUMER },
	{ offsetof(struct cm_msg, qpn), 1, CM_REJ_CONSUMER },
	{ offsetof(struct cm_msg, private_data), 0x10, CM_REJ_CONSUMER }, /* major version 1 */
	{ offsetof(struct cm_msg, private_data) + 1, 0x50, CM_REJ_CONSUMER }, /* IP version 5 */
};

TEST(a_request_that_is_wrong_is_rejected_with_its_reason)
{
	struct cm_msg m;

	open_cm();
	for (unsigned int i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		const struct fault *f = &faults[i];

		m = request(CM_REQ, &peer, PORT);
		if (f->at == offsetof(struct cm_msg, qpn))
			m.qpn = f->value;
		else
			((uint8_t *)&m)[f->at] = f->value;
		comes(&m, &peer);
		check_eq(net.sent[CM_REJ], i + 1);
		check_eq(net.last.reason, f->rej);
		check_eq(net.last.info_len, f->rej == CM_REJ_GID ? sizeof(here) : 0);
		if (f->rej == CM_REJ_GID) /* the address to ask for instead */
			check_mem(net.last.info, &here, sizeof(here));
		check_eq(listener->pending, 0);
	}
	m = request(CM_REQ, &peer, PORT);
	comes(&m, &peer);
	check_eq(listener->pending, 1);
	close_cm();
}

/* A requester that gives up has heard no number of ours: it names its request by its GUID. */
TEST(a_rejection_says_how_long_its_GUID_is)
{
	static const uint8_t len[] = { 0, 7, 8, CM_INFO_MAX, CM_INFO_MAX + 1, 127 };
	struct cm_id *id = NULL;
	struct cm_msg m;

	open_cm();
	for (unsigned int i = 0; i < sizeof(len); i++) {
		m = request(CM_REQ, &peer, PORT);
		m.local_id = 1 + i;
		m.qpn = PEER_QPN + i;
		comes(&m, &peer);
		check_eq(fetch(&id), RDMA_CM_EVENT_CONNECT_REQUEST);
		m.kind = CM_REJ;
		m.reason = CM_REJ_TIMEOUT;
		m.info_len = len[i];
		memcpy(m.info, &guid, sizeof(guid));
		comes(&m, &peer);
		check_eq(id->fsm.state, len[i] < sizeof(guid) ? CM_REQ_RCVD : CM_CLOSED);
		while (fetch(&id))
			;
	}
	close_cm();
}

TEST(a_message_for_no_connection_is_told)
{
	struct cm_msg m = { .kind = CM_REP, .local_id = 7, .qpn = PEER_QPN };
	struct cm_id *id;

	open_cm();
	id = accepted(&peer, 9);
	m.remote_id = id->fsm.local_id;
	comes(&m, &stranger);
	told("connection management: a message (REP) from 10.9.0.3 is dropped, the 1th of this "
	     "process: it names a connection with 10.9.0.2; ");
	m.remote_id = id->fsm.local_id + 1;
	for (unsigned int i = 2; i <= 10; i++)
		comes(&m, &peer);
	told("connection management: a message (REP) from 10.9.0.2 is dropped, the 10th of this "
	     "process: it names no connection; ");
	close_cm();
}

/* Nobody can connect to the process that has the port. Returns its socket, and in *conn the last
 * connection that it has room for. */
static int full_port(int *conn)
{
	const struct gsi_port p = { RDMA_PS_TCP, NOT_OURS, GSI_ADDRESS, here };
	int fd;

	check_eq(gsi_name_bind(&p, &fd), 0);
	check_eq(listen(fd, 0), 0);
	check_eq(gsi_name_connect(&p, conn), 0);
	check_eq(gsi_name_connect(&p, &(int){ -1 }), EAGAIN);
	return fd;
}

TEST(a_request_to_a_process_without_room_is_told)
{
	struct cm_msg m = request(CM_REQ, &stranger, NOT_OURS);
	int fd, conn;

	open_cm();
	fd = full_port(&conn);
	for (unsigned int i = 1; i <= 10; i++) {
		verdict_said = NULL;
		comes_to_the_host(&m, &stranger);
		check_str(verdict_said, "dropped, its process has no room");
		if (i == 1)
			told("connection management: a message from 10.9.0.3 is dropped, the 1th "
			     "that this process could not hand over: the process that it is for "
			     "has no room; is that one stopped, or its machine overloaded?");
	}
	told("connection management: a message from 10.9.0.3 is dropped, the 10th that this "
	     "process could not hand over: ");
	check_eq(net.sent[CM_REJ], 0); /* the peer asks again */
	close(accept(fd, NULL, NULL));
	comes_to_the_host(&m, &stranger);
	check_str(verdict_said, "handed to connection management");
	close(conn);
	close(fd);
	close_cm();
}

/* Whose it is cannot be seen, since nobody can connect to it. */
TEST(a_full_port_behind_a_wildcard_is_told)
{
	const struct gsi_port any = { RDMA_PS_TCP, NOT_OURS, GSI_ANY4, { .raw = { 0 } } };
	struct cm_msg m = request(CM_REQ, &stranger, NOT_OURS);
	int fd, conn, wildcard;

	open_cm();
	fd = full_port(&conn);
	check_eq(gsi_name_bind(&any, &wildcard), 0);
	check_eq(listen(wildcard, 1), 0);
	comes_to_the_host(&m, &stranger);
	check_str(verdict_said, "handed to connection management");
	told("connection management: another user has taken port 7472 at one address, where a "
	     "process has it at all; ");
	close(wildcard);
	close(conn);
	close(fd);
	close_cm();
}

TEST(a_disconnect_without_an_answer_is_told)
{
	struct cm_id *id, *of = NULL;
	bool follows;

	open_cm();
	id = accepted(&peer, 9);
	check_eq(cm_call_disconnect(id, &follows), 0);
	id->timer.fire(&id->timer, id->fsm.deadline = id->fsm.give_up);
	check_eq(fetch(&of), RDMA_CM_EVENT_DISCONNECTED);
	check(of == id);
	told("RDMA_CM_EVENT_DISCONNECTED (status -110) for 10.9.0.2, port 5: the peer has not "
	     "answered rdma_disconnect; ");
	close_cm();
}

RUN_TESTS(unit_test(packets_that_are_no_MAD_are_dropped),
	  unit_test(a_service_id_that_is_no_ports_is_nobodys),
	  unit_test(a_request_that_is_wrong_is_rejected_with_its_reason),
	  unit_test(a_rejection_says_how_long_its_GUID_is),
	  unit_test(a_message_for_no_connection_is_told),
	  unit_test(a_request_to_a_process_without_room_is_told),
	  unit_test(a_full_port_behind_a_wildcard_is_told),
	  unit_test(a_disconnect_without_an_answer_is_told))
