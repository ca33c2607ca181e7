// SPDX-License-Identifier: MIT
/* Mistakes explained: work that the peer refuses. Both sides say why: the peer what it checked, the
 * poster the same in the peer's words, which came with the NAK. */
#include <stdio.h>
#include <unistd.h>
#include "verbs/mistake.h"

enum { LEN = 64, LOC = IBV_ACCESS_LOCAL_WRITE, OP = 0x89, INVALID = 0x8a, ACCESS = 0x88 };

#define DUO	(&mistake.duo)
#define FAR_VA	mistake.far_va
#define TEXT	mistake_text
#define NO_RKEY "the rkey names no memory region (never registered, or deregistered)"

static struct ibv_sge sg;
static struct ibv_send_wr wr;

static void begin(struct duo_opts o)
{
	mistake_begin(o);
	mistake_meet();
}

static void begin_rc(void)
{
	begin((struct duo_opts){ .qp.type = IBV_QPT_RC });
}

static void prepare(enum ibv_wr_opcode op, uint32_t len)
{
	wr = duo_wr(DUO, op, &sg, len);
}

/* The far side's sentence names the rkey, since its reader has not got the work request. */
static void both(const char *operation, unsigned int vendor, const char *near, const char *far)
{
	bool atomic = wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	mistake_refused(operation, &wr, vendor, near);
	mistake_far_says(operation, sg.length,
			 atomic ? wr.wr.atomic.remote_addr : wr.wr.rdma.remote_addr, far);
}

/* Which receive a mistake is told of by its place in the ring. */
static unsigned int first_receive(void)
{
	return mistake.apart;
}

/* --- the key --- */

static void unknown_rkey(int op)
{
	begin_rc();
	prepare((enum ibv_wr_opcode)op, LEN);
	wr.wr.rdma.rkey ^= 0x5a;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both(op == IBV_WR_RDMA_READ ? "RDMA READ" : "RDMA WRITE", ACCESS, NO_RKEY,
	     TEXT("rkey 0x%x names no memory region (never registered, or "
		  "deregistered)" MISTAKE_GIVE,
		  mistake.rkey ^ 0x5a));
}

