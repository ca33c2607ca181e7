// SPDX-License-Identifier: MIT
/* Rate limits: nothing leaves sooner than the rate allows, on both links and by every service; the
 * rate is reached; waiting costs no processor time; limits and refusals. The lower bounds on time
 * are as exact as the device's clock after its first milliseconds, the upper ones only rule out
 * that a deadline is lost. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/ether.h"
#include "verbs/said.h"

#define SAYS(...) said_want(SAID_NEAR, __VA_ARGS__)

enum { OTHER_PROCESS, THIS_PROCESS };
enum { HEADERS = 58 };
#define EXACT 0.99

static struct duo duo;
static struct ibv_qp *qp;

static void begin(int where, enum ibv_qp_type type)
{
	struct duo_opts o = { .qp = { .type = type, .cap = { 32, 32, 4, 4, 64 } },
			      .together = where == THIS_PROCESS,
			      .bytes = 1 << 20 };

	if (type == IBV_QPT_UC)
		o.qp.access = o.far_access = IBV_ACCESS_REMOTE_WRITE;
	said_begin();
	duo_open(&duo, &o);
	qp = duo.near.ep.qp;
}

static int rate(uint32_t kbps, uint32_t burst)
{
	struct ibv_qp_rate_limit_attr a = { .rate_limit = kbps, .max_burst_sz = burst };

	return ibv_modify_qp_rate_limit(qp, &a);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double processor(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Posts @n of @len bytes, and says how long it took until the last was done. */
static double take(struct ibv_send_wr *wr, int n)
{
	double t = seconds();

	for (int i = 0; i < n; i++)
		want_eq(duo_post(&duo, wr), 0);
	for (int i = 0; i < n; i++)
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	return seconds() - t;
}

static double by_rate(double bytes, double packets, uint32_t kbps)
{
	return (bytes + packets * HEADERS) * 8 / (kbps * 1000.0);
}

/* All of it but one burst and the last segment cannot have left sooner. */
static void writes(int where, enum ibv_qp_type type)
{
	const uint32_t kbps = 80000, len = 1 << 18, mtu = 4096, burst = 8192;
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	double t, need;

	begin(where, type);
	want_eq(rate(kbps, burst), 0);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, len);
	pattern_fill(duo.near.mem, len, 3, 0);
	t = take(&wr, 4);
	need = by_rate(4.0 * len - 3 * burst, 4.0 * len / mtu - 6, kbps);
	if (t < need * EXACT || t > need * 4 + 5)
		fail("%g s for what needs %g s", t, need);
	/* a WRITE of UC is done when it has left; a SEND behind it arrives behind it */
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .off = len, .len = 64 });
	duo_send(&duo, IBV_WR_SEND, 64);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = len, .id = 3 }).found);
	want_eq(rate(kbps / 100, burst), 0);
	want_eq(rate(0, 0), 0);
	t = take(&wr, 4);
	if (t > need * 50)
		fail("%g s without a limit", t);
}

static void rc_writes(int where)
{
	writes(where, IBV_QPT_RC);
}

static void uc_writes(int where)
{
	writes(where, IBV_QPT_UC);
}

/* Small messages: the headers count. */
static void datagrams(int where)
{
	const uint32_t kbps = 100;
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	double t, need = by_rate(9 * 8.0, 9, kbps);

	begin(where, IBV_QPT_UD);
	want_eq(rate(kbps, 1), 0);
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 8);
	wr.wr.ud.ah = peer_ah(&duo.near.dev, &duo.near.ep.theirs);
	wr.wr.ud.remote_qpn = duo.near.ep.theirs.qpn;
	wr.wr.ud.remote_qkey = 0x11111111;
	t = take(&wr, 10);
	if (t < need * EXACT || t > need + 5)
		fail("%g s for what needs %g s", t, need);
}

/* Ethernet frames, of which every byte is the program's. */
static void frames(int arg)
{
	const uint32_t kbps = 1000, burst = 1;
	struct ether_frame f = { .dst = 1, .src = 2, .ip = 4, .len = 900 };
	uint8_t frame[ETHER_ROOM];
	struct peer_dev dev;
	struct ether e;
	size_t len;
	double t, need;

	(void)arg;
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	qp = e.qp;
	want_eq(rate(kbps, burst), 0);
	len = ether_build(&f, frame);
	need = 9.0 * (double)len * 8 / (kbps * 1000.0);
	t = seconds();
	for (int i = 0; i < 10; i++)
		ether_send_bytes(&e, frame, len, 0); /* polls its completion */
	t = seconds() - t;
	if (t < need * EXACT || t > need + 5)
		fail("%g s for what needs %g s", t, need);
	ether_close(&e);
}

