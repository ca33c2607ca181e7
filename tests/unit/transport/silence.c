// SPDX-License-Identifier: MIT
/* What is said when no answer came: each cause that the link knows, with what to do about it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include "obs/explain.h"
#include "pair.h"

static struct link_silence known;

static void silence(struct dest *d, struct link_silence *out)
{
	(void)d;
	known.refused = out->refused;
	*out = known;
}

/* The reason of a WRITE that nobody answers on a path of which @l is known. */
static void said(const struct net_config *cfg, const struct link_silence *l,
		 void (*also)(struct pair *), char text[EXPLAIN_TEXT])
{
	struct pair *p = pair_open(cfg, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct link_ops ops = *p->a->end.d.ops;
	struct dest_net net = { .remote = { { 0 } } };

	inet_pton(AF_INET6, "::ffff:10.1.2.3", &net.remote);
	known = *l;
	ops.silence = silence;
	p->a->end.d.ops = &ops;
	p->a->end.d.refused = (uint32_t)l->refused;
	if (!cfg->same_host)
		p->a->end.d.net = &net;
	p->rig.net.cut = true;
	if (cfg->same_host)
		p->a->end.refuse = ENETUNREACH;
	if (also)
		also(p);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_ne(pair_bad(p->a, false, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
			  VENDOR_TRANSPORT_RETRY)
			 .reason,
		 0);
	check_eq(explain_last(text, EXPLAIN_TEXT), 0);
	pair_close(p);
}

static void ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	if (n < m || strcmp(text + n - m, end) != 0) {
		print_message("%s\ninstead of %s\n", text, end);
		check(false);
	}
}

struct row {
	struct link_silence l;
	const char *end;
};

static void all(const struct net_config *cfg, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char text[EXPLAIN_TEXT];

		said(cfg, &rows[i].l, NULL, text);
		ends_with(text, rows[i].end);
	}
}

TEST(what_this_hosts_kernel_refuses)
{
	static const char route[] =
		"the address is no longer reached: look at the interface and its routes";
	static const struct {
		int err;
		const char *remedy;
	} rows[] = {
		{ EMSGSIZE,
		  "they are longer than the MTU of the interface: raise it, or lower path_mtu" },
		{ EPERM, "a packet filter of this host drops them: let UDP port 4791 out" },
		{ ENETUNREACH, route },
		{ EHOSTUNREACH, route },
		{ ENETDOWN, route },
		{ EINVAL, route },
		{ ENOBUFS, "look at the interface" },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct link_silence l = { .refused = rows[i].err, .refusals = 7 };
		char text[EXPLAIN_TEXT], end[256];

		said(&pair_lossy, &l, NULL, text);
		snprintf(end, sizeof(end), ": the kernel of this host refused 7 packets (%s); %s",
			 strerror(rows[i].err), rows[i].remedy);
		ends_with(text, end);
	}
}

TEST(of_a_host)
{
	static const struct row rows[] = {
		{ { .no_neighbour = true, .sent = 8 },
		  ": no neighbour answers for 10.1.2.3; is it the peer's address, and its host "
		  "up?" },
		{ { .answers = true, .sent = 8 },
		  ": the softhca of 10.1.2.3 answers, the QP does not; is it there, in RTR or "
		  "RTS, and connected to this QP and address?" },
		{ { .sent = 8 },
		  ": 8 packets left for 10.1.2.3, and nothing came back; does a program run "
		  "there, and is UDP port 4791 open both ways?" },
	};

	all(&pair_lossy, rows, sizeof(rows) / sizeof(rows[0]));
}

/* An ACK from 0.0.0.0, which is not the peer's address. */
static void elsewhere(struct pair *p)
{
	static const uint8_t grh[40];
	const struct seg ack = { .op = OP_ACKNOWLEDGE,
				 .flags = SEG_NET,
				 .pkey = 0xffff,
				 .dqpn = p->a->q.qp.qpn,
				 .npsn = 1,
				 .grh = grh };

	tqp_input(&p->a->q, &ack, 0);
}

/* A message comes through before the cable is cut. */
static void answered(struct pair *p)
{
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	p->rig.net.cut = false;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	p->rig.net.cut = true;
}

TEST(of_a_host_that_has_answered)
{
	const struct link_silence l = { .sent = 8 };
	char text[EXPLAIN_TEXT];

	said(&pair_lossy, &l, answered, text);
	ends_with(text, ": 10.1.2.3 answered earlier requests, and nothing comes back any more; "
			"has its program ended, its QP gone to ERR, or the way there broken?");
}

TEST(answers_from_elsewhere)
{
	const struct link_silence l = { .answers = true, .sent = 8 };
	char text[EXPLAIN_TEXT];

	said(&pair_lossy, &l, elsewhere, text);
	ends_with(text, ": answers came from another address or port than its; connect to the "
			"address that it sends from");
}

TEST(of_a_process)
{
	static const struct row rows[] = {
		{ { .ended = true, .pid = 4711 },
		  ": its process 4711 has ended; end the connection" },
		{ { .ended = true }, ": its process has ended; end the connection" },
		{ { .layout = 3 },
		  ": its process runs on another version of softhca (layout 3), which this one "
		  "cannot reach; start all programs of a host on one version" },
		{ { .unreached = ECONNREFUSED },
		  ": no process of this host has that number; has it ended, or is the number "
		  "wrong?" },
		{ { .unreached = ETIMEDOUT },
		  ": its process cannot be reached (Connection timed out); is it stuck?" },
		{ { .sent = 0 },
		  ": is the peer alive, its QP in RTR or RTS, connected to this QP, and its rq_psn "
		  "this sq_psn?" },
	};

	all(&pair_host, rows, sizeof(rows) / sizeof(rows[0]));
}

RUN_TESTS(unit_test(what_this_hosts_kernel_refuses), unit_test(of_a_host),
	  unit_test(of_a_host_that_has_answered), unit_test(answers_from_elsewhere),
	  unit_test(of_a_process))