static void unknown_rkey_of_an_atomic(int arg)
{
	(void)arg;
	begin_rc();
	prepare(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	wr.wr.atomic.rkey ^= 0x5a;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both("fetch and add", ACCESS, NO_RKEY,
	     TEXT("rkey 0x%x names no memory region (never registered, or "
		  "deregistered)" MISTAKE_GIVE,
		  mistake.rkey ^ 0x5a));
}

/* The receive that it would have taken reports it, if there is one. */
static void unknown_rkey_with_immediate(int arg)
{
	(void)arg;
	begin_rc();
	duo_tell(DUO, (struct duo_order){ DUO_RECV, .len = LEN });
	prepare(IBV_WR_RDMA_WRITE_WITH_IMM, LEN);
	wr.wr.rdma.rkey ^= 0x5a;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	want_eq(duo_far_wc(DUO).status, IBV_WC_LOC_ACCESS_ERR);
	both("RDMA WRITE with immediate", ACCESS, NO_RKEY,
	     TEXT("rkey 0x%x names no memory region (never registered, or "
		  "deregistered)" MISTAKE_GIVE,
		  mistake.rkey ^ 0x5a));
}

static void write_beyond_the_region(int arg)
{
	(void)arg;
	begin_rc();
	prepare(IBV_WR_RDMA_WRITE, LEN);
	wr.wr.rdma.remote_addr += 65536 - 60;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both("RDMA WRITE", ACCESS,
	     "the range exceeds the region by 4 B; register more or ask for less",
	     TEXT("rkey 0x%x covers 0x%llx+65536; the range 0x%llx+64 exceeds it by 4" MISTAKE_GIVE,
		  mistake.rkey, FAR_VA, FAR_VA + 65476));
}

static void read_before_the_region(int arg)
{
	(void)arg;
	begin_rc();
	prepare(IBV_WR_RDMA_READ, LEN);
	wr.wr.rdma.remote_addr -= 8;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both("RDMA READ", ACCESS,
	     "the range begins 8 B before the region; register more or ask for less",
	     TEXT("rkey 0x%x covers 0x%llx+65536; 0x%llx begins 8 B before it" MISTAKE_GIVE,
		  mistake.rkey, FAR_VA, FAR_VA - 8));
}

/* Whoever guesses is not told how near he was. */
static void write_far_from_the_region(int arg)
{
	(void)arg;
	begin_rc();
	prepare(IBV_WR_RDMA_WRITE, LEN);
	wr.wr.rdma.remote_addr += 1 << 20;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both("RDMA WRITE", ACCESS, "the range does not lie in the region; check its address",
	     TEXT("rkey 0x%x covers 0x%llx+65536; 0x%llx begins 983040 B behind its "
		  "end" MISTAKE_GIVE,
		  mistake.rkey, FAR_VA, FAR_VA + (1 << 20)));
}

static void a_right_that_is_missing(int op)
{
	static const struct {
		enum ibv_wr_opcode op;
		const char *name, *lacks, *has;
		int access;
	} of[] = {
		{ IBV_WR_RDMA_WRITE, "RDMA WRITE", "REMOTE_WRITE", "LOCAL_WRITE|REMOTE_READ",
		  LOC | IBV_ACCESS_REMOTE_READ },
		{ IBV_WR_RDMA_READ, "RDMA READ", "REMOTE_READ", "LOCAL_WRITE|REMOTE_WRITE",
		  LOC | IBV_ACCESS_REMOTE_WRITE },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, "fetch and add", "REMOTE_ATOMIC",
		  "LOCAL_WRITE|REMOTE_WRITE", LOC | IBV_ACCESS_REMOTE_WRITE },
	};

	begin((struct duo_opts){ .qp.type = IBV_QPT_RC, .access = of[op].access });
	prepare(of[op].op, 8);
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both(of[op].name, ACCESS,
	     TEXT("the rkey lacks %s, its rights are %s; register with that", of[op].lacks,
		  of[op].has),
	     TEXT("rkey 0x%x lacks %s; its rights are %s" MISTAKE_GIVE, mistake.rkey, of[op].lacks,
		  of[op].has));
}

static void rkey_of_another_pd(int arg)
{
	(void)arg;
	begin_rc();
	prepare(IBV_WR_RDMA_WRITE, LEN);
	wr.wr.rdma.rkey = (unsigned int)duo_tell(DUO, (struct duo_order){ DUO_PD_KEY }).value;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both("RDMA WRITE", ACCESS,
	     "the rkey belongs to another PD than the QP; register in the QP's",
	     TEXT("rkey 0x%x belongs to PD 0x#, the queue to PD 0x#" MISTAKE_GIVE,
		  wr.wr.rdma.rkey));
}

static void write_after_deregistration(int arg)
{
	(void)arg;
	begin_rc();
	duo_tell(DUO, (struct duo_order){ DUO_DEREG });
	prepare(IBV_WR_RDMA_WRITE, LEN);
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both("RDMA WRITE", ACCESS, NO_RKEY,
	     TEXT("rkey 0x%x names no memory region (never registered, or "
		  "deregistered)" MISTAKE_GIVE,
		  mistake.rkey));
}

static void write_to_unmapped_memory(int arg)
{
	(void)arg;
	begin_rc();
	duo_tell(DUO, (struct duo_order){ DUO_UNMAP, .off = 4096, .len = 4096 });
	prepare(IBV_WR_RDMA_WRITE, LEN);
	wr.wr.rdma.remote_addr += 4096;
	mistake_fails(&wr, IBV_WC_REM_OP_ERR);
	mistake_refused("RDMA WRITE", &wr, OP,
			"that memory is not mapped any more; deregister an MR before you unmap it");
	FAR("RDMA WRITE of 64 B to 0x%llx by QP 0x%x failed at QP 0x%x: that memory is not mapped "
	    "any more; deregister an MR before you unmap it",
	    FAR_VA + 4096, mistake.near_qp, mistake.far_qp);
}

