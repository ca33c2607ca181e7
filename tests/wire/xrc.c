// SPDX-License-Identifier: MIT
/* XRC through the network: the sender on another host, whose network namespace is the argument (a
 * path); here the maker of the target QP and two processes that receive, members of one domain. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/member.h"

enum { RETRIES = 7, MESSAGES = 300, MANY = 1 << 20 };

static const char *far;

struct cast {
	int file;
	struct member maker, one, other, sender;
	uint32_t qpn, sqpn;
	union ibv_gid here, there;
	struct member_answer srq[2]; /* of one and other */
};

static struct member_answer join(struct cast *k, struct member *m)
{
	member_start(m, k->file);
	want_eq(MEMBER_DO(m, MEMBER_OPEN, O_CREAT).err, 0);
	return MEMBER_DO(m, MEMBER_SRQ);
}

static void connect_both(struct cast *k)
{
	MEMBER_DO(&k->maker, MEMBER_JOIN, k->sqpn, .to = k->there);
	MEMBER_DO(&k->sender, MEMBER_REACH, k->qpn, RETRIES, .to = k->here);
}

static void begin(struct cast *k)
{
	struct member_answer a;

	*k = (struct cast){ .file = memfd_create("domain", 0) };
	want(k->file >= 0);
	member_start(&k->maker, k->file);
	want_eq(MEMBER_DO(&k->maker, MEMBER_OPEN, O_CREAT).err, 0);
	a = MEMBER_DO(&k->maker, MEMBER_TARGET);
	k->qpn = a.value;
	k->here = a.gid;
	k->srq[0] = join(k, &k->one);
	k->srq[1] = join(k, &k->other);
	member_start_at(&k->sender, far);
	a = MEMBER_DO(&k->sender, MEMBER_SENDER);
	k->sqpn = a.value;
	k->there = a.gid;
	want(memcmp(&k->here, &k->there, sizeof(k->here)));
	connect_both(k);
}

static void end(struct cast *k)
{
	member_kill(&k->maker);
	member_kill(&k->one);
	member_kill(&k->other);
	member_kill(&k->sender);
	close(k->file);
}

static void every_operation_reaches_the_process_of_the_srq(int arg)
{
	static const struct {
		enum ibv_wr_opcode op;
		uint64_t word;
	} steps[] = { { IBV_WR_RDMA_WRITE, 5 },		  { IBV_WR_RDMA_READ, 5 },
		      { IBV_WR_ATOMIC_FETCH_AND_ADD, 5 }, { IBV_WR_RDMA_READ, 10 },
		      { IBV_WR_ATOMIC_CMP_AND_SWP, 10 },  { IBV_WR_RDMA_READ, 10 } };
	struct member_answer a;
	struct cast k;

	(void)arg;
	begin(&k);
	for (unsigned int i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		a = MEMBER_DO(&k.sender, MEMBER_OP, k.srq[0].value, steps[i].op, 5, k.srq[0].key,
			      k.srq[0].va);
		want_eq(a.status, IBV_WC_SUCCESS);
		want_eq(a.word, steps[i].word);
	}
	a = MEMBER_DO(&k.sender, MEMBER_OP, k.srq[0].value, IBV_WR_RDMA_WRITE, 5, k.srq[0].key + 1,
		      k.srq[0].va);
	want_eq(a.status, IBV_WC_REM_ACCESS_ERR);
	want_eq(MEMBER_DO(&k.maker, MEMBER_STATE).value, IBV_QPS_ERR);
	connect_both(&k);
	a = MEMBER_DO(&k.sender, MEMBER_OP, k.srq[0].value + 1, IBV_WR_SEND, 5);
	want_eq(a.status, IBV_WC_REM_INV_REQ_ERR);
	end(&k);
}

static void two_receivers_in_turn(int arg)
{
	struct member_answer a;
	struct cast k;

	(void)arg;
	begin(&k);
	a = MEMBER_DO(&k.sender, MEMBER_ALTERNATE, k.srq[0].value, 1, 2 * MESSAGES, k.srq[1].value);
	want_eq(a.status, IBV_WC_SUCCESS);
	want_eq(a.value, 2 * MESSAGES);
	want_eq(MEMBER_DO(&k.one, MEMBER_COUNT, 0, 1, MESSAGES).value, MESSAGES);
	want_eq(MEMBER_DO(&k.other, MEMBER_COUNT, 0, 2, MESSAGES).value, MESSAGES);
	end(&k);
}

