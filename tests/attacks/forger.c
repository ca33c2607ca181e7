// SPDX-License-Identifier: MIT
/* For flood.py. "listen ADDRESS PORT": a program of the public API that accepts friends, answers
 * their READs and rejects all others. "visit ADDRESS PORT N READS": a friend: N connections one
 * after the other, READs over each. "forge FROM TO PORT COUNT": another host, which has no
 * softhca: COUNT messages of connection management, each of another sender as far as the
 * numbers in it go, some nonsense. */
#include <arpa/inet.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "udp/udp_icrc.h"
#include "verbs/cases.h"
#include "wire/cm_msg.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum { LEN = 4096, SPORT = 50000, ROCE_PORT = 4791, AT_ONCE = 32, LIMIT = 10000, BACKLOG = 16 };
enum { PACKET = 12 + 8 + MAD_LEN + ICRC_LEN };

static const char friendly[] = "friend";

struct place { /* as private data of a REP: what a friend may read */
	uint64_t va;
	uint32_t rkey;
};

static char memory[LEN];

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	want_eq(inet_pton(AF_INET, host, &a.sin_addr), 1);
	return a;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };

	want_eq(rdma_create_qp(id, NULL, &a), 0);
}

/* --- the victim --- */

static void accept_friend(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .responder_resources = 1, .private_data_len = 12 };
	static struct ibv_mr *mr;
	static struct place place;

	make_qp(id);
	if (!mr)
		mr = rdma_reg_read(id, memory, LEN);
	want(mr);
	place = (struct place){ .va = (uintptr_t)memory, .rkey = mr->rkey };
	param.private_data = &place;
	want_eq(rdma_accept(id, &param), 0);
}

static void serve(const struct rdma_cm_event *e)
{
	const void *data = e->param.conn.private_data;

	if (e->event == RDMA_CM_EVENT_DISCONNECTED) {
		rdma_disconnect(e->id);
	} else if (e->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		return;
	} else if (data && !memcmp(data, friendly, sizeof(friendly))) {
		accept_friend(e->id);
	} else {
		rdma_reject(e->id, NULL, 0);
		want_eq(rdma_destroy_id(e->id), 0);
	}
}

static void end(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	want_eq(rdma_destroy_id(id), 0);
}

/* Until it is killed. */
static void listen_for_friends(char **argv)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in at = address(argv[0], argv[1]);
	struct rdma_cm_id *id, *parted;
	struct rdma_cm_event *e;

	want(ch);
	want_eq(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(id, BACKLOG), 0);
	puts("listening");
	fflush(stdout);
	while (!rdma_get_cm_event(ch, &e)) {
		parted = e->event == RDMA_CM_EVENT_DISCONNECTED ? e->id : NULL;
		serve(e);
		want_eq(rdma_ack_cm_event(e), 0);
		if (!parted)
			continue;
		end(parted);
		puts("parted");
		fflush(stdout);
	}
}

/* --- the friend --- */

static void read_it(struct rdma_cm_id *id, struct ibv_mr *mr, const struct place *from)
{
	struct ibv_wc wc;

	want_eq(rdma_post_read(id, NULL, memory, LEN, mr, IBV_SEND_SIGNALED, from->va, from->rkey),
		0);
	want_eq(rdma_get_send_comp(id, &wc), 1);
	want_eq(wc.status, IBV_WC_SUCCESS);
}

static void visit(const struct sockaddr_in *to, int reads)
{
	struct rdma_conn_param param = { .private_data = friendly,
					 .private_data_len = sizeof(friendly),
					 .initiator_depth = 1,
					 .retry_count = 7 };
	struct rdma_cm_id *id;
	struct place from;
	struct ibv_mr *mr;

	want_eq(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)to, LIMIT), 0);
	want_eq(rdma_resolve_route(id, LIMIT), 0);
	make_qp(id);
	mr = rdma_reg_msgs(id, memory, LEN);
	want(mr);
	want_eq(rdma_connect(id, &param), 0);
	memcpy(&from.va, id->event->param.conn.private_data, 8);
	memcpy(&from.rkey, (const char *)id->event->param.conn.private_data + 8, 4);
	while (reads--)
		read_it(id, mr, &from);
	want_eq(rdma_disconnect(id), 0);
	want_eq(rdma_dereg_mr(mr), 0);
	end(id);
}

static void visit_often(char **argv)
{
	struct sockaddr_in to = address(argv[0], argv[1]);

	for (int n = atoi(argv[2]); n; n--)
		visit(&to, atoi(argv[3]));
	puts("visited");
}

