// SPDX-License-Identifier: MIT
/* Mistakes explained, second half: work that fails. Where the peer decides, both sides say why,
 * each in a sentence of its own: the peer what it checked, the poster what he can do. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

#define NEAR(...) said_want(SAID_NEAR, __VA_ARGS__)
#define FAR(...)  said_want(SAID_FAR, __VA_ARGS__)

#define RKEY_REMEDY "the rkey must be of the peer QP's PD, cover the range and allow it"
#define OP_REMEDY                                                                                  \
	"the operation must be enabled in the peer's qp_access_flags, within its "                 \
	"max_dest_rd_atomic, aligned, and fit its receive buffer"
#define BAD_RECEIVE "the peer's receive buffer or memory is bad; look at its completions"

static struct duo duo;
static unsigned int near_qp, far_qp; /* numbers */
static unsigned long long va, far_va; /* each side's memory */
static unsigned int lkey, rkey;

static void begin(struct duo_opts o)
{
	said_begin();
	o.far_explain = said_file(SAID_FAR);
	duo_open(&duo, &o);
	near_qp = duo.near.ep.mine.qpn;
	far_qp = duo.near.ep.theirs.qpn;
	va = (uintptr_t)duo.near.mem;
	far_va = duo.near.ep.theirs.va;
	lkey = duo.near.mr->lkey;
	rkey = duo.near.ep.theirs.rkey;
}

static void begin_rc(void)
{
	begin((struct duo_opts){ .qp.type = IBV_QPT_RC });
}

/* Posts the work request; its completion must have failed so. */
static void fails(struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	want_eq(duo_post(&duo, wr), 0);
	want_eq(duo_wc(&duo).status, status);
}

static struct ibv_send_wr write_of(uint32_t len, struct ibv_sge *sg)
{
	return duo_wr(&duo, IBV_WR_RDMA_WRITE, sg, len);
}

/* --- this side's buffers --- */

static void unknown_lkey(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	wr = write_of(64, &sg);
	sg.lkey = lkey ^ 0x5a;
	fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA WRITE of 64 B on QP 0x%x: sge[0]: lkey 0x%x names no memory "
	     "region (never registered, or deregistered); use a key of the QP's PD that covers the "
	     "buffer",
	     near_qp, lkey ^ 0x5a);
}

static void lkey_of_another_pd(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	(void)arg;
	begin_rc();
	pd = ibv_alloc_pd(duo.near.dev.ctx);
	mr = ibv_reg_mr(pd, duo.near.mem, 4096, 0);
	want(mr);
	wr = write_of(64, &sg);
	sg.lkey = mr->lkey;
	fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA WRITE of 64 B on QP 0x%x: sge[0]: lkey 0x%x belongs to PD 0x%x, "
	     "the queue to PD 0x%x; use a key of the QP's PD that covers the buffer",
	     near_qp, mr->lkey, pd->handle, duo.near.dev.pd->handle);
}

static void sge_beyond_its_region(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	wr = write_of(64, &sg);
	sg.addr = va + 65536 - 60;
	fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA WRITE of 64 B on QP 0x%x: sge[0]: lkey 0x%x covers 0x%llx+65536; "
	     "the range 0x%llx+64 exceeds it by 4; use a key of the QP's PD that covers the buffer",
	     near_qp, lkey, va, va + 65536 - 60);
}

static void read_into_read_only_memory(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	(void)arg;
	begin_rc();
	mr = ibv_reg_mr(duo.near.dev.pd, duo.near.mem, 4096, IBV_ACCESS_REMOTE_READ);
	want(mr);
	wr = duo_wr(&duo, IBV_WR_RDMA_READ, &sg, 64);
	sg.lkey = mr->lkey;
	fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA READ of 64 B on QP 0x%x: sge[0]: lkey 0x%x lacks LOCAL_WRITE; "
	     "its "
	     "rights are REMOTE_READ; use a key of the QP's PD that covers the buffer with "
	     "IBV_ACCESS_LOCAL_WRITE",
	     near_qp, mr->lkey);
}

static void send_from_unmapped_memory(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
	peer_unmap(duo.near.mem, 4096);
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 64);
	fails(&wr, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: SEND of 64 B on QP 0x%x: memory of its scatter/gather list is not "
	     "mapped any more; keep it mapped until the completion",
	     near_qp);
}

