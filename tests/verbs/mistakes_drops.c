// SPDX-License-Identifier: MIT
/* Messages that vanish though their completion is good: the receiver says why it drops them, and on
 * one host the sender learns it too, each the first time and then the 10th, with the count. When
 * the program is given the network namespace of another host, the far side is there. */
#include <stdio.h>
#include <stdlib.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { PATIENCE = 30000, QKEY = 0x11111111 };

static struct duo duo;
static const char *far_netns; /* NULL: on this host */
static unsigned int near_qp, far_qp; /* numbers */

static void begin(enum ibv_qp_type type)
{
	struct duo_opts o = { .qp.type = type };

	said_begin();
	o.far_explain = said_file(SAID_FAR);
	o.far_netns = far_netns;
	duo_open(&duo, &o);
	near_qp = duo.near.ep.mine.qpn;
	far_qp = duo.near.ep.theirs.qpn;
}

static struct ibv_send_wr datagram(struct ibv_sge *sg, unsigned int qpn, unsigned int qkey)
{
	struct ibv_send_wr wr = duo_wr(&duo, IBV_WR_SEND, sg, 64);
	static struct ibv_ah *ah;

	if (duo.near.ep.qp->qp_type != IBV_QPT_UD)
		return wr;
	if (!ah)
		ah = peer_ah(&duo.near.dev, &duo.near.ep.theirs);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	return wr;
}

static void lose(unsigned int n, unsigned int qpn, unsigned int qkey)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = datagram(&sg, qpn, qkey);

	while (n--) {
		want_eq(duo_post(&duo, &wr), 0);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
}

/* Datagrams and words come from the other process; the polls let them in. */
#define LEARNS(side, ...)                                                                          \
	do {                                                                                       \
		struct ibv_wc none;                                                                \
                                                                                                   \
		for (int ms = 0; ms < PATIENCE && !said_yet(side, __VA_ARGS__); ms++)              \
			want(!peer_poll(duo.near.ep.scq, &none, 1));                               \
		said_want(side, __VA_ARGS__);                                                      \
	} while (0)
#define FAR(...) LEARNS(SAID_FAR, __VA_ARGS__)
/* No other host tells. */
#define NEAR_LEARNS(...)                                                                           \
	do {                                                                                       \
		if (!far_netns)                                                                    \
			LEARNS(SAID_NEAR, __VA_ARGS__);                                            \
	} while (0)

static void wrong_qkey(int arg)
{
	(void)arg;
	begin(IBV_QPT_UD);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 1024 });
	lose(1, far_qp, QKEY + 1);
	NEAR_LEARNS("message on UD QP 0x%x dropped by QP 0x%x (1 so far there): Q_Key 0x%x is not "
		    "that QP's; set wr.ud.remote_qkey to the peer's qkey",
		    near_qp, far_qp, QKEY + 1);
	FAR("SEND from QP 0x%x dropped by UD QP 0x%x (1 so far): it does not have this QP's Q_Key "
	    "0x%x; send with that",
	    near_qp, far_qp, QKEY);
	lose(9, far_qp, QKEY + 1);
	NEAR_LEARNS("message on UD QP 0x%x dropped by QP 0x%x (10 so far there): Q_Key 0x%x is not "
		    "that QP's; set wr.ud.remote_qkey to the peer's qkey",
		    near_qp, far_qp, QKEY + 1);
	want(!said_yet(SAID_FAR,
		       "SEND from QP 0x%x dropped by UD QP 0x%x (2 so far): it does not "
		       "have this QP's Q_Key 0x%x; send with that",
		       near_qp, far_qp, QKEY));
	FAR("SEND from QP 0x%x dropped by UD QP 0x%x (10 so far): it does not have this QP's Q_Key "
	    "0x%x; send with that",
	    near_qp, far_qp, QKEY);
	lose(1, far_qp, QKEY); /* the receive has waited for it */
	want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
}

static void no_receive(int type)
{
	const char *name = type == IBV_QPT_UD ? "UD" : "UC";

	begin((enum ibv_qp_type)type);
	lose(1, far_qp, QKEY);
	NEAR_LEARNS("message on %s QP 0x%x dropped by QP 0x%x (1 so far there): no receive was "
		    "posted there; send later, or let the peer post more",
		    name, near_qp, far_qp);
	FAR("SEND from QP 0x%x dropped by %s QP 0x%x (1 so far): no receive was posted; post more, "
	    "and earlier",
	    near_qp, name, far_qp);
}

static void number_of_nobody(int arg)
{
	unsigned int nobody;

	(void)arg;
	begin(IBV_QPT_UD);
	nobody = far_qp ^ 1; /* of the same process */
	lose(1, nobody, QKEY);
	NEAR_LEARNS("message on UD QP 0x%x dropped by QP 0x%x (1 so far there): that process has "
		    "no such QP; was it destroyed, or is the number wrong?",
		    near_qp, nobody);
	FAR("SEND from QP 0x%x dropped (1 so far): this process has no QP 0x%x; was it destroyed, "
	    "or is the number wrong?",
	    near_qp, nobody);
}