/* --- windows --- */

static struct duo_answer make_window(struct side *s, const struct duo_order *o)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->dev.pd, IBV_MW_TYPE_1);

	(void)o;
	want(mw);
	return (struct duo_answer){ .found = true, .value = mw->rkey };
}

static void window_that_is_not_bound(int arg)
{
	(void)arg;
	begin_rc();
	prepare(IBV_WR_RDMA_WRITE, LEN);
	wr.wr.rdma.rkey = (uint32_t)duo_do(DUO, make_window, 0, 0, 0).value;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	both("RDMA WRITE", ACCESS,
	     "the rkey is a window's or an mkey's that is not bound; bind it first",
	     TEXT("rkey 0x%x is a memory window that is not bound" MISTAKE_GIVE, wr.wr.rdma.rkey));
}

static void silent_refusal(const char *operation, const char *words)
{
	NEAR("%s of %u B (wr_id 0x1) on QP 0x%x: no answer from QP 0x%x after 3 tries of 4.096 us "
	     "* 2^%d (retry_cnt 2): peer: %s",
	     operation, sg.length, mistake.near_qp, mistake.far_qp, mistake_timeout(), words);
}

/* A refusal of class J has no NAK: the poster's tries end, and yet it knows why. */
static void invalidation_of_a_region(int arg)
{
	(void)arg;
	mistake_begin_impatient(IBV_QPT_RC);
	mistake_meet();
	duo_tell(DUO, (struct duo_order){ DUO_RECV, .len = LEN });
	prepare(IBV_WR_SEND_WITH_INV, LEN);
	wr.invalidate_rkey = mistake.rkey;
	mistake_fails(&wr, IBV_WC_RETRY_EXC_ERR);
	silent_refusal("SEND with invalidate",
		       "the key that it invalidates is not bound, or not one that its peer may "
		       "invalidate");
	FAR("SEND of 64 B by QP 0x%x refused by QP 0x%x: the key it invalidates is neither a "
	    "memory window's nor an mkey; only those can be invalidated",
	    mistake.near_qp, mistake.far_qp);
}

/* --- the QP --- */

static void operation_not_enabled(int op)
{
	static const struct {
		enum ibv_wr_opcode op;
		const char *name;
		unsigned int len;
	} of[] = { { IBV_WR_RDMA_WRITE, "RDMA WRITE", LEN },
		   { IBV_WR_RDMA_READ, "RDMA READ", LEN },
		   { IBV_WR_ATOMIC_FETCH_AND_ADD, "fetch and add", 8 } };
	static const char words[] =
		"the QP's qp_access_flags do not enable it; set them by ibv_modify_qp";

	begin((struct duo_opts){ .qp.type = IBV_QPT_RC, .far_access = LOC });
	prepare(of[op].op, of[op].len);
	mistake_fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	both(of[op].name, INVALID, words, words);
}

static void misaligned_atomic(int arg)
{
	static const char words[] = "the address of an atomic must be aligned to 8 bytes";

	(void)arg;
	begin_rc();
	prepare(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	wr.wr.atomic.remote_addr += 4;
	mistake_fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	both("fetch and add", INVALID, words, words);
}

/* The far QP takes no READs at all: its peer's max_rd_atomic of 16 is too many. */
static struct duo_answer take_no_reads(struct side *s, const struct duo_order *o)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_init_attr init;

	(void)o;
	want_eq(ibv_query_qp(s->ep.qp, &a, IBV_QP_AV, &init), 0);
	a.qp_state = IBV_QPS_RESET;
	want_eq(ibv_modify_qp(s->ep.qp, &a, IBV_QP_STATE), 0);
	peer_init(&s->ep, &s->o->qp);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_4096;
	a.dest_qp_num = s->ep.theirs.qpn;
	a.rq_psn = s->ep.theirs.psn;
	a.max_dest_rd_atomic = 0;
	want_eq(ibv_modify_qp(s->ep.qp, &a,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER),
		0);
	return (struct duo_answer){ .found = true };
}