static void datagram_longer_than_the_mtu(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_port_attr port;
	unsigned int mtu;

	(void)arg;
	begin((struct duo_opts){ .qp.type = IBV_QPT_UD });
	want_eq(ibv_query_port(duo.near.dev.ctx, 1, &port), 0);
	mtu = 128U << port.active_mtu;
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, mtu + 1);
	wr.wr.ud.ah = peer_ah(&duo.near.dev, &duo.near.ep.theirs);
	wr.wr.ud.remote_qpn = far_qp;
	wr.wr.ud.remote_qkey = 0x11111111;
	fails(&wr, IBV_WC_LOC_LEN_ERR);
	NEAR("ibv_post_send: SEND of %u B on UD QP 0x%x exceeds the MTU of %u B; send less",
	     mtu + 1, near_qp, mtu);
}

static void no_reads_agreed(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct peer_opts o = { .type = IBV_QPT_RC };

	(void)arg;
	begin_rc();
	want_eq(ibv_modify_qp(duo.near.ep.qp, &a, IBV_QP_STATE), 0);
	peer_init(&duo.near.ep, &o);
	peer_rtr(&duo.near.ep, &o);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = duo.near.ep.mine.psn };
	want_eq(ibv_modify_qp(duo.near.ep.qp, &a,
			      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
		0);
	wr = duo_wr(&duo, IBV_WR_RDMA_READ, &sg, 64);
	fails(&wr, IBV_WC_LOC_QP_OP_ERR);
	NEAR("ibv_post_send: RDMA READ on QP 0x%x with max_rd_atomic 0; set "
	     "IBV_QP_MAX_QP_RD_ATOMIC in ibv_modify_qp to RTS",
	     near_qp);
}

static void cq_overrun(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 }, .cqe = 1 };
	struct ibv_async_event ev;
	struct ibv_cq *cq;
	int n;

	(void)arg;
	begin((struct duo_opts){ .qp = o });
	cq = duo.near.ep.scq;
	n = cq->cqe;
	want(n < 16);
	for (int i = 0; i <= n + 1; i++)
		duo_send(&duo, IBV_WR_RDMA_WRITE, 8);
	want(side_event(&duo.near, &ev, 10000));
	NEAR("CQ 0x%x overrun: all its %d entries wait to be polled; poll more often or create it "
	     "larger",
	     cq->handle, n + 1);
}

/* --- the peer's memory --- */

static void far_says(const char *operation, unsigned int len, unsigned long long to,
		     const char *what)
{
	FAR("%s of %u B to 0x%llx by QP 0x%x refused by QP 0x%x: %s", operation, len, to, near_qp,
	    far_qp, what);
}

static void refused(const char *operation, unsigned int len, unsigned long long to,
		    unsigned int key)
{
	NEAR("%s of %u B on QP 0x%x to 0x%llx, rkey 0x%x, refused by QP 0x%x (vendor_err "
	     "0x88): " RKEY_REMEDY,
	     operation, len, near_qp, to, key, far_qp);
}

