// SPDX-License-Identifier: MIT
/* Shared receive queues as the man pages tell: what create and query say, resizing under traffic,
 * the limit and its event, destruction. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

static struct duo duo;
static struct ibv_srq *srq;

/* Both sides in this process; the far one receives from @srq of at least 16 work requests. */
static void begin(void)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true, .far_srq = true };

	said_begin();
	duo_open(&duo, &o);
	srq = duo.far.srq;
}

static struct ibv_srq_attr query(void)
{
	struct ibv_srq_attr a;

	want_eq(ibv_query_srq(srq, &a), 0);
	return a;
}

static int post_at(uint64_t id, uint32_t off)
{
	struct ibv_sge sg = { (uintptr_t)duo.far.mem + off, 8, duo.far.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sg, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static int post(uint64_t id)
{
	return post_at(id, (uint32_t)(id % 512) * 8);
}

static int resize(uint32_t max_wr)
{
	struct ibv_srq_attr a = { .max_wr = max_wr };

	return ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR);
}

static int set_limit(uint32_t limit)
{
	struct ibv_srq_attr a = { .srq_limit = limit };

	return ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT);
}

/* One message there: the receive with @id takes it. */
static void takes(uint64_t id)
{
	struct ibv_wc wc;

	duo.near.mem[0] = (uint8_t)id;
	duo_send(&duo, IBV_WR_SEND, 8);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	wc = duo_far_wc(&duo);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.wr_id, id);
	want_eq(duo.far.mem[id % 512 * 8], (uint8_t)id);
}

static void create_and_query_say_the_same(int arg)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 21, .max_sge = 3, .srq_limit = 9 } };
	struct ibv_srq *s;
	struct ibv_srq_attr a;

	(void)arg;
	begin();
	s = ibv_create_srq(duo.near.dev.pd, &init);
	want(s && s->pd == duo.near.dev.pd && s->context == duo.near.dev.ctx);
	want(init.attr.max_wr >= 21 && init.attr.max_sge >= 3);
	want_eq(ibv_query_srq(s, &a), 0);
	want_eq(a.max_wr, init.attr.max_wr);
	want_eq(a.max_sge, init.attr.max_sge);
	want_eq(a.srq_limit, 0); /* irrelevant at creation */
	want_eq(ibv_destroy_srq(s), 0);
	init.attr = (struct ibv_srq_attr){ .max_wr = 0, .max_sge = 0 };
	s = ibv_create_srq(duo.near.dev.pd, &init);
	want(s);
	want_eq(ibv_destroy_srq(s), 0);
}

