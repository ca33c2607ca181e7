// SPDX-License-Identifier: MIT
/* Calls that make an object, while one allocation of theirs fails: first the first, then the
 * second, and so on (failing.h). Such a call says ENOMEM, and its reason by its own name, or it
 * does without. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/failing.h"
#include "verbs/said.h"

enum { ALLOCATIONS_MAX = 100, TEXT = 1024 };

static struct peer_dev dev;
static struct ibv_cq *cq;
static struct ibv_xrcd *domain;
static struct ibv_qp *target;
static int file; /* of an XRC domain that nobody has opened */

static void *xrcd(int fd)
{
	struct ibv_xrcd_init_attr a = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd,
					O_CREAT };

	return ibv_open_xrcd(dev.ctx, &a);
}

static void *xrcd_of_nothing(void)
{
	return xrcd(-1);
}

static void *xrcd_of_a_file(void)
{
	return xrcd(file);
}

static int close_xrcd(void *x)
{
	return ibv_close_xrcd(x);
}

static void *xrc_target(void)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = domain };

	return ibv_create_qp_ex(dev.ctx, &a);
}

static void *opened_target(void)
{
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						   IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = target->qp_num,
				      .xrcd = domain,
				      .qp_type = IBV_QPT_XRC_RECV };

	return ibv_open_qp(dev.ctx, &a);
}

static void *qp(void)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }, .send_cq = cq, .recv_cq = cq
	};

	return ibv_create_qp(dev.pd, &a);
}

static int destroy_qp(void *p)
{
	return ibv_destroy_qp(p);
}

static void *wq(void)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = dev.pd, .cq = cq
	};

	return ibv_create_wq(dev.ctx, &a);
}

static int destroy_wq(void *p)
{
	return ibv_destroy_wq(p);
}

static void *srq(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };

	return ibv_create_srq(dev.pd, &a);
}

static void *xrc_srq(void)
{
	struct ibv_srq_init_attr_ex a = { .attr = { .max_wr = 4, .max_sge = 1 },
					  .comp_mask =
						  IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						  IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					  .srq_type = IBV_SRQT_XRC,
					  .pd = dev.pd,
					  .xrcd = domain,
					  .cq = cq };

	return ibv_create_srq_ex(dev.ctx, &a);
}

static int destroy_srq(void *p)
{
	return ibv_destroy_srq(p);
}

static void *plain_cq(void)
{
	return ibv_create_cq(dev.ctx, 4, NULL, NULL, 0);
}

static int destroy_cq(void *p)
{
	return ibv_destroy_cq(p);
}

static void *channel(void)
{
	return ibv_create_comp_channel(dev.ctx);
}

static int destroy_channel(void *p)
{
	return ibv_destroy_comp_channel(p);
}

static void *pd(void)
{
	return ibv_alloc_pd(dev.ctx);
}

static void *parent(void)
{
	struct ibv_parent_domain_init_attr a = { .pd = dev.pd };

	return ibv_alloc_parent_domain(dev.ctx, &a);
}

static int dealloc_pd(void *p)
{
	return ibv_dealloc_pd(p);
}

static void *td(void)
{
	struct ibv_td_init_attr a = { 0 };

	return ibv_alloc_td(dev.ctx, &a);
}

static int dealloc_td(void *p)
{
	return ibv_dealloc_td(p);
}

static void *mr(void)
{
	static uint8_t byte;

	return ibv_reg_mr(dev.pd, &byte, 1, 0);
}

static int dereg_mr(void *p)
{
	return ibv_dereg_mr(p);
}

static void *mw(void)
{
	return ibv_alloc_mw(dev.pd, IBV_MW_TYPE_1);
}

static int dealloc_mw(void *p)
{
	return ibv_dealloc_mw(p);
}

static void *dm(void)
{
	struct ibv_alloc_dm_attr a = { .length = 64 };

	return ibv_alloc_dm(dev.ctx, &a);
}

static int free_dm(void *p)
{
	return ibv_free_dm(p);
}