static void more_reads_than_agreed(int arg)
{
	static const char words[] = "more are outstanding than max_dest_rd_atomic, 0; lower the "
				    "requester's max_rd_atomic";

	(void)arg;
	mistake_begin_rc();
	duo_do(DUO, take_no_reads, 0, 0, 0);
	mistake_meet();
	prepare(IBV_WR_RDMA_READ, LEN);
	mistake_fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	both("RDMA READ", INVALID, words, words);
}

/* This side's QP anew, with another path MTU than the far one's 4096. */
static void another_mtu(enum ibv_mtu mtu)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct peer_opts o = { .type = IBV_QPT_RC, .mtu = mtu };

	want_eq(ibv_modify_qp(DUO->near.ep.qp, &reset, IBV_QP_STATE), 0);
	peer_connect(&DUO->near.ep, &o);
}

static const char *mtu_words(void)
{
	if (mistake.apart)
		return "a packet that is not a message's last brings 1024 B, the path_mtu here is "
		       "4096 B; give both QPs the same path_mtu";
	return "its 8192 B have 8 PSNs, which does not fit the path_mtu here of 4096 B; give both "
	       "QPs the same path_mtu";
}

static void write_with_another_mtu(int arg)
{
	(void)arg;
	mistake_begin_rc();
	another_mtu(IBV_MTU_1024);
	mistake_meet();
	prepare(IBV_WR_RDMA_WRITE, 8192);
	mistake_fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	both("RDMA WRITE", INVALID, mtu_words(), mtu_words());
}

static void send_with_another_mtu(int arg)
{
	(void)arg;
	mistake_begin_rc();
	another_mtu(IBV_MTU_1024);
	mistake_meet();
	duo_tell(DUO, (struct duo_order){ DUO_RECV, .len = 8192 });
	prepare(IBV_WR_SEND, 8192);
	mistake_fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	mistake_refused("SEND", &wr, INVALID, mtu_words());
	FAR("SEND of %u B by QP 0x%x refused by QP 0x%x: %s", mistake.apart ? 1024 : 8192,
	    mistake.near_qp, mistake.far_qp, mtu_words());
}

/* --- its receives --- */

static void receive_too_small(int op)
{
	const char *name = op == IBV_WR_SEND ? "SEND" : "SEND with immediate";

	begin_rc();
	duo_tell(DUO, (struct duo_order){ DUO_RECV, .len = 60 });
	prepare((enum ibv_wr_opcode)op, LEN);
	mistake_fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	want_eq(duo_far_wc(DUO).status, IBV_WC_LOC_LEN_ERR);
	mistake_refused(name, &wr, INVALID,
			"the receive has room for 60 B, at least 64 B arrived; post larger "
			"receives");
	FAR("SEND to QP 0x%x brings at least 64 B, the receive has room for 60 B; post larger "
	    "receives",
	    mistake.far_qp);
}

static void receive_with_a_bad_key(int srq)
{
	begin((struct duo_opts){ .qp = { .type = IBV_QPT_RC }, .far_srq = srq });
	duo_tell(DUO, (struct duo_order){ DUO_RECV_KEY, .id = 7, .len = LEN, .key = PEER_NO_KEY });
	prepare(IBV_WR_SEND, LEN);
	mistake_fails(&wr, IBV_WC_REM_OP_ERR);
	want_eq(duo_far_wc(DUO).status, IBV_WC_LOC_PROT_ERR);
	mistake_refused("SEND", &wr, OP,
			"the lkey of sge[0] of the receive does not allow it; its completion "
			"there says more");
	FAR("ibv_post_recv: QP 0x%x: receive wr_id 0x7, sge[0]: lkey 0x%x names no memory region "
	    "(never registered, or deregistered); use a key of the %s PD that covers the buffer "
	    "with IBV_ACCESS_LOCAL_WRITE",
	    mistake.far_qp, PEER_NO_KEY, srq ? "SRQ's" : "QP's");
}

