// SPDX-License-Identifier: MIT
/* Extended completion queues: what their readers say, timestamps, the rules of start, next and end,
 * what may happen in between, moderation of events, and what is refused. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

#define SAYS(...) said_want(SAID_NEAR, __VA_ARGS__)

enum { OTHER_PROCESS, THIS_PROCESS };
enum { LEN = 64, IMM = 0x0a0b0c0d, MS = 1000000 };
enum { SMALL = 15, SMALL_HOLDS = 16 }; /* cqe of a CQ, and the entries that it has then */

#define TIMES (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct duo duo;
static struct ibv_cq_ex *cq;

static void begin_opts(int where, enum ibv_qp_type type, uint64_t wc_flags, uint32_t cq_flags)
{
	struct duo_opts o = { .qp = { .type = type,
				      .cap = { 16, 16, 4, 4, 0 },
				      .wc_flags = wc_flags,
				      .cq_flags = cq_flags },
			      .together = where == THIS_PROCESS };

	said_begin();
	duo_open(&duo, &o);
	cq = (struct ibv_cq_ex *)duo.near.ep.scq;
}

static void begin(int where, uint64_t wc_flags)
{
	begin_opts(where, IBV_QPT_RC, wc_flags, 0);
}

static int start(void)
{
	struct ibv_poll_cq_attr none = { 0 };

	return ibv_start_poll(cq, &none);
}

/* The next completion, between start and end. */
static void first(void)
{
	time_t end = time(NULL) + 10;
	int err;

	while ((err = start()) == ENOENT)
		if (time(NULL) > end)
			fail("no completion");
	want_eq(err, 0);
}

static void more(void)
{
	time_t end = time(NULL) + 10;
	int err;

	while ((err = ibv_next_poll(cq)) == ENOENT) {
		ibv_end_poll(cq);
		first();
		return;
	}
	want_eq(err, 0);
	want(time(NULL) <= end);
}

static void writes(int n)
{
	for (int i = 0; i < n; i++)
		duo_send(&duo, IBV_WR_RDMA_WRITE, LEN);
}

static uint64_t device_time(void)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	want_eq(ibv_query_rt_values_ex(duo.near.dev.ctx, &v), 0);
	want_eq(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	return (uint64_t)v.raw_clock.tv_sec * 1000 * MS + (uint64_t)v.raw_clock.tv_nsec;
}

static uint64_t wall_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

/* --- timestamps --- */

/* Between the two moments, no sooner than the one before; the clocks of two threads and of the
 * kernel differ by much less than a millisecond. */
static void in_time(uint64_t dev0, uint64_t wall0, uint64_t *last)
{
	uint64_t ts = ibv_wc_read_completion_ts(cq), wall = ibv_wc_read_completion_wallclock_ns(cq);

	want(ts >= *last && ts + MS >= dev0 && ts <= device_time() + MS);
	want(wall + MS >= wall0 && wall <= wall_time() + MS);
	*last = ts;
}

static void times(int where)
{
	uint64_t dev0, wall0, last = 0;

	begin(where, TIMES);
	writes(1); /* the path is warm */
	duo_wc(&duo);
	dev0 = device_time();
	wall0 = wall_time();
	writes(8);
	first();
	in_time(dev0, wall0, &last);
	for (int i = 1; i < 8; i++) {
		more();
		in_time(dev0, wall0, &last);
	}
	ibv_end_poll(cq);
	want(ibv_wc_read_completion_ts(cq) == last); /* as long as nothing else is polled */
}

/* Failures and receives have their time too. */
static void times_of_errors(int where)
{
	uint64_t dev0, wall0, last = 0;
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin(where, TIMES);
	dev0 = device_time();
	wall0 = wall_time();
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, LEN);
	wr.wr.rdma.rkey += 0x100;
	want_eq(duo_post(&duo, &wr), 0);
	first();
	want_eq(cq->status, IBV_WC_REM_ACCESS_ERR);
	in_time(dev0, wall0, &last);
	ibv_end_poll(cq);
}

