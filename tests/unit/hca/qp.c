// SPDX-License-Identifier: MIT
#include "fixture.h"
#include "hca/async.h"
#include "hca/qp.h"

struct bench {
	struct fixture *f;
	struct cq *scq, *rcq;
	struct ibv_cq user_scq, user_rcq;
	struct ibv_qp user;
	struct qp qp;
};

static int init(struct bench *b, struct qp_attr attr)
{
	attr.scq = b->scq;
	attr.rcq = b->rcq;
	attr.user = &b->user;
	return qp_init(&b->qp, b->f->pd, &attr, 0x123456);
}

static void bench_open(struct bench *b, enum ibv_qp_type type)
{
	memset(b, 0, sizeof(*b));
	b->f = fixture_open(8);
	check_eq(cq_create(b->f->ctx, &(struct cq_attr){ .user = &b->user_scq }, &b->scq), 0);
	check_eq(cq_create(b->f->ctx, &(struct cq_attr){ .user = &b->user_rcq }, &b->rcq), 0);
	check_eq(init(b, (struct qp_attr){ .service = service_find(type),
					   .sq_sig_all = true,
					   .cap = { .max_send_wr = 64, .max_send_sge = 2 } }),
		 0);
}

static void bench_close(struct bench *b)
{
	qp_fini(&b->qp);
	qp_fini(&b->qp); /* harmless */
	check_eq(cq_destroy(b->scq), 0);
	check_eq(cq_destroy(b->rcq), 0);
	check_eq(b->f->hca.count.qp, 0);
	fixture_close(b->f);
}

#define TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR                                                                                     \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |            \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS                                                                                     \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |     \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static const struct ibv_qp_attr all = {
	.path_mtu = IBV_MTU_1024,
	.rq_psn = 0xabcdef,
	.sq_psn = 0xfedcba,
	.dest_qp_num = 0x654321,
	.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	.ah_attr = { .is_global = 1,
		     .port_num = 1,
		     .grh = { .dgid.raw = { 0xfe, 0x80 }, .sgid_index = 1, .hop_limit = 1 } },
	.max_rd_atomic = 16,
	.max_dest_rd_atomic = 16,
	.min_rnr_timer = 31,
	.port_num = 1,
	.timeout = 31,
	.retry_cnt = 7,
	.rnr_retry = 7,
};

static int move(struct bench *b, struct ibv_qp_attr attr, enum ibv_qp_state to, int mask)
{
	attr.qp_state = to;
	return qp_modify(&b->qp, &attr, mask);
}

static void to_rts(struct bench *b)
{
	check_eq(move(b, all, IBV_QPS_INIT, TO_INIT), 0);
	check_eq(move(b, all, IBV_QPS_RTR, TO_RTR), 0);
	check_eq(move(b, all, IBV_QPS_RTS, TO_RTS), 0);
}

TEST(what_modify_set_query_returns)
{
	struct ibv_qp_init_attr ini;
	struct ibv_qp_attr got;
	struct bench b;

	bench_open(&b, IBV_QPT_RC);
	b.user.qp_context = &b;
	to_rts(&b);
	qp_query(&b.qp, &got, &ini);
	check_eq(got.qp_state, IBV_QPS_RTS);
	check_eq(got.cur_qp_state, IBV_QPS_RTS);
	check_eq(got.cap.max_send_wr, 64);
	check_eq(ini.cap.max_send_sge, 2);
	check(ini.qp_context == &b);
	check(ini.send_cq == &b.user_scq && ini.recv_cq == &b.user_rcq && !ini.srq);
	check(ini.qp_type == IBV_QPT_RC && ini.sq_sig_all);
	got.qp_state = got.cur_qp_state = 0;
	memset(&got.cap, 0, sizeof(got.cap));
	check_mem(&got, &all, sizeof(all));
	check_eq(qp_mtu(&b.qp), 1024);
	bench_close(&b);
}

TEST(reset_forgets_the_attributes)
{
	struct ibv_qp_init_attr ini;
	struct ibv_qp_attr got;
	struct bench b;

	bench_open(&b, IBV_QPT_RC);
	to_rts(&b);
	check_eq(move(&b, all, IBV_QPS_RESET, IBV_QP_STATE), 0);
	qp_query(&b.qp, &got, &ini);
	check_eq(got.qp_state, IBV_QPS_RESET);
	check_eq(got.dest_qp_num, 0);
	check_eq(got.cap.max_send_wr, 64);
	to_rts(&b);
	bench_close(&b);
}