/* Each of them knows the port that the sender's packets come from. */
static void another_flow_label(int arg)
{
	struct cast k;

	(void)arg;
	begin(&k);
	for (uint32_t label = 0; label < 3; label++) {
		uint32_t stream = 1 + 2 * label;

		if (label)
			MEMBER_DO(&k.sender, MEMBER_LABEL, label);
		want_eq(MEMBER_DO(&k.sender, MEMBER_ALTERNATE, k.srq[0].value, stream, 2 * MESSAGES,
				  k.srq[1].value)
				.status,
			IBV_WC_SUCCESS);
		want_eq(MEMBER_DO(&k.one, MEMBER_COUNT, 0, stream, MESSAGES).value, MESSAGES);
		want_eq(MEMBER_DO(&k.other, MEMBER_COUNT, 0, stream + 1, MESSAGES).value, MESSAGES);
	}
	end(&k);
}

/* The domain goes on without the maker and without one of those who receive. */
static void members_die(int arg)
{
	struct member_answer a;
	struct cast k;

	(void)arg;
	begin(&k);
	a = MEMBER_DO(&k.sender, MEMBER_STREAM, k.srq[0].value, 1, MESSAGES);
	want_eq(a.value, MESSAGES);
	member_kill(&k.maker);
	a = MEMBER_DO(&k.sender, MEMBER_STREAM, k.srq[1].value, 1, MESSAGES);
	want_eq(a.status, IBV_WC_SUCCESS);
	member_kill(&k.one);
	a = MEMBER_DO(&k.sender, MEMBER_STREAM, k.srq[1].value, 2, MESSAGES);
	want_eq(a.status, IBV_WC_SUCCESS);
	want_eq(MEMBER_DO(&k.other, MEMBER_COUNT, 0, 2, MESSAGES).value, MESSAGES);
	a = MEMBER_DO(&k.sender, MEMBER_STREAM, k.srq[0].value, 2, 1);
	want_eq(a.status, IBV_WC_RETRY_EXC_ERR);
	member_kill(&k.other);
	member_kill(&k.sender);
	close(k.file);
}

/* Waits until @one has answered, and fails where @sender answers before: its stream broke off. */
static void hear_before(struct member *one, struct member *sender)
{
	struct pollfd fds[] = { { .fd = one->fd, .events = POLLIN },
				{ .fd = sender->fd, .events = POLLIN } };

	while (poll(fds, 2, -1) <= 0)
		;
	if (!fds[0].revents)
		want_eq(member_hear(sender).status, IBV_WC_SUCCESS);
	member_hear(one);
}

/* In the middle of a stream, with whatever it keeps; another process takes its place, and the QP is
 * connected anew. */
static void the_receiver_dies_in_a_stream(int arg)
{
	struct member_answer a;
	struct cast k;

	(void)arg;
	begin(&k);
	for (uint32_t stream = 1; stream <= 2; stream++) {
		member_tell(&k.sender,
			    &(struct member_order){ MEMBER_STREAM, k.srq[0].value, stream, MANY });
		member_tell(&k.one,
			    &(struct member_order){ MEMBER_COUNT, 0, stream, MESSAGES / stream });
		hear_before(&k.one, &k.sender);
		member_kill(&k.one);
		a = member_hear(&k.sender);
		want(a.status == IBV_WC_RETRY_EXC_ERR || a.status == IBV_WC_REM_INV_REQ_ERR);
		k.srq[0] = join(&k, &k.one);
		connect_both(&k);
	}
	a = MEMBER_DO(&k.sender, MEMBER_ALTERNATE, k.srq[0].value, 9, 2 * MESSAGES, k.srq[1].value);
	want_eq(a.status, IBV_WC_SUCCESS);
	want_eq(MEMBER_DO(&k.one, MEMBER_COUNT, 0, 9, MESSAGES).value, MESSAGES);
	want_eq(MEMBER_DO(&k.other, MEMBER_COUNT, 0, 10, MESSAGES).value, MESSAGES);
	end(&k);
}

int main(int argc, char **argv)
{
	static const struct test_case list[] = {
		CASE(every_operation_reaches_the_process_of_the_srq),
		CASE(two_receivers_in_turn),
		CASE(another_flow_label),
		CASE(members_die),
		CASE(the_receiver_dies_in_a_stream),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: xrc /proc/PID/ns/net\n");
		return 2;
	}
	far = argv[1];
	return CASES_RUN(list);
}