static void peer_in_reset(int type)
{
	const char *name = type == IBV_QPT_UD ? "UD" : "UC";
	char from[32];

	begin((enum ibv_qp_type)type);
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_RESET });
	lose(1, far_qp, QKEY);
	NEAR_LEARNS("message on %s QP 0x%x dropped by QP 0x%x (1 so far there): that QP is not in "
		    "RTR or RTS; send when the peer is ready",
		    name, near_qp, far_qp);
	snprintf(from, sizeof(from), " from QP 0x%x", near_qp);
	if (far_netns && type == IBV_QPT_UC)
		from[0] = 0; /* no packet has it, and a QP in RESET has no peer */
	FAR("SEND%s dropped by %s QP 0x%x (1 so far): the QP is in RESET; move it to RTR before "
	    "its peers send",
	    from, name, far_qp);
}

static bool unheard(unsigned int n)
{
	return said_yet(SAID_NEAR,
			"message on UD QP 0x%x to QP 0x%x dropped (%u so far): no process of this "
			"host has that number; has it ended, or is the number wrong?",
			near_qp, far_qp, n);
}

static void dead_process(int arg)
{
	(void)arg;
	begin(IBV_QPT_UD);
	duo_kill(&duo);
	for (int i = 0; i < PATIENCE && !unheard(1); i++)
		lose(1, far_qp, QKEY); /* the first may still find its ring */
	want(unheard(1));
	lose(9, far_qp, QKEY);
	want(unheard(10) && !unheard(9));
}

/* What UC's receiver refuses it drops; its sender hears the same words as of RC. */
static void wrong_rkey_of_a_write(int arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	(void)arg;
	begin(IBV_QPT_UC);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 64);
	wr.wr.rdma.rkey ^= 0x5a;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	NEAR_LEARNS("message on UC QP 0x%x refused by QP 0x%x: peer: the rkey names no memory "
		    "region (never registered, or deregistered)",
		    near_qp, far_qp);
	FAR("RDMA WRITE of 64 B to 0x%llx by QP 0x%x refused by QP 0x%x: rkey 0x%x names no memory "
	    "region (never registered, or deregistered); give the peer an rkey of this QP's PD "
	    "that covers and allows it",
	    (unsigned long long)duo.near.ep.theirs.va, near_qp, far_qp, wr.wr.rdma.rkey);
}

static void no_room_for_the_grh(int arg)
{
	(void)arg;
	begin(IBV_QPT_UD);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
	lose(1, far_qp, QKEY);
	NEAR_LEARNS("message on UD QP 0x%x refused by QP 0x%x: peer: the receive has room for 64 "
		    "B, 104 B arrived with the GRH; post larger receives",
		    near_qp, far_qp);
	FAR("SEND to QP 0x%x brings at least 104 B with 40 B of GRH, the receive has room for 64 "
	    "B; post larger receives",
	    far_qp);
}

/* On one host as on a wire: the receiver drops what is damaged and says so, the sender tries again.
 * The ACK is the far side's first packet, and damaged too. */
static void damaged_on_its_way(int arg)
{
	(void)arg;
	setenv("SOFTHCA_FAULT", "corrupt=100%,count=1", 1);
	begin(IBV_QPT_RC);
	pattern_fill(duo.near.mem, 64, 5, 0);
	duo_send(&duo, IBV_WR_RDMA_WRITE, 64);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = 64, .id = 5 }).found);
	FAR("packet from QP 0x%x to QP 0x%x dropped (1 so far): its ICRC is wrong; the sender's "
	    "SOFTHCA_FAULT damages packets (corrupt)",
	    near_qp, far_qp);
	said_want(SAID_NEAR,
		  "packet from QP 0x%x to QP 0x%x dropped (1 so far): its ICRC is wrong; the "
		  "sender's SOFTHCA_FAULT damages packets (corrupt)",
		  far_qp, near_qp);
}

static const struct test_case cases[] = {
	CASE(wrong_qkey),
	{ "no_receive (UD)", no_receive, IBV_QPT_UD },
	{ "no_receive (UC)", no_receive, IBV_QPT_UC },
	CASE(number_of_nobody),
	CASE(wrong_rkey_of_a_write),
	CASE(no_room_for_the_grh),
	{ "peer_in_reset (UD)", peer_in_reset, IBV_QPT_UD },
	{ "peer_in_reset (UC)", peer_in_reset, IBV_QPT_UC },
	/* of one host */
	CASE(dead_process),
	CASE(damaged_on_its_way),
};
enum { CASES = sizeof(cases) / sizeof(cases[0]), OF_ONE_HOST = 2 };

int main(int argc, char **argv)
{
	if (argc > 1)
		far_netns = argv[1];
	return cases_run(cases, far_netns ? CASES - OF_ONE_HOST : CASES);
}
