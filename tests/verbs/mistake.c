// SPDX-License-Identifier: MIT
#include "verbs/mistake.h"
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include "peers/host_names.h"
#include "udp/udp_counts.h"

enum { TEXTS = 4 };

struct mistake mistake;
static const char *far_netns;

int mistake_main(int argc, char **argv, const struct test_case *list, size_t n)
{
	if (argc > 1) {
		far_netns = argv[1];
		mistake.apart = true;
	}
	return cases_run(list, n);
}

static void enter(int netns)
{
	if (netns < 0 || setns(netns, CLONE_NEWNET))
		die("the network namespace");
	close(netns);
}

/* Its name is taken, and nobody listens there. */
void mistake_avoid_slot_0(void)
{
	int fd, own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (far_netns)
		enter(open(far_netns, O_RDONLY | O_CLOEXEC));
	want_eq(host_name_bind_any(HOST_NAMES_ALL, "slot.0", &fd), 0);
	if (far_netns)
		enter(own);
}

void mistake_begin(struct duo_opts o)
{
	struct duo *d = &mistake.duo;

	said_begin();
	o.far_explain = said_file(SAID_FAR);
	o.far_netns = far_netns;
	duo_open(d, &o);
	mistake.near_qp = d->near.ep.mine.qpn;
	mistake.far_qp = d->near.ep.theirs.qpn;
	mistake.va = (uintptr_t)d->near.mem;
	mistake.far_va = d->near.ep.theirs.va;
	mistake.lkey = d->near.mr->lkey;
	mistake.rkey = d->near.ep.theirs.rkey;
}

void mistake_begin_rc(void)
{
	mistake_begin((struct duo_opts){ .qp.type = IBV_QPT_RC });
}

void mistake_meet(void)
{
	struct duo *d = &mistake.duo;
	struct udp_counts c = { 0 };

	if (!mistake.apart)
		return;
	do {
		duo_tell(d, (struct duo_order){ DUO_RECV, .len = 8 });
		duo_send(d, IBV_WR_SEND, 8);
		want_eq(duo_wc(d).status, IBV_WC_SUCCESS);
		want_eq(duo_far_wc(d).status, IBV_WC_SUCCESS);
		want_eq(udp_counts_of(getpid(), &c), 0);
	} while (!c.answers_received);
}

int mistake_timeout(void)
{
	return mistake.apart ? 14 : 10;
}

void mistake_begin_impatient(enum ibv_qp_type type)
{
	uint8_t timeout = (uint8_t)mistake_timeout();

	mistake_begin((struct duo_opts){ .qp = { .type = type, .timeout = timeout, .retry = 2 } });
}

void mistake_fails(struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	want_eq(duo_post(&mistake.duo, wr), 0);
	want_eq(duo_wc(&mistake.duo).status, status);
}

struct ibv_send_wr mistake_write(uint32_t len, struct ibv_sge *sg)
{
	return duo_wr(&mistake.duo, IBV_WR_RDMA_WRITE, sg, len);
}

void mistake_acquaint(void)
{
	for (int i = 0; i < 3; i++) {
		duo_send(&mistake.duo, IBV_WR_RDMA_WRITE, 8);
		want_eq(duo_wc(&mistake.duo).status, IBV_WC_SUCCESS);
	}
	mistake_meet();
}

char *mistake_text(const char *fmt, ...)
{
	static char buf[TEXTS][512];
	static unsigned int next;
	char *text = buf[next++ % TEXTS];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(buf[0]), fmt, ap);
	va_end(ap);
	return text;
}

void mistake_far_says(const char *operation, unsigned int len, unsigned long long to,
		      const char *what)
{
	FAR("%s of %u B to 0x%llx by QP 0x%x refused by QP 0x%x: %s", operation, len, to,
	    mistake.near_qp, mistake.far_qp, what);
}

void mistake_refused(const char *operation, struct ibv_send_wr *wr, unsigned int vendor,
		     const char *words)
{
	bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	bool send = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM ||
		    wr->opcode == IBV_WR_SEND_WITH_INV;

	if (send)
		NEAR("%s of %u B (wr_id 0x1) on QP 0x%x, refused by QP 0x%x (vendor_err 0x%x): "
		     "peer: %s",
		     operation, wr->sg_list->length, mistake.near_qp, mistake.far_qp, vendor,
		     words);
	else
		NEAR("%s of %u B (wr_id 0x1) on QP 0x%x to 0x%llx, rkey 0x%x, refused by QP 0x%x "
		     "(vendor_err "
		     "0x%x): peer: %s",
		     operation, wr->sg_list->length, mistake.near_qp,
		     (unsigned long long)(atomic ? wr->wr.atomic.remote_addr
						 : wr->wr.rdma.remote_addr),
		     atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey, mistake.far_qp, vendor, words);
}

void mistake_silent(const char *why)
{
	NEAR("RDMA WRITE of 64 B (wr_id 0x1) on QP 0x%x: no answer from QP 0x%x after 3 tries of "
	     "4.096 us * 2^%d (retry_cnt 2): %s",
	     mistake.near_qp, mistake.far_qp, mistake_timeout(), why);
}