static void clocks(int arg)
{
	struct ibv_values_ex v = { .comp_mask = 0 };
	struct ibv_device_attr_ex a;
	uint64_t t;

	(void)arg;
	begin(THIS_PROCESS, TIMES);
	want_eq(ibv_query_device_ex(duo.near.dev.ctx, NULL, &a), 0);
	want_eq(a.hca_core_clock, 1000000); /* kHz */
	want(a.completion_timestamp_mask == (1ULL << 63) - 1);
	t = device_time();
	want(device_time() >= t && !(t & ~a.completion_timestamp_mask));
	want_eq(ibv_query_rt_values_ex(duo.near.dev.ctx, &v), 0);
	want_eq(v.comp_mask, 0); /* nothing was asked */
	v.comp_mask = 0x80000001;
	want_eq(ibv_query_rt_values_ex(duo.near.dev.ctx, &v), 0);
	want_eq(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK); /* what is unknown is not answered */
}

/* Both queries say the same, and what this program shows to work is advertised. */
static void device(int arg)
{
	struct ibv_device_attr_ex a;
	struct ibv_device_attr old;

	(void)arg;
	begin(THIS_PROCESS, TIMES);
	want_eq(ibv_query_device(duo.near.dev.ctx, &old), 0);
	want_eq(ibv_query_device_ex(duo.near.dev.ctx, NULL, &a), 0);
	want(!memcmp(&old, &a.orig_attr, sizeof(old)));
	want_eq((uint32_t)a.device_cap_flags_ex, (uint32_t)old.device_cap_flags);
	want_eq(a.phys_port_cnt_ex, old.phys_port_cnt);
	want(a.cq_mod_caps.max_cq_count == UINT16_MAX && a.cq_mod_caps.max_cq_period == UINT16_MAX);
	want(a.device_cap_flags_ex & 1ULL << 40); /* newer headers: IBV_DEVICE_ATOMIC_WRITE */
}

static void unasked(int arg)
{
	(void)arg;
	begin(THIS_PROCESS, IBV_WC_STANDARD_FLAGS);
	writes(1);
	first();
	want_eq(ibv_wc_read_completion_ts(cq), 0);
	SAYS("CQ 0x#: a field is read that IBV_WC_EX_WITH_COMPLETION_TIMESTAMP did not ask for at "
	     "ibv_create_cq_ex; add it to wc_flags");
	want_eq(ibv_wc_read_completion_wallclock_ns(cq), 0);
	SAYS("CQ 0x#: a field is read that IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK did not "
	     "ask for at ibv_create_cq_ex; add it to wc_flags");
	ibv_end_poll(cq);
}

/* --- fields --- */

static void receive(void)
{
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, 4096, duo.near.mr->lkey };

	peer_recv(&duo.near.ep, 77, &sg, 1);
}