TEST(attributes_outside_their_range_are_refused_and_nothing_changes)
{
	static const struct {
		int bit;
		size_t offset, size;
		uint32_t value;
		const char *word;
	} cases[] = {
#define CASE(bit, member, value)                                                                   \
	{ bit, offsetof(struct ibv_qp_attr, member), sizeof(all.member), value, #member }
		CASE(IBV_QP_PORT, port_num, 0),
		CASE(IBV_QP_PORT, port_num, 2),
		CASE(IBV_QP_PKEY_INDEX, pkey_index, 1),
		CASE(IBV_QP_ACCESS_FLAGS, qp_access_flags, 1U << 30),
		CASE(IBV_QP_PATH_MTU, path_mtu, 0),
		CASE(IBV_QP_PATH_MTU, path_mtu, 6),
		CASE(IBV_QP_DEST_QPN, dest_qp_num, 1 << 24),
		CASE(IBV_QP_RQ_PSN, rq_psn, 1 << 24),
		CASE(IBV_QP_SQ_PSN, sq_psn, 1 << 24),
		CASE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 17),
		CASE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, 17),
		CASE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer, 32),
		CASE(IBV_QP_TIMEOUT, timeout, 32),
		CASE(IBV_QP_RETRY_CNT, retry_cnt, 8),
		CASE(IBV_QP_RNR_RETRY, rnr_retry, 8),
	};
	static const struct {
		enum ibv_qp_state to;
		int mask;
	} steps[] = { { IBV_QPS_INIT, TO_INIT }, { IBV_QPS_RTR, TO_RTR }, { IBV_QPS_RTS, TO_RTS } };
	struct bench b;
	size_t tried = 0;

	bench_open(&b, IBV_QPT_RC);
	for (size_t s = 0; s < 3; s++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct ibv_qp_attr a = all, before = b.qp.attr;
			enum ibv_qp_state state = b.qp.state;

			if (!(cases[i].bit & steps[s].mask))
				continue;
			memcpy((uint8_t *)&a + cases[i].offset, &cases[i].value, cases[i].size);
			check_eq(move(&b, a, steps[s].to, steps[s].mask), EINVAL);
			check_reason(cases[i].word);
			check_eq(b.qp.state, state);
			check_mem(&before, &b.qp.attr, sizeof(before));
			tried++;
		}
		check_eq(move(&b, all, steps[s].to, steps[s].mask), 0);
	}
	check_eq(tried, sizeof(cases) / sizeof(cases[0]));
	bench_close(&b);
}

TEST(a_path_without_grh_is_refused)
{
	struct ibv_qp_attr a = all;
	struct bench b;

	bench_open(&b, IBV_QPT_RC);
	check_eq(move(&b, all, IBV_QPS_INIT, TO_INIT), 0);
	a.ah_attr.is_global = 0;
	check_eq(move(&b, a, IBV_QPS_RTR, TO_RTR), EINVAL);
	check_reason("no GRH");
	bench_close(&b);
}

TEST(migration_needs_an_alternate_path_and_the_peer)
{
	struct ibv_qp_attr a = all;
	struct bench b;

	bench_open(&b, IBV_QPT_RC);
	check_eq(move(&b, all, IBV_QPS_INIT, TO_INIT), 0);
	check_eq(move(&b, a, IBV_QPS_RTR, TO_RTR | IBV_QP_ALT_PATH), EINVAL);
	check_reason("it must be 1"); /* alt_port_num */
	check_eq(move(&b, a, IBV_QPS_RTR, TO_RTR), 0);
	a.path_mig_state = IBV_MIG_REARM;
	check_eq(move(&b, a, IBV_QPS_RTS, TO_RTS | IBV_QP_PATH_MIG_STATE), EINVAL);
	check_reason("without an alternate path");
	a.alt_ah_attr = a.ah_attr;
	a.alt_port_num = 1;
	check_eq(move(&b, a, IBV_QPS_RTS, TO_RTS | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH), 0);
	a.path_mig_state = IBV_MIG_ARMED;
	check_eq(move(&b, a, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE), EINVAL);
	check_reason("comes by itself");
	a.path_mig_state = IBV_MIG_MIGRATED;
	check_eq(move(&b, a, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE), EINVAL);
	check_reason("has not agreed");
	bench_close(&b);
}