struct xrc {
	struct peer_dev dev;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct peer_ep from, to;
};

static void xrc_connect(struct xrc *x, struct ibv_xrcd *domain)
{
	struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV,
					      .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					      .xrcd = domain };
	struct ibv_qp_init_attr sender = { .qp_type = IBV_QPT_XRC_SEND,
					   .send_cq = x->cq,
					   .cap = { 16, 0, 1, 0, 0 } };
	struct peer_opts o = { .type = IBV_QPT_RC };

	x->from.qp = ibv_create_qp(x->dev.pd, &sender);
	x->to.qp = ibv_create_qp_ex(x->dev.ctx, &target);
	want(x->from.qp && x->to.qp);
	x->from.mine = x->to.theirs =
		(struct peer_addr){ .qpn = x->from.qp->qp_num, .gid = x->dev.gid };
	x->to.mine = x->from.theirs =
		(struct peer_addr){ .qpn = x->to.qp->qp_num, .gid = x->dev.gid };
	peer_connect(&x->from, &o);
	peer_connect(&x->to, &o);
}

static void xrc_writes(int arg)
{
	const uint32_t kbps = 80000, len = 1 << 18, mtu = 4096, burst = 8192;
	struct ibv_xrcd_init_attr anonymous = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
						-1, O_CREAT };
	struct ibv_srq_init_attr_ex a = { .attr = { 4, 1, 0 },
					  .comp_mask =
						  IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						  IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					  .srq_type = IBV_SRQT_XRC };
	double t, need = by_rate(4.0 * len - burst, 4.0 * len / mtu - 2, kbps);
	struct ibv_send_wr wr = { .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	uint8_t *mem = calloc(2, len);
	struct ibv_mr *mr;
	struct ibv_sge sg;
	struct ibv_wc wc;
	struct xrc x;

	(void)arg;
	peer_open(&x.dev);
	x.cq = a.cq = ibv_create_cq(x.dev.ctx, 16, NULL, NULL, 0);
	a.pd = x.dev.pd;
	a.xrcd = ibv_open_xrcd(x.dev.ctx, &anonymous);
	want(x.cq && a.xrcd && mem);
	x.srq = ibv_create_srq_ex(x.dev.ctx, &a);
	mr = ibv_reg_mr(x.dev.pd, mem, 2UL * len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(x.srq && mr && !ibv_get_srq_num(x.srq, &wr.qp_type.xrc.remote_srqn));
	xrc_connect(&x, a.xrcd);
	qp = x.from.qp;
	want_eq(rate(kbps, burst), 0);
	sg = (struct ibv_sge){ (uintptr_t)mem, len, mr->lkey };
	wr.sg_list = &sg;
	wr.wr.rdma.remote_addr = (uintptr_t)(mem + len);
	wr.wr.rdma.rkey = mr->rkey;
	pattern_fill(mem, len, 4, 0);
	t = seconds();
	for (int i = 0; i < 4; i++)
		want_eq(ibv_post_send(qp, &wr, &bad), 0);
	for (int i = 0; i < 4; i++)
		peer_poll_ok(x.cq, &wc);
	t = seconds() - t;
	if (t < need * EXACT || t > need * 4 + 5)
		fail("%g s for what needs %g s", t, need);
	want_eq(pattern_check(mem + len, len, 4, 0), len);
}

/* One at a time, on a QP that has exchanged something: nothing goes past the limit. */
static void small_writes(int where)
{
	const uint32_t kbps = 100;
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	double t, need = by_rate(9 * 8.0, 9, kbps);

	begin(where, IBV_QPT_RC);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 8);
	take(&wr, 1);
	want_eq(rate(kbps, 1), 0);
	t = seconds();
	for (int i = 0; i < 10; i++)
		take(&wr, 1);
	t = seconds() - t;
	if (t < need * EXACT || t > need + 5)
		fail("%g s for what needs %g s", t, need);
}