static void *ah(void)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh = { .dgid = dev.gid } };

	a.grh.sgid_index = peer_gid_index;
	return ibv_create_ah(dev.pd, &a);
}

static int destroy_ah(void *p)
{
	return ibv_destroy_ah(p);
}

static void *counters(void)
{
	struct ibv_counters_init_attr a = { 0 };

	return ibv_create_counters(dev.ctx, &a);
}

static int destroy_counters(void *p)
{
	return ibv_destroy_counters(p);
}

static const struct making {
	const char *name, *call; /* the latter as its reasons name it */
	void *(*make)(void);
	int (*unmake)(void *p);
} makings[] = {
	{ "xrcd_of_nothing", "ibv_open_xrcd", xrcd_of_nothing, close_xrcd },
	{ "xrcd_of_a_file", "ibv_open_xrcd", xrcd_of_a_file, close_xrcd },
	{ "xrc_target", "ibv_create_qp_ex", xrc_target, destroy_qp },
	{ "opened_target", "ibv_open_qp", opened_target, destroy_qp },
	{ "qp", "ibv_create_qp", qp, destroy_qp },
	{ "wq", "ibv_create_wq", wq, destroy_wq },
	{ "srq", "ibv_create_srq", srq, destroy_srq },
	{ "xrc_srq", "ibv_create_srq", xrc_srq, destroy_srq },
	{ "plain_cq", "ibv_create_cq", plain_cq, destroy_cq },
	{ "channel", "ibv_create_comp_channel", channel, destroy_channel },
	{ "pd", "ibv_alloc_pd", pd, dealloc_pd },
	{ "parent", "ibv_alloc_parent_domain", parent, dealloc_pd },
	{ "td", "ibv_alloc_td", td, dealloc_td },
	{ "mr", "ibv_reg_mr", mr, dereg_mr },
	{ "mw", "ibv_alloc_mw", mw, dealloc_mw },
	{ "dm", "ibv_alloc_dm", dm, free_dm },
	{ "ah", "ibv_create_ah", ah, destroy_ah },
	{ "counters", "ibv_create_counters", counters, destroy_counters },
};

/* The last sentence. */
static void want_said_by(const char *call)
{
	FILE *f = fopen(said_file(SAID_NEAR), "re");
	char line[TEXT], last[TEXT] = "";
	const char *text;

	want(f != NULL);
	while (fgets(line, sizeof(line), f))
		memcpy(last, line, sizeof(last));
	fclose(f);
	text = strstr(last, "]: ");
	if (!text || strncmp(text + 3, call, strlen(call)) != 0)
		fail("%s: refused without a reason; the last was: %s", call, last);
}

static void open_all(void)
{
	FILE *f = tmpfile();

	want(f != NULL);
	file = fileno(f);
	said_begin();
	peer_open(&dev);
	cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	want(cq != NULL);
	domain = xrcd(-1);
	want(domain != NULL);
	target = xrc_target();
	want(target != NULL);
}

/* False: it was made, and no allocation has failed. */
static bool fails(const struct making *m, long n)
{
	void *made;
	int err;

	want_errno(ibv_resize_cq(cq, 0), EINVAL); /* another sentence: the same is said once */
	failing_begin(FAILING_MEMORY, n);
	errno = 0;
	made = m->make();
	err = errno;
	failing_end();
	if (made) {
		want_eq(m->unmake(made), 0);
		return failing_name();
	}
	peer_note("%s: allocation %ld, by %s", m->call, n, failing_name());
	want_eq(err, ENOMEM);
	want_said_by(m->call);
	return true;
}

static void unmade(int i)
{
	long n = 1;

	open_all();
	while (fails(&makings[i], n))
		want(n++ < ALLOCATIONS_MAX);
}

int main(void)
{
	enum { N = sizeof(makings) / sizeof(makings[0]) };
	static struct test_case list[N];

	for (int i = 0; i < N; i++)
		list[i] = (struct test_case){ makings[i].name, unmade, i };
	return CASES_RUN(list);
}