/* Work requests that are posted, and completions that wait to be polled, survive. */
static void growing_keeps_what_is_there(int arg)
{
	uint32_t n = 16, first = 0, last = 0;
	uint64_t next = 0, taken = 0;

	(void)arg;
	begin();
	first = query().max_wr;
	while (!post(next))
		next++;
	want_eq(next, first);
	for (int i = 0; i < 5; i++) { /* completions that are not polled yet */
		duo_send(&duo, IBV_WR_SEND, 8);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
	while (n < 4096) {
		n *= 2;
		want_eq(resize(n), 0);
		last = query().max_wr;
		want(last >= n);
		while (!post(next))
			next++;
		want_eq(next - taken, last);
		if (!taken)
			for (; taken < 5; taken++)
				want_eq(duo_far_wc(&duo).wr_id, taken);
		takes(taken++);
	}
	while (taken < next)
		takes(taken++);
	duo_close(&duo);
}

static void shrinking_waits_for_nobody(int arg)
{
	uint64_t next = 0, taken = 0;

	(void)arg;
	begin();
	want_eq(resize(1000), 0);
	while (next < 100)
		want_eq(post(next++), 0);
	want_eq(resize(20), EINVAL); /* 100 are posted */
	said_want(SAID_NEAR,
		  "ibv_modify_srq: max_wr 20 is below the 100 work requests that are posted to SRQ "
		  "0x%x or not polled yet; poll them first",
		  srq->handle);
	want(query().max_wr >= 1000);
	want_eq(resize(120), 0);
	want(query().max_wr >= 120 && query().max_wr < 1000);
	while (!post(next))
		next++;
	want_eq(next, query().max_wr);
	while (taken < next)
		takes(taken++);
	want_eq(resize(3), 0); /* empty: the ring itself is small now */
	want(query().max_wr >= 3 && query().max_wr < 16);
	for (uint64_t end = taken + query().max_wr; next < end; next++)
		want_eq(post(next), 0);
	want_eq(post(next), ENOMEM);
	while (taken < next)
		takes(taken++);
	want_eq(resize(300), 0);
	for (int i = 0; i < 300; i++)
		want_eq(post(next++), 0);
	while (taken < next)
		takes(taken++);
	duo_close(&duo);
}

static void nothing_changes_when_one_is_wrong(int arg)
{
	struct ibv_srq_attr was, a;
	struct ibv_device_attr dev;

	(void)arg;
	begin();
	want_eq(ibv_query_device(duo.near.dev.ctx, &dev), 0);
	want(dev.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	was = query();
	a = (struct ibv_srq_attr){ .max_wr = 100, .srq_limit = 5000 };
	want_errno(ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
	a = (struct ibv_srq_attr){ .max_wr = (uint32_t)dev.max_srq_wr + 1, .srq_limit = 1 };
	want_errno(ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
	want_errno(ibv_modify_srq(srq, &a, 4), EINVAL);
	a = query();
	want(!memcmp(&a, &was, sizeof(a)));
	a = (struct ibv_srq_attr){ .max_wr = 100, .srq_limit = 90 };
	want_eq(ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	want_eq(query().srq_limit, 90);
	want_eq(resize(20), EINVAL); /* below the limit */
	want_eq(ibv_modify_srq(srq, &a, 0), 0);
	want_eq(resize((uint32_t)dev.max_srq_wr), 0);
	duo_close(&duo);
}

/* --- the limit --- */

static bool limit_event(void)
{
	struct ibv_async_event ev;

	while (side_event(&duo.far, &ev, 0)) {
		if (ev.event_type == IBV_EVENT_COMM_EST)
			continue;
		want_eq(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
		want(ev.element.srq == srq);
		return true;
	}
	return false;
}

/* Below the limit, once for each arming; the event disarms. */
static void the_limit_is_armed_again(int arg)
{
	uint64_t next = 0, taken = 0;

	(void)arg;
	begin();
	want_eq(resize(60), 0);
	for (int round = 0; round < 3; round++) {
		while (next - taken < 40)
			want_eq(post(next++), 0);
		want_eq(set_limit(37), 0);
		want_eq(query().srq_limit, 37);
		for (int i = 0; i < 3; i++) { /* 39, 38, 37 are left: not below */
			takes(taken++);
			want(!limit_event());
		}
		takes(taken++);
		want(limit_event());
		want_eq(query().srq_limit, 0);
		takes(taken++);
		want(!limit_event());
	}
	want_eq(set_limit(37), 0);
	want_eq(set_limit(0), 0); /* disarmed */
	takes(taken++);
	want(!limit_event());
	duo_close(&duo);
}

static void the_limit_survives_a_resize(int arg)
{
	uint64_t next = 0, taken = 0;

	(void)arg;
	begin();
	while (next < 10)
		want_eq(post(next++), 0);
	want_eq(set_limit(9), 0);
	want_eq(resize(100), 0);
	want_eq(query().srq_limit, 9);
	takes(taken++);
	want(!limit_event());
	takes(taken++);
	want(limit_event());
	duo_close(&duo);
}

/* --- under traffic --- */

enum { ROUNDS = 20000, OUT = 60 };
static bool over;

static void *resizer(void *arg)
{
	unsigned int seed = 1;

	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		int err = resize(OUT + (uint32_t)rand_r(&seed) % 2000);

		want(!err || err == EINVAL); /* never below what is posted: OUT fits always */
		want_eq(err, 0);
	}
	return NULL;
}

/* Every receive comes back once, with its own message. */
static void resized_under_traffic(int arg)
{
	bool out[OUT] = { false };
	pthread_t t;
	struct ibv_wc wc;
	int rounds = cases_sanitized() ? ROUNDS / 10 : ROUNDS;

	(void)arg;
	begin();
	want_eq(resize(OUT), 0);
	want_eq(pthread_create(&t, NULL, resizer, NULL), 0);
	for (uint64_t i = 0; i < OUT; i++) {
		want_eq(post(i), 0);
		out[i] = true;
	}
	for (int i = 0; i < rounds; i++) {
		uint64_t mark = (uint64_t)i * 2654435761u, got;

		memcpy(duo.near.mem, &mark, sizeof(mark));
		duo_send(&duo, IBV_WR_SEND, 8);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
		wc = duo_far_wc(&duo);
		want(wc.status == IBV_WC_SUCCESS && wc.wr_id < OUT && out[wc.wr_id]);
		memcpy(&got, duo.far.mem + wc.wr_id * 8, sizeof(got));
		want_eq(got, mark);
		want_eq(post(wc.wr_id), 0);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	duo_close(&duo);
}

/* A message that stops in the middle, when its sender fails, has taken a receive already: a QP that
 * goes to RESET gives it back. */
static void half_a_message_costs_nothing(int arg)
{
	struct ibv_sge sg[2];
	struct ibv_send_wr wr;
	uint64_t n = 0;

	(void)arg;
	setenv("SOFTHCA_FAULT", "seed=3", 1); /* no faults, but a segment for each packet */
	begin();
	for (int i = 0; i < 40; i++) { /* more than the SRQ holds */
		duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 8192 });
		wr = duo_wr(&duo, IBV_WR_SEND, &sg[0], 4096);
		sg[1] = (struct ibv_sge){ (uintptr_t)duo.near.mem, 4096, PEER_NO_KEY };
		wr.sg_list = sg;
		wr.num_sge = 2;
		want_eq(duo_post(&duo, &wr), 0);
		want_eq(duo_wc(&duo).status, IBV_WC_LOC_PROT_ERR);
		for (int k = 0; k < 100; k++) /* the first half arrives */
			want(!duo_tell(&duo, (struct duo_order){ DUO_POLL, .len = 0 }).found);
		duo_reconnect(&duo);
		want(!duo_tell(&duo, (struct duo_order){ DUO_POLL, .len = 0 }).found);
	}
	while (!post(n))
		n++;
	want_eq(n, query().max_wr);
	duo_close(&duo);
}

/* --- destruction --- */

static void busy_while_a_qp_uses_it(int arg)
{
	struct ibv_srq_attr a;

	(void)arg;
	begin();
	want_errno(ibv_destroy_srq(srq), EBUSY);
	want_eq(ibv_query_srq(srq, &a), 0);
	want_eq(post(1), 0);
	takes(1);
	duo_close(&duo);
}

/* ibv_create_qp(3): with an SRQ the receive queue's size is ignored, however wrong. */
static void receive_capacity_is_ignored(int arg)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC,
				      .cap = { 1, UINT32_MAX, 1, UINT32_MAX, 0 } };
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	a.srq = srq;
	a.send_cq = a.recv_cq = duo.far.ep.scq;
	qp = ibv_create_qp(duo.far.dev.pd, &a);
	want(qp && qp->srq == srq);
	want_eq(a.cap.max_recv_wr, 0);
	want_eq(a.cap.max_recv_sge, 0);
	want(ibv_post_recv(qp, &wr, &bad) != 0);
	want_eq(ibv_destroy_qp(qp), 0);
	a.cap = (struct ibv_qp_cap){ 1, 1, 1, 1, 0 };
	a.qp_type = IBV_QPT_UC;
	want_null(ibv_create_qp(duo.far.dev.pd, &a), EINVAL);
	a.qp_type = IBV_QPT_UD;
	qp = ibv_create_qp(duo.far.dev.pd, &a);
	want(qp);
	want_eq(ibv_destroy_qp(qp), 0);
	duo_close(&duo);
}

/* The plain structs end where the extended ones have comp_mask: a caller leaves anything there. */
static void padding_is_not_read(int arg)
{
	union {
		struct ibv_srq_init_attr attr;
		uint8_t bytes[sizeof(struct ibv_srq_init_attr_ex)];
	} s;
	union {
		struct ibv_qp_init_attr attr;
		uint8_t bytes[sizeof(struct ibv_qp_init_attr_ex)];
	} q;
	struct ibv_srq *own;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	memset(&s, 0xff, sizeof(s));
	s.attr.srq_context = &duo;
	s.attr.attr.max_wr = 4;
	s.attr.attr.max_sge = 1;
	own = ibv_create_srq(duo.far.dev.pd, &s.attr);
	want(own && own->srq_context == &duo);
	memset(&q, 0xff, sizeof(q));
	q.attr.qp_context = NULL;
	q.attr.send_cq = q.attr.recv_cq = duo.far.ep.scq;
	q.attr.srq = own;
	q.attr.cap = (struct ibv_qp_cap){ .max_send_wr = 1, .max_send_sge = 1 };
	q.attr.qp_type = IBV_QPT_RC;
	q.attr.sq_sig_all = 0;
	qp = ibv_create_qp(duo.far.dev.pd, &q.attr);
	want(qp != NULL);
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_destroy_srq(own), 0);
	duo_close(&duo);
}

static const struct test_case cases[] = {
	CASE(create_and_query_say_the_same), CASE(growing_keeps_what_is_there),
	CASE(shrinking_waits_for_nobody),    CASE(nothing_changes_when_one_is_wrong),
	CASE(the_limit_is_armed_again),	     CASE(the_limit_survives_a_resize),
	CASE(resized_under_traffic),	     CASE(half_a_message_costs_nothing),
	CASE(busy_while_a_qp_uses_it),	     CASE(receive_capacity_is_ignored),
	CASE(padding_is_not_read),
};

int main(void)
{
	return CASES_RUN(cases);
}