/* Nobody polls: what is due leaves by itself, and nobody spins until then. */
static void by_itself(int where)
{
	const uint32_t kbps = 200; /* a machine that stops for a second stays below */
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct timespec second = { .tv_sec = 1 };
	double t, cpu;

	begin(where, IBV_QPT_RC);
	want_eq(rate(kbps, 4096), 0);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 65536);
	pattern_fill(duo.near.mem, 65536, 3, 0);
	t = seconds();
	cpu = processor();
	want_eq(duo_post(&duo, &wr), 0);
	want(seconds() - t < by_rate(65536 - 2 * 4096, 0, kbps)); /* it does not wait in the post */
	nanosleep(&second, NULL); /* the pause is the measurement */
	cpu = processor() - cpu;
	if (cpu > 0.3 && !cases_sanitized())
		fail("%g s of processor time to wait for a second", cpu);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = 65536, .id = 3 }).found);
}

/* Lifting the limit, and errors, do not wait for the rate. */
static void lifted(int where)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin(where, IBV_QPT_RC);
	want_eq(rate(1, 1), 0); /* a day for it */
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 1 << 20);
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(rate(0, 0), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(rate(1, 1), 0);
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(ibv_modify_qp(qp, &err, IBV_QP_STATE), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_WR_FLUSH_ERR);
	duo_reconnect(&duo); /* by RESET: the limit is gone */
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
}

static uint32_t queried(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	want_eq(ibv_query_qp(qp, &a, IBV_QP_RATE_LIMIT, &init), 0);
	return a.rate_limit;
}

static void limits(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .rate_limit = 77 };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_rate_limit_attr r = { .max_burst_sz = 5 };
	struct ibv_device_attr_ex dev;
	uint32_t max;

	(void)arg;
	begin(THIS_PROCESS, IBV_QPT_RC);
	want_eq(ibv_query_device_ex(duo.near.dev.ctx, NULL, &dev), 0);
	max = dev.packet_pacing_caps.qp_rate_limit_max;
	want_eq(dev.packet_pacing_caps.supported_qpts,
		1U << IBV_QPT_RC | 1U << IBV_QPT_UC | 1U << IBV_QPT_UD | 1U << IBV_QPT_RAW_PACKET |
			1U << IBV_QPT_XRC_SEND);
	want_eq(rate(max, 0), 0);
	want_eq(queried(), max);
	want_eq(rate(max + 1, 0), EINVAL);
	SAYS("ibv_modify_qp_rate_limit: QP 0x%x: rate_limit %u kbit/s is over the device's %u; ask "
	     "for less, or 0 for no limit",
	     qp->qp_num, max + 1, max);
	want_eq(rate(dev.packet_pacing_caps.qp_rate_limit_min, 0), 0);
	want_errno(ibv_modify_qp_rate_limit(qp, &r), EINVAL);
	SAYS("ibv_modify_qp_rate_limit: QP 0x%x: max_burst_sz 5 and typical_pkt_sz 0 without a "
	     "rate_limit; set one, or all to 0",
	     qp->qp_num);
	r = (struct ibv_qp_rate_limit_attr){ .rate_limit = 5, .comp_mask = 1 };
	want_errno(ibv_modify_qp_rate_limit(qp, &r), EINVAL);
	SAYS("ibv_modify_qp_rate_limit: QP 0x%x: comp_mask 0x1, nothing is defined; pass 0",
	     qp->qp_num);
	want_eq(queried(), 1); /* refusals change nothing */
	want_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
	want_eq(queried(), 77);
	want_eq(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
	want_eq(queried(), 0);
	want_eq(rate(5, 0), EINVAL);
	SAYS("ibv_modify_qp_rate_limit: QP 0x%x is in RESET; a rate is set in RTS or SQD",
	     qp->qp_num);
}

#define BOTH_LINKS(f) CASE_ARG(f, OTHER_PROCESS), CASE_ARG(f, THIS_PROCESS)

int main(void)
{
	static const struct test_case cases[] = {
		BOTH_LINKS(rc_writes), BOTH_LINKS(uc_writes),
		BOTH_LINKS(datagrams), BOTH_LINKS(small_writes),
		BOTH_LINKS(by_itself), BOTH_LINKS(lifted),
		CASE(frames),	       CASE(xrc_writes),
		CASE(limits),
	};

	return CASES_RUN(cases);
}