static void send_to_near(void)
{
	struct ibv_sge sg = { (uintptr_t)duo.far.mem, LEN, duo.far.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htobe32(IMM),
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (duo.o.qp.type == IBV_QPT_UD) {
		wr.wr.ud.ah = peer_ah(&duo.far.dev, &duo.far.ep.theirs);
		wr.wr.ud.remote_qpn = duo.far.ep.theirs.qpn;
		wr.wr.ud.remote_qkey = 0x11111111;
	}
	want_eq(ibv_post_send(duo.far.ep.qp, &wr, &bad), 0);
}

/* The readers say what ibv_poll_cq() says of the same message. */
static void fields(int type)
{
	uint32_t grh = type == IBV_QPT_UD ? 40 : 0;
	struct ibv_wc wc;

	begin_opts(THIS_PROCESS, (enum ibv_qp_type)type, IBV_WC_STANDARD_FLAGS, 0);
	receive();
	receive();
	send_to_near();
	send_to_near();
	peer_poll_ok(duo.near.ep.scq, &wc);
	first();
	want(cq->wr_id == 77 && wc.wr_id == 77);
	want(cq->status == IBV_WC_SUCCESS);
	want(ibv_wc_read_opcode(cq) == IBV_WC_RECV && wc.opcode == IBV_WC_RECV);
	want(ibv_wc_read_byte_len(cq) == LEN + grh && wc.byte_len == LEN + grh);
	want(ibv_wc_read_imm_data(cq) == htobe32(IMM) && wc.imm_data == htobe32(IMM));
	want_eq(ibv_wc_read_qp_num(cq), duo.near.ep.qp->qp_num);
	want_eq(wc.qp_num, duo.near.ep.qp->qp_num);
	want_eq(ibv_wc_read_src_qp(cq), grh ? duo.far.ep.qp->qp_num : 0);
	want_eq(ibv_wc_read_src_qp(cq), wc.src_qp);
	want_eq(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM | (grh ? IBV_WC_GRH : 0));
	want_eq(ibv_wc_read_wc_flags(cq), wc.wc_flags);
	want_eq(ibv_wc_read_vendor_err(cq), 0);
	want(ibv_wc_read_slid(cq) == wc.slid && !wc.slid); /* RoCE has no LIDs */
	want_eq(ibv_wc_read_sl(cq), wc.sl);
	want(ibv_wc_read_dlid_path_bits(cq) == wc.dlid_path_bits && !wc.dlid_path_bits);
	want(wc.pkey_index == 0 && wc.vendor_err == 0);
	ibv_end_poll(cq);
}

/* --- start, next, end --- */

static void rules(int flags)
{
	struct ibv_poll_cq_attr unknown = { .comp_mask = 2 };
	uint32_t number;

	begin_opts(THIS_PROCESS, IBV_QPT_RC, IBV_WC_STANDARD_FLAGS, (uint32_t)flags);
	number = duo.near.ep.scq->handle;
	want_eq(start(), ENOENT);
	ibv_end_poll(cq); /* harmless */
	want_eq(ibv_next_poll(cq), EINVAL);
	SAYS("ibv_next_poll: this thread is not polling CQ 0x%x; ibv_start_poll comes first",
	     number);
	want_eq(ibv_start_poll(cq, &unknown), EINVAL);
	SAYS("ibv_start_poll: comp_mask 0x2, nothing is defined; pass 0");
	writes(2);
	first();
	want_eq(cq->wr_id, 1);
	want_eq(start(), EINVAL);
	SAYS("ibv_start_poll: this thread is polling CQ 0x%x already; ibv_next_poll goes on, "
	     "ibv_end_poll ends it",
	     number);
	more();
	want_eq(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	want_eq(cq->status, IBV_WC_SUCCESS); /* of the last one, still */
	want_eq(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
	want_eq(start(), ENOENT);
	writes(1);
	first();
	ibv_end_poll(cq);
}

/* What the thread that polls may do to the same CQ meanwhile. */
static void between(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_init_attr init = { .qp_type = o.type, .cap = o.cap };
	struct ibv_qp *other;
	struct ibv_wc wc;

	(void)arg;
	begin(THIS_PROCESS, IBV_WC_STANDARD_FLAGS);
	init.send_cq = init.recv_cq = duo.near.ep.scq;
	other = ibv_create_qp(duo.near.dev.pd, &init);
	want(other != NULL);
	writes(3);
	first();
	want_eq(ibv_destroy_qp(other), 0);
	want_eq(ibv_resize_cq(duo.near.ep.scq, 200), 0);
	peer_poll_ok(duo.near.ep.scq, &wc);
	more();
	want_eq(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	writes(1);
	first();
	ibv_end_poll(cq);
}

/* Until so many completions wait that a small CQ would not do. */
static void all_wait(void)
{
	time_t end = time(NULL) + 10;

	while (!ibv_resize_cq(duo.near.ep.scq, SMALL)) {
		want_eq(ibv_resize_cq(duo.near.ep.scq, 200), 0);
		want(time(NULL) <= end);
	}
}

/* Entries that were read in the batch are free, whatever the size of the CQ. */
static void smaller_between(int arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	(void)arg;
	begin(THIS_PROCESS, IBV_WC_STANDARD_FLAGS);
	writes(SMALL_HOLDS);
	all_wait();
	want_eq(start(), 0);
	for (int i = 1; i < SMALL_HOLDS; i++)
		want_eq(ibv_next_poll(cq), 0);
	want_eq(ibv_resize_cq(duo.near.ep.scq, SMALL), 0);
	writes(1);
	peer_poll_ok(duo.near.ep.scq, &wc);
	want_eq(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	want_eq(ibv_query_qp(duo.near.ep.qp, &attr, IBV_QP_STATE, &init), 0);
	want_eq(attr.qp_state, IBV_QPS_RTS);
}

/* --- creation --- */

struct asked {
	uint32_t cqe, vector, mask, flags;
	uint64_t wc_flags;
};

static void refused(const struct asked *q, int err)
{
	struct ibv_cq_init_attr_ex a = { .cqe = q->cqe,
					 .comp_vector = q->vector,
					 .wc_flags = q->wc_flags,
					 .comp_mask = q->mask,
					 .flags = q->flags };

	want_null(ibv_create_cq_ex(duo.near.dev.ctx, &a), err);
}

static void creation(int arg)
{
	struct ibv_device_attr attr;
	uint32_t vectors;

	(void)arg;
	begin(THIS_PROCESS, IBV_WC_STANDARD_FLAGS);
	vectors = (uint32_t)duo.near.dev.ctx->num_comp_vectors;
	want_eq(ibv_query_device(duo.near.dev.ctx, &attr), 0);
	refused(&(struct asked){ .cqe = 0 }, EINVAL);
	SAYS("ibv_create_cq: cqe 0 is not in 1..%d (max_cqe); ask for fewer", attr.max_cqe);
	refused(&(struct asked){ .cqe = (uint32_t)attr.max_cqe + 1 }, EINVAL);
	refused(&(struct asked){ .cqe = 1, .vector = vectors }, EINVAL);
	SAYS("ibv_create_cq: comp_vector %u, the device has %u (num_comp_vectors); use 0..%u",
	     vectors, vectors, vectors - 1);
	refused(&(struct asked){ .cqe = 1, .wc_flags = 1ULL << 40 | 1 }, EOPNOTSUPP);
	SAYS("ibv_create_cq_ex: wc_flags 0x10000000001, of which 0x10000000000 do not work on this "
	     "device; leave them out");
	refused(&(struct asked){ .cqe = 1, .mask = 1U << 30 }, EOPNOTSUPP);
	SAYS("ibv_create_cq_ex: comp_mask 0x40000000, of which 0x40000000 does not work on this "
	     "device; leave it out");
	refused(&(struct asked){ .cqe = 1, .mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 0x81 },
		EOPNOTSUPP);
	SAYS("ibv_create_cq_ex: flags 0x81, of which 0x80 are unknown; leave them out");
}

/* --- moderation --- */

static struct ibv_comp_channel *channel;
static struct ibv_cq *on; /* the CQ of the channel */
static struct ibv_mr *mr;
static struct peer_ep ea, eb;
static uint8_t mem[4096];

static void begin_events(void)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 } };
	struct ibv_qp_init_attr init = { .qp_type = o.type, .cap = o.cap };

	begin(THIS_PROCESS, TIMES);
	channel = ibv_create_comp_channel(duo.near.dev.ctx);
	on = ibv_create_cq(duo.near.dev.ctx, 64, NULL, channel, 0);
	mr = ibv_reg_mr(duo.near.dev.pd, mem, sizeof(mem),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(channel && on && mr);
	init.send_cq = init.recv_cq = on;
	ea.qp = ibv_create_qp(duo.near.dev.pd, &init);
	want(ea.qp != NULL);
	ea.scq = on;
	ea.mine = (struct peer_addr){ .qpn = ea.qp->qp_num, .gid = duo.near.dev.gid };
	peer_ep_create(&duo.near.dev, &o, &eb);
	ea.theirs = eb.mine;
	eb.theirs = ea.mine;
	peer_connect(&ea, &o);
	peer_connect(&eb, &o);
}

static void moderate(uint16_t count, uint16_t us)
{
	struct ibv_modify_cq_attr a = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					.moderate = { count, us } };

	want_eq(ibv_modify_cq(on, &a), 0);
}

/* One completion, polled. */
static void complete_one(void)
{
	struct ibv_sge sg = { (uintptr_t)mem, 8, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)mem + 64;
	wr.wr.rdma.rkey = mr->rkey;
	want_eq(ibv_post_send(ea.qp, &wr, &bad), 0);
	peer_poll_ok(on, &wc);
}

static bool event_within(int ms)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static void take_event(void)
{
	struct ibv_cq *got;
	void *ctx;

	want_eq(ibv_get_cq_event(channel, &got, &ctx), 0);
	want(got == on);
	ibv_ack_cq_events(on, 1);
}

static void moderated_count(int arg)
{
	(void)arg;
	begin_events();
	moderate(4, UINT16_MAX);
	for (int round = 0; round < 3; round++) {
		complete_one(); /* not armed: counts for nothing */
		want_eq(ibv_req_notify_cq(on, 0), 0);
		for (int i = 0; i < 3; i++)
			complete_one();
		complete_one();
		want(event_within(10000));
		take_event();
		complete_one();
		want(!event_within(0));
	}
}

static void moderated_period(int arg)
{
	const uint64_t us = 60000;
	uint64_t t0;

	(void)arg;
	begin_events();
	moderate(1000, (uint16_t)us);
	want_eq(ibv_req_notify_cq(on, 0), 0);
	for (int round = 0; round < 2; round++) {
		t0 = wall_time();
		complete_one();
		take_event(); /* blocks: this thread is the one that makes progress */
		want(wall_time() - t0 + MS >= us * 1000);
		want_eq(ibv_req_notify_cq(on, 0), 0);
	}
	t0 = wall_time();
	complete_one();
	want(event_within(10000)); /* and here nobody does but the library */
	want(wall_time() - t0 + MS >= us * 1000);
	take_event();
}

static void moderated_not(int arg)
{
	struct ibv_modify_cq_attr unknown = { .attr_mask = 3 };

	(void)arg;
	begin_events();
	moderate(5, UINT16_MAX);
	want_eq(ibv_req_notify_cq(on, 1), 0);
	complete_one(); /* nobody solicited it */
	want_eq(ibv_req_notify_cq(on, 0), 0);
	complete_one();
	moderate(0, 0); /* what waited comes now */
	want(event_within(10000));
	take_event();
	want_eq(ibv_req_notify_cq(on, 0), 0);
	complete_one(); /* its CQE may be seen before its event */
	want(event_within(10000));
	take_event();
	want_errno(ibv_modify_cq(on, &unknown), EINVAL);
	SAYS("ibv_modify_cq: attr_mask 0x3; IBV_CQ_ATTR_MODERATE (0x1) is all that can change");
}

/* A CQ is destroyed while its event waits. */
static void moderated_gone(int arg)
{
	(void)arg;
	begin_events();
	moderate(100, 1000);
	for (int i = 0; i < 50; i++) {
		struct ibv_cq *c = ibv_create_cq(duo.near.dev.ctx, 4, NULL, channel, 0);

		want(c != NULL);
		want_eq(ibv_req_notify_cq(on, 0), 0);
		complete_one();
		want_eq(ibv_destroy_cq(c), 0);
	}
	want_eq(ibv_destroy_qp(ea.qp), 0);
	want_eq(ibv_destroy_cq(on), 0);
	want_eq(ibv_destroy_comp_channel(channel), 0);
}

#define BOTH_LINKS(f) CASE_ARG(f, OTHER_PROCESS), CASE_ARG(f, THIS_PROCESS)

int main(void)
{
	static const struct test_case cases[] = {
		BOTH_LINKS(times),
		BOTH_LINKS(times_of_errors),
		CASE(clocks),
		CASE(device),
		CASE(unasked),
		CASE_ARG(fields, IBV_QPT_RC),
		CASE_ARG(fields, IBV_QPT_UD),
		CASE_ARG(rules, 0),
		CASE_ARG(rules, IBV_CREATE_CQ_ATTR_SINGLE_THREADED),
		CASE_ARG(rules, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN),
		CASE(between),
		CASE(smaller_between),
		CASE(creation),
		CASE(moderated_count),
		CASE(moderated_period),
		CASE(moderated_not),
		CASE(moderated_gone),
	};

	return CASES_RUN(cases);
}
