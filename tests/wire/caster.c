// SPDX-License-Identifier: MIT
/* A member of a multicast group with two QPs, each of which is to get each datagram once; on a
 * device of its own if there are two.
 *
 *	caster GID-INDEX GROUP ID
 *
 * Does what standard input says, a line each, and answers with a line:
 *	send N   sends N datagrams, numbered on from the last: "sent"
 *	want N M waits until its QPs have N and M whole ones: "full", or after a while "not full"
 *	leave    its second QP leaves the group: "left"
 *	count    what each QP has by now, how many came again, damaged: "got A B twice C bad D" */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "verbs/peer.h"

enum {
	QPS = 2,
	IDS = 16,
	NUMBERS = 256,
	BYTES = 600,
	ROOM = 40 + BYTES,
	RECVS = 128,
	QKEY = 0x77,
	GROUP_QPN = 0xffffff,
	PATIENCE_S = 60,
	LAST_LOOKS = 2000, /* for what comes too often */
};

struct datagram {
	uint32_t id, number;
	uint8_t rest[BYTES - 8];
};

static struct {
	struct ibv_pd *pd[QPS];
	struct ibv_cq *cq[QPS];
	struct ibv_qp *qp[QPS];
	struct ibv_mr *mr[QPS];
	struct ibv_ah *ah;
	union ibv_gid group;
	uint8_t *mem; /* receives of the QPs, then what is sent */
	uint32_t id, sent;
	unsigned int unsent, got[QPS], twice, bad;
	bool seen[QPS][IDS][NUMBERS];
} me;

static void post_recv(unsigned int slot)
{
	unsigned int i = slot / RECVS;
	struct ibv_sge sg = { (uintptr_t)me.mem + slot * ROOM, ROOM, me.mr[i]->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sg, .num_sge = 1 }, *bad;

	if (ibv_post_recv(me.qp[i], &wr, &bad))
		die("ibv_post_recv");
}

static struct ibv_qp *make_qp(int i)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .send_cq = me.cq[i],
					 .recv_cq = me.cq[i],
					 .cap = { RECVS, RECVS, 1, 1, 0 } };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(me.pd[i], &init);

	if (!qp ||
	    ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		die("a QP");
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
		die("ibv_modify_qp");
	a.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN))
		die("ibv_modify_qp");
	return qp;
}

static void open_device(int i, struct ibv_device *device)
{
	struct ibv_context *ctx = device ? ibv_open_device(device) : NULL;

	me.pd[i] = ctx ? ibv_alloc_pd(ctx) : NULL;
	me.cq[i] = me.pd[i] ? ibv_create_cq(ctx, 4 * RECVS, NULL, NULL, 0) : NULL;
	me.mr[i] = me.cq[i] ? ibv_reg_mr(me.pd[i], me.mem, QPS * RECVS * ROOM + BYTES,
					 IBV_ACCESS_LOCAL_WRITE)
			    : NULL;
	if (!me.mr[i])
		die("the device");
}

static void begin(int gid_index, const char *group)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	bool ipv6 = strchr(group, ':');

	if (!list)
		die("ibv_get_device_list");
	me.mem = peer_memory(QPS * RECVS * ROOM + BYTES, false);
	for (int i = 0; i < QPS; i++)
		open_device(i, list[i < n ? i : 0]);
	me.group.raw[10] = me.group.raw[11] = ipv6 ? 0 : 0xff;
	if (inet_pton(ipv6 ? AF_INET6 : AF_INET, group, me.group.raw + (ipv6 ? 0 : 12)) != 1)
		fail("%s is no address", group);
	to.grh.dgid = me.group;
	to.grh.sgid_index = (uint8_t)gid_index;
	to.grh.hop_limit = 1;
	me.ah = ibv_create_ah(me.pd[0], &to);
	for (int i = 0; i < QPS; i++) {
		me.qp[i] = make_qp(i);
		if (ibv_attach_mcast(me.qp[i], &me.group, 0))
			die("ibv_attach_mcast");
	}
	for (unsigned int i = 0; i < QPS * RECVS; i++)
		post_recv(i);
}

/* Behind 40 bytes for the header, which ends in the group's address. */
static bool is_whole(const uint8_t *p, uint32_t len, const struct datagram *d)
{
	size_t n = me.group.raw[0] == 0xff ? 16 : 4;

	return len == ROOM && d->id < IDS && d->number < NUMBERS &&
	       !memcmp(p + 40 - n, me.group.raw + 16 - n, n) &&
	       pattern_check(d->rest, sizeof(d->rest), d->id << 16 | d->number, 0) ==
		       sizeof(d->rest);
}

static void take(const struct ibv_wc *wc)
{
	unsigned int slot = (unsigned int)wc->wr_id;
	const uint8_t *p = me.mem + slot * ROOM;
	struct datagram d;
	bool *seen;

	if (wc->status)
		fail("%s", ibv_wc_status_str(wc->status));
	if (!(wc->opcode & IBV_WC_RECV)) {
		me.unsent--;
		return;
	}
	memcpy(&d, p + 40, sizeof(d));
	if (!is_whole(p, wc->byte_len, &d)) {
		me.bad++;
	} else {
		seen = &me.seen[slot / RECVS][d.id][d.number];
		me.twice += *seen;
		me.got[slot / RECVS] += !*seen;
		*seen = true;
	}
	post_recv(slot);
}

static void look(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < QPS; i++) {
		int n = ibv_poll_cq(me.cq[i], 1, &wc);

		if (n < 0)
			fail("ibv_poll_cq: %d", n);
		if (n)
			take(&wc);
	}
}

static void send_one(void)
{
	struct datagram *d = (struct datagram *)(me.mem + QPS * RECVS * ROOM);
	struct ibv_sge sg = { (uintptr_t)d, sizeof(*d), me.mr[0]->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	d->id = me.id;
	d->number = me.sent++;
	pattern_fill(d->rest, sizeof(d->rest), d->id << 16 | d->number, 0);
	wr.wr.ud.ah = me.ah;
	wr.wr.ud.remote_qpn = GROUP_QPN;
	wr.wr.ud.remote_qkey = QKEY;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(me.qp[0], &wr, &bad))
		die("ibv_post_send");
	me.unsent++;
	while (me.unsent)
		look();
}

static bool wait_for(const unsigned int n[QPS])
{
	time_t end = time(NULL) + PATIENCE_S;

	while ((me.got[0] < n[0] || me.got[1] < n[1]) && time(NULL) < end)
		look();
	return me.got[0] >= n[0] && me.got[1] >= n[1];
}

static void obey(const char *word, const unsigned int n[QPS])
{
	if (!strcmp(word, "send")) {
		for (unsigned int i = 0; i < n[0]; i++)
			send_one();
		puts("sent");
	} else if (!strcmp(word, "want")) {
		puts(wait_for(n) ? "full" : "not full");
	} else if (!strcmp(word, "leave")) {
		if (ibv_detach_mcast(me.qp[1], &me.group, 0))
			die("ibv_detach_mcast");
		puts("left");
	} else {
		for (int i = 0; i < LAST_LOOKS; i++)
			look();
		printf("got %u %u twice %u bad %u\n", me.got[0], me.got[1], me.twice, me.bad);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[64], word[16];

	if (argc != 4)
		fail("usage: caster GID-INDEX GROUP ID");
	me.id = (uint32_t)atoi(argv[3]);
	begin(atoi(argv[1]), argv[2]);
	puts("joined");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned int n[QPS] = { 0 };

		if (sscanf(line, "%15s %u %u", word, &n[0], &n[1]) >= 1)
			obey(word, n);
	}
	return 0;
}