static char *text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *text(const char *fmt, ...)
{
	static char buf[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	return buf;
}

static void unknown_rkey(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	wr = write_of(64, &sg);
	wr.wr.rdma.rkey ^= 0x5a;
	fails(&wr, IBV_WC_REM_ACCESS_ERR);
	refused("RDMA WRITE", 64, far_va, rkey ^ 0x5a);
	far_says("RDMA WRITE", 64, far_va,
		 text("rkey 0x%x names no memory region (never registered, or deregistered)",
		      rkey ^ 0x5a));
}

static void write_beyond_the_region(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	wr = write_of(64, &sg);
	wr.wr.rdma.remote_addr += 65536 - 60;
	fails(&wr, IBV_WC_REM_ACCESS_ERR);
	refused("RDMA WRITE", 64, far_va + 65476, rkey);
	far_says("RDMA WRITE", 64, far_va + 65476,
		 text("rkey 0x%x covers 0x%llx+65536; the range 0x%llx+64 exceeds it by 4", rkey,
		      far_va, far_va + 65476));
}

static void read_before_the_region(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	wr = duo_wr(&duo, IBV_WR_RDMA_READ, &sg, 64);
	wr.wr.rdma.remote_addr -= 8;
	fails(&wr, IBV_WC_REM_ACCESS_ERR);
	refused("RDMA READ", 64, far_va - 8, rkey);
	far_says("RDMA READ", 64, far_va - 8,
		 text("rkey 0x%x covers 0x%llx+65536; 0x%llx begins 8 B before it", rkey, far_va,
		      far_va - 8));
}

static void write_without_the_right(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin((struct duo_opts){ .qp.type = IBV_QPT_RC,
				 .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ });
	wr = write_of(64, &sg);
	fails(&wr, IBV_WC_REM_ACCESS_ERR);
	refused("RDMA WRITE", 64, far_va, rkey);
	far_says(
		"RDMA WRITE", 64, far_va,
		text("rkey 0x%x lacks REMOTE_WRITE; its rights are LOCAL_WRITE|REMOTE_READ", rkey));
}

static void atomic_without_the_right(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin((struct duo_opts){ .qp.type = IBV_QPT_RC,
				 .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE });
	wr = duo_wr(&duo, IBV_WR_ATOMIC_FETCH_AND_ADD, &sg, 8);
	fails(&wr, IBV_WC_REM_ACCESS_ERR);
	refused("fetch and add", 8, far_va, rkey);
	far_says("fetch and add", 8, far_va,
		 text("rkey 0x%x lacks REMOTE_ATOMIC; its rights are LOCAL_WRITE|REMOTE_WRITE",
		      rkey));
}

static void rkey_of_another_pd(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	unsigned int key;

	(void)arg;
	begin_rc();
	key = (unsigned int)duo_tell(&duo, (struct duo_order){ DUO_PD_KEY }).value;
	wr = write_of(64, &sg);
	wr.wr.rdma.rkey = key;
	fails(&wr, IBV_WC_REM_ACCESS_ERR);
	refused("RDMA WRITE", 64, far_va, key);
	far_says("RDMA WRITE", 64, far_va,
		 text("rkey 0x%x belongs to PD 0x#, the queue to PD 0x#", key));
}

static void write_after_deregistration(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	duo_tell(&duo, (struct duo_order){ DUO_DEREG });
	wr = write_of(64, &sg);
	fails(&wr, IBV_WC_REM_ACCESS_ERR);
	refused("RDMA WRITE", 64, far_va, rkey);
	far_says(
		"RDMA WRITE", 64, far_va,
		text("rkey 0x%x names no memory region (never registered, or deregistered)", rkey));
}

static void write_to_unmapped_memory(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	duo_tell(&duo, (struct duo_order){ DUO_UNMAP, .off = 4096, .len = 4096 });
	wr = write_of(64, &sg);
	wr.wr.rdma.remote_addr += 4096;
	fails(&wr, IBV_WC_REM_OP_ERR);
	NEAR("RDMA WRITE of 64 B on QP 0x%x to 0x%llx, rkey 0x%x, refused by QP 0x%x (vendor_err "
	     "0x#): " BAD_RECEIVE,
	     near_qp, far_va + 4096, rkey, far_qp);
	FAR("RDMA WRITE of 64 B to 0x%llx by QP 0x%x failed at QP 0x%x: that memory is not mapped "
	    "any more; deregister an MR before you unmap it",
	    far_va + 4096, near_qp, far_qp);
}

/* --- the peer's QP --- */

static void operation_not_enabled(int op)
{
	static const struct {
		enum ibv_wr_opcode op;
		const char *name;
		unsigned int len;
	} of[] = { { IBV_WR_RDMA_WRITE, "RDMA WRITE", 64 },
		   { IBV_WR_RDMA_READ, "RDMA READ", 64 },
		   { IBV_WR_ATOMIC_CMP_AND_SWP, "compare and swap", 8 } };
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin((struct duo_opts){ .qp.type = IBV_QPT_RC, .far_access = IBV_ACCESS_LOCAL_WRITE });
	wr = duo_wr(&duo, of[op].op, &sg, of[op].len);
	fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	NEAR("%s of %u B on QP 0x%x to 0x%llx, rkey 0x%x, refused by QP 0x%x (vendor_err "
	     "0x8a): " OP_REMEDY,
	     of[op].name, of[op].len, near_qp, far_va, rkey, far_qp);
	far_says(of[op].name, of[op].len, far_va,
		 "the QP's qp_access_flags do not enable it; set them by ibv_modify_qp");
}

static void misaligned_atomic(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	wr = duo_wr(&duo, IBV_WR_ATOMIC_FETCH_AND_ADD, &sg, 8);
	wr.wr.atomic.remote_addr += 4;
	fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	NEAR("fetch and add of 8 B on QP 0x%x to 0x%llx, rkey 0x%x, refused by QP 0x%x (vendor_err "
	     "0x8a): " OP_REMEDY,
	     near_qp, far_va + 4, rkey, far_qp);
	far_says("fetch and add", 8, far_va + 4,
		 "the address of an atomic must be aligned to 8 bytes");
}

static void receive_too_small(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 60 });
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 64);
	fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	want_eq(duo_far_wc(&duo).status, IBV_WC_LOC_LEN_ERR);
	NEAR("SEND of 64 B on QP 0x%x, refused by QP 0x%x (vendor_err 0x8a): " OP_REMEDY, near_qp,
	     far_qp);
	FAR("SEND to QP 0x%x brings at least 64 B, the receive has room for 60 B; post larger "
	    "receives",
	    far_qp);
}

