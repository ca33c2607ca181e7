// SPDX-License-Identifier: MIT
/* Mistakes explained: nobody answers. The sentence says what is known of the peer. */
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "verbs/mistake.h"

enum { LEN = 64, INDEX_BITS = 14 /* of a number; those above are the slot of its process */ };

#define DUO (&mistake.duo)

/* Of two hosts the other one's softhca tells nobody of its queue pairs. */
#define HOST_ANSWERS                                                                               \
	"the softhca of 10.9.0.2 answers, the QP does not; is it there, in RTR or RTS, and "       \
	"connected to this QP and address?"

static void write_ends(void)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = mistake_write(LEN, &sg);

	mistake_fails(&wr, IBV_WC_RETRY_EXC_ERR);
}

static void process_has_ended(int arg)
{
	int pid;

	(void)arg;
	mistake_begin_impatient(IBV_QPT_RC);
	mistake_acquaint();
	pid = DUO->pid;
	duo_kill(DUO);
	write_ends();
	if (mistake.apart)
		mistake_silent("10.9.0.2 answered earlier requests, and nothing comes back any "
			       "more; has its program ended, its QP gone to ERR, or the way there "
			       "broken?");
	else
		mistake_silent(mistake_text("its process %d has ended; end the connection", pid));
}

static struct duo_answer to_init(struct side *s, const struct duo_order *o)
{
	(void)o;
	peer_init(&s->ep, &s->o->qp);
	return (struct duo_answer){ .found = true };
}

static void qp_in_another_state(int state)
{
	mistake_begin_impatient(IBV_QPT_RC);
	mistake_acquaint();
	duo_tell(DUO, (struct duo_order){ DUO_MODIFY, .id = state == IBV_QPS_ERR ? IBV_QPS_ERR
										 : IBV_QPS_RESET });
	if (state == IBV_QPS_INIT)
		duo_do(DUO, to_init, 0, 0, 0);
	write_ends();
	mistake_silent(mistake.apart ? HOST_ANSWERS
				     : mistake_text("peer: the QP is in %s; it needs RTR or RTS",
						    state == IBV_QPS_ERR    ? "ERR"
						    : state == IBV_QPS_INIT ? "INIT"
									    : "RESET"));
}

static struct duo_answer destroy_qp(struct side *s, const struct duo_order *o)
{
	struct peer_opts opts = s->o->qp;

	(void)o;
	want_eq(ibv_destroy_qp(s->ep.qp), 0);
	peer_ep_create(&s->dev, &opts, &s->ep); /* another, which the end of the test destroys */
	return (struct duo_answer){ .found = true };
}

static void qp_is_destroyed(int arg)
{
	(void)arg;
	mistake_begin_impatient(IBV_QPT_RC);
	mistake_acquaint();
	duo_do(DUO, destroy_qp, 0, 0, 0);
	write_ends();
	mistake_silent(mistake.apart ? HOST_ANSWERS
				     : "peer: there is no such QP; was it destroyed, or is the "
				       "number wrong?");
}

static void connect_again(uint32_t psn, uint32_t to)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct peer_ep *ep = &DUO->near.ep;

	want_eq(ibv_modify_qp(ep->qp, &reset, IBV_QP_STATE), 0);
	ep->mine.psn = psn;
	ep->theirs.qpn = to;
	peer_connect(ep, &DUO->o.qp);
}

static void psn_of_another_count(int psn)
{
	mistake_begin_impatient(IBV_QPT_RC);
	connect_again((uint32_t)psn, mistake.far_qp);
	write_ends();
	mistake_silent(mistake_text("it answers PSNs that were not sent; make its rq_psn this QP's "
				    "sq_psn (0x%x)",
				    (unsigned int)psn));
}

/* The number of a process that is not there: numbers of one host tell their process. */
static void number_of_nobody(int arg)
{
	(void)arg;
	mistake_begin_impatient(IBV_QPT_RC);
	if (mistake.apart)
		case_skip("another host's numbers tell nothing");
	mistake.far_qp ^= 0x300000;
	connect_again(DUO->near.ep.mine.psn, mistake.far_qp);
	write_ends();
	mistake_silent("no process of this host has that number; has it ended, or is the number "
		       "wrong?");
}

static int take_name(const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(sa.sun_path + 1, name, strlen(name));
	want_eq(bind(fd, (struct sockaddr *)&sa, len), 0);
	return fd;
}

/* The same, and a program that runs on an older softhca has it. Returns a descriptor that keeps the
 * number. */
static int connect_to_another_version(void)
{
	char name[64];
	int fd;

	mistake_begin_impatient(IBV_QPT_RC);
	if (mistake.apart)
		case_skip("another host's numbers tell nothing");
	mistake.far_qp ^= 0x300000;
	snprintf(name, sizeof(name), "softhca.6.all.slot.%u", mistake.far_qp >> INDEX_BITS);
	fd = take_name(name);
	connect_again(DUO->near.ep.mine.psn, mistake.far_qp);
	return fd;
}

/* Who only receives hears of no completion. */
static void receives_from_another_version(int arg)
{
	int fd = connect_to_another_version();
	unsigned int last = mistake.far_qp | ((1 << INDEX_BITS) - 1);

	(void)arg;
	while (!said_yet(
		SAID_NEAR,
		"QPs 0x%x to 0x%x of this host are out of reach: their process runs on "
		"another version of softhca (layout 6), which this one cannot reach; start "
		"all programs of a host on one version",
		last >> INDEX_BITS << INDEX_BITS, last))
		sched_yield();
	close(fd);
}

static void number_of_another_version(int arg)
{
	int fd = connect_to_another_version();

	(void)arg;
	write_ends();
	mistake_silent("its process runs on another version of softhca (layout 6), which this one "
		       "cannot reach; start all programs of a host on one version");
	close(fd);
}

/* A QP that is connected to another one of this process. */
static void qp_of_another_connection(int arg)
{
	struct peer_ep second;
	struct ibv_wc wc;
	struct ibv_sge sg;
	struct ibv_send_wr wr, *bad;

	(void)arg;
	mistake_begin_impatient(IBV_QPT_RC);
	peer_ep_create(&DUO->near.dev, &DUO->o.qp, &second);
	second.theirs = DUO->near.ep.theirs;
	peer_connect(&second, &DUO->o.qp);
	wr = mistake_write(LEN, &sg);
	want_eq(ibv_post_send(second.qp, &wr, &bad), 0);
	want(peer_poll(second.scq, &wc, 20000));
	want_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
	mistake.near_qp = second.mine.qpn;
	if (!mistake.apart)
		mistake_silent("peer: the QP is connected to another one; give it this one's "
			       "number and address");
}

static const struct test_case cases[] = {
	CASE(process_has_ended),
	{ "qp_in_another_state (RESET)", qp_in_another_state, IBV_QPS_RESET },
	{ "qp_in_another_state (INIT)", qp_in_another_state, IBV_QPS_INIT },
	{ "qp_in_another_state (ERR)", qp_in_another_state, IBV_QPS_ERR },
	CASE(qp_is_destroyed),
	{ "psn_of_another_count (ahead)", psn_of_another_count, 0x123 },
	{ "psn_of_another_count (behind)", psn_of_another_count, 0xfff000 },
	CASE(number_of_nobody),
	CASE(number_of_another_version),
	CASE(receives_from_another_version),
	CASE(qp_of_another_connection),
};

int main(int argc, char **argv)
{
	return MISTAKES(argc, argv, cases);
}
