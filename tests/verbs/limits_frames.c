// SPDX-License-Identifier: MIT
/* The edges of what RAW_PACKET queue pairs have: work queues, indirection tables, flow rules,
 * segmentation. As limits.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "verbs/ether.h"
#include "verbs/said.h"

static struct peer_dev dev;
static struct ibv_device_attr limit;
static struct ibv_device_attr_ex more;
static struct ibv_cq *cq;

static void begin(void)
{
	said_begin();
	peer_open(&dev);
	want_eq(ibv_query_device(dev.ctx, &limit), 0);
	want_eq(ibv_query_device_ex(dev.ctx, NULL, &more), 0);
	cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	want(cq);
}

static struct ibv_rwq_ind_table *table_of(struct ibv_wq **wqs, uint32_t log)
{
	struct ibv_rwq_ind_table_init_attr a = { .log_ind_tbl_size = log, .ind_tbl = wqs };

	return ibv_create_rwq_ind_table(dev.ctx, &a);
}

static struct ibv_wq *wq_with(uint32_t wr, uint32_t sge)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = wr, .max_sge = sge, .pd = dev.pd, .cq = cq
	};

	return ibv_create_wq(dev.ctx, &a);
}

/* As those of QPs; nothing else is advertised for them. */
static void work_queue_capacities(int arg)
{
	struct ibv_wq_attr ready = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	uint32_t wr, sge;
	struct ibv_recv_wr rwr = { .wr_id = 1 }, *bad;
	struct ibv_wq *wq;

	(void)arg;
	begin();
	wr = (uint32_t)limit.max_qp_wr;
	sge = (uint32_t)limit.max_sge;
	wq = wq_with(wr, 1);
	want(wq);
	want_eq(ibv_modify_wq(wq, &ready), 0);
	for (uint32_t i = 0; i < wr; i++)
		want_eq(ibv_post_wq_recv(wq, &rwr, &bad), 0);
	want_eq(ibv_post_wq_recv(wq, &rwr, &bad), ENOMEM);
	want_eq(ibv_destroy_wq(wq), 0);
	wq = wq_with(1, sge);
	want(wq);
	want_eq(ibv_destroy_wq(wq), 0);
	want_null(wq_with(wr + 1, 1), EINVAL);
	want_null(wq_with(1, sge + 1), EINVAL);
}

/* Its last entry is one that frames are spread over. */
static void indirection_table_entries(int arg)
{
	static uint8_t key[40];
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RAW_PACKET,
					 .comp_mask = IBV_QP_INIT_ATTR_PD |
						      IBV_QP_INIT_ATTR_IND_TABLE |
						      IBV_QP_INIT_ATTR_RX_HASH,
					 .rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key),
							   key, IBV_RX_HASH_SRC_IPV4 } };
	uint32_t n, log = 0;
	struct ibv_wq **wqs;

	(void)arg;
	begin();
	n = more.rss_caps.max_rwq_indirection_table_size;
	while (1U << log < n)
		log++;
	want_eq(1U << log, n);
	wqs = calloc((size_t)n * 2, sizeof(struct ibv_wq *));
	want(wqs);
	for (uint32_t i = 0; i < n * 2; i++)
		wqs[i] = i < n ? wq_with(1, 1) : wqs[0];
	want_null(table_of(wqs, log + 1), EINVAL);
	said_want(SAID_NEAR,
		  "ibv_create_rwq_ind_table: log_ind_tbl_size %u, at most %u "
		  "(rss_caps.max_rwq_indirection_table_size); ask for less",
		  log + 1, log);
	a.rwq_ind_tbl = table_of(wqs, log);
	want(a.rwq_ind_tbl);
	a.pd = dev.pd;
	want_eq(ibv_destroy_qp(ibv_create_qp_ex(dev.ctx, &a)), 0);
	want_errno(ibv_destroy_wq(wqs[n - 1]), EBUSY);
	want_eq(ibv_destroy_rwq_ind_table(a.rwq_ind_tbl), 0);
	for (uint32_t i = 0; i < n; i++)
		want_eq(ibv_destroy_wq(wqs[i]), 0);
	free(wqs);
}

