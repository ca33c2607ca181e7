// SPDX-License-Identifier: MIT
/* The table of services against what ibv_post_send(3), ibv_create_qp(3), mlx5dv_create_qp(3) and
 * the specification say. State moves: qp_moves.c; here those of DC. */
#include "test.h"
#include <errno.h>
#include "hca/qp_moves.h"

/* Columns as enum service_id: RC, UC, UD, RAW_PACKET, XRC_SEND, XRC_RECV, DC's initiator, target
 * and responder.
 * IBV_WR_TSO on UD is IPoIB's, which this device does not have. */
static const struct {
	unsigned int op;
	const char *takes;
} work_requests[] = {
	{ IBV_WR_RDMA_WRITE, "xx..x.x.." },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, "xx..x.x.." },
	{ IBV_WR_SEND, "xxxxx.x.." },
	{ IBV_WR_SEND_WITH_IMM, "xxx.x.x.." },
	{ IBV_WR_RDMA_READ, "x...x.x.." },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, "x...x.x.." },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, "x...x.x.." },
	{ IBV_WR_LOCAL_INV, "xx..x...." },
	{ IBV_WR_BIND_MW, "xx..x...." },
	{ IBV_WR_SEND_WITH_INV, "x...x.x.." },
	{ IBV_WR_TSO, "...x....." },
	{ IBV_WR_DRIVER1, "........." },
	{ IBV_WR_ATOMIC_WRITE, "x........" },
};

/* What @op is in the list above; other numbers are no work requests. */
static bool expected(unsigned int op, int id)
{
	for (size_t i = 0; i < sizeof(work_requests) / sizeof(work_requests[0]); i++)
		if (work_requests[i].op == op)
			return work_requests[i].takes[id] == 'x';
	return false;
}

TEST(each_service_takes_exactly_its_work_requests)
{
	for (int id = 0; id < SERVICES; id++)
		for (unsigned int op = 0; op < 64; op++)
			if (service_takes(&services[id], op) != expected(op, id))
				fail_msg("%s, work request %u", services[id].name, op);
}

TEST(the_builder_offers_the_same_by_its_own_numbers)
{
	static const uint64_t flags[] = {
		[IBV_WR_RDMA_WRITE] = IBV_QP_EX_WITH_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
		[IBV_WR_SEND] = IBV_QP_EX_WITH_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_QP_EX_WITH_SEND_WITH_IMM,
		[IBV_WR_RDMA_READ] = IBV_QP_EX_WITH_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
		[IBV_WR_LOCAL_INV] = IBV_QP_EX_WITH_LOCAL_INV,
		[IBV_WR_BIND_MW] = IBV_QP_EX_WITH_BIND_MW,
		[IBV_WR_SEND_WITH_INV] = IBV_QP_EX_WITH_SEND_WITH_INV,
		[IBV_WR_TSO] = IBV_QP_EX_WITH_TSO,
		[IBV_WR_ATOMIC_WRITE] = IBV_QP_EX_WITH_ATOMIC_WRITE,
	};

	for (int id = 0; id < SERVICES; id++) {
		uint64_t want = 0;

		for (unsigned int op = 0; op < sizeof(flags) / sizeof(flags[0]); op++)
			want |= expected(op, id) ? flags[op] : 0;
		check_eq(service_send_ops(&services[id]), want);
	}
}

TEST(a_type_finds_its_row_and_no_other)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC,	    IBV_QPT_UC,
						  IBV_QPT_UD,	    IBV_QPT_RAW_PACKET,
						  IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV };
	static const char *const names[] = {
		"RC", "UC", "UD", "RAW_PACKET", "XRC_SEND", "XRC_RECV"
	};

	for (int id = 0; id < 6; id++) {
		check(service_find(types[id]) == &services[id]);
		check_eq(services[id].type, types[id]);
		check_str(services[id].name, names[id]);
	}
	check(service_find(IBV_QPT_DRIVER) == NULL);
	check(service_find((enum ibv_qp_type)77) == NULL);
}

