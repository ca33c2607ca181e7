// SPDX-License-Identifier: MIT
/* Mistakes explained: work that fails by this side's own buffers, queues and settings. */
#include "verbs/mistake.h"

/* --- this side's buffers --- */

static void unknown_lkey(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	mistake_begin_rc();
	wr = mistake_write(64, &sg);
	sg.lkey = mistake.lkey ^ 0x5a;
	mistake_fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA WRITE of 64 B (wr_id 0x1) on QP 0x%x: sge[0]: lkey 0x%x names no "
	     "memory "
	     "region (never registered, or deregistered); use a key of the QP's PD that covers the "
	     "buffer",
	     mistake.near_qp, mistake.lkey ^ 0x5a);
}

static void lkey_of_another_pd(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	(void)arg;
	mistake_begin_rc();
	pd = ibv_alloc_pd(mistake.duo.near.dev.ctx);
	mr = ibv_reg_mr(pd, mistake.duo.near.mem, 4096, 0);
	want(mr);
	wr = mistake_write(64, &sg);
	sg.lkey = mr->lkey;
	mistake_fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA WRITE of 64 B (wr_id 0x1) on QP 0x%x: sge[0]: lkey 0x%x belongs "
	     "to PD 0x%x, "
	     "the queue to PD 0x%x; use a key of the QP's PD that covers the buffer",
	     mistake.near_qp, mr->lkey, pd->handle, mistake.duo.near.dev.pd->handle);
}

static void sge_beyond_its_region(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	mistake_begin_rc();
	wr = mistake_write(64, &sg);
	sg.addr = mistake.va + 65536 - 60;
	mistake_fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA WRITE of 64 B (wr_id 0x1) on QP 0x%x: sge[0]: lkey 0x%x covers "
	     "0x%llx+65536; "
	     "the range 0x%llx+64 exceeds it by 4; use a key of the QP's PD that covers the buffer",
	     mistake.near_qp, mistake.lkey, mistake.va, mistake.va + 65536 - 60);
}

static void read_into_read_only_memory(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	(void)arg;
	mistake_begin_rc();
	mr = ibv_reg_mr(mistake.duo.near.dev.pd, mistake.duo.near.mem, 4096,
			IBV_ACCESS_REMOTE_READ);
	want(mr);
	wr = duo_wr(&mistake.duo, IBV_WR_RDMA_READ, &sg, 64);
	sg.lkey = mr->lkey;
	mistake_fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA READ of 64 B (wr_id 0x1) on QP 0x%x: sge[0]: lkey 0x%x lacks "
	     "LOCAL_WRITE; "
	     "its "
	     "rights are REMOTE_READ; use a key of the QP's PD that covers the buffer with "
	     "IBV_ACCESS_LOCAL_WRITE",
	     mistake.near_qp, mr->lkey);
}

static void send_from_unmapped_memory(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	mistake_begin_rc();
	duo_tell(&mistake.duo, (struct duo_order){ DUO_RECV, .len = 64 });
	peer_unmap(mistake.duo.near.mem, 4096);
	wr = duo_wr(&mistake.duo, IBV_WR_SEND, &sg, 64);
	mistake_fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: SEND of 64 B (wr_id 0x1) on QP 0x%x: memory of its scatter/gather "
	     "list is not "
	     "mapped any more; keep it mapped until the completion",
	     mistake.near_qp);
}

static void datagram_longer_than_the_mtu(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_port_attr port;
	unsigned int mtu;

	(void)arg;
	mistake_begin((struct duo_opts){ .qp.type = IBV_QPT_UD });
	want_eq(ibv_query_port(mistake.duo.near.dev.ctx, 1, &port), 0);
	mtu = 128U << port.active_mtu;
	wr = duo_wr(&mistake.duo, IBV_WR_SEND, &sg, mtu + 1);
	wr.wr.ud.ah = peer_ah(&mistake.duo.near.dev, &mistake.duo.near.ep.theirs);
	wr.wr.ud.remote_qpn = mistake.far_qp;
	wr.wr.ud.remote_qkey = 0x11111111;
	mistake_fails(&wr, IBV_WC_LOC_LEN_ERR);
	NEAR("ibv_post_send: SEND of %u B (wr_id 0x1) on UD QP 0x%x exceeds the MTU of %u B; send "
	     "less",
	     mtu + 1, mistake.near_qp, mtu);
}

static void no_reads_agreed(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct peer_opts o = { .type = IBV_QPT_RC };

	(void)arg;
	mistake_begin_rc();
	want_eq(ibv_modify_qp(mistake.duo.near.ep.qp, &a, IBV_QP_STATE), 0);
	peer_init(&mistake.duo.near.ep, &o);
	peer_rtr(&mistake.duo.near.ep, &o);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = mistake.duo.near.ep.mine.psn };
	want_eq(ibv_modify_qp(mistake.duo.near.ep.qp, &a,
			      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
		0);
	wr = duo_wr(&mistake.duo, IBV_WR_RDMA_READ, &sg, 64);
	mistake_fails(&wr, IBV_WC_LOC_QP_OP_ERR);
	NEAR("ibv_post_send: RDMA READ on QP 0x%x with max_rd_atomic 0; set "
	     "IBV_QP_MAX_QP_RD_ATOMIC in ibv_modify_qp to RTS",
	     mistake.near_qp);
}

static void cq_overrun(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 }, .cqe = 1 };
	struct ibv_async_event ev;
	struct ibv_cq *cq;
	int n;

	(void)arg;
	mistake_begin((struct duo_opts){ .qp = o });
	cq = mistake.duo.near.ep.scq;
	n = cq->cqe;
	want(n < 16);
	for (int i = 0; i <= n + 1; i++)
		duo_send(&mistake.duo, IBV_WR_RDMA_WRITE, 8);
	want(side_event(&mistake.duo.near, &ev, 10000));
	NEAR("CQ 0x%x overrun: all its %d entries wait to be polled; poll more often or create it "
	     "larger",
	     cq->handle, n + 1);
}

static const struct test_case cases[] = {
	CASE(unknown_lkey),
	CASE(lkey_of_another_pd),
	CASE(sge_beyond_its_region),
	CASE(read_into_read_only_memory),
	CASE(send_from_unmapped_memory),
	CASE(datagram_longer_than_the_mtu),
	CASE(no_reads_agreed),
	CASE(cq_overrun),
};

int main(int argc, char **argv)
{
	return MISTAKES(argc, argv, cases);
}