static struct ibv_flow *rule_number(struct ether *e, unsigned int i)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, (uint16_t)i);

	ether_spec_dst(&r, (uint8_t)i);
	return ibv_create_flow(e->qp, &r.attr);
}

/* No attribute tells how many: ibv_create_flow(3). */
static void flow_rules(int arg)
{
	enum { RULES = 4096 };
	static struct ibv_flow *flow[RULES];
	struct ether e;

	(void)arg;
	begin();
	ether_open(&dev, 0, &e);
	for (unsigned int i = 0; i < RULES; i++)
		if (!(flow[i] = rule_number(&e, i)))
			fail("rule %u of %d: %s", i + 1, RULES, strerror(errno));
	want_null(rule_number(&e, RULES), ENOMEM);
	said_want(SAID_NEAR,
		  "ibv_create_flow: all %d rules that a process may have are in use; "
		  "destroy some first",
		  RULES);
	want_eq(ibv_destroy_flow(flow[RULES / 2]), 0);
	flow[RULES / 2] = rule_number(&e, RULES);
	want(flow[RULES / 2]);
	want_null(rule_number(&e, RULES / 2), ENOMEM);
	for (unsigned int i = 0; i < RULES; i++)
		want_eq(ibv_destroy_flow(flow[i]), 0);
	ether_close(&e);
}

static struct ibv_qp *segmenting(uint32_t header, uint32_t sges)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RAW_PACKET,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .pd = dev.pd,
					 .cap = { 2, 1, sges, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD |
						      IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
					 .max_tso_header = (uint16_t)header };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp *qp = ibv_create_qp_ex(dev.ctx, &a);

	if (!qp)
		return NULL;
	want_eq(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT), 0);
	want_eq(ibv_modify_qp(qp, &rtr, IBV_QP_STATE), 0);
	want_eq(ibv_modify_qp(qp, &rts, IBV_QP_STATE), 0);
	return qp;
}

/* The status of a TSO send of @n bytes behind a header of @header. */
static int segment(uint32_t n, uint16_t header, int *err)
{
	static const struct ether_frame f = { .dst = 1, .ip = 4, .proto = 6 };
	static uint8_t hdr[1024];
	uint8_t *p = calloc(1, n);
	struct ibv_mr *mr = ibv_reg_mr(dev.pd, p, n, 0);
	struct ibv_qp *qp = segmenting(512, 1);
	struct ibv_sge sg = { (uintptr_t)p, n, 0 };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_TSO,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	want(p && mr && qp);
	sg.lkey = mr->lkey;
	wr.tso.hdr = hdr;
	wr.tso.hdr_sz = (uint16_t)ether_build(&f, hdr);
	wr.tso.hdr_sz = header ? header : wr.tso.hdr_sz;
	wr.tso.mss = 9000;
	*err = ibv_post_send(qp, &wr, &bad);
	if (!*err)
		want(peer_poll(cq, &wc, 10000));
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	free(p);
	return wc.status;
}

static void segmented_bytes(int arg)
{
	int err;

	(void)arg;
	begin();
	want_eq(more.tso_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
	want_eq(segment(more.tso_caps.max_tso, 0, &err), IBV_WC_SUCCESS);
	want_eq(segment(more.tso_caps.max_tso + 1, 0, &err), IBV_WC_LOC_LEN_ERR);
	want_eq(err, 0);
}

/* No attribute tells how long headers may be: ibv_create_qp_ex(3). */
static void segmented_headers(int arg)
{
	int err;

	(void)arg;
	begin();
	want_null(segmenting(513, 1), EINVAL);
	said_want(SAID_NEAR, "ibv_create_qp_ex: max_tso_header 513 B, at most 512 B; ask for less");
	want_null(segmenting(512, 30), EINVAL);
	said_want(SAID_NEAR, "ibv_create_qp: 30 SGEs behind TSO headers of 512 B are more than a "
			     "work request's 1008 B; ask for fewer");
	segment(100, 512, &err);
	want_eq(err, 0);
	segment(100, 513, &err);
	want_eq(err, EINVAL);
}

static const struct test_case cases[] = {
	CASE(work_queue_capacities), CASE(indirection_table_entries), CASE(flow_rules),
	CASE(segmented_bytes),	     CASE(segmented_headers),
};

int main(void)
{
	return CASES_RUN(cases);
}