static void receive_with_a_bad_key(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin_rc();
	duo_tell(&duo, (struct duo_order){ DUO_RECV_KEY, .len = 64, .key = PEER_NO_KEY });
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 64);
	fails(&wr, IBV_WC_REM_OP_ERR);
	want_eq(duo_far_wc(&duo).status, IBV_WC_LOC_PROT_ERR);
	NEAR("SEND of 64 B on QP 0x%x, refused by QP 0x%x (vendor_err 0x#): " BAD_RECEIVE, near_qp,
	     far_qp);
	FAR("ibv_post_recv: QP 0x%x: receive 0x0, sge[0]: lkey 0x%x names no memory region (never "
	    "registered, or deregistered); use a key of the QP's PD that covers the buffer with "
	    "IBV_ACCESS_LOCAL_WRITE",
	    far_qp, PEER_NO_KEY);
}

static void receive_never_posted(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin((struct duo_opts){ .qp = { .type = IBV_QPT_RC, .rnr = 2, .min_rnr_timer = 1 } });
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 64);
	fails(&wr, IBV_WC_RNR_RETRY_EXC_ERR);
	NEAR("SEND of 64 B on QP 0x%x: QP 0x%x had no receive posted at 3 tries (rnr_retry 2); "
	     "post "
	     "receives earlier or set rnr_retry to 7",
	     near_qp, far_qp);
}

static void silent(void)
{
	NEAR("RDMA WRITE of 64 B on QP 0x%x: no answer from QP 0x%x after 3 tries of 4.096 us * "
	     "2^10 (retry_cnt 2); is the peer alive, its QP in RTR or RTS, connected to this QP, "
	     "and its rq_psn this sq_psn?",
	     near_qp, far_qp);
}

static const struct duo_opts impatient = {
	.qp = { .type = IBV_QPT_RC, .timeout = 10, .retry = 2 }
};

static void dead_peer(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin(impatient);
	duo_kill(&duo);
	wr = write_of(64, &sg);
	fails(&wr, IBV_WC_RETRY_EXC_ERR);
	silent();
}

static void peer_qp_in_reset(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin(impatient);
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_RESET });
	wr = write_of(64, &sg);
	fails(&wr, IBV_WC_RETRY_EXC_ERR);
	silent();
}

static void psn_of_another_count(int arg)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin(impatient);
	want_eq(ibv_modify_qp(duo.near.ep.qp, &reset, IBV_QP_STATE), 0);
	duo.near.ep.mine.psn = 0x123;
	peer_connect(&duo.near.ep, &duo.o.qp);
	wr = write_of(64, &sg);
	fails(&wr, IBV_WC_RETRY_EXC_ERR);
	NEAR("RDMA WRITE of 64 B on QP 0x%x: QP 0x%x answers PSNs that were not sent, in each of 3 "
	     "tries; make its rq_psn this QP's sq_psn (0x123)",
	     near_qp, far_qp);
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
	CASE(unknown_rkey),
	CASE(write_beyond_the_region),
	CASE(read_before_the_region),
	CASE(write_without_the_right),
	CASE(atomic_without_the_right),
	CASE(rkey_of_another_pd),
	CASE(write_after_deregistration),
	CASE(write_to_unmapped_memory),
	{ "operation_not_enabled (WRITE)", operation_not_enabled, 0 },
	{ "operation_not_enabled (READ)", operation_not_enabled, 1 },
	{ "operation_not_enabled (atomic)", operation_not_enabled, 2 },
	CASE(misaligned_atomic),
	CASE(receive_too_small),
	CASE(receive_with_a_bad_key),
	CASE(receive_never_posted),
	CASE(dead_peer),
	CASE(peer_qp_in_reset),
	CASE(psn_of_another_count),
};

int main(void)
{
	return CASES_RUN(cases);
}