TEST(a_move_without_a_state_stays_and_a_wrong_current_state_is_refused)
{
	struct ibv_qp_attr a = all;
	struct bench b;

	bench_open(&b, IBV_QPT_RC);
	to_rts(&b);
	a.min_rnr_timer = 5;
	check_eq(qp_modify(&b.qp, &a, IBV_QP_MIN_RNR_TIMER), 0);
	check_eq(b.qp.attr.min_rnr_timer, 5);
	check_eq(b.qp.state, IBV_QPS_RTS);
	check_eq(qp_modify(&b.qp, &a, IBV_QP_TIMEOUT), EINVAL);
	a.cur_qp_state = IBV_QPS_SQD;
	check_eq(move(&b, a, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	check_reason("is in RTS, cur_qp_state says SQD");
	a.cur_qp_state = IBV_QPS_RTS;
	check_eq(move(&b, a, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	check_eq(move(&b, a, IBV_QPS_SQD, IBV_QP_STATE), 0);
	check_eq(qp_modify(&b.qp, &a, IBV_QP_TIMEOUT), 0);
	bench_close(&b);
}

TEST(a_ud_queue_needs_a_qkey_and_takes_the_ports_mtu)
{
	struct ibv_qp_attr a = { .port_num = 1, .qkey = 0x11111111 };
	struct bench b;

	bench_open(&b, IBV_QPT_UD);
	check_eq(move(&b, a, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), EINVAL);
	check_reason("IBV_QP_QKEY");
	check_eq(move(&b, a, IBV_QPS_INIT,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		 0);
	check_eq(b.qp.attr.qkey, 0x11111111);
	b.f->mtu = IBV_MTU_4096;
	check_eq(qp_mtu(&b.qp), 4096);
	bench_close(&b);
}

TEST(a_queue_holds_what_it_is_made_of)
{
	struct fixture *f;
	struct bench b;

	bench_open(&b, IBV_QPT_RC);
	f = b.f;
	check_eq(cq_destroy(b.scq), EBUSY);
	check_eq(cq_destroy(b.rcq), EBUSY);
	check_eq(pd_destroy(f->pd), EBUSY);
	bench_close(&b);
}

TEST(what_does_not_fit_together_is_refused)
{
	struct context *other;
	struct bench b;
	struct cq *cq;

	bench_open(&b, IBV_QPT_UC);
	qp_fini(&b.qp);
	check_eq(init(&b, (struct qp_attr){ .service = service_find(IBV_QPT_DRIVER) }), EOPNOTSUPP);
	check_eq(init(&b, (struct qp_attr){ .service = &services[SERVICE_XRC_RECV] }), EOPNOTSUPP);
	check_reason("XRC_RECV");
	check_eq(init(&b, (struct qp_attr){ .service = &services[SERVICE_RC], .create_flags = 2 }),
		 EOPNOTSUPP);
	check_eq(init(&b, (struct qp_attr){ .service = &services[SERVICE_UD], .create_flags = 3 }),
		 EOPNOTSUPP);
	check_eq(init(&b, (struct qp_attr){ .service = &services[SERVICE_UD], .create_flags = 2 }),
		 0);
	qp_fini(&b.qp);
	check_eq(qp_init(&b.qp, b.f->pd,
			 &(struct qp_attr){ .service = &services[SERVICE_RC], .scq = b.scq }, 1),
		 EINVAL);
	check_reason("no recv_cq");
	check_eq(context_create(&b.f->hca, NULL, &other), 0);
	check_eq(cq_create(other, &(struct cq_attr){ 0 }, &cq), 0);
	check_eq(qp_init(&b.qp, b.f->pd,
			 &(struct qp_attr){
				 .service = &services[SERVICE_RC], .scq = b.scq, .rcq = cq },
			 1),
		 EINVAL);
	check_eq(cq_destroy(cq), 0);
	context_destroy(other);
	bench_close(&b);
}

/* As the half connections of a DC target are. */
TEST(a_QP_without_a_name_takes_no_events_of_the_port_along)
{
	struct ibv_async_event ev;
	struct bench b;

	bench_open(&b, IBV_QPT_RC);
	qp_fini(&b.qp);
	check_eq(qp_init(&b.qp, b.f->pd,
			 &(struct qp_attr){
				 .service = &services[SERVICE_RC], .scq = b.scq, .rcq = b.rcq },
			 1),
		 0);
	async_push(b.f->ctx, IBV_EVENT_GID_CHANGE, NULL);
	qp_fini(&b.qp);
	check_eq(async_pop(b.f->ctx, &ev), 0);
	check_eq(ev.event_type, IBV_EVENT_GID_CHANGE);
	bench_close(&b);
}

RUN_TESTS(unit_test(what_modify_set_query_returns), unit_test(reset_forgets_the_attributes),
	  unit_test(attributes_outside_their_range_are_refused_and_nothing_changes),
	  unit_test(a_path_without_grh_is_refused),
	  unit_test(migration_needs_an_alternate_path_and_the_peer),
	  unit_test(a_move_without_a_state_stays_and_a_wrong_current_state_is_refused),
	  unit_test(a_ud_queue_needs_a_qkey_and_takes_the_ports_mtu),
	  unit_test(a_queue_holds_what_it_is_made_of),
	  unit_test(what_does_not_fit_together_is_refused),
	  unit_test(a_QP_without_a_name_takes_no_events_of_the_port_along))