/* What the specification says of all services alike; a row that breaks it has a slip of the pen. */
TEST(rows_are_consistent)
{
	for (int id = 0; id < SERVICES; id++) {
		const struct service *s = &services[id];
		bool answered = service_takes(s, IBV_WR_RDMA_READ);

		check(s->name && (s->sends || s->receives));
		check_eq(s->sends, s->verbs != 0);
		check_eq(s->sends, service_takes(s, IBV_WR_SEND));
		check(!answered || s->reliable); /* somebody must answer */
		check_eq(s->moves[MOVE_REPAIR].legal, s->sends && !s->reliable); /* SQE */
		check(!(s->connected && s->any_sender));
		/* a DC initiator's peers are in its work requests, a responder moves by itself */
		check(!s->connected || s->wqe == WQE_DC ||
		      !!(s->moves[MOVE_RTR].need & IBV_QP_DEST_QPN));
		check(!s->routed || (s->connected && s->address_segs));
		check(!s->credits || (s->reliable && s->receives));
		check(!s->tags || s->srq);
		check(!s->srq || s->receives);
		check(!s->multicast || s->any_sender);
		check_eq(s->frames, s->wqe == WQE_ETHERNET);
		check_eq(s->address_segs, id == SERVICE_UD || id == SERVICE_DCI ? 3
					  : id == SERVICE_XRC_SEND		? 1
										: 0);
		check(s->home == HOME_NONE || s->wire != SERVICE_NO_OPCODES || s->frames);
	}
}

TEST(only_what_works_is_advertised)
{
	uint32_t all = 1U << IBV_QPT_RC | 1U << IBV_QPT_UC | 1U << IBV_QPT_UD |
		       1U << IBV_QPT_RAW_PACKET | 1U << IBV_QPT_XRC_SEND;

	check_eq(service_types(IBV_WR_SEND), all);
	check_eq(service_types(IBV_WR_TSO), 1U << IBV_QPT_RAW_PACKET);
	check_eq(service_types(IBV_WR_ATOMIC_WRITE), 1U << IBV_QPT_RC);
	check_eq(services[SERVICE_DCI].home, HOME_DRIVER);
	check_eq(services[SERVICE_DCT].home, HOME_DRIVER);
	check_eq(services[SERVICE_DC_RESPONDER].home, HOME_NONE);
	check_eq(services[SERVICE_XRC_RECV].home, HOME_XRCD);
}

static int moves(int id, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	return qp_moves_check(1, &services[id], from, to, mask | IBV_QP_STATE);
}

TEST(a_dc_initiator_names_no_peer_in_its_moves)
{
	int retry = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

	check_eq(moves(SERVICE_DCI, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT),
		 0);
	check_eq(moves(SERVICE_DCI, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU), 0);
	check_eq(moves(SERVICE_DCI, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU | IBV_QP_DEST_QPN),
		 EINVAL);
	check_eq(moves(SERVICE_DCI, IBV_QPS_RTR, IBV_QPS_RTS, retry), 0);
	check_eq(moves(SERVICE_DCI, IBV_QPS_RTR, IBV_QPS_RTS, retry & ~IBV_QP_TIMEOUT), EINVAL);
	check_eq(moves(SERVICE_DCI, IBV_QPS_RTS, IBV_QPS_ERR, 0), 0);
	check_eq(moves(SERVICE_DCI, IBV_QPS_SQE, IBV_QPS_RTS, 0), EINVAL);
}

TEST(a_dc_target_is_complete_in_rtr)
{
	int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	int rtr = IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER;

	check_eq(moves(SERVICE_DCT, IBV_QPS_RESET, IBV_QPS_INIT, init), 0);
	check_eq(moves(SERVICE_DCT, IBV_QPS_INIT, IBV_QPS_RTR, rtr), 0);
	check_eq(moves(SERVICE_DCT, IBV_QPS_INIT, IBV_QPS_RTR, rtr & ~IBV_QP_AV), EINVAL);
	check_eq(moves(SERVICE_DCT, IBV_QPS_RTR, IBV_QPS_RTS, 0), EINVAL);
	check_eq(moves(SERVICE_DCT, IBV_QPS_RTR, IBV_QPS_ERR, 0), 0);
	check_eq(moves(SERVICE_DCT, IBV_QPS_RTR, IBV_QPS_RESET, 0), 0);
}

RUN_TESTS(unit_test(each_service_takes_exactly_its_work_requests),
	  unit_test(the_builder_offers_the_same_by_its_own_numbers),
	  unit_test(a_type_finds_its_row_and_no_other), unit_test(rows_are_consistent),
	  unit_test(only_what_works_is_advertised),
	  unit_test(a_dc_initiator_names_no_peer_in_its_moves),
	  unit_test(a_dc_target_is_complete_in_rtr))