static void receive_of_unmapped_memory(int arg)
{
	(void)arg;
	begin_rc();
	duo_tell(DUO, (struct duo_order){ DUO_RECV, .off = 4096, .len = LEN });
	duo_tell(DUO, (struct duo_order){ DUO_UNMAP, .off = 4096, .len = 4096 });
	prepare(IBV_WR_SEND, LEN);
	mistake_fails(&wr, IBV_WC_REM_OP_ERR);
	want_eq(duo_far_wc(DUO).status, IBV_WC_LOC_PROT_ERR);
	mistake_refused("SEND", &wr, OP,
			"the memory of the receive is not mapped any more; keep it mapped until "
			"the completion");
	FAR("ibv_post_recv: QP 0x%x: the memory of receive 0x%x is not mapped any more; keep it "
	    "mapped until the completion",
	    mistake.far_qp, first_receive());
}

static void receive_never_posted(int srq)
{
	begin((struct duo_opts){ .qp = { .type = IBV_QPT_RC, .rnr = 2, .min_rnr_timer = 1 },
				 .far_srq = srq });
	prepare(IBV_WR_SEND, LEN);
	mistake_fails(&wr, IBV_WC_RNR_RETRY_EXC_ERR);
	NEAR("SEND of 64 B (wr_id 0x1) on QP 0x%x: QP 0x%x had no receive posted at 3 tries "
	     "(rnr_retry 2): %s",
	     mistake.near_qp, mistake.far_qp,
	     srq ? "peer: its SRQ is empty; post more to it, and earlier"
		 : "post receives earlier or set rnr_retry to 7");
}

static const struct test_case cases[] = {
	{ "unknown_rkey (WRITE)", unknown_rkey, IBV_WR_RDMA_WRITE },
	{ "unknown_rkey (READ)", unknown_rkey, IBV_WR_RDMA_READ },
	CASE(unknown_rkey_of_an_atomic),
	CASE(unknown_rkey_with_immediate),
	CASE(write_beyond_the_region),
	CASE(read_before_the_region),
	CASE(write_far_from_the_region),
	{ "a_right_that_is_missing (WRITE)", a_right_that_is_missing, 0 },
	{ "a_right_that_is_missing (READ)", a_right_that_is_missing, 1 },
	{ "a_right_that_is_missing (atomic)", a_right_that_is_missing, 2 },
	CASE(rkey_of_another_pd),
	CASE(write_after_deregistration),
	CASE(write_to_unmapped_memory),
	CASE(window_that_is_not_bound),
	CASE(invalidation_of_a_region),
	{ "operation_not_enabled (WRITE)", operation_not_enabled, 0 },
	{ "operation_not_enabled (READ)", operation_not_enabled, 1 },
	{ "operation_not_enabled (atomic)", operation_not_enabled, 2 },
	CASE(misaligned_atomic),
	CASE(more_reads_than_agreed),
	CASE(write_with_another_mtu),
	CASE(send_with_another_mtu),
	{ "receive_too_small (SEND)", receive_too_small, IBV_WR_SEND },
	{ "receive_too_small (SEND with immediate)", receive_too_small, IBV_WR_SEND_WITH_IMM },
	CASE_ARG(receive_with_a_bad_key, 0),
	CASE_ARG(receive_with_a_bad_key, 1),
	CASE(receive_of_unmapped_memory),
	{ "receive_never_posted (its own)", receive_never_posted, 0 },
	{ "receive_never_posted (an SRQ's)", receive_never_posted, 1 },
};

int main(int argc, char **argv)
{
	return MISTAKES(argc, argv, cases);
}