/* --- the attacker --- */

static struct {
	struct sockaddr_in from, to;
	uint64_t random;
	int fd;
} forger;

static uint64_t some(void)
{
	forger.random ^= forger.random << 13; /* xorshift */
	forger.random ^= forger.random >> 7;
	return forger.random ^= forger.random << 17;
}

static void put_gid(uint8_t gid[16], const struct sockaddr_in *a)
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &a->sin_addr, 4);
}

static void forge_message(uint8_t mad[MAD_LEN])
{
	static const uint16_t kinds[] = { CM_REQ,      CM_REQ,	CM_REQ, CM_SIDR_REQ,
					  CM_DREQ,     CM_DREP, CM_REJ, CM_REP,
					  CM_SIDR_REP, CM_RTU,	CM_MRA, CM_LAP };
	struct cm_ip ip = { .port = 5, .version = 4 };
	struct cm_msg m = { .kind = kinds[some() % (sizeof(kinds) / sizeof(kinds[0]))],
			    .tid = some(),
			    .local_id = (uint32_t)some(),
			    .remote_id = (uint32_t)some(),
			    .ca_guid = some(),
			    .qpn = (uint32_t)some() & 0xffffff,
			    .service_id = (uint64_t)RDMA_PS_TCP << 16 | ntohs(forger.to.sin_port),
			    .path_mtu = IBV_MTU_1024,
			    .private_len = CM_IP_LEN };

	put_gid(m.path[0].local_gid, &forger.from);
	put_gid(m.path[0].remote_gid, &forger.to);
	memcpy(ip.from + 12, &forger.from.sin_addr, 4);
	memcpy(ip.to + 12, &forger.to.sin_addr, 4);
	cm_ip_build(&ip, m.private_data);
	if (some() % 4 == 0)
		m.private_data[some() % CM_IP_LEN] ^= (uint8_t)some();
	if (some() % 8 == 0)
		m.service_id++; /* where nobody listens */
	cm_build(&m, mad);
	if (some() % 8 == 0)
		mad[some() % MAD_LEN] ^= (uint8_t)some();
}

static void forge_packet(uint8_t packet[PACKET])
{
	uint8_t mad[MAD_LEN], area[GRH_LEN];
	struct grh g = { .hop_limit = 64, .next_hdr = GRH_NEXT_UDP };
	struct pkt p = { .opcode = SVC_UD | OP_SEND_ONLY,
			 .pkey = 0xffff,
			 .dqpn = 1,
			 .sqpn = 1,
			 .qkey = (uint32_t)CM_QKEY,
			 .payload = mad,
			 .payload_len = MAD_LEN };
	size_t len;

	forge_message(mad);
	want_eq(wire_build(&p, packet, PACKET, &len), 0);
	want_eq(len, PACKET);
	put_gid(g.sgid, &forger.from);
	put_gid(g.dgid, &forger.to);
	g.payload_len = (uint16_t)(8 + len);
	grh_build(&g, area);
	icrc_put(packet + len - ICRC_LEN, udp_icrc(area, SPORT, ROCE_PORT, packet, len));
}

static void forge(char **argv)
{
	static uint8_t packets[AT_ONCE][PACKET];
	struct mmsghdr m[AT_ONCE] = { 0 };
	struct iovec v[AT_ONCE];
	struct sockaddr_in at;

	forger.from = address(argv[0], "0");
	forger.to = address(argv[1], argv[2]);
	forger.random = (uint64_t)getpid() << 32 | 1;
	forger.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	at = forger.from;
	at.sin_port = htons(SPORT);
	want_eq(bind(forger.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	at = forger.to;
	at.sin_port = htons(ROCE_PORT);
	want_eq(connect(forger.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	for (int n = atoi(argv[3]); n > 0; n -= AT_ONCE) {
		for (int i = 0; i < AT_ONCE; i++) {
			forge_packet(packets[i]);
			v[i] = (struct iovec){ packets[i], PACKET };
			m[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
		}
		sendmmsg(forger.fd, m, AT_ONCE, 0);
	}
	puts("forged");
}

int main(int argc, char **argv)
{
	want(argc >= 4);
	if (!strcmp(argv[1], "listen"))
		listen_for_friends(argv + 2);
	else if (!strcmp(argv[1], "visit"))
		visit_often(argv + 2);
	else
		forge(argv + 2);
	return 0;
}
